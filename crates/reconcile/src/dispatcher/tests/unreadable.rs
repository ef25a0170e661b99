//! Tests of controllers that ask whether objects are readable.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::harness::{Harness, Map, key, map};
use crate::{Controller, Decoded, Plan, Query, Read, Unreadable, View, WatcherEvent, Watches};
use object::Key;

#[test]
fn a_reader_is_woken_when_an_object_becomes_unreadable_and_when_it_is_readable_again() {
    struct Counter;
    impl Controller for Counter {
        const NAME: &'static str = "counter";
        type Primary = Map;
        fn watches<W: Watches>(watches: &mut W) {
            watches.on_readability::<Secret>(|view| view.keys::<Map>(Query::ALL));
        }
        fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
            Ok(Plan::nothing())
        }
    }
    let mut harness = Harness::new::<Counter>();
    let secret = |data: Value| json!({"data": data, "metadata": {"namespace": "ns", "name": "s"}});
    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Secret", &[secret(json!({}))]);
    harness.after(1);
    harness.ended();
    let refuse = |harness: &mut Harness| {
        let refused = Unreadable { key: key("s"), labels: None, reason: "data: not a map".into() };
        let kind = Arc::clone(&harness.kinds["Secret"]);
        harness.dispatcher.watched(&kind, WatcherEvent::Applied(Decoded::Unreadable(refused)), harness.now);
        harness.after(2);
        harness.ended().len()
    };
    assert_eq!([refuse(&mut harness), refuse(&mut harness)], [1, 0], "the second failure is no news");
    harness.changed("Secret", secret(json!({})));
    harness.after(2);
    assert_eq!(harness.ended().len(), 1, "it can be read again");
    harness.changed("Secret", secret(json!({"a": ""})));
    harness.after(2);
    assert_eq!(harness.ended().len(), 0, "a change is not what it asks for");
    harness.listed("Secret", &[secret(json!(1))]);
    harness.after(2);
    assert_eq!(harness.ended().len(), 1, "a list tells it too");
    harness.listed("Secret", &[secret(json!({}))]);
    harness.after(2);
    assert_eq!(harness.ended().len(), 1);
}
