use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::harness::{Harness, Map, key, map};
use crate::{
    Access, AccessReview, Controller, Failure, FailureKind, Lookup, LookupAnswer, Plan, Read, Site, View,
    Watches,
};
use object::{Gvk, Object, ObjectRef};

/// A controller that looks up a Deployment, until its ConfigMap has data.
struct Looker;

pub(super) fn deployment() -> ObjectRef {
    ObjectRef { gvk: Gvk::parse("apps/v1", "Deployment"), key: key("d") }
}

pub(super) fn version(version: u64) -> Object {
    let json = json!({"metadata": {"namespace": "ns", "name": "d", "resourceVersion": version.to_string()}});
    Object::from_value(json).unwrap()
}

impl Controller for Looker {
    const NAME: &'static str = "looker";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        if view.get::<Map>(key)?.is_some_and(|map| map.data.is_none()) {
            view.object(&deployment())?;
        }
        Ok(Plan::nothing())
    }
}

pub(super) fn looking() -> Harness {
    let mut harness = Harness::new::<Looker>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness
}

impl Harness {
    pub(super) fn answer(&mut self, answer: LookupAnswer) {
        let lookup = self.lookups.remove(0);
        self.dispatcher.looked_up(self.observed, &lookup, Ok(answer), self.now);
    }

    pub(super) fn cached_version(&self) -> Option<u64> {
        self.dispatcher
            .caches()
            .object(&deployment())
            .unwrap()
            .map(|object| object.resource_version().parse().unwrap())
    }
}

pub(super) fn found(v: u64) -> LookupAnswer {
    LookupAnswer::Object(Some(Arc::new(version(v))))
}

pub(super) fn listed(v: u64) -> serde_json::Value {
    serde_json::to_value(version(v)).unwrap()
}

#[test]
fn an_object_is_read_when_the_watch_of_its_kind_reports_it_and_no_other_is_kept() {
    let mut harness = looking();
    assert!(
        harness.ended.iter().all(|ended| ended.read_error.as_ref().is_some_and(crate::ReadError::is_coming))
    );
    assert!(harness.lookups.is_empty(), "it waits for the list, so that no change is missed");
    let other = json!({"metadata": {"namespace": "ns", "name": "other", "resourceVersion": "1"}});
    harness.listed("Deployment", &[other.clone(), listed(1)]);
    harness.after(1);
    assert_eq!(harness.lookups, [Lookup::Object(deployment())]);
    harness.ended();
    harness.answer(found(1));
    harness.after(1);
    assert_eq!((harness.ended(), harness.cached_version()), (vec!["a".to_owned()], Some(1)));
    harness.changed("Deployment", other);
    harness.after(1);
    assert!(harness.lookups.is_empty() && harness.ended().is_empty(), "nobody asked for the other");
    harness.changed("Deployment", listed(0));
    harness.after(1);
    harness.answer(found(12));
    harness.after(1);
    assert_eq!((harness.ended(), harness.cached_version()), (vec!["a".to_owned()], Some(12)));
}

#[test]
fn an_object_that_the_list_lacks_is_absent_without_a_request() {
    let mut harness = looking();
    harness.ended();
    harness.listed("Deployment", &[]);
    harness.after(1);
    assert!(harness.lookups.is_empty());
    assert_eq!((harness.ended(), harness.cached_version()), (vec!["a".to_owned()], None));
}

/// A controller that looks up the Deployment named like its key.
struct OfItsName;

impl Controller for OfItsName {
    const NAME: &'static str = "of-its-name";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        view.object(&ObjectRef { key: key.clone(), ..deployment() })?;
        Ok(Plan::nothing())
    }
}

