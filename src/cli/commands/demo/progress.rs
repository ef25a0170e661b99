//! The fleet as the demo shows it: read from the hub's objects, told as lines and drawn as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::Condition;
use api::addon::v1alpha1::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::find_condition;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{self, cluster_conditions};
use controllers::hub::addon_config::explain;
use engine::report;
use engine::rollout::ClusterState;
use jiff::Timestamp;
use object::{Gvk, Kind};
use reconcile::{Caches, Site};
use store::{ListOptions, ResourcePath, Store};

/// The clusters, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fleet(pub BTreeMap<String, Cluster>);

/// One cluster, as far as the add-on goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Whether its agent has joined.
    pub joined: bool,
    /// Its group of a placement's decisions, such as `aws canary`.
    pub group: String,
    /// The version that is assigned to it.
    pub version: String,
    /// Its state in the rollout; absent before the add-on is placed.
    pub state: Option<ClusterState>,
}

impl Cluster {
    fn word(&self) -> &'static str {
        self.state.as_ref().map_or("", ClusterState::word)
    }

    /// A mark for the state, and its colour as an ANSI code.
    fn mark(&self) -> (char, &'static str) {
        match &self.state {
            None => ('·', "2"),
            Some(ClusterState::Waiting(_)) if self.version.is_empty() => ('·', "2"),
            Some(
                ClusterState::Starting | ClusterState::Progressing { .. } | ClusterState::Soaking { .. },
            ) => ('↻', "33"),
            // A cluster that waits for its turn keeps what it has.
            Some(ClusterState::Done | ClusterState::Waiting(_) | ClusterState::Skipped) => ('✓', "32"),
            Some(
                ClusterState::Failed { .. }
                | ClusterState::TimedOut
                | ClusterState::Unreachable { .. }
                | ClusterState::Quarantined { .. },
            ) => ('✗', "31"),
        }
    }
}

impl Fleet {
    /// Reads the add-on's state on every cluster of a hub.
    pub(super) fn read(hub: &Store, addon: &str, now: Timestamp) -> Self {
        let mut fleet: BTreeMap<String, Cluster> = BTreeMap::new();
        for cluster in list::<ManagedCluster>(hub) {
            let joined =
                cluster.status.is_some_and(|status| is_true(&status.conditions, cluster_conditions::JOINED));
            fleet.insert(cluster.metadata.name.unwrap_or_default(), Cluster { joined, ..Cluster::default() });
        }
        for decision in list::<PlacementDecision>(hub) {
            let labels = decision.metadata.labels.unwrap_or_default();
            let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
            let group =
                format!("{} {}", label(names::PLACEMENT_LABEL), label(names::DECISION_GROUP_NAME_LABEL))
                    .trim()
                    .to_owned();
            for chosen in decision.status.iter().flat_map(|status| &status.decisions) {
                if let Some(cluster) = fleet.get_mut(&chosen.cluster_name) {
                    cluster.group.clone_from(&group);
                }
            }
        }
        let caches = caches(hub);
        let states = explain(addon, &caches, now).ok().flatten().map(|explained| explained.states);
        let on_clusters = list::<ManagedClusterAddOn>(hub)
            .into_iter()
            .filter(|found| found.metadata.name.as_deref() == Some(addon));
        for on in on_clusters {
            if let Some(cluster) = on.metadata.namespace.as_ref().and_then(|name| fleet.get_mut(name)) {
                cluster.version = version(&report::version_of(&on), addon);
            }
        }
        for (name, state) in states.into_iter().flatten() {
            if let Some(cluster) = fleet.get_mut(&name) {
                cluster.state = Some(state);
            }
        }
        Self(fleet)
    }

    /// Whether every cluster has joined.
    pub(super) fn is_joined(&self) -> bool {
        self.0.values().all(|cluster| cluster.joined)
    }

    /// Whether every cluster is done with a version.
    pub(super) fn runs(&self, version: &str) -> bool {
        let is_done = |cluster: &Cluster| cluster.state == Some(ClusterState::Done);
        self.0.values().all(|cluster| is_done(cluster) && cluster.version == version)
    }

    /// How many clusters have a version that failed on them.
    pub(super) fn failed(&self, version: &str) -> usize {
        let has_failed = |cluster: &&Cluster| cluster.state.as_ref().is_some_and(ClusterState::is_failure);
        self.0.values().filter(|cluster| cluster.version == version).filter(has_failed).count()
    }

