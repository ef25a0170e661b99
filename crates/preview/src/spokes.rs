//! The simulated fleet of a preview: the reports of clusters about their works.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fleet::{get, objects};
use crate::workload;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::False;
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::addon_conditions::PROGRESSING;
use api::names::{WORK_FINALIZER, cluster_conditions, work_conditions};
use api::work::v1::ManifestWork;
use engine::addon::hosting::addon_of;
use engine::addon::{config_refs, progress};
use engine::resource::{self, plural};
use engine::work::{Attempt, Live, ManifestResult, Pods, Served, Wanted, read, work_status};
use object::builtin_lists::BUILTIN;
use object::duration::later;
use object::{Gvk, Key, Kind, Metadata as _, Object};
use store::{JournalEntry, ListOptions, Patch, ResourcePath, Store, WriteOptions};

/// The next reports of the clusters.
pub(super) struct Spokes {
    /// The time that a cluster takes to apply a change and report success.
    succeeds_after: SignedDuration,
    /// The time of each report and the generation it covers.
    due: BTreeMap<Reports, (Timestamp, i64)>,
    /// The kinds in works whose definition is unknown.
    pub(super) assumed: BTreeSet<Gvk>,
}

/// The client that reports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reports {
    /// The agent, about a work.
    Work(Key),
    /// The manager of an add-on without a template, about the add-on of a cluster.
    AddOn(Key),
}

impl Spokes {
    /// Starts with the works and add-ons that are already in progress.
    pub(super) fn begin(hub: &Store, succeeds_after: SignedDuration, now: Timestamp) -> Self {
        let mut spokes = Self { succeeds_after, due: BTreeMap::new(), assumed: BTreeSet::new() };
        let add_ons = objects::<ManagedClusterAddOn>(hub).into_iter().filter(|add_on| is_under_way(add_on));
        let under_way: BTreeSet<Key> = add_ons.map(|add_on| add_on.key()).collect();
        for work in objects::<ManifestWork>(hub) {
            let is_expected = || {
                let work = work.to_typed::<ManifestWork>().ok();
                work.and_then(|work| addon_of(&work)).is_some_and(|add_on| under_way.contains(&add_on))
            };
            if !is_reported(&work) || !under_way.is_empty() && is_expected() {
                spokes.expect(Reports::Work(work.key()), generation(&work), now);
            }
        }
        for add_on in under_way {
            spokes.expect(Reports::AddOn(add_on), 0, now);
        }
        spokes
    }

    /// Schedules reports for writes to works and add-ons.
    pub(super) fn observe(&mut self, entries: &[JournalEntry], now: Timestamp) {
        for JournalEntry { resource, key, object, revision: _ } in entries {
            let Some(object) = object else { continue };
            match resource.resource.as_str() {
                "manifestworks" if !is_reported(object) => {
                    self.expect(Reports::Work(key.clone()), generation(object), now);
                }
                "managedclusteraddons" if is_under_way(object) => {
                    self.expect(Reports::AddOn(key.clone()), object.generation(), now);
                }
                _ => {}
            }
        }
    }

    /// Makes every pending report arrive within the given time.
    pub(super) fn hurry(&mut self, succeeds_after: SignedDuration, now: Timestamp) {
        self.succeeds_after = succeeds_after;
        let latest = later(now, succeeds_after);
        self.due.values_mut().for_each(|(at, _)| *at = latest.min(*at));
    }

    fn expect(&mut self, who: Reports, generation: i64, now: Timestamp) {
        let at = later(now, self.succeeds_after);
        let due = self.due.entry(who).or_insert((at, generation));
        if due.1 != generation {
            *due = (at, generation);
        }
    }

