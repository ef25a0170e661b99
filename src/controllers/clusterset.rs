//! Cluster sets: how many clusters each has, and the two that always exist.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, json};

use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1beta2::{ClusterSelector, ManagedClusterSet, ManagedClusterSetSpec, SelectorType};
use crate::api::names::cluster_conditions::SET_EMPTY;
use crate::api::names::{CLUSTER_SET_AUTO_UPDATE_ANNOTATION, DEFAULT_CLUSTER_SET, GLOBAL_CLUSTER_SET};
use crate::engine::placement::filter::Facts;
use crate::engine::placement::sets::Members;
use crate::object::condition::{Observation, set_condition};
use crate::object::{Key, Object};
use crate::reconcile::{Action, Change, Controller, Index, Plan, Query, Read, StatusWrite, View, Watches};

/// Counts the clusters of sets, and keeps `default` and `global`.
pub struct ClusterSetController;

/// Who is in which set.
#[derive(Default)]
struct Rolls {
    sets: BTreeMap<String, Roll>,
}

struct Roll {
    members: Members,
    clusters: BTreeSet<String>,
}

impl Rolls {
    /// How many clusters a set has, if it was counted since it last changed.
    fn count(&self, members: &Members) -> Option<usize> {
        self.sets.get(members.name()).filter(|roll| roll.members == *members).map(|roll| roll.clusters.len())
    }

    /// Counts the clusters of a set.
    fn call(&mut self, members: &Members, clusters: &[Arc<ManagedCluster>]) -> usize {
        let names =
            clusters.iter().filter(|cluster| members.contains(&Facts::of(cluster))).filter_map(|cluster| cluster.metadata.name.clone());
        let clusters: BTreeSet<String> = names.collect();
        let count = clusters.len();
        self.sets.insert(members.name().to_owned(), Roll { members: members.clone(), clusters });
        count
    }
}

impl Index for Rolls {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observe(&mut self, change: &dyn Any) {
        if let Some(change) = change.downcast_ref::<Change<ManagedCluster>>() {
            let new = change.new.as_ref().map(|cluster| Facts::of(cluster));
            for roll in self.sets.values_mut() {
                if let Some(name) = change.old.as_ref().and_then(|cluster| cluster.metadata.name.as_ref()) {
                    roll.clusters.remove(name);
                }
                if new.as_ref().is_some_and(|facts| roll.members.contains(facts)) {
                    roll.clusters.extend(change.new.as_ref().and_then(|cluster| cluster.metadata.name.clone()));
                }
            }
        } else if let Some(Change { old: Some(old), new: None }) = change.downcast_ref::<Change<ManagedClusterSet>>() {
            self.sets.remove(old.metadata.name.as_deref().unwrap_or_default());
        }
    }
}

impl Controller for ClusterSetController {
    const NAME: &'static str = "clusterset";
    type Primary = ManagedClusterSet;
    const EXPECTED: &'static [&'static str] = &[DEFAULT_CLUSTER_SET, GLOBAL_CLUSTER_SET];

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| joined_or_left(change, view).unwrap_or_default());
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Plan {
        decide(key, view, now).unwrap_or_default()
    }
}

/// The sets a cluster has joined or left.
fn joined_or_left(change: &Change<ManagedCluster>, view: &impl View) -> Read<Vec<Key>> {
    let sets = view.list::<ManagedClusterSet>(Query::ALL)?;
    let [old, new] = [&change.old, &change.new].map(|cluster| cluster.as_ref().map(|cluster| Facts::of(cluster)));
    let holds = |members: &Members, facts: &Option<Facts>| facts.as_ref().is_some_and(|facts| members.contains(facts));
    let changed = sets.iter().map(|set| Members::of(set));
    let changed = changed.filter(|members| holds(members, &old) != holds(members, &new));
    Ok(changed.map(|members| Key::cluster(members.name())).collect())
}

fn decide(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let kept = kept(&key.name);
    let Some(set) = view.get::<ManagedClusterSet>(key)? else {
        plan.step(kept.map(|selector| Action::create(Object::from_typed(&new(&key.name, selector)))));
        return Ok(plan);
    };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(plan);
    }
    if let Some(selector) = kept.filter(|selector| *selector != set.spec.cluster_selector && !is_left_alone(&set)) {
        let selector = json!({ "selectorType": selector.selector_type, "labelSelector": selector.label_selector });
        let patch = json!({ "spec": { "clusterSelector": selector } });
        plan.step([Action::patch(&*set, patch.as_object().cloned().unwrap_or_else(Map::new))]);
        return Ok(plan);
    }
    let members = Members::of(&set);
    let count = match view.index(|rolls: &mut Rolls| rolls.count(&members))? {
        Some(count) => count,
        None => {
            let clusters = view.list::<ManagedCluster>(Query::ALL)?;
            view.index(|rolls: &mut Rolls| rolls.call(&members, &clusters))?
        }
    };
    let mut status = set.status.clone().unwrap_or_default();
    let empty = match (&members, count) {
        (Members::Unknown(_, why), _) => Observation::new(SET_EMPTY, "Unknown", "InvalidClusterSelector", why.clone()),
        (_, 0) => Observation::new(SET_EMPTY, "True", "NoClusterMatched", "No ManagedCluster selected"),
        (_, count) => Observation::new(SET_EMPTY, "False", "ClustersSelected", format!("{count} ManagedClusters selected")),
    };
    if set_condition(&mut status.conditions, empty, now) {
        plan.status = StatusWrite::between(&*set, &ManagedClusterSet { status: Some(status), ..(*set).clone() });
    }
    Ok(plan)
}

/// How the two sets that always exist select.
fn kept(name: &str) -> Option<ClusterSelector> {
    match name {
        DEFAULT_CLUSTER_SET => Some(ClusterSelector::default()),
        GLOBAL_CLUSTER_SET => Some(ClusterSelector {
            selector_type: SelectorType::LabelSelector,
            label_selector: Some(LabelSelector::default()),
            ..ClusterSelector::default()
        }),
        _ => None,
    }
}

fn is_left_alone(set: &ManagedClusterSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(CLUSTER_SET_AUTO_UPDATE_ANNOTATION)).is_some_and(|value| value == "false")
}

fn new(name: &str, cluster_selector: ClusterSelector) -> ManagedClusterSet {
    let mut set = ManagedClusterSet { spec: ManagedClusterSetSpec { cluster_selector, ..Default::default() }, ..Default::default() };
    set.metadata.name = Some(name.to_owned());
    set
}
