use serde_json::{Value, json};

use super::{owner, served, work};
use crate::work::{ApplyDecision, ApplyRefusal, Served, Wanted, decide, read, stays};
use api::work::v1::{AppliedResource, ManifestWork};
use object::steps::MAX_STEPS;

/// Returns a work with the ConfigMap `n/a` and additional spec fields.
fn with_map(more: Value) -> ManifestWork {
    let metadata = json!({"name": "a", "namespace": "n", "uid": "x"});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let mut spec = json!({"workload": {"manifests": [manifest]}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    work(spec)
}

fn map_of(work: &ManifestWork) -> Wanted {
    read(work, |_| served("configmaps")).remove(0)
}

#[test]
fn a_manifest_is_named_by_its_place_and_its_resource_and_has_no_uid() {
    let wanted = map_of(&with_map(json!({})));
    assert_eq!(
        json!(wanted.meta),
        json!({"ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
            "name": "a", "namespace": "n"})
    );
    assert_eq!((wanted.object.uid(), wanted.reference == wanted.object.reference()), ("", true));
    let namespace = |api_version: &str, kind: &str| {
        let manifest = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        let two = work(json!({"workload": {"manifests": [{}, manifest]}}));
        let wanted = read(&two, |_| Served::Unread).remove(1);
        assert_eq!(wanted.meta.ordinal, 1);
        wanted.is_namespace()
    };
    assert!(namespace("v1", "Namespace"));
    assert!(!namespace("x.io/v1", "Namespace") && !namespace("v1", "ConfigMap"));
}

#[test]
fn an_object_is_deleted_with_its_work_unless_the_work_says_that_it_stays() {
    let check = |option: Value, is_deleted: bool| {
        let option_of = if option.is_null() { json!({}) } else { json!({"deleteOption": option}) };
        let work = with_map(option_of);
        let entry = AppliedResource {
            resource: "configmaps".into(),
            namespace: "n".into(),
            name: "a".into(),
            ..AppliedResource::default()
        };
        assert_eq!(map_of(&work).owned, is_deleted, "{option}");
        assert_eq!(stays(work.spec.delete_option.as_ref(), &entry), !is_deleted, "{option}");
    };
    check(Value::Null, true);
    check(json!({"propagationPolicy": "Foreground"}), true);
    check(json!({"propagationPolicy": "Orphan"}), false);
    check(json!({"propagationPolicy": "a policy of tomorrow"}), true);
    check(json!({"propagationPolicy": "SelectivelyOrphan"}), true);
    let rule = |names: [&str; 4]| {
        let [group, resource, namespace, name] = names;
        json!({"group": group, "resource": resource, "namespace": namespace, "name": name})
    };
    let orphans = |rules: Value| {
        let rules = json!({"orphaningRules": rules});
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": rules})
    };
    let ours = rule(["", "configmaps", "n", "a"]);
    check(orphans(json!([rule(["", "secrets", "n", "a"]), ours])), false);
    for other in [
        ["x.io", "configmaps", "n", "a"],
        ["", "secrets", "n", "a"],
        ["", "configmaps", "m", "a"],
        ["", "configmaps", "n", "b"],
        ["", "configmaps", "*", "*"],
    ] {
        check(orphans(json!([rule(other)])), true);
    }
    let mut foreground = orphans(json!([ours]));
    foreground["propagationPolicy"] = "Foreground".into();
    check(foreground, true);
}

#[test]
fn each_option_comes_from_the_first_configuration_that_has_it_and_applies() {
    let config = |identifier: Value, more: Value| {
        let map = json!({"group": "", "resource": "configmaps", "namespace": "n", "name": "a"});
        let mut config = json!({"resourceIdentifier": map});
        config["resourceIdentifier"].as_object_mut().unwrap().extend(identifier.as_object().unwrap().clone());
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let strategy = |name: &str| json!({"updateStrategy": {"type": name}});
    let feedback = |name: &str| {
        let paths = json!([{"name": name, "path": ".x"}]);
        json!({"feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]})
    };
    let rules = |name: &str| json!({"conditionRules": [{"type": "WellKnownConditions", "condition": name}]});
    let check = |configs: Value, want: [&str; 3]| {
        let wanted = map_of(&with_map(json!({"manifestConfigs": configs})));
        let names = wanted.feedback.iter().flat_map(|rule| &rule.json_paths).map(|path| path.name.as_str());
        let conditions = wanted.conditions.iter().map(|rule| rule.condition.as_str());
        let found = [
            wanted.strategy.r#type.as_str().to_owned(),
            names.collect::<Vec<_>>().join(","),
            conditions.collect::<Vec<_>>().join(","),
        ];
        assert_eq!(found, want.map(str::to_owned), "{configs}");
    };
    let any = json!({"namespace": "*", "name": "*"});
    check(json!([]), ["Update", "", ""]);
    check(
        json!([
            config(json!({}), feedback("first")),
            config(any.clone(), strategy("ReadOnly")),
            config(json!({}), rules("First")),
            config(any.clone(), strategy("CreateOnly")),
            config(any.clone(), feedback("second")),
            config(any, rules("Second")),
        ]),
        ["ReadOnly", "first", "First"],
    );
    for other in [
        json!({"group": "x.io"}),
        json!({"resource": "secrets"}),
        json!({"namespace": "m"}),
        json!({"name": "b*"}),
    ] {
        check(json!([config(other, strategy("ReadOnly"))]), ["Update", "", ""]);
    }
}

#[test]
fn an_entry_of_an_inventory_may_be_the_object_of_a_manifest_with_all_of_its_names() {
    let map = map_of(&with_map(json!({})));
    assert!(map.may_be("", "configmaps", "n", "a"));
    for [group, resource, namespace, name] in [
        ["x.io", "configmaps", "n", "a"],
        ["", "secrets", "n", "a"],
        ["", "configmaps", "m", "a"],
        ["", "configmaps", "n", "b"],
    ] {
        assert!(!map.may_be(group, resource, namespace, name), "{group} {resource} {namespace} {name}");
    }
    let unread = read(&with_map(json!({})), |_| Served::Unread).remove(0);
    assert!(unread.may_be("", "secrets", "m", "a"));
    assert!(!unread.may_be("x.io", "secrets", "m", "a") && !unread.may_be("", "secrets", "m", "b"));
}

#[test]
fn the_manifests_of_a_work_share_its_steps() {
    let manifest = |n: usize| {
        let metadata = json!({"name": n.to_string(), "namespace": "n"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let hostile = ["(., .)"; 10].join("|") + "| select(false)";
    let rule = json!({"condition": "OnSpokePresent", "jqPathExpressions": [hostile]});
    let strategy = json!({"type": "ServerSideApply", "serverSideApply": {"ignoreFields": [rule]}});
    let every = json!({"group": "", "resource": "configmaps", "name": "*", "namespace": "*"});
    let configs = json!([{"resourceIdentifier": every, "updateStrategy": strategy}]);
    let read_of = |count: usize| {
        let manifests: Vec<Value> = (0..count).map(manifest).collect();
        read(&work(json!({"workload": {"manifests": manifests}, "manifestConfigs": configs})), |_| {
            served("configmaps")
        })
    };
    let many = read_of(1000);
    let steps: usize = many.iter().map(|wanted| wanted.steps).sum();
    assert!(steps <= MAX_STEPS + 1000 * 1000, "{steps}");
    for (wanted, is_refused) in [(&many[0], true), (&read_of(1)[0], false)] {
        let decision = decide(wanted, None, &owner(), false);
        assert_eq!(
            matches!(decision, ApplyDecision::Refuse(ApplyRefusal::IgnoredFields(_))),
            is_refused,
            "{decision:?}"
        );
    }
}
