//! Tests of kinds that are watched while a plan reads them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::harness::{Harness, Map, key, map};
use crate::{Controller, Plan, Read, Site, View, WatcherEvent, Watches};
use object::{Gvk, Key, ObjectRef};

/// A controller that requests Deployments by reading one.
struct Observer;

fn deployment() -> ObjectRef {
    ObjectRef { gvk: Gvk::parse("apps/v1", "Deployment"), key: key("d") }
}

impl Controller for Observer {
    const NAME: &'static str = "observer";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_observed(|change, _| change.sides().take(1).map(|object| object.key()).collect());
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        if view.get::<Map>(key)?.is_some_and(|map| map.data.is_none()) {
            view.observed(&deployment())?;
        }
        Ok(Plan::nothing())
    }
}

#[test]
fn a_kind_is_watched_while_a_key_reads_it() {
    let mut harness = Harness::new::<Observer>();
    harness.listed("ConfigMap", &[map("a"), map("b")]);
    harness.after(1);
    assert!(harness.kinds.contains_key("Deployment"), "reading it asks for it");
    let waits =
        harness.ended.iter().all(|ended| ended.read_error.as_ref().is_some_and(|error| error.is_coming()));
    assert!(waits, "{:?}", harness.ended);
    harness.ended();
    harness.after(600);
    assert_eq!(harness.ended(), [""; 0], "there is nothing to retry before it has been read");

    harness.listed("Deployment", &[]);
    harness.after(1);
    assert_eq!(harness.ended(), ["a", "b"], "the first list wakes the keys that wait, although it is empty");
    for name in ["a", "b"] {
        assert!(harness.kinds.contains_key("Deployment"));
        let mut other = map(name);
        other["data"] = json!({});
        harness.changed("ConfigMap", other);
        harness.after(1);
    }
    assert!(!harness.kinds.contains_key("Deployment"), "nobody asks for it any more");
}

#[test]
fn a_key_whose_kind_is_listed_while_it_is_planned_is_planned_again() {
    let mut harness = Harness::new::<Observer>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.changed("ConfigMap", map("b"));
    harness.now += jiff::SignedDuration::from_secs(1);
    harness.take();
    let planned = harness.decisions.pop().unwrap();
    assert_eq!(planned.key, Some(key("b")));
    harness.listed("Deployment", &[]);
    harness.dispatcher.decided(planned.run(), harness.now);
    harness.ended();
    harness.after(2);
    assert!(
        harness.ended().contains(&"b".to_owned()),
        "the list came after the plan began and before it asked"
    );
}

#[test]
fn an_observed_object_is_known_in_the_version_that_was_read() {
    let mut harness = Harness::new::<Observer>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    let is_known = |harness: &mut Harness, version: u64| {
        harness.dispatcher.is_known(&kind, &deployment().key, version, harness.now)
    };
    assert!(!is_known(&mut harness, 1), "the kind has not been listed");
    let metadata = json!({"namespace": "ns", "name": "d", "resourceVersion": "1"});
    let listed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
    harness.listed("Deployment", &[listed]);
    assert!(is_known(&mut harness, 1));
    assert!(!is_known(&mut harness, 2));
}

#[test]
fn after_a_restore_observed_kinds_are_unknown_until_they_are_listed_again() {
    let mut harness = Harness::new::<Observer>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    let at = |version: &str| {
        let metadata = json!({"namespace": "ns", "name": "d", "resourceVersion": version});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    };
    harness.listed("Deployment", &[at("40")]);
    let maps = Arc::clone(&harness.kinds["ConfigMap"]);
    harness.dispatcher.watched(&maps, WatcherEvent::Restored, harness.now);
    assert!(harness.dispatcher.caches().observed(&deployment()).is_err());
    harness.listed("Deployment", &[at("30")]);
    let cached = harness.dispatcher.caches().observed(&deployment()).unwrap().unwrap();
    assert_eq!(cached.resource_version(), "30");
    assert!(harness.dispatcher.caches().get_on::<Map>(Site::Hub, &key("a")).is_err());
}

#[test]
fn a_plan_that_observes_a_kind_that_may_not_be_listed_reads_the_refusal_until_it_may() {
    let mut harness = Harness::new::<Observer>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.ended.clear();
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    let refused = || WatcherEvent::Refused("forbidden".into());
    harness.dispatcher.watched(&kind, refused(), harness.now);
    harness.after(1);
    let read = |harness: &Harness| harness.dispatcher.caches().observed(&deployment());
    let error = read(&harness).unwrap_err();
    assert_eq!(error.to_string(), "cannot read Deployment.apps: forbidden");
    assert!(harness.ended.iter().any(|ended| ended.read_error == Some(error.clone())), "{:?}", harness.ended);

    harness.listed("Deployment", &[]);
    harness.ended.clear();
    harness.after(1);
    assert_eq!((harness.ended(), read(&harness)), (vec!["a".to_owned()], Ok(None)));
    harness.dispatcher.watched(&kind, refused(), harness.now);
    assert_eq!(read(&harness), Ok(None), "what was read counts until it is stale");
    harness.dispatcher.watched(&kind, WatcherEvent::Stale, harness.now);
    harness.dispatcher.watched(&kind, refused(), harness.now);
    assert_eq!(read(&harness), Err(error));
}
