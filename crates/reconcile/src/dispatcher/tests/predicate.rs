//! Tests of primaries with changes that do not concern their controller.

use jiff::Timestamp;
use serde_json::json;

use super::harness::{Harness, Map, map};
use crate::{Change, Controller, Plan, Read, View, Watches};
use object::Key;

/// A controller that reads only the data.
struct DataReader;

impl Controller for DataReader {
    const NAME: &'static str = "data-reader";
    type Primary = Map;

    fn concerns(change: &Change<Map>) -> bool {
        change.differs_in(|map| &map.data)
    }

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        Ok(Plan::nothing())
    }
}

#[test]
fn a_change_that_does_not_concern_a_controller_plans_nothing() {
    let mut harness = Harness::new::<DataReader>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    assert_eq!(harness.ended(), ["a"]);
    let labeled = json!({"metadata": {"namespace": "ns", "name": "a", "labels": {"b": "c"}}});
    let filled = json!({"metadata": {"namespace": "ns", "name": "a"}, "data": {"b": "c"}});
    let replaced = json!({"metadata": {"namespace": "ns", "name": "a", "uid": "2"}, "data": {"b": "c"}});
    for (object, wakes) in [(labeled, false), (filled.clone(), true), (filled, false), (replaced, true)] {
        harness.changed("ConfigMap", object.clone());
        harness.after(1);
        assert_eq!(harness.ended().len(), usize::from(wakes), "{object}");
    }
    harness.deleted("ConfigMap", "a");
    harness.after(1);
    assert_eq!(harness.ended(), ["a"]);
}