#[test]
fn an_object_that_no_watch_has_reported_is_absent_without_a_request() {
    let mut harness = Harness::new::<OfItsName>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.ended.clear();
    harness.changed("ConfigMap", map("b"));
    harness.after(1);
    harness.after(1);
    assert!(harness.ended.iter().any(|ended| ended.key.name == "b" && ended.read_error.is_none()));
    assert!(harness.lookups.is_empty());
    let of = |name: &str| json!({"metadata": {"namespace": "ns", "name": name}});
    harness.changed("Deployment", of("c"));
    harness.deleted("Deployment", "d");
    harness.changed("ConfigMap", map("c"));
    harness.changed("ConfigMap", map("d"));
    harness.after(1);
    let asked: Vec<_> = harness.lookups.iter().map(ToString::to_string).collect();
    assert_eq!(asked.len(), 2, "one that the watch has reported may be there: {asked:?}");
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    harness.dispatcher.watched(&kind, crate::WatcherEvent::Stale, harness.now);
    harness.changed("ConfigMap", map("e"));
    harness.after(1);
    assert_eq!(
        harness.lookups.len(),
        5,
        "a watch that has failed tells of nothing, so that a, b and e may exist"
    );
}

#[test]
fn a_plan_that_waits_for_a_kind_that_may_not_be_listed_reads_the_refusal_until_it_may() {
    let mut harness = looking();
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    let refused = || crate::WatcherEvent::Refused("forbidden".into());
    harness.ended.clear();
    harness.dispatcher.watched(&kind, refused(), harness.now);
    harness.after(1);
    let error = |harness: &Harness| harness.dispatcher.caches().object(&deployment()).unwrap_err();
    assert!(!error(&harness).is_coming() && error(&harness).to_string().contains("forbidden"));
    assert!(harness.ended.iter().any(|ended| ended.read_error == Some(error(&harness))));

    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.answer(found(1));
    assert_eq!(harness.cached_version(), Some(1));
    harness.dispatcher.watched(&kind, refused(), harness.now);
    harness.after(1);
    assert_eq!(harness.cached_version(), Some(1), "what was read counts until it is stale");
}

#[test]
fn a_single_change_is_read_and_planned_at_once_and_constant_changes_occasionally() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.answer(found(1));
    harness.after(1);
    harness.after(1);
    harness.ended();
    harness.changed("Deployment", listed(0));
    harness.decide();
    harness.answer(found(11));
    harness.decide();
    assert_eq!((harness.ended(), harness.cached_version()), (vec!["a".to_owned()], Some(11)));
    let (mut read, mut planned) = (0, 0);
    for _ in 0..10 {
        for _ in 0..100 {
            harness.changed("Deployment", listed(0));
            harness.decide();
            while !harness.lookups.is_empty() {
                read += 1;
                harness.answer(found(harness.version));
                harness.decide();
            }
        }
        planned += harness.ended().len();
        harness.after(1);
    }
    assert!(read <= 11 && planned <= 11, "in ten seconds {read} reads and {planned} plans");
}

#[test]
fn after_a_restore_an_object_is_read_again_at_its_lower_version() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(5)]);
    harness.after(1);
    harness.answer(found(5));
    harness.after(1);
    harness.changed("Deployment", listed(0));
    harness.after(1);
    let maps = Arc::clone(&harness.kinds["ConfigMap"]);
    harness.dispatcher.watched(&maps, crate::WatcherEvent::Restored, harness.now);
    assert!(harness.dispatcher.caches().object(&deployment()).is_err());

    harness.listed("ConfigMap", &[map("a")]);
    harness.listed("Deployment", &[listed(3)]);
    harness.after(1);
    // The request was sent before the restore, so its answer may be from before the restore.
    harness.answer(found(11));
    assert!(harness.dispatcher.caches().object(&deployment()).is_err());
    harness.after(1);
    harness.answer(found(3));
    harness.after(1);
    assert_eq!((harness.cached_version(), harness.lookups.len()), (Some(3), 0));
}

#[test]
fn a_response_from_before_the_deletion_revives_nothing() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    let kind = Arc::clone(&harness.kinds["Deployment"]);
    let deleted = crate::WatcherEvent::Deleted { key: key("d"), resource_version: "7".into() };
    harness.dispatcher.watched(&kind, deleted, harness.now);
    harness.answer(found(5));
    harness.after(1);
    assert_eq!((harness.cached_version(), harness.lookups.len()), (None, 1), "it is asked again");
    harness.answer(LookupAnswer::Object(None));
    harness.after(1);
    assert_eq!((harness.cached_version(), harness.lookups.len()), (None, 0));
}

