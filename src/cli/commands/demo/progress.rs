//! Reads the state of the demo's fleet from the hub, and formats changes as lines and the state as a table.

use std::collections::BTreeMap;

use api::Condition;
use api::addon::v1alpha1::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use api::names::cluster_conditions;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::hub::overview::{GroupSummary, Overview};
use controllers::hub::placement::{self, LabelChange};
use engine::placement::explain::Explanation;
use engine::rollout::ClusterState;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use object::{Gvk, Key, Kind};
use reconcile::{Caches, Site};
use store::{ListOptions, ResourcePath, Store};

use crate::cli::cluster_objects::cluster_objects;
use crate::cli::fleet;
use crate::cli::output::Style;
use crate::dashboard::ClusterObjects;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FleetProgress {
    /// The clusters, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// The groups of clusters with the add-on, in rollout order.
    groups: Vec<GroupSummary>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// True if the hub has accepted the cluster.
    pub accepted: bool,
    /// True if the agent has joined.
    pub joined: bool,
    /// The placement and decision group, such as `fleet/aws canary`.
    pub group: String,
    /// The version that is assigned to the cluster.
    pub version: String,
    /// The state in the rollout; `None` until the add-on is placed.
    pub state: Option<ClusterState>,
    /// True if the add-on is available, in any version.
    pub is_available: bool,
}

impl Cluster {
    fn word(&self) -> &'static str {
        self.state.as_ref().map_or("", ClusterState::word)
    }

    /// Returns the missing step of a cluster outside the groups; `None` if it is in a group.
    fn lacks(&self) -> Option<&'static str> {
        match (&self.state, self.accepted, self.joined) {
            (Some(_), _, _) => None,
            (None, false, _) => Some("not accepted"),
            (None, true, false) => Some("not joined"),
            (None, true, true) => Some("not placed"),
        }
    }
}

impl FleetProgress {
    /// Reads the state of an add-on on every cluster of a hub.
    pub(super) fn read(hub: &Store, addon: &str, now: Timestamp) -> Self {
        let groups = overview(hub, now)
            .add_ons
            .into_iter()
            .find(|found| found.name == addon)
            .map(|found| found.groups);
        Self::new(list(hub), groups.unwrap_or_default(), addon)
    }

    fn new(managed: Vec<ManagedCluster>, groups: Vec<GroupSummary>, addon: &str) -> Self {
        let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
        for cluster in managed {
            let accepted = cluster.spec.hub_accepts_client;
            let joined =
                cluster.status.is_some_and(|status| is_true(&status.conditions, cluster_conditions::JOINED));
            let name = cluster.metadata.name.unwrap_or_default();
            clusters.insert(name, Cluster { accepted, joined, ..Cluster::default() });
        }
        for group in &groups {
            for summary in &group.clusters {
                let cluster = clusters.entry(summary.name.clone()).or_default();
                cluster.group = fleet::title(group);
                cluster.version = summary.version(addon).to_owned();
                cluster.state = Some(summary.state.clone());
                cluster.is_available = summary.available;
            }
        }
        Self { clusters, groups }
    }

    /// Returns true if every cluster has joined.
    pub(super) fn is_joined(&self) -> bool {
        self.clusters.values().all(|cluster| cluster.joined)
    }

    /// Returns true if every cluster has completed the rollout of a version.
    pub(super) fn runs(&self, version: &str) -> bool {
        let is_done = |cluster: &Cluster| cluster.state == Some(ClusterState::Done);
        self.clusters.values().all(|cluster| is_done(cluster) && cluster.version == version)
    }

    /// Returns the number of clusters that are assigned a version.
    pub(super) fn with(&self, version: &str) -> usize {
        self.clusters.values().filter(|cluster| cluster.version == version).count()
    }

    /// Returns true if every cluster was returned to `version` and the add-on is available again.
    pub(super) fn has_returned(&self, version: &str) -> bool {
        self.clusters.values().all(|cluster| {
            matches!(cluster.state, Some(ClusterState::Returned { .. }))
                && cluster.version == version
                && cluster.is_available
        })
    }

    /// Returns the changes since `before`, one line for each kind of change.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut sentences: BTreeMap<(u8, String), Vec<&str>> = BTreeMap::new();
        let mut tell = |order: u8, what: String, name: &'_ str| {
            let name = self.clusters.get_key_value(name).map_or("", |(name, _)| name.as_str());
            sentences.entry((order, what)).or_default().push(name);
        };
        let absent = Cluster::default();
        for (name, now) in &self.clusters {
            let then = before.clusters.get(name).unwrap_or(&absent);
            if now.joined && !then.joined {
                tell(0, "joined".into(), name);
            }
            if now.group != then.group && !now.group.is_empty() {
                tell(1, format!("placed: {}", now.group), name);
            }
            if now.version.is_empty() || (&now.version, now.word()) == (&then.version, then.word()) {
                continue;
            }
            let order = match &now.state {
                // The cluster keeps its version.
                None | Some(ClusterState::Waiting(_) | ClusterState::Starting) => continue,
                Some(ClusterState::Progressing { .. }) => 2,
                Some(ClusterState::Soaking { .. }) => 3,
                Some(ClusterState::Done) => 4,
                Some(
                    ClusterState::Failed { .. }
                    | ClusterState::TimedOut
                    | ClusterState::Skipped
                    | ClusterState::Unreachable { .. }
                    | ClusterState::Returning { .. }
                    | ClusterState::Returned { .. }
                    | ClusterState::Quarantined,
                ) => 5,
            };
            let change = match &now.state {
                // The cluster does not run the quarantined version.
                Some(ClusterState::Returning { .. }) => format!("Returning to {}", now.version),
                Some(ClusterState::Returned { .. }) => format!("Returned, runs {}", now.version),
                Some(ClusterState::Quarantined) => format!("{}, keeps {}", now.word(), now.version),
                _ => format!("{} {}", now.version, now.word()),
            };
            tell(order, change, name);
        }
        sentences.into_iter().map(|((_, what), names)| format!("{what}: {}", names.join(" "))).collect()
    }

    /// Returns a table of the add-on's groups, followed by the clusters outside these groups.
    pub(super) fn table(&self, addon: &str, style: Style) -> String {
        let mut lines = fleet::group_lines(addon, &self.groups, style);
        let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, cluster) in &self.clusters {
            if let Some(lacks) = cluster.lacks() {
                others.entry(lacks).or_default().push(name);
            }
        }
        lines.extend(others.iter().map(|(lacks, names)| format!("  {lacks}: {}", names.join(" "))));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(Condition::is_true)
}