    /// Returns the time of the next report.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.values().map(|(at, _)| *at).min()
    }

    /// Writes the reports that are due; returns true if there were any.
    pub(super) fn report(&mut self, hub: &mut Store, now: Timestamp) -> bool {
        let is_due = |(_, (at, _)): &(&Reports, &(Timestamp, i64))| *at <= now;
        let due: Vec<Reports> = self.due.iter().filter(is_due).map(|(who, _)| who.clone()).collect();
        for who in &due {
            self.due.remove(who);
            match who {
                Reports::Work(key) if answers(hub, &key.namespace) => {
                    report_work(hub, key, now, &mut self.assumed);
                }
                Reports::AddOn(key) if answers(hub, &key.namespace) => report_add_on(hub, key, now),
                Reports::Work(_) | Reports::AddOn(_) => {}
            }
        }
        !due.is_empty()
    }
}

fn generation(work: &Object) -> i64 {
    if work.is_terminating() { -1 } else { work.generation() }
}

/// Returns true if the agent's report about a work is complete, or the work cannot be read.
fn is_reported(work: &Object) -> bool {
    let is_complete = if work.is_terminating() {
        let finalizers = work.at(&["metadata", "finalizers"]).and_then(Value::as_array);
        !finalizers.into_iter().flatten().any(|name| name == WORK_FINALIZER)
    } else {
        let applied = work.condition(work_conditions::APPLIED);
        let observed = |applied: &Value| applied.get("observedGeneration").and_then(Value::as_i64);
        let generation = work.at(&["metadata", "generation"]).and_then(Value::as_i64);
        applied.is_some_and(|applied| observed(applied) == generation)
    };
    is_complete || work.to_typed::<ManifestWork>().is_err()
}

/// Returns true if a rollout waits for an add-on on its cluster.
fn is_under_way(add_on: &Object) -> bool {
    add_on
        .condition(PROGRESSING)
        .is_some_and(|condition| condition["status"] == "True" && condition["reason"] == progress::UNDER_WAY)
        && add_on.to_typed::<ManagedClusterAddOn>().is_ok()
}

fn answers(hub: &Store, cluster: &str) -> bool {
    let cluster = get::<ManagedCluster>(hub, &Key::cluster(cluster));
    let available = cluster.as_ref().and_then(|cluster| cluster.condition(cluster_conditions::AVAILABLE));
    available.is_some_and(|condition| condition.is_true())
}

/// Reports about a work, and adds its kinds without a known definition to `assumed`. These are assumed to be
/// namespaced and to use the resource names that works of add-ons use for them.
fn report_work(hub: &mut Store, key: &Key, now: Timestamp, assumed: &mut BTreeSet<Gvk>) {
    let Some(work) = get::<ManifestWork>(hub, key) else { return };
    if work.is_terminating() {
        let others = work.metadata.finalizers.iter().flatten().filter(|name| *name != WORK_FINALIZER);
        let finalizers: Vec<&String> = others.collect();
        write::<ManifestWork>(hub, key, "", json!({"metadata": {"finalizers": finalizers}}), now);
        return;
    }
    let assumed = RefCell::new(assumed);
    let assume = |gvk: &Gvk| {
        assumed.borrow_mut().insert(gvk.clone());
        Served::As { resource: plural(&gvk.kind), namespaced: true }
    };
    let wanted = read(&work, |gvk| served(hub, &key.namespace, gvk).unwrap_or_else(|| assume(gvk)));
    let live: Vec<Object> = wanted.iter().map(|wanted| healthy(wanted, now)).collect();
    let seen: Vec<ManifestResult<'_>> = live
        .iter()
        .map(|live| ManifestResult { live: Live::Read(Some(live)), attempt: Attempt::Done, pods: Pods::Fine })
        .collect();
    let status = work_status(&work, &wanted, &seen, now);
    write::<ManifestWork>(hub, key, "status", json!({ "status": status }), now);
}

