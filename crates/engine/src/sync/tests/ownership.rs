use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::hub::{commit, object, repo};
use crate::sync::ownership::{Ownership, changed_guard, ownership};
use crate::sync::{Claimant, Inventory, ObjectId, Recent, SyncInput, SyncPolicy, Takeover, Withheld};
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
    let mut claimants = BTreeMap::<_, Vec<_>>::new();
    for (name, repo) in claimed {
        let claimant = Claimant { repo: Key::namespaced("ns", *repo), is_forbidden: false };
        claimants.entry(id(name)).or_default().push(claimant);
    }
    let input = SyncInput {
        repo: &repo(),
        inventory: &Inventory::new(),
        claimed: &claimants,
        requested: &BTreeMap::new(),
        awaits_requests: false,
        unjudged: None,
        are_permissions_needed: false,
        missing_namespaces: &BTreeSet::new(),
        withheld: &Withheld::default(),
        recent: &Recent::new(),
        now: Timestamp::UNIX_EPOCH,
        policy: &SyncPolicy { takeover, ..SyncPolicy::default() },
    };
    let desired = commit(&[config_map(json!({}), "1")]);
    match ownership(&input, &desired.objects[0], live.as_ref()) {
        Ownership::Ours => Ok("ours"),
        Ownership::Available { force: true, tracking: None } => Ok("taken by force"),
        Ownership::Available { force: true, tracking: Some(_) } => Ok("taken from Argo CD"),
        Ownership::Available { force: false, tracking: None } => Ok("available"),
        Ownership::Available { force: false, tracking: Some(_) } => panic!("taken without force"),
        Ownership::Equal => Ok("taken as it is"),
        Ownership::Refused { reason, message } => Err(format!("{reason}: {message}")),
    }
}

