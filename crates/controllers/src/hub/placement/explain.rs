//! The explanation of an existing placement on the hub.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::Timestamp;

use super::index::Scheduling;
use super::read::bound;
use crate::placement_reads::is_disabled;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::names::{PLACEMENT_LABEL, SCHEDULING_DISABLED_ANNOTATION};
use engine::placement::explain::{self, Explanation};
use engine::placement::{Fleet, MAX_STEPS, ScheduleInput};
use object::Key;
use object::names::{is_dns_subdomain, label_value_fault, qualified_name_fault};
use reconcile::{Controller, Plan, Query, Read, View, Watches};

/// Reads the input of [`explain`] without writing anything. It fills the caches of a process that shows
/// placements.
pub struct PlacementExplanationController;

impl Controller for PlacementExplanationController {
    const NAME: &'static str = "placement-explanation";
    type Primary = Placement;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<PlacementDecision>();
        watches.read::<ManagedClusterSetBinding>();
        watches.read::<ManagedClusterSet>();
        watches.read::<ManagedCluster>();
        watches.read::<AddOnPlacementScore>();
    }

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        Ok(Plan::nothing())
    }
}

/// A change of one label of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelChange {
    /// The name of the cluster.
    pub cluster: String,
    key: String,
    /// The value; `None` to remove the label.
    value: Option<String>,
}

impl LabelChange {
    /// Parses a label as for `kubectl label`: `KEY=VALUE`, or `KEY-` to remove it.
    ///
    /// # Errors
    /// Returns the reason if the name or the label is invalid.
    pub fn parse(cluster: &str, label: &str) -> Result<Self, String> {
        if !is_dns_subdomain(cluster) {
            return Err(format!("{cluster:?} is not the name of a cluster"));
        }
        let (key, value) = match (label.split_once('='), label.strip_suffix('-')) {
            (Some((key, value)), _) => (key, Some(value)),
            (None, Some(key)) => (key, None),
            (None, None) => {
                return Err(format!("{label:?} is not a label; write KEY=VALUE, or KEY- to remove it"));
            }
        };
        match qualified_name_fault(key).or(value.and_then(label_value_fault)) {
            Some(fault) => Err(format!("the label {label:?} is invalid: {fault}")),
            None => Ok(Self { cluster: cluster.into(), key: key.into(), value: value.map(str::to_owned) }),
        }
    }

    /// Returns a copy of the fleet with the change; `None` if the cluster does not exist.
    fn apply(&self, fleet: &Fleet) -> Option<Fleet> {
        let mut cluster = ManagedCluster::clone(fleet.cluster(fleet.id(&self.cluster)?)?);
        let labels = cluster.metadata.labels.get_or_insert_default();
        match &self.value {
            Some(value) => labels.insert(self.key.clone(), value.clone()),
            None => labels.remove(&self.key),
        };
        let mut changed = fleet.clone();
        changed.set_cluster(Arc::new(cluster));
        Some(changed)
    }
}

/// Formats the change after "the cluster has".
impl Display for LabelChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "the label {}={value}", self.key),
            None => write!(f, "no label {}", self.key),
        }
    }
}

/// Explains a placement, for people and for the debug endpoint. Returns `None` if the placement does not exist.
///
/// # Errors
/// Returns [`ReadError`](reconcile::ReadError) if an input has not been read.
pub fn explain(key: &Key, view: &impl View, now: Timestamp) -> Read<Option<Explanation>> {
    explain_with(key, None, view, now)
}

