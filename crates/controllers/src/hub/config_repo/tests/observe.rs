//! Tests mode Observe: a ConfigRepo reports what others apply.

use super::*;
use store::DeleteOptions;

const IS_AS: &str = "Ready: the hub matches 000000000000 (1 object)";

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
    let labeled = map("a", "1").replace("  name: a", "  name: a\n  labels: {team: x}");
    let mut hub = Hub::observing(&[("a.yaml", &labeled)]);
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
            Arc::new(object::RenderedObject { object, ..object::RenderedObject::default() })
        });
        Arc::new(
            engine::sync::Desired::complete(&key(), &key().namespace, rendered.collect(), false, None)
                .unwrap(),
        )
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

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\nstringData:\n  k: \"1\"\n";

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "config", "name": "a"}, "data": data})
}

#[test]
fn a_value_that_the_api_server_stores_in_another_form_is_as_the_commit_says() {
    let mut hub = Hub::observing(&[("a.yaml", SECRET)]);
    let not_applied =
        "Reconciling NotApplied: 1 of 1 objects do not match 000000000000, such as Secret config/a: ";
    assert!(hub.message().starts_with(&format!("{not_applied}it does not exist")), "{}", hub.message());
    hub.apply(secret(json!({"k": "MQ=="})));
    assert_eq!(hub.run(), IS_AS);
    let before = hub.world.hub.revision();
    hub.world.run_for(SignedDuration::from_hours(24)).unwrap();
    assert_eq!(hub.world.hub.revision(), before, "a comparison writes nothing");
    hub.apply(secret(json!({"k": "Mg==", "other": "MQ=="})));
    assert!(hub.run().starts_with(&format!("{not_applied}it differs at data.k;")), "{}", hub.message());
}

#[test]
fn fields_that_an_earlier_apply_owned_do_not_count_in_mode_observe() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &SECRET.replace("stringData:", "stringData:\n  gone: \"1\""))]);
    hub.repo(json!({"mode": "Observe"}), json!({}));
    assert_eq!(hub.commit(&[("a.yaml", SECRET)]), IS_AS);
}

#[test]
fn an_object_in_another_form_is_taken_over_and_one_that_differs_names_the_field() {
    let mut hub = Hub::new(json!({}));
    hub.apply(secret(json!({"k": "Mg=="})));
    let message = hub.commit(&[("a.yaml", SECRET)]);
    let refused = "Stalled TakeoverRefused: Secret config/a exists already and differs at data.k;";
    assert!(message.starts_with(refused), "{message}");
    hub.apply(secret(json!({"k": "MQ=="})));
    assert!(hub.commit(&[("a.yaml", SECRET)]).starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.owned(), ["a"]);
}
