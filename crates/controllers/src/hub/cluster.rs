//! Grants permissions to accepted clusters, revokes them from denied clusters, and cleans up after clusters that
//! leave.
//!
//! As in OCM, the controller never deletes the namespace of a cluster, because its other content belongs to users.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp, Unit};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::cluster_conditions::{DELETING, HUB_ACCEPTED};
use api::names::{
    ACCEPT_FAILED, CLEANUP_PRIORITY_ANNOTATION, CLUSTER_API_RESOURCE_FINALIZER, CLUSTER_NAME_LABEL,
    CLUSTER_RESOURCE_FINALIZER, FIRST_ACCEPTED_ANNOTATION, WORK_FINALIZER,
};
use api::work::v1::ManifestWork;
use engine::registration::rbac;
use object::duration::later;
use object::{Key, Kind, Metadata as _};
use reconcile::{
    Action, Change, Controller, Event, EventType, Executed, Failure, FailureKind, Plan, Query, Read,
    StatusWrite, View, Watches,
};

const FINALIZERS: [&str; 2] = [CLUSTER_API_RESOURCE_FINALIZER, CLUSTER_RESOURCE_FINALIZER];
/// If permissions without a cluster are this old, the cluster is gone, and not just missing from a cache or from a
/// restore that brings it last. This is twice the time for which cached objects count if their kind cannot be
/// listed.
const GONE_AFTER: SignedDuration = SignedDuration::from_mins(10);

pub(crate) struct ClusterController;

impl Controller for ClusterController {
    const NAME: &'static str = "cluster";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| deleted_in_namespace(change));
        watches.on::<ManagedClusterAddOn>(|change, _| deleted_in_namespace(change));
        watches.on::<ClusterRole>(|change, _| labeled(change));
        watches.on::<ClusterRoleBinding>(|change, _| labeled(change));
        watches.on::<RoleBinding>(|change, _| labeled(change));
        watches.on::<Namespace>(|change, _| {
            change.latest().map(|found| Key::cluster(found.name())).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)? else {
            clean_up_after(&mut plan, &key.name, view, now)?;
            return Ok(plan);
        };
        let observation = if cluster.is_terminating() {
            Some(clean_up(&mut plan, &cluster, view)?)
        } else if rbac::is_reserved(&key.name) {
            revoke(&mut plan, &key.name, view)?;
            Some(name_reserved(&key.name))
        } else if cluster.spec.hub_accepts_client
            && !cluster.holds(HUB_ACCEPTED)
            && !may_have_namespace(&key.name, view)?
        {
            Some(namespace_taken(&key.name))
        } else if cluster.spec.hub_accepts_client {
            accept(&mut plan, &cluster, view, now)?;
            let accepted = Observation::new(HUB_ACCEPTED, True, "HubClusterAdminAccepted");
            Some(accepted.message("Accepted by hub cluster admin"))
        } else if cluster.holds(HUB_ACCEPTED) && deny(&mut plan, &key.name, view)? {
            let denied = Observation::new(HUB_ACCEPTED, False, "HubClusterAdminDenied");
            Some(denied.message("Denied by hub cluster admin"))
        } else {
            None
        };
        if let Some(observation) = observation {
            let mut new = ManagedCluster::clone(&cluster);
            let conditions = &mut new.status.get_or_insert_default().conditions;
            let is_decision = observation.type_ == HUB_ACCEPTED;
            if set_condition(conditions, observation, now) && is_decision {
                plan.events.extend(decision_event(&new));
            }
            plan.status = StatusWrite::between(cluster.as_ref(), &new);
        }
        Ok(plan)
    }

    /// Reports an error that prevents the acceptance or the cleanup of a cluster, except temporary failures.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.is_success() {
            return Ok(done.plan.status.clone());
        }
        let passes =
            |failure: &Failure| matches!(failure.kind, FailureKind::Conflict | FailureKind::Unavailable);
        let failed = done.failures().find(|(_, failure)| !passes(failure));
        let (Some((_, failure)), Some(cluster)) = (failed, view.get::<ManagedCluster>(key)?) else {
            return Ok(None);
        };
        let reason = &failure.message;
        let observation = if cluster.is_terminating() {
            Observation::new(DELETING, False, "DeletingError").message(reason.clone())
        } else if cluster.spec.hub_accepts_client && !cluster.holds(HUB_ACCEPTED) {
            not_accepted(reason.clone())
        } else {
            return Ok(None);
        };
        let mut new = ManagedCluster::clone(&cluster);
        set_condition(&mut new.status.get_or_insert_default().conditions, observation, now);
        let Some(mut write) = StatusWrite::between(cluster.as_ref(), &new) else { return Ok(None) };
        if cluster.is_terminating() {
            let message = format!("cannot delete the resources of the cluster {}: {reason}", key.name);
            let event =
                Event::new(cluster.as_ref(), EventType::Warning, "ResourceCleanupFail", "CleanUp", message);
            write.events.push(event.of_cluster());
        }
        Ok(Some(write))
    }
}

