//! What an onlooker sees of a fleet: read from the hub's objects, told as lines or drawn as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::PlacementDecision;
use api::condition::find_condition;
use api::names::{self, cluster_conditions};
use engine::report::{self, Standing};
use object::Kind;
use store::{ListOptions, Store, Target};

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
    /// The version it runs or is on its way to.
    pub version: String,
    /// How far it is.
    pub state: State,
}

/// How far a cluster is with a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// It has no version yet.
    #[default]
    Waiting,
    /// The version is on its way, or not healthy yet.
    Rolling,
    /// It runs the version, healthily.
    Available,
    /// The version did not become healthy in time.
    Failed,
}

impl State {
    fn of(standing: Standing, version: &str) -> Self {
        match standing {
            _ if version.is_empty() => Self::Waiting,
            Standing::Failed => Self::Failed,
            Standing::Unavailable | Standing::Progressing => Self::Rolling,
            // One that waits for its turn keeps what it has.
            Standing::Waiting | Standing::Done => Self::Available,
        }
    }
}

impl Fleet {
    /// Reads the add-on's state on every cluster of a hub.
    pub(super) fn read(hub: &Store, addon: &str) -> Self {
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
        let on_clusters = list::<ManagedClusterAddOn>(hub)
            .into_iter()
            .filter(|found| found.metadata.name.as_deref() == Some(addon));
        let on_clusters: Vec<_> = on_clusters.map(Arc::new).collect();
        let managed = list::<ClusterManagementAddOn>(hub)
            .into_iter()
            .find(|found| found.metadata.name.as_deref() == Some(addon));
        for stands in
            managed.iter().flat_map(|managed| report::AddOn::read(managed, &on_clusters, &[]).clusters)
        {
            if let Some(cluster) = fleet.get_mut(&stands.name) {
                cluster.version = version(&stands.runs, addon);
                cluster.state = State::of(stands.standing, &cluster.version);
            }
        }
        Self(fleet)
    }

    /// Whether every cluster has joined.
    pub(super) fn is_joined(&self) -> bool {
        self.0.values().all(|cluster| cluster.joined)
    }

    /// Whether every cluster runs a version, healthily.
    pub(super) fn runs(&self, version: &str) -> bool {
        self.0.values().all(|cluster| cluster.state == State::Available && cluster.version == version)
    }

    /// The clusters in a state with a version.
    pub(super) fn at(&self, version: &str, state: State) -> BTreeSet<&str> {
        let at = self.0.iter().filter(|(_, cluster)| cluster.version == version && cluster.state == state);
        at.map(|(name, _)| name.as_str()).collect()
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
            if (&now.version, now.state) == (&then.version, then.state) {
                continue;
            }
            match now.state {
                State::Waiting => {}
                State::Rolling => tell(2, format!("rolling out {}", now.version), name),
                State::Available => tell(3, format!("{} is available", now.version), name),
                State::Failed => tell(4, format!("{} FAILED", now.version), name),
            }
        }
        told.into_iter().map(|((_, what), names)| format!("{what}: {}", names.join(" "))).collect()
    }

    /// A row per group, a cell per cluster.
    pub(super) fn table(&self, colour: bool) -> String {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, cluster) in &self.0 {
            let (mark, code) = match cluster.state {
                State::Waiting => ('·', "2"),
                State::Rolling => ('↻', "33"),
                State::Available => ('✓', "32"),
                State::Failed => ('✗', "31"),
            };
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

fn list<K: Kind>(store: &Store) -> Vec<K> {
    let list = store.list(&Target::all::<K>(), &ListOptions::default());
    list.map(|list| list.items.iter().filter_map(|item| item.to_typed().ok()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(version: &str, state: State) -> Cluster {
        Cluster { joined: true, group: "aws canary".into(), version: version.into(), state }
    }

    #[test]
    fn a_story_tells_what_changed_and_nothing_else() {
        let before = Fleet(
            [("aws-1".into(), cluster("0.4.0", State::Available)), ("aws-2".into(), Cluster::default())]
                .into(),
        );
        let mut after = before.clone();
        assert!(after.story(&before).is_empty());
        after.0.insert("aws-1".into(), cluster("0.4.1", State::Rolling));
        after.0.insert("aws-2".into(), cluster("0.4.1", State::Rolling));
        assert_eq!(
            after.story(&before),
            ["joined: aws-2", "placed: aws canary: aws-2", "rolling out 0.4.1: aws-1 aws-2"]
        );
    }

    #[test]
    fn a_table_has_a_row_per_group() {
        let fleet = Fleet(
            [("aws-1".into(), cluster("0.4.1", State::Failed)), ("gcp-1".into(), Cluster::default())].into(),
        );
        assert_eq!(fleet.table(false), "  aws canary   ✗ aws-1 0.4.1\n  not placed   · gcp-1 -\n");
    }
}
