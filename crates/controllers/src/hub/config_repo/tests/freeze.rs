//! Tests commits that wait for the end of a freeze window or the start of an apply window.

use super::*;

const A: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: '1'}}";
const B: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";

/// Returns a spec with a freeze from 03:05 to 04:05. The simulation starts a minute before.
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
        "Reconciling Frozen: 000000000000 waits for the freeze night to end at 2026-01-02T04:05:00Z at the earliest; \
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

/// Returns a spec with an apply window from 04:05 to 05:05. The simulation starts an hour before.
fn applies_at_night(freeze_windows: Value) -> Value {
    let night = json!({"name": "night", "schedule": "5 4 * * *", "duration": "1h"});
    json!({"applyWindows": [night], "freezeWindows": freeze_windows})
}

#[test]
fn nothing_is_written_before_the_apply_window_opens_and_the_commit_is_when_it_does() {
    let mut hub = Hub::new(applies_at_night(json!([])));
    assert_eq!(
        hub.commit(&[("a.yaml", A)]),
        "Reconciling OutsideApplyWindows: 000000000000 waits for the apply window night to open at \
         2026-01-02T04:05:00Z; nothing has been applied yet"
    );
    // Until 04:04:55.
    hub.world.run_for(SignedDuration::from_secs(3645)).unwrap();
    assert!(hub.message().starts_with("Reconciling OutsideApplyWindows"), "{}", hub.message());
    assert_eq!((hub.names(), hub.owned()), (Vec::new(), Vec::new()));
    hub.world.run_for(SignedDuration::from_secs(15)).unwrap();
    assert!(hub.message().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.names(), ["a"]);
    hub.world.run_for(SignedDuration::from_hours(1)).unwrap();
    assert_eq!(
        hub.commit(&[("b.yaml", B)]),
        "Reconciling OutsideApplyWindows: 000000000000 waits for the apply window night to open at \
         2026-01-03T04:05:00Z; 000000000000 stays applied"
    );
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "2"}}));
    hub.run();
    assert_eq!((hub.names(), hub.data("a").as_deref()), (vec!["a".to_owned()], Some("2")));
    let told = hub.commit(&[("a.yaml", A)]);
    assert!(told.starts_with("Ready"), "what is applied already does not wait: {told}");
    assert_eq!(hub.data("a").as_deref(), Some("1"), "drift is corrected between the windows");
}

#[test]
fn a_freeze_window_has_precedence_over_an_apply_window() {
    let freeze = json!([{"name": "inventory", "schedule": "0 4 * * *", "duration": "30m"}]);
    let mut hub = Hub::new(applies_at_night(freeze));
    let told = hub.commit(&[("a.yaml", A)]);
    assert!(told.contains("Frozen") && told.contains("inventory to end at 2026-01-02T04:30:00Z"), "{told}");
    // Until 04:10:10.
    hub.world.run_for(SignedDuration::from_mins(66)).unwrap();
    assert_eq!(hub.names(), Vec::<String>::new());
    hub.world.run_for(SignedDuration::from_mins(20)).unwrap();
    assert_eq!(hub.names(), ["a"]);
}

#[test]
fn an_apply_window_that_never_opens_is_reported() {
    let mut hub =
        Hub::new(json!({"applyWindows": [{"name": "never", "schedule": "0 0 31 2 *", "duration": "1h"}]}));
    assert_eq!(
        hub.commit(&[("a.yaml", A)]),
        "Stalled OutsideApplyWindows: 000000000000 waits for an apply window, and none opens within a year; \
         nothing has been applied yet"
    );
    hub.repo(json!({"applyWindows": [{"name": "never", "schedule": "0 0", "duration": "1h"}]}), json!({}));
    let told = hub.run();
    assert!(told.contains("InvalidSpec") && told.contains("applyWindows[never].schedule"), "{told}");
    assert_eq!(hub.names(), Vec::<String>::new());
    hub.repo(json!({}), json!({}));
    assert!(hub.run().starts_with("Ready"), "without the windows it is applied: {}", hub.message());
}
