//! The JSON schemas of the charts' values.

use serde_json::{Value, json};

use super::find;
use crate::kube::helm;

#[test]
fn values_that_the_schema_does_not_know_are_refused() {
    for (value, reason) in [
        ("replicas=-1", "replicas"),
        ("replica=2", "replica"),
        ("log.format=\"xml\"", "format"),
        ("listen=\"8080\"", "listen"),
        ("serviceAccounts=[{\"namespace\":\"a\"}]", "names"),
        ("tracing.endpoint=\"otel:4317\"", "tracing"),
        ("env=[{\"value\":\"x\"}]", "name"),
        ("extraVolumeMounts=[{\"name\":\"authority\"}]", "mountPath"),
        ("image.pullPolicy=\"Sometimes\"", "pullPolicy"),
        ("customSigners=[\"kubernetes.io/kubelet-serving\"]", "customSigners"),
        ("gitHosts=[\"https://git.example.com\"]", "gitHosts"),
        ("controllers=\"*; -report\"", "controllers"),
        ("image={\"repository\":\"registry.example.com:5000/wheelwright:0.1.0\"}", "repository"),
    ] {
        let refused = helm::render("wheelwright", &[value]).unwrap_err();
        assert!(refused.contains(reason), "{value}: {refused}");
    }
    for (chart, value, reason) in [
        ("wheelwright-agent", "clustername=\"c1\"", "clustername"),
        ("wheelwright-agent", "clusterName=\"C_1\"", "clusterName"),
        ("wheelwright-agent", "rules=[{\"resources\":[\"pods\"]}]", "verbs"),
        ("wheelwright-agent", "log.format=\"xml\"", "format"),
        ("wheelwright-agent", "networkPolicy={\"enable\":true}", "enable"),
        ("wheelwright-agent", "serviceMonitor.interval=\"30\"", "interval"),
        ("wheelwright-registration-operator", "component=\"agent\"", "component"),
        ("wheelwright-registration-operator", "image={\"tag\":\"1\",\"repository\":\"\"}", "repository"),
    ] {
        let refused = helm::render(chart, &[value]).unwrap_err();
        assert!(refused.contains(reason), "{chart} {value}: {refused}");
    }
}

#[test]
fn hosts_controllers_and_images_of_all_forms_are_accepted() {
    for value in [
        "gitHosts=[\"git.example.com\",\"*.example.com\",\"10.0.0.2\",\"fd00::2\"]",
        "controllers=\"*,-report, -placement\"",
        "image={\"repository\":\"registry.example.com:5000/team/wheelwright\"}",
    ] {
        helm::render("wheelwright", &[value]).unwrap();
    }
}

#[test]
fn a_network_policy_that_names_nobody_lets_nobody_in() {
    let nobody = "networkPolicy={\"enabled\":true,\"from\":[]}";
    for (chart, value) in
        [("wheelwright", "conversionWebhook.enabled=false"), ("wheelwright-agent", "clusterName=\"c1\"")]
    {
        let objects = helm::render(chart, &[nobody, value]).unwrap();
        assert_eq!(find(&objects, "NetworkPolicy")["spec"]["ingress"], json!([]), "{chart}");
    }
}

#[test]
fn the_environment_and_the_volumes_reach_the_operator_and_the_dashboard() {
    let variable = json!({"name": "SSL_CERT_FILE", "value": "/authority/ca.crt"});
    let mount = json!({"name": "authority", "mountPath": "/authority", "readOnly": true});
    let volume = json!({"name": "authority", "configMap": {"name": "authority"}});
    let values = [
        "dashboard.enabled=true".to_owned(),
        format!("env={}", json!([variable])),
        format!("extraVolumes={}", json!([volume])),
        format!("extraVolumeMounts={}", json!([mount])),
    ];
    let rendered = helm::render("wheelwright", &values.each_ref().map(String::as_str)).unwrap();
    let deployments = rendered.iter().filter(|object| object["kind"] == "Deployment");
    for deployment in deployments.clone() {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for (list, wanted) in
            [(&container["env"], &variable), (&container["volumeMounts"], &mount), (&pod["volumes"], &volume)]
        {
            assert!(list.as_array().unwrap().contains(wanted), "{deployment}");
        }
    }
    assert_eq!(deployments.count(), 2);
}

#[test]
fn the_dashboard_roles_are_aggregated_to_kubernetes_roles_on_request() {
    let labels = |values: &[&str]| -> Vec<String> {
        let rendered = helm::render("wheelwright", values).unwrap();
        let roles = rendered.iter().filter(|object| object["kind"] == "ClusterRole");
        let labels = roles.filter_map(|role| role["metadata"]["labels"].as_object());
        let aggregates =
            labels.flat_map(|labels| labels.keys()).filter(|label| label.contains("aggregate-to"));
        aggregates.cloned().collect()
    };
    let asked = ["dashboard.enabled=true", "dashboard.aggregateRoles=true"];
    assert_eq!((labels(&asked).len(), labels(&asked[..1]).len()), (2, 0));
}