#[test]
fn lookups_without_a_requester_are_dropped() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    harness.answer(found(1));
    let mut done = map("a");
    done["data"] = json!({});
    harness.changed("ConfigMap", done);
    harness.after(1);
    assert!(!harness.kinds.contains_key("Deployment"));
    assert!(harness.dispatcher.caches().object(&deployment()).is_err(), "the answer is dropped");
}

/// A controller that looks up two Deployments, the second one until its ConfigMap has data.
struct Switcher;

impl Controller for Switcher {
    const NAME: &'static str = "switcher";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(map: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let other = view.object(&ObjectRef { key: key("other"), ..deployment() });
        if view.get::<Map>(map)?.is_some_and(|map| map.data.is_none()) {
            view.object(&deployment())?;
        }
        other?;
        Ok(Plan::nothing())
    }
}

#[test]
fn an_answer_to_a_dropped_lookup_does_not_answer_a_later_one() {
    let mut harness = Harness::new::<Switcher>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    harness.listed("Deployment", &[listed(5)]);
    harness.after(1);
    assert_eq!(harness.lookups, [Lookup::Object(deployment())], "it is in flight");
    let mut done = map("a");
    done["data"] = json!({});
    harness.changed("ConfigMap", done);
    harness.after(1);
    harness.changed("Deployment", listed(6));
    harness.changed("ConfigMap", map("a"));
    harness.after(1);

    harness.answer(found(5));
    harness.after(1);
    assert!(harness.dispatcher.caches().object(&deployment()).is_err(), "it was sent before the change");
    harness.answer(found(6));
    harness.after(1);
    assert_eq!((harness.cached_version(), harness.lookups.len()), (Some(6), 0));
}

#[test]
fn an_object_that_may_not_be_read_is_known_to_be_so_and_asked_again() {
    let mut harness = looking();
    harness.listed("Deployment", &[listed(1)]);
    harness.after(1);
    let lookup = harness.lookups.remove(0);
    let refused = Failure { kind: FailureKind::Forbidden, message: "no".into() };
    harness.dispatcher.looked_up(Site::Hub, &lookup, Err(refused), harness.now);
    harness.ended();
    harness.after(1);
    assert!(
        harness.ended.iter().any(|ended| ended.read_error.as_ref().is_some_and(|error| !error.is_coming()))
    );
    assert_eq!(harness.lookups.len(), 1);
}

/// A controller that looks up how a kind is served and whether a subject has access to it.
struct Requester;

fn widget() -> Gvk {
    Gvk::parse("example.com/v1", "Widget")
}

impl Controller for Requester {
    const NAME: &'static str = "requester";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &object::Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let (mapping, access) = (view.mapping(&widget()), view.access(AccessReview::default()));
        mapping?;
        access?;
        Ok(Plan::nothing())
    }
}

#[test]
fn a_kind_that_is_not_served_and_a_permission_are_asked_again_and_only_news_wake() {
    let mut harness = Harness::new::<Requester>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(1);
    assert_eq!(harness.lookups.len(), 2);
    harness.answer(LookupAnswer::Mapping(None));
    harness.answer(LookupAnswer::Access(Access::Denied));
    harness.after(1);
    assert!(harness.lookups.is_empty());
    harness.ended();
    harness.after(30);
    assert_eq!(harness.lookups, [Lookup::Mapping(widget())]);
    harness.answer(LookupAnswer::Mapping(None));
    harness.after(1);
    assert!(harness.ended().is_empty(), "the same answer wakes nobody");
    harness.after(30);
    assert_eq!(harness.lookups.len(), 2);
    harness.lookups.sort();
    harness.answer(LookupAnswer::Mapping(None));
    harness.answer(LookupAnswer::Access(Access::Allowed));
    harness.after(1);
    assert_eq!(harness.ended(), ["a"]);
}