/// Returns how a cluster serves a kind: as the hub or Kubernetes does, as a definition in its works says, or as its
/// agent reported; `None` if none of these applies.
fn served(hub: &Store, cluster: &str, gvk: &Gvk) -> Option<Served> {
    if let Some(resource) = hub.resource_of(gvk) {
        return Some(Served::As { resource: resource.plural.clone(), namespaced: resource.namespaced });
    }
    if let Some(namespaced) = BUILTIN.is_namespaced(&gvk.api_version(), &gvk.kind) {
        return Some(Served::As { resource: plural(&gvk.kind), namespaced });
    }
    let works = hub
        .list(&ResourcePath::all::<ManifestWork>().within(cluster), &ListOptions::default())
        .map(|list| list.items)
        .unwrap_or_default();
    let works: Vec<ManifestWork> = works.iter().filter_map(|work| work.to_typed().ok()).collect();
    let mut manifests = works.iter().flat_map(|work| &work.spec.workload.manifests);
    let by_definition = manifests.find_map(|manifest| defined(&Object(manifest.clone()), gvk));
    by_definition.or_else(|| {
        let meta = resource::reported(&works, gvk)?;
        Some(Served::As { resource: meta.resource.clone(), namespaced: !meta.namespace.is_empty() })
    })
}

/// Returns how a kind is served, if the object defines it.
fn defined(object: &Object, gvk: &Gvk) -> Option<Served> {
    let resource = resource::defined(object, gvk)?.to_owned();
    let is_of_cluster = object.at(&["spec", "scope"]).and_then(Value::as_str) == Some("Cluster");
    Some(Served::As { resource, namespaced: !is_of_cluster })
}

/// Returns the object of a manifest in its healthy state.
fn healthy(wanted: &Wanted, now: Timestamp) -> Object {
    let mut object = wanted.object.clone();
    if let Some(status) = workload::ready(&object, now) {
        object.0.insert("status".into(), status);
    }
    object
}

/// Reports, in place of the manager of an add-on without a template, that the configuration is applied. For other
/// add-ons, the works report it.
fn report_add_on(hub: &mut Store, key: &Key, now: Timestamp) {
    let found = hub.get(&ResourcePath::of::<ManagedClusterAddOn>(key)).ok().filter(|it| is_under_way(it));
    let Some(mut add_on) = found.and_then(|it| it.to_typed::<ManagedClusterAddOn>().ok()) else { return };
    let has_template = get(hub, &Key::cluster(&key.name)).is_some_and(|cma| config_refs::has_template(&cma));
    let Some(status) = add_on.status.as_mut().filter(|_| !has_template) else { return };
    for reference in &mut status.config_references {
        reference.last_applied_config.clone_from(&reference.desired_config);
    }
    let completed =
        Observation::new(PROGRESSING, False, progress::COMPLETED).message("completed with no errors.");
    set_condition(&mut status.conditions, completed, now);
    let patch = json!({ "status": status });
    write::<ManagedClusterAddOn>(hub, key, "status", patch, now);
}

