//! Creates the service account for an add-on whose agent registers by token, and lets the agent of its cluster
//! request tokens for it.
//!
//! The objects are deleted when the driver changes, when the add-on is gone, or when the hub no longer accepts the
//! cluster. The binding is created before the account and deleted last, because it shows that the account exists.
//! If the API server rejects the binding, a role without subjects remains.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::RoleBinding;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::{Conditions as _, set_condition};
use api::names::TOKEN_INFRASTRUCTURE_LABEL;
use api::names::addon_conditions::TOKEN_INFRASTRUCTURE_READY;
use engine::addon::token::{self, TokenInfrastructure};
use object::fields::covers;
use object::{Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{
    Action, Change, Controller, Executed, Plan, Precondition, Query, Read, Site, StatusWrite, View, Watches,
};

pub(crate) struct AddOnTokenController;

impl Controller for AddOnTokenController {
    const NAME: &'static str = "addon-token";
    type Primary = ManagedClusterAddOn;

    fn concerns(change: &Change<ManagedClusterAddOn>) -> bool {
        change.differs_in(|addon| (token::is_requested(addon), addon.condition(TOKEN_INFRASTRUCTURE_READY)))
    }

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<RoleBinding>(|change, _| {
            change.latest().and_then(token::addon_of_binding).into_iter().collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let cluster = change.latest().filter(|_| change.differs_in(|c| c.spec.hub_accepts_client));
            let addons =
                |cluster: &ManagedCluster| view.keys::<ManagedClusterAddOn>(Query::namespace(cluster.name()));
            cluster.map(addons).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let addon = view.get::<ManagedClusterAddOn>(key)?;
        let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
        // A list that misses the cluster or the add-on must not revoke access, because a recreated account has a
        // different uid.
        if cluster.is_none() && view.exists::<ManagedCluster>(&Key::cluster(&key.namespace))? {
            return Ok(Plan::nothing());
        }
        if addon.is_none() && binding_of(key, view)?.is_some() && view.exists::<ManagedClusterAddOn>(key)? {
            return Ok(Plan::nothing());
        }
        let is_accepted = cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client);
        match addon {
            Some(addon) if is_accepted && token::is_requested(&addon) => ensure(&addon, view, now),
            addon => remove(key, addon.as_deref(), view),
        }
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.is_success() {
            return Ok(done.plan.status.clone());
        }
        let Some((_, failure)) = done.failures().next() else { return Ok(None) };
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(None) };
        let mut new = ManagedClusterAddOn::clone(&addon);
        let failed = token::failed(&failure.to_string());
        set_condition(&mut new.status.get_or_insert_default().conditions, failed, now);
        Ok(StatusWrite::between(addon.as_ref(), &new))
    }
}

/// Writes the missing objects, then sets the condition.
fn ensure(addon: &ManagedClusterAddOn, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let key = Key::of(addon);
    let TokenInfrastructure { account, role, binding } = TokenInfrastructure::new(&key);
    let live_account = view.object(&reference(&account))?;
    let live_role = view.object(&reference(&role))?;
    let live_binding = view.get::<RoleBinding>(&Key::of(&binding))?;
    plan.step(missing(&role, live_role.as_deref()));
    plan.step(Action::ensure(&binding, live_binding.as_deref()));
    plan.step(missing(&account, live_account.as_deref()));
    if let Some(account) = live_account {
        let mut new = addon.clone();
        let ready = token::ready(&key, account.uid());
        set_condition(&mut new.status.get_or_insert_default().conditions, ready, now);
        plan.status = StatusWrite::between(addon, &new);
    }
    Ok(plan)
}

/// Deletes the objects and the condition of an add-on that needs no tokens.
fn remove(key: &Key, addon: Option<&ManagedClusterAddOn>, view: &impl View) -> Read<Plan> {
    let mut plan = Plan::nothing();
    if let Some(addon) = addon.filter(|addon| addon.condition(TOKEN_INFRASTRUCTURE_READY).is_some()) {
        let mut new = addon.clone();
        let status = new.status.get_or_insert_default();
        status.conditions.retain(|condition| condition.type_ != TOKEN_INFRASTRUCTURE_READY);
        plan.status = StatusWrite::between(addon, &new);
    }
    let Some(binding) = binding_of(key, view)? else { return Ok(plan) };
    let TokenInfrastructure { account, role, binding: _ } = TokenInfrastructure::new(key);
    let live = [view.object(&reference(&account))?, view.object(&reference(&role))?];
    plan.step(live.iter().flatten().filter(|live| is_ours(live)).map(delete));
    plan.step([Action::delete(binding.as_ref())]);
    Ok(plan)
}

/// Returns the binding for an add-on.
fn binding_of(key: &Key, view: &impl View) -> Read<Option<Arc<RoleBinding>>> {
    let binding = view.get::<RoleBinding>(&Key::of(&TokenInfrastructure::new(key).binding))?;
    Ok(binding.filter(|binding| token::addon_of_binding(binding).as_ref() == Some(key)))
}

fn reference<K: Kind>(object: &K) -> ObjectRef {
    ObjectRef::of::<K>(Key::of(object))
}

fn missing<K: Kind>(wanted: &K, live: Option<&Object>) -> Option<Action> {
    let wanted = Object::from_typed(wanted);
    let is_there = live.is_some_and(|live| covers(live, &wanted));
    (!is_there).then(|| Action::apply(wanted))
}

fn is_ours(live: &Object) -> bool {
    live.labels().get(TOKEN_INFRASTRUCTURE_LABEL) == Some(&"true")
}

fn delete(live: &Arc<Object>) -> Action {
    Action::Delete {
        site: Site::Hub,
        target: live.reference(),
        precondition: Precondition { uid: live.uid().to_owned(), ..Precondition::default() },
        orphan: false,
        impersonate: None,
    }
}