#[test]
fn a_foreign_object_is_taken_over_according_to_the_policy() {
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
fn two_repositories_never_share_an_object() {
    for live in [None, Some(config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/other"}), "1"))] {
        let refused = check(live, &[("a", "other")], Takeover::Always).unwrap_err();
        assert!(
            refused.starts_with("OwnedByConfigRepo: ConfigMap ns/a belongs to the ConfigRepo ns/other;"),
            "{refused}"
        );
    }
}

#[test]
fn a_repository_does_not_keep_objects_from_others_that_it_did_not_write() {
    let of_nobody = Some(config_map(json!({}), "1"));
    assert_eq!(check(of_nobody, &[("a", "other")], Takeover::IfNoDiff), Ok("available"));
    let of_third = || Some(config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/third"}), "1"));
    assert_eq!(check(of_third(), &[("a", "other")], Takeover::Always), Ok("taken by force"));
    let refused = check(of_third(), &[("a", "other"), ("a", "third")], Takeover::Always).unwrap_err();
    assert!(
        refused.starts_with("OwnedByConfigRepo: ConfigMap ns/a belongs to the ConfigRepo ns/third;"),
        "{refused}"
    );
}

#[test]
fn a_confined_repository_cannot_learn_secrets_of_others() {
    let decided = |api_version: &str, kind: &str, live: &str, is_blind_to_secrets: bool| {
        let of = |data: &str| {
            let metadata = json!({"name": "a", "namespace": "ns"});
            object(
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "data": {"password": data}}),
            )
        };
        let input = SyncInput {
            repo: &repo(),
            inventory: &Inventory::new(),
            claimed: &BTreeMap::new(),
            requested: &BTreeMap::new(),
            awaits_requests: false,
            unjudged: None,
            are_permissions_needed: false,
            missing_namespaces: &BTreeSet::new(),
            withheld: &Withheld::default(),
            recent: &Recent::new(),
            now: Timestamp::UNIX_EPOCH,
            policy: &SyncPolicy { is_blind_to_secrets, ..SyncPolicy::default() },
        };
        let desired = commit(&[of("Z3Vlc3M=")]);
        ownership(&input, &desired.objects[0], Some(&of(live)))
    };
    let right = decided("v1", "Secret", "Z3Vlc3M=", true);
    let Ownership::Refused { reason, .. } = &right else { panic!("a right guess is reported") };
    assert_eq!(*reason, "TakeoverRefused");
    assert_eq!(right, decided("v1", "Secret", "b3RoZXI=", true));
    let available = Ownership::Available { force: false, tracking: None };
    assert_eq!(decided("v1", "Secret", "Z3Vlc3M=", false), available, "the operator may compare Secrets");
    assert_eq!(decided("v1", "ConfigMap", "Z3Vlc3M=", true), available, "a ConfigMap is no secret");
    assert_eq!(
        decided("example.com/v1", "Secret", "Z3Vlc3M=", true),
        available,
        "a Secret of another group is none"
    );
}

#[test]
fn a_repository_cannot_loosen_its_own_config_repo() {
    let config_repo = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": "ns"});
        object(
            json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}),
        )
    };
    let live = json!({"url": "https://git.example/a", "path": "prod", "deletionBudget": {"objects": 5}});
    let changed = |name: &str, spec: Value| {
        changed_guard(&repo(), &config_repo(name, spec), &config_repo(name, live.clone()))
    };
    assert_eq!(changed("repo", json!({"url": "https://git.example/a", "path": "test"})), None);
    assert_eq!(changed("repo", json!({"deletionBudget": {"objects": 100_000}})), Some("deletionBudget"));
    let filled_in = json!({"deletionBudget": {"objects": 5, "percent": 5}});
    assert_eq!(changed("repo", filled_in), None, "the hub fills in the default");
    assert_eq!(changed("repo", json!({"url": "https://git.example/b"})), Some("url"));
    assert_eq!(changed("repo", json!({"takeover": "Always"})), Some("takeover"));
    assert_eq!(changed("other", json!({"url": "https://git.example/b"})), None);
    let namesake = |group: &str, kind: &str| {
        let metadata = json!({"name": "repo", "namespace": "ns"});
        let spec = json!({"url": "https://git.example/b"});
        let value = json!({"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec});
        changed_guard(&repo(), &object(value), &config_repo("repo", live.clone()))
    };
    assert_eq!(namesake("x.io/v1", "ConfigRepo"), None);
    assert_eq!(namesake("gitops.wheelwright.dev/v1alpha1", "Other"), None);
}

/// An apply removes fields that its manager owned and no longer names. The default would then apply, which may
/// allow more.
#[test]
fn a_repository_cannot_loosen_its_own_config_repo_by_leaving_a_field_out() {
    let own = |spec: Value, managers: &[(&str, &str)]| {
        let entries: Vec<_> = managers
            .iter()
            .map(|(manager, operation)| {
                json!({"manager": manager, "operation": operation, "apiVersion": "gitops.wheelwright.dev/v1alpha1",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:path": {}, "f:deletionBudget": {"f:objects": {}}, "f:takeover": {}}}})
            })
            .collect();
        let metadata = json!({"name": "repo", "namespace": "ns", "managedFields": entries});
        object(
            json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}),
        )
    };
    let spec = json!({"path": "prod", "deletionBudget": {"objects": 1}, "takeover": "Never"});
    let changed = |wanted: Value, managers: &[(&str, &str)]| {
        changed_guard(&repo(), &own(wanted, &[]), &own(spec.clone(), managers))
    };
    let ours = ("wheelwright-gitops", "Apply");
    let budget = json!({"path": "prod", "deletionBudget": {"objects": 1}});
    for owner in [ours, ("kubectl", "Apply"), ("kubectl-client-side-apply", "Update")] {
        assert_eq!(changed(budget.clone(), &[owner]), Some("takeover"), "{owner:?}");
        assert_eq!(changed(json!({"takeover": "Never"}), &[owner]), Some("deletionBudget"), "{owner:?}");
        assert_eq!(changed(spec.clone(), &[owner]), None, "{owner:?}");
    }
    // Fields that an administrator set independently of the repository may be absent from it.
    assert_eq!(changed(json!({}), &[("kubectl-edit", "Update"), ("wheelwright-cli", "Apply")]), None);
}
