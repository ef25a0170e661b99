use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::hub::{commit, object, repo};
use crate::sync::ownership::{ARGO_TRACKING, Ownership, ownership};
use crate::sync::{Input, Inventory, ObjectId, SyncPolicy, Takeover};
use api::names;
use object::{Key, Object};

fn config_map(annotations: Value, data: &str) -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "annotations": annotations}, "data": {"k": data}}),
    )
}

fn check(live: Option<Object>, claimed: &[(&str, &str)], takeover: Takeover) -> Result<&'static str, String> {
    let id = |name: &str| ObjectId {
        group: String::new(),
        kind: "ConfigMap".into(),
        key: Key::namespaced("ns", name),
    };
    let input = Input {
        repo: &repo(),
        inventory: &Inventory::new(),
        claimed: &claimed
            .iter()
            .map(|(name, owner)| (id(name), Key::namespaced("ns", *owner)))
            .collect::<BTreeMap<_, _>>(),
        missing_namespaces: &BTreeSet::new(),
        policy: &SyncPolicy { takeover, ..SyncPolicy::default() },
    };
    let desired = commit(&[config_map(json!({}), "1")]);
    match ownership(&input, &desired.objects[0], live.as_ref()) {
        Ownership::Ours => Ok("ours"),
        Ownership::Available { force: true } => Ok("taken by force"),
        Ownership::Available { force: false } => Ok("available"),
        Ownership::Refused { reason, message } => Err(format!("{reason}: {message}")),
    }
}

#[test]
fn an_object_of_somebody_else_is_taken_over_as_the_policy_says() {
    let (same, other) = (|| Some(config_map(json!({"x": "y"}), "1")), || Some(config_map(json!({}), "2")));
    assert_eq!(check(None, &[], Takeover::Never), Ok("available"));
    assert_eq!(check(same(), &[], Takeover::IfNoDiff), Ok("available"));
    assert_eq!(check(other(), &[], Takeover::Always), Ok("taken by force"));
    let refused = check(other(), &[], Takeover::IfNoDiff).unwrap_err();
    assert!(
        refused.starts_with("TakeoverRefused: ConfigMap ns/a exists already and differs at data.k;"),
        "{refused}"
    );
    assert!(check(same(), &[], Takeover::Never).is_err());
}

#[test]
fn an_object_that_carries_our_annotation_is_ours() {
    let ours = config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/repo"}), "2");
    assert_eq!(check(Some(ours), &[], Takeover::Never), Ok("ours"));
}

#[test]
fn an_object_that_argo_cd_tracks_is_refused_but_a_copied_tracking_id_does_not_count() {
    let tracked = |id: &str| Some(config_map(json!({ARGO_TRACKING: id}), "1"));
    let refused = check(tracked("shop:/ConfigMap:ns/a"), &[], Takeover::IfNoDiff).unwrap_err();
    assert!(
        refused.starts_with("OwnedByArgo: ConfigMap ns/a is managed by the Argo CD application shop;"),
        "{refused}"
    );
    assert_eq!(check(tracked("shop:/ConfigMap:ns/a"), &[], Takeover::Always), Ok("taken by force"));
    for copied in ["shop:/ConfigMap:ns/b", "shop:apps/Deployment:ns/a", "nonsense"] {
        assert_eq!(check(tracked(copied), &[], Takeover::IfNoDiff), Ok("available"), "{copied}");
    }
}

#[test]
fn two_repositories_never_share_an_object() {
    for live in [None, Some(config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/other"}), "1"))] {
        let refused = check(live, &[("a", "other")], Takeover::Always).unwrap_err();
        assert!(
            refused.starts_with("OwnedByConfigRepo: ConfigMap ns/a belongs to the ConfigRepo ns/other;"),
            "{refused}"
        );
    }
}