fn write<K: Kind>(hub: &mut Store, key: &Key, subresource: &str, patch: Value, now: Timestamp) {
    let target = ResourcePath::of::<K>(key).sub(subresource);
    let written = hub.patch(&target, &Patch::Merge(patch), &WriteOptions::manager("agent"), now);
    debug_assert!(written.is_ok(), "{key}: {written:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_objects_are_found_without_decoding_as_with_their_types() {
        let mut random = object::Random::new(3);
        let mut counts = [0; 4];
        for _ in 0..500 {
            let mut one_of = |values: &[Value]| {
                values[usize::try_from(random.below(values.len() as u64)).unwrap()].clone()
            };
            let mut condition = || {
                let type_ = one_of(&[json!(work_conditions::APPLIED), json!(PROGRESSING), json!("Other")]);
                let reason = one_of(&[json!(progress::UNDER_WAY), json!("R")]);
                json!({"type": type_, "status": one_of(&[json!("True"), json!("False")]), "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": one_of(&[json!(1), json!(2), json!(null)])})
            };
            let conditions = [condition(), condition()];
            let finalizers = one_of(&[json!(null), json!(["other"]), json!([WORK_FINALIZER])]);
            let metadata = json!({"name": "n", "namespace": "c1", "finalizers": finalizers, "generation": one_of(&[json!(1), json!(null)]),
                "deletionTimestamp": one_of(&[json!(null), json!(null), json!("2026-01-01T00:00:00Z")])});
            let object = json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}});
            let object = Object::from_value(object).unwrap();

            let work: ManifestWork = object.to_typed().unwrap();
            let applied = work.condition(work_conditions::APPLIED);
            let reported = match work.is_terminating() {
                true => !work.has_finalizer(WORK_FINALIZER),
                false => applied.is_some_and(|it| it.observed_generation == work.metadata.generation),
            };
            let add_on: ManagedClusterAddOn = object.to_typed().unwrap();
            let condition = add_on.condition(PROGRESSING);
            let under_way = condition.is_some_and(|it| it.is_true() && it.reason == progress::UNDER_WAY);
            assert_eq!((is_reported(&object), is_under_way(&object)), (reported, under_way), "{object:?}");
            counts[usize::from(reported) + 2 * usize::from(under_way)] += 1;
        }
        assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
    }

    #[test]
    fn a_kind_that_the_hub_does_not_serve_is_as_a_work_of_its_cluster_defines_or_reports_it() {
        let now = Timestamp::UNIX_EPOCH;
        let mut hub = Store::new(1, now);
        crate::definitions::install(&mut hub, api::crds::hub(), now);
        let names = json!({"kind": "Proxy", "plural": "proxies"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "proxies.example.com"},
            "spec": {"group": "example.com", "names": names, "scope": "Cluster"},
        });
        let metadata = json!({"name": "p", "namespace": "n"});
        let proxy = json!({"apiVersion": "example.com/v1", "kind": "Proxy", "metadata": metadata});
        let undefined = json!({"apiVersion": "example.com/v1", "kind": "Policy", "metadata": metadata});
        let work = |name: &str, manifests: Value| {
            let key = Key::namespaced("c1", name);
            let work = json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {"name": name, "namespace": "c1"}, "spec": {"workload": {"manifests": manifests}},
            });
            (ResourcePath::of::<ManifestWork>(&key), work)
        };
        let goose = json!({"apiVersion": "example.com/v1", "kind": "Goose", "metadata": metadata});
        let service =
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata});
        let objects = work("objects", json!([proxy, undefined, goose, service]));
        let works = [work("definition", json!([definition])), objects];
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c1"}});
        let place = (ResourcePath::of::<k8s_openapi::api::core::v1::Namespace>(&Key::cluster("c1")), place);
        for (target, object) in [place].into_iter().chain(works) {
            hub.patch(&target, &Patch::Apply(object), &WriteOptions::manager("test"), now).unwrap();
        }
        let meta = json!({"ordinal": 2, "group": "example.com", "kind": "Goose", "resource": "geese", "namespace": "n"});
        let reported = json!({"manifests": [{"resourceMeta": meta, "conditions": []}]});
        let status = json!({"status": {"resourceStatus": reported}});
        write::<ManifestWork>(&mut hub, &Key::namespaced("c1", "objects"), "status", status, now);
        let mut assumed = BTreeSet::new();
        report_work(&mut hub, &Key::namespaced("c1", "objects"), now, &mut assumed);
        let kinds: Vec<_> = assumed.iter().map(|gvk| gvk.kind.as_str()).collect();
        assert_eq!(kinds, ["Policy"], "nothing defines it");
        let work = get::<ManifestWork>(&hub, &Key::namespaced("c1", "objects")).unwrap();
        let manifests = work.status.unwrap().resource_status.manifests;
        let metas = manifests.iter().map(|one| &one.resource_meta);
        let found: Vec<_> = metas.map(|meta| (meta.resource.as_str(), meta.namespace.as_str())).collect();
        assert_eq!(found, [("proxies", ""), ("policies", "n"), ("geese", "n"), ("apiservices", "")]);
    }
}
