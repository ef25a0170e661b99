//! The kind Service.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::NameRule;
use crate::builtin::columns::{AGE, NAME, column, or, text};
use crate::builtin::{BuiltinKind, set_status};
use object::Object;

pub(super) static KIND: BuiltinKind = BuiltinKind {
    short_names: &["svc"],
    categories: &["all"],
    has_status: true,
    names: NameRule::Label1035,
    selectable_fields: &["spec.clusterIP", "spec.type"],
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

/// Gives a service an address of its own, unless its type has none.
fn allocate(service: &mut Object, address: &str) {
    let spec = service.field_mut("spec");
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    let address = spec.entry("clusterIP").or_insert_with(|| address.into()).clone();
    spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
}

/// An update of a service that does not mention its address keeps it.
fn keep_allocation(old: &Object, new: &mut Object) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = old.at(&["spec", field]) {
            new.field_mut("spec").entry(field).or_insert_with(|| value.clone());
        }
    }
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
