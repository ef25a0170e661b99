//! Accepts clusters, takes acceptance back, and cleans up after those that leave.
//!
//! The namespace of a cluster is never deleted, as in OCM: what users put there is theirs.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::{
    CLUSTER_API_RESOURCE_FINALIZER, CLUSTER_NAME_LABEL, CLUSTER_RESOURCE_FINALIZER, WORK_FINALIZER,
    cluster_conditions,
};
use api::work::v1::ManifestWork;
use engine::applier;
use engine::registration::rbac;
use object::{Key, Kind, Object};
use reconcile::{Action, Controller, Plan, Query, Read, StatusWrite, View, Watches};

const FINALIZERS: [&str; 2] = [CLUSTER_API_RESOURCE_FINALIZER, CLUSTER_RESOURCE_FINALIZER];

/// See the [module](self).
pub(crate) struct ClusterController;

impl Controller for ClusterController {
    const NAME: &'static str = "cluster";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        // Only what goes matters: it may be the last thing a leaving or denied cluster waits for.
        watches.on::<ManifestWork>(|change, _| {
            if change.new.is_some() { Vec::new() } else { namespace_keys(change.sides()) }
        });
        watches.on::<ManagedClusterAddOn>(|change, _| {
            if change.new.is_some() { Vec::new() } else { namespace_keys(change.sides()) }
        });
        watches.on::<ClusterRole>(|change, _| labelled(change.sides()));
        watches.on::<ClusterRoleBinding>(|change, _| labelled(change.sides()));
        watches.on::<RoleBinding>(|change, _| labelled(change.sides()));
        watches.on::<Namespace>(|change, _| labelled(change.sides()));
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn namespace_keys<'a, K: Kind>(sides: impl Iterator<Item = &'a K>) -> Vec<Key> {
    sides.take(1).filter_map(|object| object.meta().namespace.clone()).map(Key::cluster).collect()
}

/// The cluster an object of ours is for.
fn labelled<'a, K: Kind>(sides: impl Iterator<Item = &'a K>) -> Vec<Key> {
    let name = |object: &K| {
        object.meta().labels.as_ref()?.get(CLUSTER_NAME_LABEL).filter(|name| !name.is_empty()).cloned()
    };
    sides.take(1).filter_map(name).map(Key::cluster).collect()
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(plan) };
    let mut new = ManagedCluster::clone(&cluster);
    let conditions = &mut new.status.get_or_insert_default().conditions;
    if cluster.metadata.deletion_timestamp.is_some() {
        let deleting = leave(&mut plan, &cluster, view)?;
        set_condition(conditions, deleting, now);
    } else if cluster.spec.hub_accepts_client {
        accept(&mut plan, &cluster, view)?;
        let message = "Accepted by hub cluster admin";
        let accepted = Observation::new(cluster_conditions::HUB_ACCEPTED, True, "HubClusterAdminAccepted")
            .message(message);
        set_condition(conditions, accepted, now);
    } else if is_accepted(conditions) && deny(&mut plan, &cluster, view)? {
        let message = "Denied by hub cluster admin";
        let denied = Observation::new(cluster_conditions::HUB_ACCEPTED, False, "HubClusterAdminDenied")
            .message(message);
        set_condition(conditions, denied, now);
    }
    plan.status = StatusWrite::between(cluster.as_ref(), &new);
    Ok(plan)
}

fn is_accepted(conditions: &[Condition]) -> bool {
    find_condition(conditions, cluster_conditions::HUB_ACCEPTED).is_some_and(Condition::is_true)
}

