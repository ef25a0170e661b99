use serde_json::{Value, json};

use super::*;
use crate::agent_identity::AgentSettings;
use reconcile::{Caches, Failure, FailureKind};

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const LABEL_NAME: &str =
    "clusterset.open-cluster-management.io/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";

fn typed<K: object::Kind>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// Returns the caches of a spoke with the namespaces `held` and of a hub that requests `wanted`.
fn caches(wanted: &[&str], present: &[(&str, Option<&str>)]) -> Caches {
    let mut caches = Caches::default();
    caches.set_settings(AgentSettings::new(AgentIdentity::parse(&format!("c1/a/{HASH}")).unwrap()));
    let accepted = json!([{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let wanted: Vec<_> = wanted.iter().map(|name| json!({"name": name, "clusterSet": "team"})).collect();
    let cluster = json!({"metadata": {"name": "c1", "resourceVersion": "1"}, "spec": {},
        "status": {"conditions": accepted, "managedNamespaces": wanted}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(cluster)], "1");
    let namespace = |(name, label): &(&str, Option<&str>)| {
        let labels: serde_json::Map<_, _> =
            label.iter().map(|label| (LABEL_NAME.to_owned(), json!(label))).collect();
        typed(json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels}}))
    };
    caches.replace::<Namespace>(Site::Spoke, present.iter().map(namespace).collect(), "1");
    caches
}

fn plan(caches: &Caches) -> Plan {
    ManagedNamespaceController::plan(&Key::cluster("c1"), caches, Timestamp::UNIX_EPOCH).unwrap()
}

#[test]
fn a_namespace_is_created_and_loses_only_its_label_when_no_set_wants_it() {
    let caches = caches(&["new", "kept"], &[("kept", Some("true")), ("old", Some("true")), ("other", None)]);
    let plan = serde_json::to_value(plan(&caches)).unwrap();
    let actions = plan["steps"][0].as_array().unwrap();
    assert_eq!(actions.len(), 2);
    assert_eq!(actions[0]["object"]["metadata"], json!({"name": "new", "labels": {LABEL_NAME: "true"}}));
    assert_eq!(actions[1]["target"]["key"]["name"], "old");
    assert_eq!(actions[1]["patch"], json!({"metadata": {"labels": {LABEL_NAME: "false"}}}));
}

#[test]
fn each_namespace_is_reported_in_the_words_of_ocm() {
    let caches = caches(&["bad", "kept"], &[("kept", Some("true"))]);
    let failure = Failure { kind: FailureKind::Unavailable, message: "no".into() };
    let done = Executed { plan: plan(&caches), outcomes: vec![vec![Err(failure)]] };
    let write =
        ManagedNamespaceController::conclude(&Key::cluster("c1"), &caches, &done, Timestamp::UNIX_EPOCH);
    let patch =
        serde_json::to_value(write.unwrap().unwrap()).unwrap()["patch"]["status"]["managedNamespaces"]
            .clone();
    let words = |index: usize| {
        let condition = &patch[index]["conditions"][0];
        let word = |field: &str| condition[field].as_str().unwrap().to_owned();
        ["type", "status", "reason", "message"].map(word).join(" ")
    };
    assert_eq!(words(0), "NamespaceAvailable False NamespaceApplyFailed no");
    let applied = "NamespaceAvailable True NamespaceApplied Namespace successfully applied and managed";
    assert_eq!(words(1), applied);
}