    /// How many clusters wait with a version.
    pub(super) fn waiting(&self, version: &str) -> usize {
        let waits = |cluster: &&Cluster| matches!(cluster.state, Some(ClusterState::Waiting(_)));
        self.0.values().filter(|cluster| cluster.version == version).filter(waits).count()
    }

    /// What changed since `before`, a sentence each.
    pub(super) fn story(&self, before: &Self) -> Vec<String> {
        let mut told: BTreeMap<(u8, String), Vec<&str>> = BTreeMap::new();
        let mut tell = |order: u8, what: String, name: &'_ str| {
            let name = self.0.get_key_value(name).map_or("", |(name, _)| name.as_str());
            told.entry((order, what)).or_default().push(name);
        };
        let absent = Cluster::default();
        for (name, now) in &self.0 {
            let then = before.0.get(name).unwrap_or(&absent);
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
                // It keeps the version that it has.
                None | Some(ClusterState::Waiting(_) | ClusterState::Starting) => continue,
                Some(ClusterState::Progressing { .. }) => 2,
                Some(ClusterState::Soaking { .. }) => 3,
                Some(ClusterState::Done) => 4,
                Some(
                    ClusterState::Failed { .. }
                    | ClusterState::TimedOut
                    | ClusterState::Skipped
                    | ClusterState::Unreachable { .. }
                    | ClusterState::Quarantined { .. },
                ) => 5,
            };
            tell(order, format!("{} {}", now.version, now.word()), name);
        }
        told.into_iter().map(|((_, what), names)| format!("{what}: {}", names.join(" "))).collect()
    }

    /// A row per group, a cell per cluster.
    pub(super) fn table(&self, colour: bool) -> String {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, cluster) in &self.0 {
            let (mark, code) = cluster.mark();
            let version = if cluster.version.is_empty() { "-" } else { &cluster.version };
            let cell = format!("{mark} {name} {version}");
            let cell =
                if colour { format!("\u{1b}[{code}m{cell:<16}\u{1b}[0m") } else { format!("{cell:<16}") };
            groups
                .entry(if cluster.group.is_empty() { "not placed" } else { &cluster.group })
                .or_default()
                .push(cell);
        }
        groups.iter().fold(String::new(), |mut table, (group, cells)| {
            let _ = writeln!(table, "  {group:<12} {}", cells.join(" ").trim_end());
            table
        })
    }
}

/// The version in the name of a template, such as `0.4.1` of `managed-serviceaccount-0.4.1@897d91e7`.
fn version(runs: &str, addon: &str) -> String {
    let template = runs.split('@').next().unwrap_or_default();
    template.strip_prefix(addon).unwrap_or(template).trim_start_matches('-').to_owned()
}

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(Condition::is_true)
}

/// The hub as the controllers read it.
fn caches(hub: &Store) -> Caches {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, list::<ClusterManagementAddOn>(hub), "0");
    caches.replace(Site::Hub, list::<ManagedClusterAddOn>(hub), "0");
    caches.replace(Site::Hub, list::<ManagedCluster>(hub), "0");
    caches.replace(Site::Hub, list::<Placement>(hub), "0");
    caches.replace(Site::Hub, list::<PlacementDecision>(hub), "0");
    caches.replace(Site::Hub, list::<RolloutPolicy>(hub), "0");
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

    const PROGRESSING: ClusterState = ClusterState::Progressing { deadline: None, reported: true };

    fn cluster(version: &str, state: ClusterState) -> Cluster {
        Cluster { joined: true, group: "aws canary".into(), version: version.into(), state: Some(state) }
    }

    #[test]
    fn a_story_tells_what_changed_and_nothing_else() {
        let before = Fleet(
            [("aws-1".into(), cluster("0.4.0", ClusterState::Done)), ("aws-2".into(), Cluster::default())]
                .into(),
        );
        let mut after = before.clone();
        assert!(after.story(&before).is_empty());
        after.0.insert("aws-1".into(), cluster("0.4.1", PROGRESSING));
        after.0.insert("aws-2".into(), cluster("0.4.1", PROGRESSING));
        assert_eq!(
            after.story(&before),
            ["joined: aws-2", "placed: aws canary: aws-2", "0.4.1 Progressing: aws-1 aws-2"]
        );
    }

    #[test]
    fn a_table_has_a_row_per_group() {
        let fleet = Fleet(
            [
                ("aws-1".into(), cluster("0.4.1", ClusterState::TimedOut)),
                ("gcp-1".into(), Cluster::default()),
            ]
            .into(),
        );
        assert_eq!(fleet.table(false), "  aws canary   ✗ aws-1 0.4.1\n  not placed   · gcp-1 -\n");
    }
}