/// Returns the event for the acceptance of a cluster, in OCM's words and in the cluster's namespace.
fn decision_event(cluster: &ManagedCluster) -> Option<Event> {
    let accepted = cluster.condition(HUB_ACCEPTED).filter(|condition| condition.reason != ACCEPT_FAILED)?;
    let (reason, word) = match accepted.is_true() {
        true => ("ManagedClusterAccepted", "accepted"),
        false => ("ManagedClusterDenied", "denied"),
    };
    let message = format!("managed cluster {} is {word} by hub cluster admin", cluster.name());
    Some(Event::new(cluster, EventType::Normal, reason, "Accept", message).of_cluster())
}

/// Returns the cluster in whose namespace an object was deleted. It may be the last object that a leaving or
/// denied cluster waits for.
fn deleted_in_namespace<K: Kind>(change: &Change<K>) -> Vec<Key> {
    let deleted = change.old.as_ref().filter(|_| change.new.is_none());
    deleted.map(|object| Key::cluster(object.namespace())).into_iter().collect()
}

/// Returns the cluster in an object's label.
fn labeled<K: Kind>(change: &Change<K>) -> Vec<Key> {
    let cluster = change.latest().and_then(|object| object.label(CLUSTER_NAME_LABEL));
    cluster.filter(|name| !name.is_empty()).map(Key::cluster).into_iter().collect()
}

/// Returns true if the namespace with the cluster's name is free or labeled for the cluster.
///
/// The cluster's agent gets permissions in it, so a cluster must not have the name of a namespace of the hub. See
/// docs/hazards-clusters.md#cluster-named-like-a-namespace.
pub(super) fn may_have_namespace(cluster: &str, view: &impl View) -> Read<bool> {
    let namespace = view.get::<Namespace>(&Key::cluster(cluster))?;
    Ok(namespace.is_none_or(|namespace| namespace.label(CLUSTER_NAME_LABEL) == Some(cluster)))
}

/// Returns true if a cluster with this name was accepted before, according to its namespace.
pub(super) fn was_accepted(cluster: &str, view: &impl View) -> Read<bool> {
    let namespace = view.get::<Namespace>(&Key::cluster(cluster))?;
    Ok(namespace.is_some_and(|namespace| namespace.annotation(FIRST_ACCEPTED_ANNOTATION).is_some()))
}

fn namespace_taken(cluster: &str) -> Observation {
    let message = format!(
        "the namespace {cluster} exists without the label {CLUSTER_NAME_LABEL}={cluster}; add the label if the namespace is meant for this cluster"
    );
    not_accepted(message)
}

fn name_reserved(cluster: &str) -> Observation {
    let message = format!(
        "the name {cluster} is reserved for permissions that all clusters share; join with another name"
    );
    not_accepted(message)
}

fn not_accepted(message: String) -> Observation {
    Observation::new(HUB_ACCEPTED, False, ACCEPT_FAILED).message(message)
}

/// Revokes the permissions of a cluster with a reserved name, and restores the shared roles with that name.
fn revoke(plan: &mut Plan, cluster: &str, view: &impl View) -> Read<()> {
    let binding = view.get::<ClusterRoleBinding>(&Key::cluster(rbac::name(cluster)))?;
    plan.step(delete_all(&binding));
    delete_bindings(plan, cluster, view)?;
    plan.step(shared_roles(view)?);
    Ok(())
}

/// Writes the roles that all clusters share.
fn shared_roles(view: &impl View) -> Read<Vec<Action>> {
    let roles = rbac::shared_roles();
    let written = roles.iter().map(|role| ensure(role, view)).collect::<Read<Vec<_>>>()?;
    Ok(written.into_iter().flatten().collect())
}

fn ensure<K: Kind>(wanted: &K, view: &impl View) -> Read<Option<Action>> {
    Ok(Action::ensure(wanted, view.get::<K>(&Key::of(wanted))?.as_deref()))
}

