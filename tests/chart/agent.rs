//! The chart of the agent as helm renders it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::find;
use crate::kube::helm;

#[test]
fn the_agent_of_the_chart_has_the_given_environment() {
    let environment = |values: &[&str]| {
        let values = [&["clusterName=\"c1\""][..], values].concat();
        let objects = helm::render("wheelwright-agent", &values).unwrap();
        find(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"].clone()
    };
    let proxy = json!([{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}]);
    assert_eq!((environment(&[]), environment(&[&format!("env={proxy}")])), (Value::Null, proxy));
}

#[test]
fn agents_of_two_namespaces_share_no_object() {
    let names = |namespace: &str| -> BTreeSet<String> {
        let objects = helm::render_in(namespace, "wheelwright-agent", &["clusterName=\"c1\""]).unwrap();
        let name = |object: Value| {
            let (kind, metadata) = (&object["kind"], &object["metadata"]);
            format!("{kind} {}/{}", metadata["namespace"], metadata["name"])
        };
        objects.into_iter().map(name).collect()
    };
    let (one, other) = (names("one"), names("other"));
    assert!(one.len() >= 4 && one.is_disjoint(&other), "{one:?} {other:?}");
}
