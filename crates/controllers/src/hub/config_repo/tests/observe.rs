//! Mode Observe: a ConfigRepo reports what others apply.

use super::*;
use store::DeleteOptions;

const IS_AS: &str = "Ready: the hub is as 000000000000 says (1 object)";

impl Hub {
    fn observing(files: &[(&str, &str)]) -> Self {
        let mut hub = Self::new(json!({"mode": "Observe"}));
        hub.commit(files);
        hub
    }
}

fn config_map(labels: Value, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"namespace": "config", "name": "a", "labels": labels}})
}

#[test]
fn a_change_of_an_observed_object_is_noticed_without_a_commit() {
    let labelled = map("a", "1").replace("  name: a", "  name: a\n  labels: {team: x}");
    let mut hub = Hub::observing(&[("a.yaml", &labelled)]);
    let expect = |hub: &mut Hub, labels: Value, data: Value, start: &str| {
        hub.apply(config_map(labels, data));
        let message = hub.run();
        assert!(message.starts_with(start), "{message}");
    };
    let (x, one) = (json!({"team": "x"}), json!({"k": "1"}));
    expect(&mut hub, x.clone(), one.clone(), IS_AS);
    expect(&mut hub, x.clone(), json!({"k": "2"}), "Reconciling NotApplied");
    expect(&mut hub, x, one.clone(), IS_AS);
    expect(&mut hub, json!({"team": "y"}), one, "Reconciling NotApplied");
}

#[test]
fn a_deleted_observed_object_is_noticed_also_after_a_restart() {
    let mut hub = Hub::observing(&[("a.yaml", &map("a", "1"))]);
    hub.apply(config_map(json!({}), json!({"k": "1"})));
    assert_eq!(hub.run(), IS_AS);
    hub.world.restart_operator();
    assert_eq!(hub.run(), IS_AS);
    let target = object::ObjectRef::of::<ConfigMap>(Key::namespaced("config", "a"));
    let target = hub.world.hub.target(&target).unwrap();
    hub.world.hub.delete(&target, &DeleteOptions::default(), hub.world.now).unwrap();
    assert!(hub.run().starts_with("Reconciling NotApplied"), "{}", hub.message());
}

#[test]
fn only_the_config_repos_that_observe_an_object_are_woken_by_it() {
    let index = &mut RepoIndex::default();
    let commit = |names: &[&str]| {
        let rendered = names.iter().map(|name| {
            let object = object(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "config", "name": name}}));
            Arc::new(object::RenderedObject { object, origin: object::Location::default() })
        });
        Arc::new(engine::sync::Desired::complete(&key(), rendered.collect(), false, None).unwrap())
    };
    let (one, two) = (Key::namespaced("config", "one"), Key::namespaced("config", "two"));
    index.observe(&one, Some(&commit(&["a", "b"])));
    index.observe(&two, Some(&commit(&["b"])));
    let woken = |index: &RepoIndex, name: &str| {
        let new = object(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "config", "name": name}}));
        index.observers_of(&reconcile::Change { old: None, new: Some(Arc::new(new)) })
    };
    assert_eq!(
        (woken(index, "a"), woken(index, "b"), woken(index, "c")),
        (vec![one.clone()], vec![one.clone(), two.clone()], vec![])
    );
    index.observe(&one, Some(&commit(&["a"])));
    index.observe(&two, None);
    assert_eq!((woken(index, "a"), woken(index, "b")), (vec![one], vec![]));
}