/// Explains a placement as it would be after a change of a label. A cluster that does not exist changes nothing. This
/// costs one schedule without a cache and a copy of the fleet.
///
/// # Errors
/// As for [`explain`].
pub fn explain_with(
    key: &Key,
    change: Option<&LabelChange>,
    view: &impl View,
    now: Timestamp,
) -> Read<Option<Explanation>> {
    let Some(placement) = view.get::<Placement>(key)? else { return Ok(None) };
    let bound = bound(view, &key.namespace)?;
    let decisions =
        view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace))?;
    let explanation = view.index(|Scheduling { fleet, schedules: _ }: &mut Scheduling| {
        let changed = change.and_then(|change| change.apply(fleet));
        let input = ScheduleInput {
            placement: &placement,
            bound: &bound,
            decisions: &decisions,
            fleet: changed.as_ref().unwrap_or(fleet),
            max_steps: MAX_STEPS,
        };
        explain::explain(&input, now)
    })?;
    let disabled = match placement.metadata.deletion_timestamp {
        Some(_) => Some("the placement is being deleted".to_owned()),
        None => is_disabled(&placement)
            .then(|| format!("the annotation {SCHEDULING_DISABLED_ANNOTATION} is true")),
    };
    Ok(Some(Explanation { disabled, ..explanation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::placement::explain::SchedulingState;
    use object::Kind;
    use reconcile::{Caches, Site};
    use serde_json::{Value, json};

    fn typed<K: Kind>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    /// Returns the caches of a hub with a cluster in the region `eu` and one in `us`.
    fn caches() -> Caches {
        let cluster = |name: &str, region: &str| -> ManagedCluster {
            typed(json!({"metadata": {"name": name, "labels": {"region": region,
                "cluster.open-cluster-management.io/clusterset": "all"}}, "spec": {}}))
        };
        let set: ManagedClusterSet = typed(json!({"metadata": {"name": "all"},
            "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}));
        let binding: ManagedClusterSetBinding =
            typed(json!({"metadata": {"name": "all", "namespace": "fleet"}, "spec": {"clusterSet": "all"}}));
        let selector =
            json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": "eu"}}}});
        let placement: Placement = typed(
            json!({"metadata": {"name": "eu", "namespace": "fleet"}, "spec": {"predicates": [selector]}}),
        );
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![cluster("paris", "eu"), cluster("ohio", "us")], "0");
        caches.replace(Site::Hub, vec![set], "0");
        caches.replace(Site::Hub, vec![binding], "0");
        caches.replace(Site::Hub, vec![placement], "0");
        caches.replace(Site::Hub, Vec::<PlacementDecision>::new(), "0");
        caches.replace(Site::Hub, Vec::<AddOnPlacementScore>::new(), "0");
        caches
    }

    fn states(caches: &Caches, change: Option<&LabelChange>) -> Vec<(String, SchedulingState)> {
        let key = Key::namespaced("fleet", "eu");
        let explained = explain_with(&key, change, caches, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        explained.clusters.into_iter().map(|one| (one.cluster_name, one.state)).collect()
    }

    #[test]
    fn a_label_is_tried_on_a_copy_of_the_fleet() {
        let caches = caches();
        let of = |ohio: SchedulingState, paris: SchedulingState| {
            [("ohio".to_owned(), ohio), ("paris".to_owned(), paris)]
        };
        let now = of(SchedulingState::Predicate, SchedulingState::Arriving);
        assert_eq!(states(&caches, None), now);
        for (cluster, label, expected) in [
            ("ohio", "region=eu", of(SchedulingState::Arriving, SchedulingState::Arriving)),
            ("paris", "region-", of(SchedulingState::Predicate, SchedulingState::Predicate)),
            (
                "paris",
                "cluster.open-cluster-management.io/clusterset=other",
                of(SchedulingState::Predicate, SchedulingState::Outside),
            ),
            ("tokyo", "region=eu", now.clone()),
        ] {
            let change = LabelChange::parse(cluster, label).unwrap();
            assert_eq!(states(&caches, Some(&change)), expected, "{change}");
            assert_eq!(states(&caches, None), now, "{change} is only tried");
        }
    }

    #[test]
    fn only_a_label_that_a_cluster_can_have_is_tried() {
        for (cluster, label, fault) in [
            ("", "a=b", "\"\" is not the name of a cluster"),
            ("c", "region", "\"region\" is not a label; write KEY=VALUE, or KEY- to remove it"),
            ("c", "=eu", "the label \"=eu\" is invalid: name part must be non-empty"),
            ("c", "a=<b>", "the label \"a=<b>\" is invalid: a valid label must be"),
        ] {
            let refused = LabelChange::parse(cluster, label).unwrap_err();
            assert!(refused.starts_with(fault), "{refused}");
        }
        let had = |label: &str| LabelChange::parse("c", label).unwrap().to_string();
        assert_eq!([had("a/b=c"), had("a=")], ["the label a/b=c", "the label a="]);
        assert_eq!(had("a-"), "no label a");
    }
}
