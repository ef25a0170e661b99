use serde_json::{Value, json};

use super::{object, owner, served, work};
use crate::work::{ApplyDecision, ApplyRefusal, Executor, Served, Wanted, decide, read};
use api::names::CONFIG_SPEC_HASH_ANNOTATION;

fn deployment(metadata: Value, spec: Value) -> Value {
    let mut whole = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec});
    whole["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    whole
}

/// Returns the decision about a Deployment with the given update strategy and an owned live object.
pub(super) fn decided(
    strategy: Value,
    manifest: Value,
    live: Option<Value>,
    was_applied: bool,
) -> ApplyDecision {
    let identifier = json!({"group": "apps", "resource": "deployments", "name": "d", "namespace": "n"});
    let spec = json!({"workload": {"manifests": [manifest]}, "manifestConfigs": [{"resourceIdentifier": identifier, "updateStrategy": strategy}]});
    let wanted = read(&work(spec), |_| served("deployments")).remove(0);
    let live = live.map(|live| {
        let mut live = object(live);
        live.metadata_mut().insert("ownerReferences".into(), json!([owner()]));
        live
    });
    decide(&wanted, live.as_ref(), &owner(), was_applied)
}

pub(super) fn applied(decision: ApplyDecision) -> (Value, bool, String) {
    match decision {
        ApplyDecision::Apply { object, force, manager } => (object.into_value(), force, manager),
        other => panic!("{other:?}"),
    }
}

fn ignoring(rule: Value) -> Value {
    json!({"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent-x", "ignoreFields": [rule]}})
}

