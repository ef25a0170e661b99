//! Tests commits that wait for the approval of their plan.

use super::*;

const A: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '1'}}";
const B: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";

fn hub() -> Hub {
    Hub::new(json!({"planApproval": "Required"}))
}

pub(super) fn approve(hub: &mut Hub, approval: &str) -> String {
    hub.repo(json!({"planApproval": "Required"}), json!({names::APPROVE_PLAN_ANNOTATION: approval}));
    hub.run()
}

#[test]
fn a_commit_waits_for_the_approval_of_its_plan() {
    let mut hub = hub();
    let told = hub.commit(&[("a.yaml", A)]);
    assert!(told.starts_with("Stalled PlanNotApproved: 000000000000 waits for the approval"), "{told}");
    let plan = hub.status().held_plan;
    assert!(told.ends_with(&format!("gitops.wheelwright.dev/approve-plan={plan}")), "{told}");
    assert_eq!(hub.names(), Vec::<String>::new());

    assert!(approve(&mut hub, &plan).starts_with("Ready"));
    assert_eq!((hub.names(), hub.status().held_plan), (vec!["a".to_owned()], String::new()));
}

#[test]
fn an_approval_of_another_plan_does_not_count() {
    let mut hub = hub();
    hub.commit(&[("a.yaml", A)]);
    let first = hub.status().held_plan;
    approve(&mut hub, &first);
    let told = hub.commit(&[("a.yaml", A), ("b.yaml", B)]);
    assert!(told.contains("; the annotation approves another plan. "), "{told}");
    let second = hub.status().held_plan;
    assert_ne!(first, second);
    assert_eq!(hub.names(), ["a"]);

    assert!(approve(&mut hub, &second).starts_with("Ready"));
    assert_eq!(hub.names(), ["a", "b"]);
    let told = hub.commit(&[("a.yaml", A)]);
    assert!(told.starts_with("Stalled PlanNotApproved"), "a deletion waits too: {told}");
    assert_eq!(hub.names(), ["a", "b"]);
}

#[test]
fn a_commit_with_the_same_objects_needs_no_approval() {
    let mut hub = hub();
    hub.commit(&[("a.yaml", A)]);
    let plan = hub.status().held_plan;
    approve(&mut hub, &plan);
    let told = hub.commit(&[("a.yaml", A), ("README.md", "read me")]);
    assert!(told.starts_with("Ready"), "{told}");
}

#[test]
fn a_plan_that_was_approved_before_its_commit_is_not_held() {
    let mut hub = hub();
    hub.commit(&[("a.yaml", A)]);
    let plan = hub.status().held_plan;
    let mut merged = Hub::new(json!({"planApproval": "Required"}));
    approve(&mut merged, &plan);
    assert!(merged.commit(&[("a.yaml", A)]).starts_with("Ready"), "{}", merged.message());
}

#[test]
fn drift_of_an_approved_commit_is_corrected() {
    let mut hub = hub();
    hub.commit(&[("a.yaml", A)]);
    let plan = hub.status().held_plan;
    approve(&mut hub, &plan);
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "2"}}));
    hub.run();
    let map: ConfigMap = hub.world.get(&Key::namespaced("config", "a")).unwrap();
    assert_eq!(map.data.unwrap()["k"], "1");
}

#[test]
fn a_held_plan_lists_what_it_creates_changes_and_deletes_also_while_somebody_edits_an_object() {
    let mut hub = hub();
    let maps = |maps: Vec<(usize, &str)>| -> String {
        let maps = maps.into_iter().map(|(n, data)| map(&format!("m{n:02}"), data));
        maps.collect::<Vec<_>>().join("---\n")
    };
    let told = |hub: &Hub| {
        let held = hub.status().held_changes.unwrap();
        [held.created, held.changed, held.deleted].map(|listed| {
            let listed = listed.unwrap_or_default();
            (listed.total, listed.objects.into_iter().map(|one| one.name).collect::<Vec<_>>())
        })
    };
    hub.commit(&[("maps.yaml", &maps((0..12).map(|n| (n, "1")).collect()))]);
    let first: Vec<String> = (0..10).map(|n| format!("m{n:02}")).collect();
    assert_eq!(told(&hub), [(12, first), (0, vec![]), (0, vec![])]);
    let plan = hub.status().held_plan;
    approve(&mut hub, &plan);
    assert_eq!(hub.status().held_changes, None);

    let next = (0..13).filter(|n| *n != 1).map(|n| (n, if n == 0 { "2" } else { "1" })).collect();
    hub.commit(&[("maps.yaml", &maps(next))]);
    let lists = ["m12", "m00", "m01"].map(|name| (1, vec![name.to_owned()]));
    assert_eq!(told(&hub), lists);
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "m00"}, "data": {"k": "3"}}));
    hub.run();
    assert_eq!(told(&hub), lists);
    let version = |hub: &Hub| hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version;
    let before = version(&hub);
    hub.world.run_for(SignedDuration::from_hours(1)).unwrap();
    assert_eq!(version(&hub), before, "nothing is written while the plan waits");
}

#[test]
fn an_approved_plan_that_the_hub_refuses_does_not_wait_for_an_approval() {
    let mut hub = hub();
    hub.commit(&[("set.yaml", &format!("{SET}spec:\n  clusterSelector:\n    selectorType: Nonsense\n"))]);
    let plan = hub.status().held_plan;
    assert!(!plan.is_empty() && hub.status().held_changes.is_some());
    let told = approve(&mut hub, &plan);
    assert!(told.starts_with("Stalled InvalidObject"), "{told}");
    assert_eq!((hub.status().held_plan, hub.status().held_changes), (String::new(), None));
}

#[test]
fn a_held_plan_lists_no_object_that_it_leaves_to_others() {
    let mut hub = hub();
    let with = |name: &str, rule: &str| {
        let rule = format!("metadata:\n  annotations: {{{}: {rule}}}", names::APPLY_ANNOTATION);
        map(name, "1").replace("metadata:", &rule)
    };
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "there"}}));
    let (ignored, there) = (with("ignored", "Ignore"), with("there", "IfNotPresent"));
    hub.commit(&[("a.yaml", A), ("ignored.yaml", &ignored), ("there.yaml", &there)]);
    let held = hub.status().held_changes.unwrap();
    let created = held.created.unwrap();
    let names: Vec<&str> = created.objects.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((created.total, names), (1, vec!["a"]));
    assert_eq!((held.changed, held.deleted), (None, None), "there is no list without objects");
}
