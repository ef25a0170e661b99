//! Tests of kinds that can no longer be listed.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use std::sync::Arc;

use super::harness::{Harness, Map, copy, map};
use super::lookups::{deployment, found, listed, looking};
use crate::{
    Controller, Executed, Lookup, LookupAnswer, Plan, Read, Register as _, Site, StatusWrite, View,
    WatcherEvent, Watches,
};
use object::Key;

/// A controller that copies each ConfigMap. It needs Namespaces to decide.
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
    harness.dispatcher.watched(&namespaces, WatcherEvent::Stale, harness.now);
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
    harness.dispatcher.watched(&namespaces, WatcherEvent::Restored, harness.now);
    harness.listed("Namespace", &[]);
    harness.changed("ConfigMap", map("a"));
    harness.after(60);
    assert!(harness.acts.is_empty(), "the maps are those from before the restore");

    harness.listed("ConfigMap", &[map("a")]);
    harness.after(60);
    assert_eq!(harness.acts.len(), 1);
}

/// A controller that copies each ConfigMap once, and reads Namespaces to conclude.
struct Concluder;

impl Controller for Concluder {
    const NAME: &'static str = "concluder";
    type Primary = Map;

    fn watches<W: Watches>(watches: &mut W) {
        Copier::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let copied = Key::namespaced("ns", format!("{}-copy", key.name));
        let is_copied = key.name.ends_with("-copy") || view.get::<Map>(&copied)?.is_some();
        if is_copied { Ok(Plan::nothing()) } else { Copier::plan(key, view, now) }
    }

    fn conclude(_: &Key, view: &impl View, _: &Executed, _: Timestamp) -> Read<Option<StatusWrite>> {
        view.list::<Namespace>(crate::Query::ALL)?;
        Ok(None)
    }
}

/// The status that would report the writes is not written.
#[test]
fn a_key_whose_kind_becomes_stale_while_its_writes_are_executed_is_planned_again() {
    let mut harness = Harness::new::<Concluder>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Namespace", &[]);
    harness.after(1);
    let namespaces = Arc::clone(&harness.kinds["Namespace"]);
    harness.dispatcher.watched(&namespaces, WatcherEvent::Stale, harness.now);
    harness.act();
    let [ended] = &std::mem::take(&mut harness.ended)[..] else { panic!("one reconciliation") };
    assert!(ended.read_error.is_some() && ended.failure.is_none());

    harness.listed("Namespace", &[]);
    harness.after(60);
    let ended = std::mem::take(&mut harness.ended);
    let again = ended.iter().find(|ended| ended.key.name == "a").expect("it is planned again");
    assert!(again.read_error.is_none());
}

/// A [`Copier`] that may decide from ConfigMaps that an earlier process kept.
struct KeptCopier;

impl Controller for KeptCopier {
    const NAME: &'static str = "kept-copier";
    type Primary = Map;
    const USES_PERSISTED: bool = true;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        Copier::plan(key, view, now)
    }
}

#[test]
fn only_controllers_that_allow_it_use_persisted_objects_until_the_first_list() {
    let typed = |version: &str| {
        let mut kept = map("a");
        kept["metadata"]["resourceVersion"] = version.into();
        serde_json::from_value::<Map>(kept).unwrap()
    };
    let mut harness = Harness::with(|dispatcher| {
        dispatcher.add::<KeptCopier>();
        dispatcher.add::<Copier>();
    });
    harness.listed("Namespace", &[]);
    harness.dispatcher.load_persisted(vec![typed("900")], harness.now);
    harness.after(60);
    let acting: Vec<_> = harness.acts.iter().map(|act| act.controller).collect();
    assert_eq!(acting, ["kept-copier"]);
    assert!(!harness.dispatcher.caches().is_listed::<Map>(Site::Hub));

    // In the meantime, the hub was restored from a backup, which set its versions back.
    harness.listed("ConfigMap", &[]);
    assert_eq!(harness.names(), Vec::<String>::new());
    assert!(harness.dispatcher.caches().is_listed::<Map>(Site::Hub));
    harness.dispatcher.load_persisted(vec![typed("900")], harness.now);
    assert_eq!(harness.names(), Vec::<String>::new(), "what was listed is newer");
}

impl Harness {
    /// Restores the hub, and lists both kinds of the copier.
    fn restored(&mut self, maps: &[serde_json::Value]) {
        let namespaces = Arc::clone(&self.kinds["Namespace"]);
        self.dispatcher.watched(&namespaces, WatcherEvent::Restored, self.now);
        self.listed("Namespace", &[]);
        self.listed("ConfigMap", maps);
    }

    fn names(&self) -> Vec<String> {
        let maps = self.dispatcher.caches().list::<Map>(crate::Query::ALL).unwrap();
        maps.iter().filter_map(|map| map.metadata.name.clone()).collect()
    }
}

/// Returns a harness in which a map is about to be copied.
fn copying() -> Harness {
    let mut harness = Harness::new::<Copier>();
    harness.listed("Namespace", &[]);
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(60);
    assert_eq!(harness.acts.len(), 1);
    harness
}

/// The watch of the kind may have been down, so that only the write reported the version.
#[test]
fn a_restore_undoes_what_only_own_writes_have_reported() {
    let mut harness = copying();
    harness.act();
    assert_eq!(harness.names(), ["a", "a-copy"]);
    harness.restored(&[map("a")]);
    assert_eq!(harness.names(), ["a"]);
}

#[test]
fn a_write_from_before_a_restore_says_nothing_if_it_ends_afterwards() {
    let mut harness = copying();
    harness.restored(&[map("a")]);
    harness.act();
    assert_eq!(harness.names(), ["a"]);
}

/// A server may refuse to list the metadata of a kind and still serve its objects.
#[test]
fn objects_of_a_kind_that_can_no_longer_be_listed_are_read_once_a_minute() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.answer(found(1));
    harness.after(1);
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    harness.dispatcher.watched(&kind, WatcherEvent::Stale, harness.now);
    harness.after(1);
    assert_eq!(harness.lookups, [Lookup::Object(deployment())]);
    harness.answer(found(4));
    harness.ended();
    harness.after(59);
    assert_eq!(
        (harness.cached_version(), harness.lookups.len(), harness.ended()),
        (Some(4), 0, vec!["a".to_owned()])
    );
    harness.after(1);
    harness.answer(LookupAnswer::Object(None));
    harness.after(1);
    assert_eq!(
        (harness.cached_version(), harness.ended()),
        (None, vec!["a".to_owned()]),
        "no watch reports the deletion"
    );

    harness.after(60);
    harness.listed("Deployment", &[]);
    harness.answer(LookupAnswer::Object(None));
    harness.after(300);
    assert!(harness.lookups.is_empty(), "its watch tells of its objects again");
}

#[test]
fn objects_of_a_kind_that_was_never_listed_are_read_once_its_list_has_failed_for_long() {
    let mut harness = looking();
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    harness.dispatcher.watched(&kind, WatcherEvent::Stale, harness.now);
    harness.changed("ConfigMap", map("b"));
    harness.after(1);
    assert_eq!(harness.lookups, [Lookup::Object(deployment())]);
    harness.answer(found(1));
    harness.after(1);
    assert_eq!(harness.cached_version(), Some(1));

    let maps = Arc::clone(&harness.kinds["ConfigMap"]);
    harness.dispatcher.watched(&maps, WatcherEvent::Restored, harness.now);
    harness.after(1);
    assert_eq!(harness.lookups.len(), 1, "no list of it will come after a restore either");
}
