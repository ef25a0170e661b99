use super::*;

fn read(flag: Option<&str>, variables: &[(&str, &str)]) -> anyhow::Result<Option<TraceOptions>> {
    let value =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    TraceOptions::read(flag, value)
}

#[test]
fn the_collector_is_named_by_the_flag_or_by_the_variables_of_the_specification() {
    let (base, traces) = ((ENDPOINT, "http://base:4318/"), (TRACES_ENDPOINT, "https://traces/in"));
    for (flag, variables, endpoint) in [
        (None, &[][..], None),
        (None, &[(ENDPOINT, "")], None),
        (None, &[base], Some("http://base:4318/v1/traces")),
        (None, &[base, traces], Some("https://traces/in")),
        (Some("http://flag:1/prefix"), &[base, traces], Some("http://flag:1/prefix/v1/traces")),
    ] {
        let read = read(flag, variables).unwrap().map(|options| options.endpoint.to_string());
        assert_eq!(read.as_deref(), endpoint, "{flag:?} {variables:?}");
    }
}

#[test]
fn headers_and_attributes_are_percent_decoded_and_no_value_of_a_header_is_shown() {
    let options = read(
        Some("http://flag:1"),
        &[
            (HEADERS, "authorization=Basic%20c2VjcmV0, x-scope = a"),
            (RESOURCE_ATTRIBUTES, "k8s.cluster.name=hub-1,service.name=ignored"),
            (SERVICE_NAME, "fleet"),
        ],
    );
    let options = options.unwrap().unwrap();
    assert_eq!(options.headers["authorization"], "Basic c2VjcmV0");
    assert_eq!(options.headers["x-scope"], "a");
    let resource = |name: &str| options.resource[name].as_str();
    assert_eq!((resource("service.name"), resource("k8s.cluster.name")), ("fleet", "hub-1"));
    assert!(!format!("{options:?}").contains("c2VjcmV0"), "{options:?}");
    let refused = read(Some("http://flag:1"), &[(HEADERS, "authorization=c2VjcmV0%0A")]).unwrap_err();
    assert_eq!(refused.to_string(), "OTEL_EXPORTER_OTLP_HEADERS: authorization is no header");
}

#[test]
fn invalid_exporter_settings_are_refused_at_the_start() {
    for (flag, variables, reason) in [
        ("collector:4317", &[][..], "--otlp-endpoint"),
        ("grpc://collector:4317", &[], "--otlp-endpoint is not the URL of a collector"),
        ("http://flag:1", &[(PROTOCOL, "grpc")], "traces are sent with http/protobuf only"),
        ("http://flag:1", &[(HEADERS, "authorization")], "write key=value"),
    ] {
        let refused = format!("{:#}", read(Some(flag), variables).unwrap_err());
        assert!(refused.contains(reason), "{flag}: {refused}");
    }
}