#[test]
fn the_dashboard_has_a_certificate_of_ones_own() {
    let rendered =
        helm::render("wheelwright", &["dashboard.enabled=true", "dashboard.tlsSecret=\"page\""]).unwrap();
    let is_it = |object: &&Value| {
        object["kind"] == "Deployment" && object["metadata"]["name"] == "wheelwright-dashboard"
    };
    let pod = &rendered.iter().find(is_it).unwrap()["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    for argument in ["--cert=/tls/tls.crt", "--key=/tls/tls.key"] {
        assert!(arguments.contains(&json!(argument)), "{pod}");
    }
    let mount = json!([{"name": "tls", "mountPath": "/tls", "readOnly": true}]);
    let volume = json!([{"name": "tls", "secret": {"secretName": "page"}}]);
    assert_eq!((&pod["containers"][0]["volumeMounts"], &pod["volumes"]), (&mount, &volume));
}

#[test]
fn the_dashboard_logs_visitors_in_with_the_provider_of_the_hub() {
    let pod = |oidc: &Value| {
        let oidc = format!("dashboard.oidc={oidc}");
        let rendered = helm::render("wheelwright", &["dashboard.enabled=true", &oidc]).unwrap();
        let is_it = |object: &&Value| {
            object["kind"] == "Deployment" && object["metadata"]["name"] == "wheelwright-dashboard"
        };
        rendered.iter().find(is_it).unwrap()["spec"]["template"]["spec"].clone()
    };
    let public = json!({"issuerURL": "https://sso.example.com/realm", "clientID": "hub"});
    let private = json!({"issuerURL": "https://sso.example.com/realm", "clientID": "hub", "clientSecret": "page-oidc",
        "extraScopes": ["email", "groups"]});
    let arguments = |pod: &Value| {
        let all = pod["containers"][0]["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap().to_owned());
        all.filter(|one| one.starts_with("--oidc")).collect::<Vec<_>>()
    };
    let expected = ["--oidc-issuer-url=https://sso.example.com/realm", "--oidc-client-id=hub"];
    let pod_of_public = pod(&public);
    assert_eq!(arguments(&pod_of_public), expected);
    assert_eq!(pod_of_public["volumes"], Value::Null);
    let pod_of_private = pod(&private);
    let more = [
        "--oidc-extra-scope=email",
        "--oidc-extra-scope=groups",
        "--oidc-client-secret-file=/oidc/client-secret",
    ];
    assert_eq!(arguments(&pod_of_private), [&expected[..], &more].concat());
    let mount = json!([{"name": "oidc", "mountPath": "/oidc", "readOnly": true}]);
    let volume = json!([{"name": "oidc", "secret": {"secretName": "page-oidc"}}]);
    let mounted = (&pod_of_private["containers"][0]["volumeMounts"], &pod_of_private["volumes"]);
    assert_eq!(mounted, (&mount, &volume));
    let plain = helm::render("wheelwright", &["dashboard.oidc={\"issuerURL\": \"http://sso.example.com\"}"]);
    assert!(plain.is_err(), "an issuer without TLS");
}

/// Returns the code spans in the first column of the tables of a page.
fn named_values(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

#[test]
fn the_page_of_each_chart_names_values_that_exist() {
    for chart in ["wheelwright", "wheelwright-agent", "wheelwright-registration-operator"] {
        let file = |name: &str| {
            let path = format!("{}/charts/{chart}/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        let values: Value = serde_saphyr::from_str(&file("values.yaml")).unwrap();
        let page = file("README.md");
        let named = named_values(&page);
        assert_eq!(named.len(), 5, "{chart}: {named:?}");
        for name in named {
            let value = values.pointer(&format!("/{}", name.replace('.', "/")));
            assert!(value.is_some(), "{chart} has no value {name}");
        }
    }
}

#[test]
fn artifact_hub_is_given_the_kinds_of_the_chart_and_its_images() {
    for (chart, images) in [
        ("wheelwright", &["wheelwright"][..]),
        ("wheelwright-agent", &["wheelwright-agent"]),
        ("wheelwright-registration-operator", &["wheelwright", "wheelwright-agent"]),
    ] {
        let directory = format!("{}/charts/{chart}", env!("CARGO_MANIFEST_DIR"));
        let about = std::fs::read_to_string(format!("{directory}/Chart.yaml")).unwrap();
        let about: Value = serde_saphyr::from_str(&about).unwrap();
        let annotation = |name: &str| {
            let text = about["annotations"][format!("artifacthub.io/{name}")].as_str();
            serde_saphyr::from_str::<Value>(text.unwrap_or("[]")).unwrap()
        };
        let version = about["appVersion"].as_str().unwrap();
        let named = images.iter().map(|image| json!({"name": image, "image": format!("{image}:{version}")}));
        assert_eq!(annotation("images"), named.collect::<Value>(), "{chart}");
        for kind in annotation("crds").as_array().unwrap() {
            let (plural, group) = kind["name"].as_str().unwrap().split_once('.').unwrap();
            let definition =
                std::fs::read_to_string(format!("{directory}/crds/{group}_{plural}.yaml")).unwrap();
            let definition: Value = serde_saphyr::from_str(&definition).unwrap();
            assert_eq!(definition["spec"]["names"]["kind"], kind["kind"]);
            assert_eq!(definition["spec"]["versions"][0]["name"], kind["version"]);
        }
    }
}
