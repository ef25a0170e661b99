//! A kind that cannot be listed any more.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;
use std::sync::Arc;

use super::harness::{Harness, Map, copy, key, map};
use crate::{Controller, Plan, Read, Site, View, WatchEvent, Watches};
use object::{Gvk, Key, ObjectRef};

/// Copies each ConfigMap; it needs Namespaces to decide.
struct Copier;

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<Namespace>();
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if view.get::<Map>(key)?.is_some() {
            plan.step([copy(key)]);
        }
        Ok(plan)
    }
}

#[test]
fn nothing_is_decided_on_a_kind_that_is_stale_until_it_is_listed_again() {
    let mut harness = Harness::new::<Copier>();
    harness.listed("ConfigMap", &[]);
    harness.listed("Namespace", &[]);
    let namespaces = Arc::clone(&harness.kinds["Namespace"]);
    harness.dispatcher.watched(&namespaces, WatchEvent::Stale, harness.now);
    harness.changed("ConfigMap", map("a"));
    harness.after(60);
    assert!(harness.acts.is_empty());
    assert!(!harness.dispatcher.controllers().any(|info| info.is_ready));
    assert!(harness.dispatcher.caches().get::<Namespace>(&Key::cluster("a")).is_err());

    harness.listed("Namespace", &[]);
    harness.after(60);
    assert_eq!(harness.acts.len(), 1);
    assert!(harness.dispatcher.controllers().all(|info| info.is_ready));
}

#[test]
fn after_a_restore_nothing_is_decided_until_every_kind_is_listed_again() {
    let mut harness = Harness::new::<Copier>();
    harness.listed("ConfigMap", &[]);
    harness.listed("Namespace", &[]);
    let namespaces = Arc::clone(&harness.kinds["Namespace"]);
    harness.dispatcher.watched(&namespaces, WatchEvent::Restored, harness.now);
    harness.listed("Namespace", &[]);
    harness.changed("ConfigMap", map("a"));
    harness.after(60);
    assert!(harness.acts.is_empty(), "the maps are those from before the restore");

    harness.listed("ConfigMap", &[map("a")]);
    harness.after(60);
    assert_eq!(harness.acts.len(), 1);
}

impl Harness {
    /// Restores the hub, and lists both kinds of the copier.
    fn restored(&mut self, maps: &[serde_json::Value]) {
        let namespaces = Arc::clone(&self.kinds["Namespace"]);
        self.dispatcher.watched(&namespaces, WatchEvent::Restored, self.now);
        self.listed("Namespace", &[]);
        self.listed("ConfigMap", maps);
    }

    fn names(&self) -> Vec<String> {
        let maps = self.dispatcher.caches().list::<Map>(crate::Query::ALL).unwrap();
        maps.iter().filter_map(|map| map.metadata.name.clone()).collect()
    }
}

/// A copier that has to copy one map.
fn copying() -> Harness {
    let mut harness = Harness::new::<Copier>();
    harness.listed("Namespace", &[]);
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(60);
    assert_eq!(harness.acts.len(), 1);
    harness
}

/// The watch of the kind may have been away, so that nothing but the write told of the version.
#[test]
fn a_restore_takes_back_what_only_own_writes_have_told() {
    let mut harness = copying();
    harness.act();
    assert_eq!(harness.names(), ["a", "a-copy"]);
    harness.restored(&[map("a")]);
    assert_eq!(harness.names(), ["a"]);
}

#[test]
fn a_write_of_the_time_before_a_restore_tells_nothing_when_it_ends_after_it() {
    let mut harness = copying();
    harness.restored(&[map("a")]);
    harness.act();
    assert_eq!(harness.names(), ["a"]);
}

/// Reads one Deployment by the watch of its kind.
struct Observer;

fn deployment() -> ObjectRef {
    ObjectRef { gvk: Gvk::parse("apps/v1", "Deployment"), key: key("d") }
}

impl Controller for Observer {
    const NAME: &'static str = "observer";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        view.observed(&deployment())?;
        Ok(Plan { observe: vec![deployment().gvk], ..Plan::nothing() })
    }
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
    harness.dispatcher.watched(&maps, WatchEvent::Restored, harness.now);
    assert!(harness.dispatcher.caches().observed(&deployment()).is_err());
    harness.listed("Deployment", &[at("30")]);
    let held = harness.dispatcher.caches().observed(&deployment()).unwrap().unwrap();
    assert_eq!(held.resource_version(), "30");
    assert!(harness.dispatcher.caches().get_on::<Map>(Site::Hub, &key("a")).is_err());
}
