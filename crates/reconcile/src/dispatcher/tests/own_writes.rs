//! Tests of events about our own writes, which the caches already have.

use std::sync::Arc;

use jiff::Timestamp;

use super::harness::{Harness, Map, copy, key, map};
use crate::{Controller, Plan, Read, View, Watches};
use object::Key;

/// A controller that copies the ConfigMap `a` once, and only reads the others.
struct Copier;

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(planned: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if planned.name == "a" && view.get::<Map>(&key("a-copy"))?.is_none() {
            plan.step([copy(planned)]);
        }
        Ok(plan)
    }
}

#[test]
fn the_event_of_an_own_write_is_known_and_no_change_after_it_is() {
    let mut harness = Harness::new::<Copier>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    let kind = Arc::clone(&harness.kinds["ConfigMap"]);
    let is_known = |harness: &mut Harness, version: u64| {
        harness.dispatcher.is_known(&kind, &key("a-copy"), version, harness.now)
    };
    let written = harness.version + 1;
    assert!(!is_known(&mut harness, written), "its event may come before the answer to the write");
    harness.act();
    harness.after(60);
    assert!(harness.ended().contains(&"a-copy".to_owned()), "the answer wakes the key of the written object");

    assert!(is_known(&mut harness, written));
    harness.after(60);
    assert_eq!(harness.ended(), [""; 0]);

    assert!(!is_known(&mut harness, written + 1), "another client has changed it");
    harness.changed("ConfigMap", map("a-copy"));
    harness.after(60);
    assert_eq!(harness.ended(), ["a-copy"]);

    assert!(is_known(&mut harness, written), "an older event may come late");
    harness.deleted("ConfigMap", "a-copy");
    harness.after(60);
    assert_eq!(harness.ended(), ["a-copy"]);
    assert!(!is_known(&mut harness, written + 3), "it is created again");
}