/// Creates the namespace, then adds the finalizers so that later objects are cleaned up, then grants the
/// permissions.
fn accept(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View, now: Timestamp) -> Read<()> {
    let name = cluster.name();
    let live = view.get::<Namespace>(&Key::cluster(name))?;
    let since = live
        .as_deref()
        .and_then(|live| live.annotation(FIRST_ACCEPTED_ANNOTATION))
        .map_or_else(|| now.round(Unit::Second).unwrap_or(now).to_string(), str::to_owned);
    let metadata = ObjectMeta {
        name: Some(name.into()),
        labels: Some([(CLUSTER_NAME_LABEL.to_owned(), name.to_owned())].into()),
        annotations: Some([(FIRST_ACCEPTED_ANNOTATION.to_owned(), since)].into()),
        ..ObjectMeta::default()
    };
    plan.step(Action::ensure(&Namespace { metadata, ..Namespace::default() }, live.as_deref()));
    plan.step(Action::add_finalizers(cluster, &FINALIZERS));
    let mut roles = shared_roles(view)?;
    roles.extend(ensure(&rbac::cluster_role(name, true), view)?);
    // An API server rejects a binding to a role that does not exist.
    plan.step(roles);
    let mut bindings = Vec::new();
    bindings.extend(ensure(&rbac::cluster_role_binding(name), view)?);
    bindings.extend(ensure(&rbac::registration_binding(name), view)?);
    bindings.extend(ensure(&rbac::work_binding(name), view)?);
    plan.step(bindings);
    Ok(())
}

/// Revokes the permissions; returns true when that is complete. While works exist, the agent may still remove
/// them.
fn deny(plan: &mut Plan, cluster: &str, view: &impl View) -> Read<bool> {
    let wanted = rbac::cluster_role(cluster, false);
    // A narrower role is wanted, so a live role that covers the wanted rules may allow too much.
    let live = view.get::<ClusterRole>(&Key::of(&wanted))?;
    if live.is_none_or(|live| live.rules != wanted.rules) {
        plan.step([Action::apply_typed(&wanted)]);
    }
    delete_bindings(plan, cluster, view)
}

/// Deletes the bindings in the cluster's namespace; returns true when they are gone.
fn delete_bindings(plan: &mut Plan, name: &str, view: &impl View) -> Read<bool> {
    let works = view.list::<ManifestWork>(Query::namespace(name))?;
    let registration = view.get::<RoleBinding>(&Key::of(&rbac::registration_binding(name)))?;
    let work = view.get::<RoleBinding>(&Key::of(&rbac::work_binding(name)))?;
    plan.step(delete_all(registration.iter().chain(&work)));
    if let Some(work) = work.as_ref().filter(|work| works.is_empty() && work.is_terminating()) {
        plan.step(Action::remove_finalizers(work.as_ref(), &[WORK_FINALIZER]));
    }
    Ok(works.is_empty() && registration.is_none() && work.is_none())
}

/// Deletes the objects of a leaving cluster on the hub: add-ons, then works, then permissions. Removes the
/// finalizers once the status reports this.
fn clean_up(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View) -> Read<Observation> {
    let name = cluster.name();
    if let Some(remaining) = delete_content(plan, name, view)? {
        return Ok(remaining);
    }
    if delete_permissions(plan, name, view)? && cluster.holds(DELETING) {
        plan.step(Action::remove_finalizers(cluster, &FINALIZERS));
        let message = format!("the resources of the cluster {name} on the hub are deleted");
        let event = Event::new(cluster, EventType::Normal, "ResourceCleanupCompleted", "CleanUp", message);
        plan.events.push(event.of_cluster());
    }
    Ok(Observation::new(DELETING, True, "NoResource").message("No cleaned resource in cluster ns."))
}

/// Cleans up after a cluster that was deleted without its finalizers, for example by OCM's garbage collector. The
/// permissions of the cluster show that it existed, so they are deleted last. See
/// docs/hazards-clusters.md#cluster-without-finalizers.
fn clean_up_after(plan: &mut Plan, name: &str, view: &impl View, now: Timestamp) -> Read<()> {
    let Some(since) = permissions_since(name, view)? else { return Ok(()) };
    let gone_at = later(since, GONE_AFTER);
    if now < gone_at {
        plan.wake(gone_at);
        return Ok(());
    }
    // A cluster that is missing from a list must not lose its works. See
    // docs/hazards-clusters.md#cluster-without-finalizers.
    if view.exists::<ManagedCluster>(&Key::cluster(name))? {
        return Ok(());
    }
    if delete_content(plan, name, view)?.is_none() {
        delete_permissions(plan, name, view)?;
    }
    Ok(())
}

