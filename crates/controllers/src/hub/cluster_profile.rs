//! Publishes the clusters of bound cluster sets as ClusterProfiles, for programs that use SIG Multicluster's
//! inventory instead of OCM's kinds.
//!
//! A namespace that binds a set gets a profile for each cluster of the set. The profile is deleted when the
//! cluster leaves, or when none of the sets that the namespace binds has the cluster. An unreadable set removes no
//! profiles, and profiles of other cluster managers are never changed.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use api::cluster::v1::{ManagedCluster, ManagedClusterClaim};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::{Conditions as _, Observation, set_condition};
use api::multicluster::v1alpha1::{
    ClusterProfile, ClusterProfileManager, ClusterProfileProperty, ClusterProfileSpec,
};
use api::names::cluster_conditions::{AVAILABLE, BOUND, JOINED};
use api::names::cluster_profile::{
    CLUSTER_MANAGER, CLUSTER_MANAGER_LABEL, CONTROL_PLANE_HEALTHY, PROFILE_JOINED, PROFILE_SET_LABEL,
};
use api::names::{CLUSTER_NAME_LABEL, CLUSTER_SET_LABEL};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::{Key, Metadata as _, Object, merge_diff};
use reconcile::{Action, Controller, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct ClusterProfileController;

impl Controller for ClusterProfileController {
    const NAME: &'static str = "cluster-profile";
    type Primary = ClusterProfile;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let Some(cluster) = change.latest() else { return Vec::new() };
            let mut keys = view.keys::<ClusterProfile>(Query::label(CLUSTER_NAME_LABEL, cluster.name()));
            // Sets choose their members by labels.
            if !change.differs_in(|cluster| &cluster.metadata.labels) {
                return keys;
            }
            let attributes = ClusterAttributes::from_cluster(cluster);
            for binding in view.readable::<ManagedClusterSetBinding>(Query::ALL) {
                if members(&binding, view).is_some_and(|members| members.contains(&attributes)) {
                    keys.push(Key::namespaced(binding.namespace(), cluster.name()));
                }
            }
            keys
        });
        watches.on::<ManagedClusterSetBinding>(|change, view| match change.latest() {
            Some(binding) if change.differs_in(bound_set) => concerned(binding, view),
            Some(_) | None => Vec::new(),
        });
        watches.on::<ManagedClusterSet>(|change, view| {
            if !change.differs_in(|set| &set.spec.cluster_selector) {
                return Vec::new();
            }
            let name = change.latest().map(|set| set.name());
            let bindings = view.readable::<ManagedClusterSetBinding>(Query::ALL);
            let of_set = bindings.iter().filter(|binding| binding.cluster_set() == name);
            of_set.flat_map(|binding| concerned(binding, view)).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let live = view.get::<ClusterProfile>(key)?;
        if live.as_ref().is_some_and(|live| !is_ours(live) || live.is_terminating()) {
            return Ok(plan);
        }
        let cluster_key = Key::cluster(key.name.as_str());
        let cluster = view.get::<ManagedCluster>(&cluster_key)?;
        // A cluster may be wrongly missing from a list.
        if cluster.is_none() && live.is_some() && view.exists::<ManagedCluster>(&cluster_key)? {
            return Ok(plan);
        }
        let is_published = match &cluster {
            Some(cluster) if !cluster.is_terminating() => {
                is_bound(cluster, &key.namespace, live.is_some(), view)?
            }
            Some(_) | None => false,
        };
        match (cluster.filter(|_| is_published), live) {
            (None, None) => {}
            (None, Some(live)) => plan.step([Action::delete(&*live)]),
            (Some(cluster), None) => {
                let mut profile = ClusterProfile::default();
                profile.metadata.namespace = Some(key.namespace.clone());
                describe(&mut profile, &cluster);
                plan.step([Action::create(Object::from_typed(&profile))]);
            }
            (Some(cluster), Some(live)) => update(&mut plan, &live, &cluster, now),
        }
        Ok(plan)
    }
}

/// Plans the changes to a profile: first the description, then the status.
fn update(plan: &mut Plan, live: &ClusterProfile, cluster: &ManagedCluster, now: Timestamp) {
    let mut new = live.clone();
    describe(&mut new, cluster);
    let [before, after] = [live, &new].map(|profile| Object::from_typed(profile).into_value());
    if let Some(Value::Object(patch)) = merge_diff(&before, &after) {
        plan.step([Action::patch(live, patch)]);
        return;
    }
    observe(&mut new, cluster, now);
    plan.status = StatusWrite::between(live, &new);
}

