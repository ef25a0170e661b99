//! Publishes the share of the cluster's CPU and memory that no pod has requested.
//!
//! The scores expire, so that an unreachable cluster does not attract work.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use addon_sdk::{AddOn as _, score};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1alpha1::{AddOnPlacementScore, AddOnPlacementScoreItem};
use object::{Key, Metadata as _, Object, quantity};
use reconcile::{Action, Controller, Plan, Query, Read, Site, StatusWrite, View, Watches};

use crate::addon::ResourceScore;

/// Validity period of a score.
const VALID: SignedDuration = SignedDuration::from_mins(5);
/// Time before its expiry at which a score is renewed.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(2);
/// The scores and their resources.
///
/// The last two are names from the OCM documentation, for placements that use them.
const SCORES: [(&str, &str); 4] =
    [("cpuFree", "cpu"), ("memoryFree", "memory"), ("cpuAvailable", "cpu"), ("memAvailable", "memory")];

pub(crate) struct ScoreController;

impl Controller for ScoreController {
    const NAME: &'static str = "resource-score";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<Node>(Site::Spoke, |_, view| view.keys::<ManagedClusterAddOn>(Query::ALL));
        watches.on_site::<Pod>(Site::Spoke, |_, view| view.keys::<ManagedClusterAddOn>(Query::ALL));
        // The score has the name of the add-on and may outlive it.
        watches.on::<AddOnPlacementScore>(|change, _| change.sides().map(Key::of).collect());
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if key.name != ResourceScore::NAME {
            return Ok(plan);
        }
        let existing = view.get::<AddOnPlacementScore>(key)?;
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else {
            // The hub may have no garbage collector. Ask the API server, because a list may not contain the
            // add-on.
            if let Some(existing) = existing
                && !view.is_on_hub::<ManagedClusterAddOn>(key)?
            {
                plan.step([Action::delete(existing.as_ref())]);
            }
            return Ok(plan);
        };
        if addon.is_terminating() {
            return Ok(plan);
        }
        let Some(existing) = existing else {
            plan.step([Action::create(Object::from_typed(&empty(&addon)))]);
            return Ok(plan);
        };
        let nodes = view.list_on::<Node>(Site::Spoke, Query::ALL)?;
        let pods = view.list_on::<Pod>(Site::Spoke, Query::ALL)?;
        let capacity = sum(nodes.iter().filter_map(|node| node.status.as_ref()?.allocatable.as_ref()));
        let requested = sum(pods.iter().filter(|pod| is_running(pod)).flat_map(|pod| requests(pod)));
        let mut new = AddOnPlacementScore::clone(&existing);
        let status = new.status.get_or_insert_default();
        let item = |(name, resource): (&str, &str)| AddOnPlacementScoreItem {
            name: name.to_owned(),
            value: free(capacity.get(resource).copied(), requested.get(resource).copied()),
            ..AddOnPlacementScoreItem::default()
        };
        let scores: Vec<_> = SCORES.into_iter().map(item).collect();
        let until = status.valid_until.as_ref().map(|until| until.0);
        let renewal = until.and_then(|until| until.checked_sub(RENEW_BEFORE).ok());
        let is_due = renewal.is_none_or(|renewal| renewal <= now);
        if is_due || scores != status.scores {
            let until = now.saturating_add(VALID).unwrap_or(now);
            status.valid_until = Some(Time(until.round(Unit::Second).unwrap_or(until)));
            status.scores = scores;
        } else if let Some(renewal) = renewal {
            plan.wake(renewal);
        }
        plan.status = StatusWrite::between(existing.as_ref(), &new);
        Ok(plan)
    }
}

/// Returns a score without values, owned by the add-on.
fn empty(addon: &ManagedClusterAddOn) -> AddOnPlacementScore {
    let metadata = ObjectMeta {
        namespace: Some(addon.namespace().to_owned()),
        name: Some(ResourceScore::NAME.to_owned()),
        owner_references: Some(vec![addon.owner_reference()]),
        ..ObjectMeta::default()
    };
    AddOnPlacementScore { metadata, ..AddOnPlacementScore::default() }
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

fn requests(pod: &Pod) -> impl Iterator<Item = &BTreeMap<String, Quantity>> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref())
}

/// Sums quantities, in billionths of their units.
fn sum<'a>(parts: impl Iterator<Item = &'a BTreeMap<String, Quantity>>) -> BTreeMap<&'a str, i128> {
    let mut sums = BTreeMap::new();
    for (name, part) in parts.flatten() {
        *sums.entry(name.as_str()).or_default() += quantity::nanos(&part.0).unwrap_or_default();
    }
    sums
}

/// Returns the free share as a score: 100 for an idle cluster, -100 for a full cluster or one without nodes.
fn free(capacity: Option<i128>, requested: Option<i128>) -> i32 {
    let capacity = capacity.unwrap_or_default();
    score(capacity - requested.unwrap_or_default(), 0..=capacity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::ObjectRef;
    use reconcile::{Caches, Lookup, LookupAnswer};

    #[test]
    fn a_score_is_deleted_after_the_addon_without_a_garbage_collector() {
        let key = Key::namespaced("c1", ResourceScore::NAME);
        let mut addon = ManagedClusterAddOn::default();
        (addon.metadata.namespace, addon.metadata.name) = (Some("c1".into()), Some(key.name.clone()));
        let score = empty(&addon);
        let mut caches = Caches::default();
        caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
        caches.replace(Site::Hub, vec![score.clone()], "1");
        let addon = Lookup::OnHub(ObjectRef::of::<ManagedClusterAddOn>(key.clone()));
        for (is_on_hub, expected) in [(true, vec![]), (false, vec![vec![Action::delete(&score)]])] {
            caches.set_answer(addon.clone(), Ok(LookupAnswer::OnHub(is_on_hub)));
            let plan = ScoreController::plan(&key, &caches, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(plan.steps, expected, "the hub has the add-on: {is_on_hub}");
        }
    }

    #[test]
    fn a_score_is_the_free_part_of_what_pods_may_request() {
        let cases = [
            (Some(8), None, 100),
            (Some(8), Some(2), 50),
            (Some(8), Some(8), -100),
            (Some(8), Some(9), -100),
            (Some(3), Some(1), 33),
            (None, None, -100),
        ];
        for (capacity, requested, score) in cases {
            assert_eq!(free(capacity, requested), score, "{capacity:?} {requested:?}");
        }
    }

    #[test]
    fn requests_in_different_units_are_added() {
        let of = |cpu: &str| BTreeMap::from([("cpu".to_owned(), Quantity(cpu.to_owned()))]);
        let parts = [of("500m"), of("1"), of("1500000000n")];
        assert_eq!(sum(parts.iter()), BTreeMap::from([("cpu", 3 * quantity::NANO)]));
    }
}
