use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::builtin::columns::{AGE, NAME, column, or, text};
use crate::builtin::{BuiltinKind, set_status};
use crate::{FieldError, NameRule};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    returns_deleted: true,
    short_names: &["svc"],
    categories: &["all"],
    has_status: true,
    create_on_update: true,
    names: NameRule::Label,
    selectable_fields: &["spec.clusterIP", "spec.type"],
    unowned_fields: &["spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"],
    defaults: &[
        ("core.v1.ServiceSpec", "type", r#""ClusterIP""#),
        ("core.v1.ServiceSpec", "sessionAffinity", r#""None""#),
        ("core.v1.ServicePort", "protocol", r#""TCP""#),
    ],
    fill,
    prepare_for_create: |creation, service| {
        set_status(service, json!({ "loadBalancer": {} }));
        let address = creation.ids.address();
        allocate(service, &address);
    },
    prepare_for_update: |_, old, new| keep_allocation(old, new),
    validate: |_, new, errors| check(new, errors),
    columns: &[
        NAME,
        column("Type", |o, _| or(text(o, &["spec", "type"]), "ClusterIP").into()),
        column("Cluster-IP", |o, _| or(text(o, &["spec", "clusterIP"]), "<none>").into()),
        column("Port(s)", |o, _| ports(o).into()),
        AGE,
    ],
    ..BuiltinKind::of::<Service>()
};

fn fill(service: &mut Object) {
    let spec = service.field_mut("spec");
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        spec.entry("internalTrafficPolicy").or_insert_with(|| "Cluster".into());
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("port").cloned() {
            port.entry("targetPort").or_insert(number);
        }
    }
}

/// Assigns an address to a service, unless its type has none.
fn allocate(service: &mut Object, address: &str) {
    let spec = service.field_mut("spec");
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    let address = spec.entry("clusterIP").or_insert_with(|| address.into()).clone();
    // The endpoints of a headless service without a selector are unknown, so it gets both address families.
    let takes_both = address == "None" && spec.get("selector").is_none();
    let (families, policy) = if takes_both {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    spec.entry("ipFamilies").or_insert(families);
    spec.entry("ipFamilyPolicy").or_insert_with(|| policy.into());
}

/// Keeps the address of a service if an update omits it.
fn keep_allocation(old: &Object, new: &mut Object) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = old.at(&["spec", field]) {
            new.field_mut("spec").entry(field).or_insert_with(|| value.clone());
        }
    }
}

fn check(service: &Object, errors: &mut Vec<FieldError>) {
    let one_of = |field: &str, known: &[&str], errors: &mut Vec<FieldError>| {
        let found = text(service, &["spec", field]);
        // A service without a spec gets its defaults only after this check.
        if !found.is_empty() && !known.contains(&found) {
            errors.push(FieldError::unsupported(
                format!("spec.{field}"),
                &found.into(),
                known.iter().copied(),
            ));
        }
    };
    one_of("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    one_of("sessionAffinity", &["ClientIP", "None"], errors);
    let is_external = text(service, &["spec", "type"]) == "ExternalName";
    if is_external && text(service, &["spec", "externalName"]).is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let is_headless = text(service, &["spec", "clusterIP"]) == "None";
    if ports.is_empty() && !is_headless && !is_external {
        errors.push(FieldError::required("spec.ports", ""));
    }
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        check_port(port, &format!("spec.ports[{i}]"), errors);
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        let is_new = names.insert(name);
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(format!("spec.ports[{i}].name"), ""));
        } else if !name.is_empty() && !is_new {
            errors.push(FieldError::duplicate(format!("spec.ports[{i}].name"), &name.into()));
        }
    }
}

fn check_port(port: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or_default();
    let protocols = ["SCTP", "TCP", "UDP"];
    if !protocols.contains(&protocol) {
        errors.push(FieldError::unsupported(
            format!("{path}.protocol"),
            &protocol.into(),
            protocols.into_iter(),
        ));
    }
    for field in ["port", "targetPort"] {
        let value = port.get(field).unwrap_or(&Value::Null);
        let fits = match value {
            Value::String(name) => field == "targetPort" && is_port_name(name),
            other => other.as_i64().is_some_and(|number| (1..=65535).contains(&number)),
        };
        if !fits {
            errors.push(FieldError::invalid(
                format!("{path}.{field}"),
                value,
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
}

/// Returns true if a text is a port name (RFC 6335, 5.1): at most 15 letters, digits and hyphens, including a
/// letter.
fn is_port_name(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=15).contains(&name.len())
        && name.chars().all(known)
        && name.contains(|c: char| c.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn ports(service: &Object) -> String {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let port = |p: &Value| {
        let protocol = p.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        format!("{}/{protocol}", p.get("port").unwrap_or(&Value::Null))
    };
    let ports: Vec<String> = ports.into_iter().flatten().map(port).collect();
    or(&ports.join(","), "<none>").to_owned()
}