/// Returns when the permissions of a cluster outside its namespace were created. A shared role may have the name
/// of the cluster's role, but not its label.
fn permissions_since(name: &str, view: &impl View) -> Read<Option<Timestamp>> {
    let key = Key::cluster(rbac::name(name));
    let (role, binding) = (view.get::<ClusterRole>(&key)?, view.get::<ClusterRoleBinding>(&key)?);
    let made = [role.as_ref().map(|role| &role.metadata), binding.as_ref().map(|binding| &binding.metadata)];
    let is_of_cluster = |made: &&ObjectMeta| {
        made.labels.as_ref().and_then(|labels| labels.get(CLUSTER_NAME_LABEL)).is_some_and(|of| of == name)
    };
    let made = made.into_iter().flatten().filter(is_of_cluster);
    Ok(made.filter_map(|made| Some(made.creation_timestamp.as_ref()?.0)).max())
}

/// Deletes add-ons, then works. Returns what remains.
fn delete_content(plan: &mut Plan, name: &str, view: &impl View) -> Read<Option<Observation>> {
    let addons = view.list::<ManagedClusterAddOn>(Query::namespace(name))?;
    if !addons.is_empty() {
        plan.step(delete_all(first_to_clean_up(&addons)));
        return Ok(Some(remaining("managedclusteraddons", &addons)));
    }
    let works = view.list::<ManifestWork>(Query::namespace(name))?;
    plan.step(delete_all(first_to_clean_up(&works)));
    Ok((!works.is_empty()).then(|| remaining("manifestworks", &works)))
}

/// Deletes the permissions of a cluster and, with the last cluster, the shared roles. Returns true when the
/// permissions in its namespace are gone.
fn delete_permissions(plan: &mut Plan, name: &str, view: &impl View) -> Read<bool> {
    if !delete_bindings(plan, name, view)? {
        return Ok(false);
    }
    let of_cluster = Key::cluster(rbac::name(name));
    let role = view.get::<ClusterRole>(&of_cluster)?.filter(|_| !rbac::is_reserved(name));
    let binding = view.get::<ClusterRoleBinding>(&of_cluster)?;
    let role = role.iter().map(|role| Action::delete(role.as_ref()));
    plan.step(role.chain(binding.iter().map(|binding| Action::delete(binding.as_ref()))));
    if is_last(name, view)? {
        let shared = rbac::shared_roles()
            .into_iter()
            .map(|role| Key::of(&role))
            .filter_map(|role| view.get::<ClusterRole>(&role).transpose());
        plan.step(delete_all(&shared.collect::<Read<Vec<_>>>()?));
    }
    Ok(true)
}

/// Returns true if the hub has no other cluster that needs the shared roles. The permissions of a cluster show
/// that it may exist even if it is missing from the list.
fn is_last(name: &str, view: &impl View) -> Read<bool> {
    let others = view.list_readable::<ManagedCluster>(Query::ALL)?;
    let is_alone = others.iter().all(|other| other.name() == name);
    if !is_alone || !view.unreadable::<ManagedCluster>(Query::ALL)?.is_empty() {
        return Ok(false);
    }
    let bindings = view.list_readable::<ClusterRoleBinding>(Query::ALL)?;
    let clusters = bindings.iter().filter_map(|binding| binding.label(CLUSTER_NAME_LABEL));
    Ok(clusters.filter(|cluster| !cluster.is_empty()).all(|cluster| cluster == name))
}

/// Returns the objects with the lowest cleanup priority. The others wait until these are gone.
fn first_to_clean_up<K: Kind>(objects: &[Arc<K>]) -> impl Iterator<Item = &Arc<K>> {
    let first = objects.iter().map(|object| cleanup_priority(object.as_ref())).min();
    objects.iter().filter(move |object| Some(cleanup_priority(object.as_ref())) == first)
}

/// Returns a number from 0 to 100; any other value counts as 0.
fn cleanup_priority<K: Kind>(object: &K) -> u8 {
    let priority = object.annotation(CLEANUP_PRIORITY_ANNOTATION).and_then(|text| text.parse().ok());
    priority.filter(|priority| *priority <= 100).unwrap_or_default()
}

/// Deletes the objects that are not being deleted yet.
fn delete_all<'a, K: Kind>(objects: impl IntoIterator<Item = &'a Arc<K>>) -> Vec<Action> {
    let living = objects.into_iter().filter(|object| !object.is_terminating());
    living.map(|object| Action::delete(object.as_ref())).collect()
}

/// Returns the condition for the remaining objects of a leaving cluster, with OCM's words and spelling.
fn remaining<K: Kind>(resource: &str, objects: &[Arc<K>]) -> Observation {
    let pending = objects.iter().filter(|object| object.is_terminating()).count();
    let message = format!(
        "The resource {resource} is remaning, the remaining count is {}, the finalizer pending count is {pending}",
        objects.len()
    );
    Observation::new(DELETING, False, "ResourceRemaining").message(message)
}

#[cfg(test)]
#[path = "tests/cluster.rs"]
mod tests;
