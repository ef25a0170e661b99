//! Commits that wait for the end of a freeze window.

use super::*;

const A: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '1'}}";
const B: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";

/// Returns a spec that freezes from 03:05 to 04:05; the world begins a minute before.
fn spec() -> Value {
    json!({"freezeWindows": [{"name": "night", "schedule": "5 3 * * *", "duration": "1h"}]})
}

#[test]
fn a_commit_waits_for_the_end_of_the_freeze_and_says_until_when() {
    let mut hub = Hub::new(spec());
    assert!(hub.commit(&[("a.yaml", A)]).starts_with("Ready"), "{}", hub.message());
    hub.world.run_for(SignedDuration::from_mins(2)).unwrap();
    assert_eq!(
        hub.commit(&[("a.yaml", A), ("b.yaml", B)]),
        "Reconciling Frozen: 000000000000 waits for the freeze night to end at 2026-01-02T04:05:00Z; \
         000000000000 stays applied"
    );
    assert_eq!(hub.names(), ["a"]);
    let told = hub.commit(&[("a.yaml", A), ("README.md", "read me")]);
    assert!(told.starts_with("Ready"), "a commit with the same objects does not wait: {told}");
    assert!(hub.commit(&[("b.yaml", B)]).starts_with("Reconciling Frozen"), "a deletion waits too");
    hub.world.run_for(SignedDuration::from_mins(62)).unwrap();
    assert!(hub.message().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.names(), ["b"]);
}

#[test]
fn drift_from_the_applied_commit_is_corrected_in_a_freeze() {
    let mut hub = Hub::new(spec());
    hub.commit(&[("a.yaml", A)]);
    hub.world.run_for(SignedDuration::from_mins(2)).unwrap();
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "2"}}));
    hub.run();
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn a_window_that_cannot_be_read_applies_nothing_and_names_its_field() {
    let mut hub =
        Hub::new(json!({"freezeWindows": [{"name": "night", "schedule": "at night", "duration": "1h"}]}));
    let told = hub.commit(&[("a.yaml", A)]);
    assert!(told.starts_with("Stalled InvalidSpec: "), "{told}");
    assert!(told.contains("freezeWindows[night].schedule"), "{told}");
    assert_eq!(hub.names(), Vec::<String>::new());
}