pub(super) fn overview(hub: &Store, now: Timestamp) -> Overview {
    // All kinds are in these caches, so reading them cannot fail.
    Overview::with_undo(&caches(hub), now).unwrap_or_default()
}

/// Explains a placement, or what it would be after a change of a label; `None` if it does not exist.
pub(super) fn explain_placement(
    hub: &Store,
    placement: &Key,
    change: Option<&LabelChange>,
    now: Timestamp,
) -> Result<Option<Explanation>, String> {
    let mut caches = caches(hub);
    caches.replace(Site::Hub, list::<ManagedClusterSetBinding>(hub), "0");
    caches.replace(Site::Hub, list::<AddOnPlacementScore>(hub), "0");
    placement::explain_with(placement, change, &caches, now).map_err(|unread| unread.to_string())
}

pub(super) fn cluster(hub: &Store, name: &str) -> Result<ClusterObjects, String> {
    cluster_objects(name, &caches(hub)).map_err(|unread| unread.to_string())
}

/// Returns the hub's objects as controller caches.
fn caches(hub: &Store) -> Caches {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, list::<ClusterManagementAddOn>(hub), "0");
    caches.replace(Site::Hub, list::<ManagedClusterAddOn>(hub), "0");
    caches.replace(Site::Hub, list::<ManagedCluster>(hub), "0");
    caches.replace(Site::Hub, list::<ManagedClusterSet>(hub), "0");
    caches.replace(Site::Hub, list::<Placement>(hub), "0");
    caches.replace(Site::Hub, list::<PlacementDecision>(hub), "0");
    caches.replace(Site::Hub, list::<RolloutPolicy>(hub), "0");
    caches.replace(Site::Hub, list::<ConfigRepo>(hub), "0");
    caches.replace(Site::Hub, list::<ControllerRevision>(hub), "0");
    caches.replace(Site::Hub, list::<ManifestWorkReplicaSet>(hub), "0");
    caches.replace(Site::Hub, list::<ManifestWork>(hub), "0");
    observe::<AddOnTemplate>(hub, &mut caches);
    observe::<AddOnDeploymentConfig>(hub, &mut caches);
    caches
}

fn observe<K: Kind>(hub: &Store, caches: &mut Caches) {
    let list = hub.list(&ResourcePath::all::<K>(), &ListOptions::default());
    let objects = list.map(|list| list.items.iter().map(|item| item.as_ref().clone()).collect());
    caches.replace_observed(&Gvk::of::<K>(), objects.unwrap_or_default(), "0");
}

fn list<K: Kind>(store: &Store) -> Vec<K> {
    let list = store.list(&ResourcePath::all::<K>(), &ListOptions::default());
    list.map(|list| list.items.iter().filter_map(|item| item.to_typed().ok()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::hub::overview::ClusterSummary;

    const PROGRESSING: ClusterState = ClusterState::Progressing { deadline: None, reported: true };

    fn fleet(clusters: &[(&str, &str, ClusterState)]) -> FleetProgress {
        let summary = |(name, version, state): &(&str, &str, ClusterState)| ClusterSummary {
            name: (*name).into(),
            runs: format!("addon-{version}@0123"),
            state: state.clone(),
            available: true,
            reports_error: false,
            message: String::new(),
            since: None,
        };
        let clusters = clusters.iter().map(summary).collect();
        let group = GroupSummary { placement: "fleet/aws".into(), name: "canary".into(), clusters };
        FleetProgress::new(Vec::new(), vec![group], "addon")
    }

    #[test]
    fn the_changes_since_a_state_are_what_changed_and_nothing_else() {
        let before = fleet(&[("aws-1", "0.9.0", ClusterState::Done)]);
        assert!(before.changes_since(&before).is_empty());
        let after = fleet(&[("aws-1", "0.10.0", PROGRESSING), ("aws-2", "0.10.0", PROGRESSING)]);
        assert_eq!(
            after.changes_since(&before),
            ["placed: fleet/aws canary: aws-2", "0.10.0 Progressing: aws-1 aws-2"]
        );
    }

    #[test]
    fn a_table_has_a_row_per_group_and_says_what_the_clusters_in_none_lack() {
        let mut fleet = fleet(&[("aws-1", "0.10.0", ClusterState::TimedOut)]);
        for (name, accepted, joined) in
            [("gcp-1", true, true), ("gcp-2", true, false), ("gcp-3", false, false), ("gcp-4", false, false)]
        {
            fleet.clusters.insert(name.into(), Cluster { accepted, joined, ..Cluster::default() });
        }
        assert_eq!(
            fleet.table("addon", Style::PLAIN),
            "  fleet/aws canary  ✗ aws-1 0.10.0\n  not accepted: gcp-3 gcp-4\n  not joined: gcp-2\n  \
             not placed: gcp-1\n"
        );
    }
}