fn noted(value: &Value) -> String {
    value["metadata"]["annotations"][CONFIG_SPEC_HASH_ANNOTATION].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_owner_reference_is_written_separately_from_the_content() {
    let manifest = deployment(json!({}), json!({"replicas": 1}));
    let update = json!({"type": "Update"});
    let (created, force, manager) = applied(decided(update, manifest.clone(), None, false));
    assert_eq!(
        (created["metadata"]["ownerReferences"][0]["uid"].as_str(), force, &*manager),
        (Some("u"), true, "work-agent")
    );
    let orphan =
        work(json!({"workload": {"manifests": [manifest]}, "deleteOption": {"propagationPolicy": "Orphan"}}));
    let mut wanted = read(&orphan, |_| served("deployments")).remove(0);
    let mut live = object(deployment(json!({}), json!({"replicas": 7})));
    live.metadata_mut()
        .insert("ownerReferences".into(), json!([owner(), {"uid": "other", "kind": "ReplicaSet"}]));
    let released = json!({"metadata": {"ownerReferences": [{"uid": "other", "kind": "ReplicaSet"}]}});
    assert_eq!(
        decide(&wanted, Some(&live), &owner(), false),
        ApplyDecision::Patch(released.as_object().unwrap().clone())
    );
    wanted.owned = true;
    live.metadata_mut().remove("ownerReferences");
    assert!(matches!(decide(&wanted, Some(&live), &owner(), false), ApplyDecision::Patch(_)), "taken over");
}

#[test]
fn a_key_with_a_dash_at_its_end_is_removed_and_never_applied() {
    let manifest = deployment(json!({"labels": {"gone-": "", "a": "b"}}), json!({}));
    let update = json!({"type": "Update"});
    let live = deployment(json!({"labels": {"gone": "x"}}), json!({}));
    let patch = json!({"metadata": {"labels": {"gone": null}}});
    let decision = decided(update.clone(), manifest.clone(), Some(live), false);
    assert_eq!(decision, ApplyDecision::Patch(patch.as_object().unwrap().clone()));
    let (object, ..) = applied(decided(update, manifest.clone(), None, false));
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
    let (object, ..) = applied(decided(json!({"type": "ServerSideApply"}), manifest, None, false));
    assert_eq!(object["metadata"]["labels"], json!({"gone-": "", "a": "b"}), "a rule of Update alone");
}

#[test]
fn a_changed_manifest_is_applied_even_if_the_object_already_matches() {
    for (strategy, forces) in [("Update", true), ("ServerSideApply", false)] {
        let strategy = json!({"type": strategy});
        let manifest = deployment(json!({}), json!({"replicas": 1}));
        let live = || Some(deployment(json!({}), json!({"replicas": 1, "paused": true})));
        assert_eq!(decided(strategy.clone(), manifest.clone(), live(), true), ApplyDecision::Leave);
        let (_, force, manager) = applied(decided(strategy, manifest, live(), false));
        assert_eq!((force, &*manager), (forces, "work-agent"), "a field may have left the manifest");
    }
}

#[test]
fn an_object_that_is_created_only_keeps_its_content_and_gets_its_owner() {
    let create = json!({"type": "CreateOnly"});
    let manifest = deployment(json!({}), json!({"replicas": 1}));
    let live = deployment(json!({}), json!({"replicas": 7}));
    assert_eq!(decided(create.clone(), manifest.clone(), Some(live), false), ApplyDecision::Leave);
    assert!(matches!(decided(create, manifest.clone(), None, false), ApplyDecision::Create(_)));
    assert_eq!(decided(json!({"type": "ReadOnly"}), manifest, None, false), ApplyDecision::Leave);
}

#[test]
fn a_field_that_is_ignored_when_present_keeps_its_live_value_and_drift_of_others_is_corrected() {
    let rule = json!({"condition": "OnSpokePresent", "jsonPaths": [".spec.replicas"], "jsonPointers": ["/spec/gone"]});
    let manifest = deployment(json!({}), json!({"replicas": 1, "paused": true}));
    let live = deployment(json!({}), json!({"replicas": 7, "paused": false}));
    let (object, force, manager) =
        applied(decided(ignoring(rule.clone()), manifest.clone(), Some(live), true));
    assert_eq!(
        (object["spec"].clone(), force, &*manager),
        (json!({"replicas": 7, "paused": true}), false, "work-agent-x")
    );
    let (created, ..) = applied(decided(ignoring(rule.clone()), manifest.clone(), None, false));
    assert_eq!(created["spec"]["replicas"], 1);
    let mut other = manifest.clone();
    other["spec"]["replicas"] = 2.into();
    let (other, ..) = applied(decided(ignoring(rule), other, None, false));
    assert_eq!(noted(&created), noted(&other), "an ignored field does not make another manifest");
}

#[test]
fn a_field_that_is_ignored_on_change_is_set_again_with_another_manifest() {
    let rule =
        json!({"condition": "OnSpokeChange", "jsonPaths": [".spec.template.spec.containers[*].image"]});
    let spec = |image: &str| json!({"template": {"spec": {"containers": [{"name": "a", "image": image}]}}});
    let (created, ..) =
        applied(decided(ignoring(rule.clone()), deployment(json!({}), spec("i:1")), None, false));
    let annotations = json!({"annotations": created["metadata"]["annotations"]});
    let live = deployment(annotations, spec("changed"));
    let same = decided(ignoring(rule.clone()), deployment(json!({}), spec("i:1")), Some(live.clone()), true);
    assert_eq!(same, ApplyDecision::Leave, "nothing else differs");
    let (next, ..) = applied(decided(ignoring(rule), deployment(json!({}), spec("i:2")), Some(live), false));
    assert_eq!(next["spec"], spec("i:2"));
    assert_ne!(noted(&next), noted(&created));
}

#[test]
fn a_jq_expression_leaves_fields_and_whole_items_to_the_cluster() {
    let rule = |condition: &str| {
        let expressions = [
            ".spec.replicas",
            ".spec.containers[] | select(.name | startswith(\"istio\"))",
            ".spec.containers[] | select(.name == \"a\").image",
        ];
        ignoring(json!({"condition": condition, "jqPathExpressions": expressions}))
    };
    let manifest = |replicas: u32| {
        let containers = json!([{"name": "istio-proxy", "image": "p:1"}, {"name": "istio-gone"}, {"name": "a", "image": "i:1"}]);
        deployment(json!({}), json!({"replicas": replicas, "paused": true, "containers": containers}))
    };
    let live = |annotations: &Value| {
        let containers = json!([{"name": "a", "image": "i:2"}, {"name": "istio-proxy", "image": "p:2"}]);
        let spec = json!({"replicas": 7, "paused": false, "containers": containers});
        Some(deployment(json!({"annotations": annotations}), spec))
    };
    let live_spec = json!({"replicas": 7, "paused": true,
        "containers": [{"name": "istio-proxy", "image": "p:2"}, {"name": "a", "image": "i:2"}]});
    for (condition, replicas, was_applied, is_kept) in [
        ("OnSpokePresent", 1, true, true),
        ("OnSpokePresent", 2, false, true),
        ("OnSpokeChange", 1, true, true),
        ("OnSpokeChange", 2, false, false),
    ] {
        let (created, ..) = applied(decided(rule(condition), manifest(1), None, false));
        assert_eq!(created["spec"], manifest(1)["spec"]);
        let noted = &created["metadata"]["annotations"];
        let (next, ..) = applied(decided(rule(condition), manifest(replicas), live(noted), was_applied));
        let wanted = if is_kept { live_spec.clone() } else { manifest(replicas)["spec"].clone() };
        assert_eq!(next["spec"], wanted, "{condition} {replicas}");
    }
}

#[test]
fn the_note_of_a_go_agent_counts_while_the_work_is_applied() {
    let rule = json!({"condition": "OnSpokeChange", "jsonPaths": [".spec.replicas"]});
    let md5 = "0123456789abcdef0123456789abcdef";
    let live = deployment(json!({"annotations": {CONFIG_SPEC_HASH_ANNOTATION: md5}}), json!({"replicas": 7}));
    let manifest = deployment(json!({}), json!({"replicas": 1}));
    let taken_over = decided(ignoring(rule.clone()), manifest.clone(), Some(live.clone()), true);
    assert_eq!(taken_over, ApplyDecision::Leave, "a change of agents writes nothing");
    let (next, ..) = applied(decided(ignoring(rule), manifest, Some(live), false));
    assert_eq!((next["spec"]["replicas"].as_i64(), noted(&next).len()), (Some(1), 64));
}

#[test]
fn ignore_rules_that_cannot_be_evaluated_are_refused_with_a_message() {
    let check = |rule: Value, reason: &str| {
        let chain = (0..50).fold(json!(1), |below, _| json!({"a": below}));
        let decision = decided(ignoring(rule), deployment(json!({}), chain), None, false);
        assert_eq!(decision, ApplyDecision::Refuse(ApplyRefusal::IgnoredFields(reason.into())));
    };
    check(
        json!({"condition": "OnSpokePresent", "jqPathExpressions": [".spec.x", "env.x"]}),
        "the jq path expression \"env.x\": env is not supported",
    );
    check(
        json!({"condition": "OnSpokePresent", "jsonPointers": ["spec/x"]}),
        "\"spec/x\" is not a JSON pointer",
    );
    check(json!({"condition": "Never"}), "the condition Never is not known");
    check(
        json!({"condition": "OnSpokePresent", "jsonPaths": [".a[", "..*..*..*..*..*..*..*..*..*"]}),
        "the path ..*..*..*..*..*..*..*..*..*: it takes too many steps, together with the other expressions",
    );
}

#[test]
fn a_manifest_that_no_cluster_accepts_is_refused_with_a_reason() {
    let check = |edit: fn(&mut Wanted), reason: Option<ApplyRefusal>| {
        let manifest = deployment(json!({}), json!({}));
        let mut wanted =
            read(&work(json!({"workload": {"manifests": [manifest]}})), |_| served("deployments")).remove(0);
        edit(&mut wanted);
        let decision = decide(&wanted, None, &owner(), false);
        match reason {
            Some(reason) => assert_eq!(decision, ApplyDecision::Refuse(reason)),
            None => assert!(matches!(decision, ApplyDecision::Apply { .. }), "{decision:?}"),
        }
    };
    check(|_| {}, None);
    let rejected = |reason: &str| Some(ApplyRefusal::Rejected(reason.into()));
    let failed = |reason: &str| Some(ApplyRefusal::Failed(reason.into()));
    let unnamed = "the manifest has no kind or no name";
    check(|wanted| wanted.reference.key.name.clear(), rejected(unnamed));
    check(|wanted| wanted.reference.gvk.kind.clear(), rejected(unnamed));
    check(
        |wanted| wanted.served = Served::Not,
        failed("the server doesn't have a resource type \"Deployment\""),
    );
    check(
        |wanted| wanted.reference.key.namespace.clear(),
        rejected("an empty namespace may not be set during creation"),
    );
    check(
        |wanted| {
            wanted.reference.key.namespace.clear();
            wanted.served = Served::As { resource: "deployments".into(), namespaced: false };
        },
        None,
    );
    let forbidden = "not allowed to apply the resource apps deployments, n d, will try again in 1m0s";
    check(|wanted| wanted.executor = Executor::Unknown, failed(forbidden));
    let unread = "not allowed to apply the resource apps Deployment, n d, will try again in 1m0s";
    check(|wanted| (wanted.executor, wanted.served) = (Executor::Unknown, Served::Unread), failed(unread));
}

#[test]
fn an_object_is_released_or_taken_over_only_as_the_work_owns_it() {
    // Columns: true if the work owns the object, the update strategy, the current owners, and the owners to
    // write.
    let check = |owned: bool, strategy: Value, owners: Value, written: Option<Value>| {
        let manifest = deployment(json!({}), json!({"replicas": 1}));
        let any = json!({"group": "apps", "resource": "deployments", "name": "*", "namespace": "*"});
        let config = json!({"resourceIdentifier": any, "updateStrategy": strategy});
        let spec = json!({"workload": {"manifests": [manifest]}, "manifestConfigs": [config]});
        let mut wanted = read(&work(spec), |_| served("deployments")).remove(0);
        wanted.owned = owned;
        let live = object(deployment(json!({"ownerReferences": owners}), json!({"replicas": 1})));
        let decision = decide(&wanted, Some(&live), &owner(), false);
        let expected = written.map(|owners| json!({"metadata": {"ownerReferences": owners}}));
        let patch = match decision {
            ApplyDecision::Patch(patch) => Some(Value::Object(patch)),
            _ => None,
        };
        assert_eq!(patch, expected, "{owned} {strategy}");
    };
    let other = json!({"uid": "other", "kind": "ReplicaSet"});
    for strategy in ["Update", "CreateOnly"].map(|name| json!({"type": name})) {
        check(true, strategy.clone(), json!([other, owner()]), None);
        check(true, strategy.clone(), json!([other]), Some(json!([other, owner()])));
        check(false, strategy.clone(), json!([other, owner()]), Some(json!([other])));
        check(false, strategy, json!([other]), None);
    }
    let apply = json!({"type": "ServerSideApply"});
    check(true, apply.clone(), json!([]), None);
    check(false, apply.clone(), json!([owner()]), Some(json!([])));
    let forced = json!({"type": "ServerSideApply", "serverSideApply": {"force": true}});
    check(true, forced, json!([]), Some(json!([owner()])));
}