/// Sets the cluster of a profile, and OCM as its manager.
fn describe(profile: &mut ClusterProfile, cluster: &ManagedCluster) {
    profile.metadata.name = Some(cluster.name().to_owned());
    let labels = profile.metadata.labels.get_or_insert_default();
    for (label, value) in [
        (CLUSTER_MANAGER_LABEL, Some(CLUSTER_MANAGER)),
        (CLUSTER_NAME_LABEL, Some(cluster.name())),
        (PROFILE_SET_LABEL, cluster.label(CLUSTER_SET_LABEL)),
    ] {
        match value {
            Some(value) => labels.insert(label.to_owned(), value.to_owned()),
            None => labels.remove(label),
        };
    }
    profile.spec.display_name = cluster.name().to_owned();
    profile.spec.cluster_manager.name = CLUSTER_MANAGER.to_owned();
}

/// Copies the status of the cluster. The conditions keep the cluster's reasons and messages.
fn observe(profile: &mut ClusterProfile, cluster: &ManagedCluster, now: Timestamp) {
    let Some(reported) = &cluster.status else { return };
    let status = profile.status.get_or_insert_default();
    status.version.kubernetes.clone_from(&reported.version.kubernetes);
    let claims = reported.cluster_claims.iter();
    status.properties = claims.map(property).collect();
    for (type_, of_cluster) in [(CONTROL_PLANE_HEALTHY, AVAILABLE), (PROFILE_JOINED, JOINED)] {
        if let Some(condition) = cluster.condition(of_cluster) {
            let observed = Observation::new(type_, condition.status.clone(), &condition.reason);
            set_condition(&mut status.conditions, observed.message(condition.message.as_str()), now);
        }
    }
}

fn property(claim: &ManagedClusterClaim) -> ClusterProfileProperty {
    let ManagedClusterClaim { name, value, unknown: _ } = claim.clone();
    ClusterProfileProperty { name, value, ..ClusterProfileProperty::default() }
}

/// Returns true if OCM manages the profile.
fn is_ours(profile: &ClusterProfile) -> bool {
    let ClusterProfileSpec { display_name: _, cluster_manager, unknown: _ } = &profile.spec;
    let ClusterProfileManager { name, unknown: _ } = cluster_manager;
    name == CLUSTER_MANAGER
}

/// Returns true if a namespace binds a set that contains the cluster. If the members of a set are unknown, an
/// existing profile (`is_there`) stays.
fn is_bound(cluster: &ManagedCluster, namespace: &str, is_there: bool, view: &impl View) -> Read<bool> {
    let attributes = ClusterAttributes::from_cluster(cluster);
    for binding in view.list::<ManagedClusterSetBinding>(Query::namespace(namespace))? {
        let Some(set) = bound_set(&binding) else { continue };
        let set = view.get::<ManagedClusterSet>(&Key::cluster(set))?;
        let has_it = match set.as_deref().map(SetMembers::from_set) {
            Some(SetMembers::Unknown(..)) | None => is_there,
            Some(members) => members.contains(&attributes),
        };
        if has_it {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the set of a binding, if it is bound.
fn bound_set(binding: &ManagedClusterSetBinding) -> Option<&str> {
    binding.cluster_set().filter(|_| binding.holds(BOUND) && !binding.is_terminating())
}

/// Returns the members of the set of a binding.
fn members(binding: &ManagedClusterSetBinding, view: &impl View) -> Option<SetMembers> {
    let set = Key::cluster(bound_set(binding)?);
    let set = view.get_readable::<ManagedClusterSet>(&set).ok()??;
    Some(SetMembers::from_set(&set))
}

/// Returns the profiles that a binding affects: the existing ones in its namespace, and the ones for its set's
/// members.
fn concerned(binding: &ManagedClusterSetBinding, view: &impl View) -> Vec<Key> {
    let namespace = binding.namespace();
    let mut keys = view.keys::<ClusterProfile>(Query::namespace(namespace));
    if let Some(members) = members(binding, view) {
        let clusters = view.readable::<ManagedCluster>(Query::ALL);
        let is_member =
            |cluster: &&Arc<ManagedCluster>| members.contains(&ClusterAttributes::from_cluster(cluster));
        let wanted = clusters.iter().filter(is_member);
        keys.extend(wanted.map(|cluster| Key::namespaced(namespace, cluster.name())));
    }
    keys
}

#[cfg(test)]
#[path = "tests/cluster_profile.rs"]
mod tests;