fn name(cluster: &ManagedCluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

/// The write that makes an object as wanted; nothing where it is.
fn ensure<K: Kind>(wanted: &K, view: &impl View) -> Read<Option<Action>> {
    let live = view.get::<K>(&Key::of(wanted))?;
    let wanted = Object::from_typed(wanted);
    let same = live.is_some_and(|live| {
        applier::covers(&Object::from_typed(live.as_ref()).into_value(), &wanted.clone().into_value())
    });
    Ok((!same).then(|| Action::apply(wanted)))
}

/// Namespace, then finalizers, so that whatever follows is cleaned up, then permissions.
fn accept(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View) -> Read<()> {
    let name = name(cluster);
    let labels = Some([(CLUSTER_NAME_LABEL.to_owned(), name.to_owned())].into());
    let metadata = ObjectMeta { name: Some(name.into()), labels, ..ObjectMeta::default() };
    plan.step(ensure(&Namespace { metadata, ..Namespace::default() }, view)?);
    let held = cluster.metadata.finalizers.iter().flatten().map(String::as_str);
    let mut finalizers: Vec<&str> = held.collect();
    let before = finalizers.len();
    finalizers.extend(
        FINALIZERS
            .iter()
            .filter(|wanted| !cluster.metadata.finalizers.iter().flatten().any(|held| held == *wanted)),
    );
    if finalizers.len() > before {
        plan.step([patch_metadata(cluster, json!({"finalizers": finalizers}))]);
    }
    let mut permissions = Vec::new();
    for role in rbac::shared_roles() {
        permissions.extend(ensure(&role, view)?);
    }
    permissions.extend(ensure(&rbac::cluster_role(name, true), view)?);
    permissions.extend(ensure(&rbac::cluster_role_binding(name), view)?);
    permissions.extend(ensure(&rbac::registration_binding(name), view)?);
    permissions.extend(ensure(&rbac::work_binding(name), view)?);
    plan.step(permissions);
    Ok(())
}

fn patch_metadata<K: Kind>(object: &K, metadata: serde_json::Value) -> Action {
    Action::patch(object, serde_json::Map::from_iter([("metadata".to_owned(), metadata)]))
}

/// Takes the permissions back; whether that is complete. While works are left the agent may still remove them.
fn deny(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View) -> Read<bool> {
    plan.step(ensure_rules(&rbac::cluster_role(name(cluster), false), view)?);
    release_bindings(plan, cluster, view)
}

/// [`ensure`] for a role whose rules become fewer: what covers them may allow more.
fn ensure_rules(wanted: &ClusterRole, view: &impl View) -> Read<Option<Action>> {
    let live = view.get::<ClusterRole>(&Key::of(wanted))?;
    Ok((!live.is_some_and(|live| live.rules == wanted.rules)).then(|| Action::apply_typed(wanted)))
}

/// Deletes the bindings in the cluster's namespace; whether they are gone.
fn release_bindings(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View) -> Read<bool> {
    let name = name(cluster);
    let works = view.list::<ManifestWork>(Query::namespace(name))?;
    let registration = view.get::<RoleBinding>(&Key::of(&rbac::registration_binding(name)))?;
    let work = view.get::<RoleBinding>(&Key::of(&rbac::work_binding(name)))?;
    let living = |binding: &&Arc<RoleBinding>| binding.metadata.deletion_timestamp.is_none();
    plan.step(
        [&registration, &work]
            .into_iter()
            .flatten()
            .filter(living)
            .map(|binding| Action::delete(binding.as_ref())),
    );
    if let Some(work) = work.as_ref().filter(|_| works.is_empty()) {
        let rest: Vec<&String> =
            work.metadata.finalizers.iter().flatten().filter(|held| *held != WORK_FINALIZER).collect();
        if work.metadata.deletion_timestamp.is_some()
            && rest.len() < work.metadata.finalizers.iter().flatten().count()
        {
            plan.step([patch_metadata(work.as_ref(), json!({"finalizers": rest}))]);
        }
    }
    Ok(works.is_empty() && registration.is_none() && work.is_none())
}

/// Removes what a leaving cluster has on the hub: add-ons, then works, then permissions, then the finalizers.
fn leave(plan: &mut Plan, cluster: &ManagedCluster, view: &impl View) -> Read<Observation> {
    let name = name(cluster);
    let addons = view.list::<ManagedClusterAddOn>(Query::namespace(name))?;
    if !addons.is_empty() {
        plan.step(living(&addons));
        return Ok(remaining("managedclusteraddons", &addons));
    }
    let works = view.list::<ManifestWork>(Query::namespace(name))?;
    if !works.is_empty() {
        plan.step(living(&works));
        return Ok(remaining("manifestworks", &works));
    }
    if release_bindings(plan, cluster, view)? {
        let role = view.get::<ClusterRole>(&Key::cluster(rbac::name(name)))?;
        let binding = view.get::<ClusterRoleBinding>(&Key::cluster(rbac::name(name)))?;
        plan.step(
            role.iter()
                .map(|role| Action::delete(role.as_ref()))
                .chain(binding.iter().map(|b| Action::delete(b.as_ref()))),
        );
        let rest: Vec<&String> = cluster
            .metadata
            .finalizers
            .iter()
            .flatten()
            .filter(|held| !FINALIZERS.contains(&held.as_str()))
            .collect();
        if rest.len() < cluster.metadata.finalizers.iter().flatten().count() {
            plan.step([patch_metadata(cluster, json!({"finalizers": rest}))]);
        }
    }
    Ok(Observation::new(cluster_conditions::DELETING, True, "NoResource")
        .message("No cleaned resource in cluster ns."))
}

fn living<K: Kind>(objects: &[Arc<K>]) -> Vec<Action> {
    let living = objects.iter().filter(|object| object.meta().deletion_timestamp.is_none());
    living.map(|object| Action::delete(object.as_ref())).collect()
}

/// OCM's words, and its spelling.
fn remaining<K: Kind>(resource: &str, objects: &[Arc<K>]) -> Observation {
    let pending = objects.iter().filter(|object| object.meta().deletion_timestamp.is_some()).count();
    let message = format!(
        "The resource {resource} is remaning, the remaining count is {}, the finalizer pending count is {pending}",
        objects.len()
    );
    Observation::new(cluster_conditions::DELETING, False, "ResourceRemaining").message(message)
}
