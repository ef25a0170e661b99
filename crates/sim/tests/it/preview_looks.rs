//! Compares a preview with the hub before and after a commit.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fixtures::repo;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1beta1::PlacementDecision;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{APPLIED_DIGEST_ANNOTATION, CONFIG_REPO_ANNOTATION};
use api::work::v1::ManifestWork;
use object::{Metadata as _, Object};
use preview::{ChangeType, HubSnapshot, Preview, Verdict, WorkChange};
use sim::World;

/// The state of a hub, to the extent that a preview describes it.
pub(crate) struct Look {
    /// The digests of the repository's objects.
    pub(crate) objects: BTreeMap<String, String>,
    placements: BTreeMap<String, BTreeSet<String>>,
    add_ons: BTreeSet<(String, String)>,
    works: BTreeMap<(String, String), Value>,
    applied: String,
    approval: String,
}

pub(crate) fn look(world: &World) -> Look {
    let owner = repo().to_string();
    let objects = HubSnapshot::new(&world.hub).objects.into_iter().filter(|object| {
        object.annotations().get(CONFIG_REPO_ANNOTATION) == Some(&owner.as_str()) && !object.is_terminating()
    });
    let mut placements: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for decision in world.list::<PlacementDecision>() {
        let placement = decision.label(api::names::PLACEMENT_LABEL).unwrap();
        let clusters = placements.entry(format!("{}/{placement}", decision.namespace())).or_default();
        clusters.extend(decision.status.into_iter().flat_map(|it| it.decisions).map(|it| it.cluster_name));
    }
    let works = world.list::<ManifestWork>().into_iter().filter(|work| !work.is_terminating());
    let add_ons = world.list::<ManagedClusterAddOn>().into_iter().filter(|add_on| !add_on.is_terminating());
    let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap_or_default();
    Look {
        objects: objects
            .map(|object| {
                (object.reference().to_string(), object.annotations()[APPLIED_DIGEST_ANNOTATION].to_owned())
            })
            .collect(),
        placements,
        add_ons: add_ons.map(|it| (it.name().to_owned(), it.namespace().to_owned())).collect(),
        works: works
            .map(|it| {
                ((it.namespace().to_owned(), it.name().to_owned()), serde_json::to_value(it.spec).unwrap())
            })
            .collect(),
        applied: status.applied.map(|applied| applied.commit).unwrap_or_default(),
        approval: status.held_deletions.map(|held| held.approval).unwrap_or_default(),
    }
}

fn strings<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    names.cloned().collect()
}

/// Compares a preview with the hub before and after the commit.
pub(crate) fn compare(preview: &Preview, before: &Look, after: &Look) -> Result<(), String> {
    let equal = |what: &str, preview: String, found: String| {
        if preview == found { Ok(()) } else { Err(format!("{what}: preview {preview}, found {found}")) }
    };
    let found = changes(&before.objects, &after.objects);
    let objects: BTreeMap<String, ChangeType> =
        preview.objects.iter().map(|it| (it.object.clone(), it.change)).collect();
    equal("objects", format!("{objects:?}"), format!("{found:?}"))?;
    let is_refused = after.applied != preview.commit;
    equal("refused", format!("{}", preview.verdict == Verdict::Refused), format!("{is_refused}"))?;
    let approval = preview.held.as_ref().map(|held| held.approval.clone()).unwrap_or_default();
    let held = if is_refused { String::new() } else { after.approval.clone() };
    equal("held", approval, held)?;

    let none = BTreeSet::new();
    for placement in strings(before.placements.keys().chain(after.placements.keys())) {
        let of = |look: &Look| look.placements.get(&placement).unwrap_or(&none).clone();
        let (old, new) = (of(before), of(after));
        let preview = preview.placements.iter().find(|it| it.placement == placement);
        let moves = |list: fn(&preview::PlacementPreview) -> &Vec<String>| {
            strings(preview.into_iter().flat_map(list))
        };
        let found = (&new - &old, &old - &new);
        equal(
            &placement,
            format!("{:?}", (moves(|it| &it.enter), moves(|it| &it.leave))),
            format!("{found:?}"),
        )?;
    }
    let add_ons = |list: fn(&preview::WorkloadPreview) -> &Vec<String>| -> BTreeSet<(String, String)> {
        preview.add_ons.iter().flat_map(|it| list(it).iter().map(|c| (it.name.clone(), c.clone()))).collect()
    };
    let found = (&after.add_ons - &before.add_ons, &before.add_ons - &after.add_ons);
    equal(
        "add-ons",
        format!("{:?}", (add_ons(|it| &it.enter), add_ons(|it| &it.leave))),
        format!("{found:?}"),
    )?;
    let (works, found) = (planned_works(preview), changed_works(before, after));
    equal("works", format!("{works:?}"), format!("{found:?}"))
}

/// The changes of works, by cluster and name: the work's own change and the changes of its manifests.
type WorkChanges = BTreeMap<(String, String), (ChangeType, BTreeMap<String, ChangeType>)>;

fn planned_works(preview: &Preview) -> WorkChanges {
    let of_clusters = |it: &WorkChange| {
        let objects: BTreeMap<_, _> = it.objects.iter().map(|it| (it.object.clone(), it.change)).collect();
        let (work, change) = (it.work.clone(), it.change);
        let clusters = it.clusters.clone().into_iter();
        clusters.map(move |cluster| ((cluster, work.clone()), (change, objects.clone())))
    };
    preview.works.iter().flat_map(of_clusters).collect()
}

fn changed_works(before: &Look, after: &Look) -> WorkChanges {
    let of_work = |(key, change): ((String, String), ChangeType)| {
        let objects = changes(&manifests(before.works.get(&key)), &manifests(after.works.get(&key)));
        (key, (change, objects))
    };
    changes(&before.works, &after.works).into_iter().map(of_work).collect()
}

/// Returns a work's manifests by object.
fn manifests(spec: Option<&Value>) -> BTreeMap<String, &Value> {
    let manifests = spec.and_then(|spec| spec["workload"]["manifests"].as_array()).into_iter().flatten();
    let name = |manifest: &Value| Object::from_value(manifest.clone()).unwrap().reference().to_string();
    manifests.map(|manifest| (name(manifest), manifest)).collect()
}

/// Returns entries that are new, changed or gone.
fn changes<K: Ord + Clone, V: PartialEq>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> BTreeMap<K, ChangeType> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    let change = |key: &&K| match (before.get(*key), after.get(*key)) {
        (None, Some(_)) => Some(ChangeType::Created),
        (Some(_), None) => Some(ChangeType::Deleted),
        (Some(old), Some(new)) if old != new => Some(ChangeType::Changed),
        _ => None,
    };
    keys.into_iter().filter_map(|key| Some((key.clone(), change(&key)?))).collect()
}
