//! Deploys an add-on to its clusters: registrations, permissions, ManifestWorks, and their health.

use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use super::deployment::AddOnDeployment;
use super::permissions;
use crate::AddOn;
use crate::config::{self, Assigned};
use addon_lifecycle::{deploy, hold};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use engine::addon::hosting::{addon_of, hosting_cluster};
use engine::addon::registration;
use object::{Key, Metadata as _};
use reconcile::{Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct DeployController<A>(PhantomData<A>);

impl<A: AddOn> Controller for DeployController<A> {
    const NAME: &'static str = "addon-sdk-deploy";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| {
            let addon = change.latest().and_then(addon_of).filter(|addon| addon.name == A::NAME);
            addon.into_iter().collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let Some(cluster) = change.latest() else { return Vec::new() };
            let mut keys = vec![Key::namespaced(cluster.name(), A::NAME)];
            let differs = |one: &ManagedCluster| (one.is_terminating(), one.spec.hub_accepts_client);
            if A::options().hosted && change.differs_in(differs) {
                let is_hosted = |addon: &Arc<ManagedClusterAddOn>| {
                    addon.name() == A::NAME && hosting_cluster(addon) == Some(cluster.name())
                };
                let addons = view.readable::<ManagedClusterAddOn>(Query::ALL).into_iter();
                keys.extend(addons.filter(is_hosted).map(|addon| Key::of(&*addon)));
            }
            keys
        });
        watches.on::<ClusterManagementAddOn>(|change, view| match change.latest() {
            Some(cma) if cma.name() == A::NAME => installations::<A>(view),
            Some(_) | None => Vec::new(),
        });
        watches.on::<Role>(|change, _| {
            change.latest().and_then(registration::addon_of_permission).into_iter().collect()
        });
        watches.on::<RoleBinding>(|change, _| {
            change.latest().and_then(registration::addon_of_permission).into_iter().collect()
        });
        watches.on_observed(
            |change, view| {
                if config::is_config(change) { installations::<A>(view) } else { Vec::new() }
            },
        );
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        if key.name != A::NAME {
            return Ok(Plan::nothing());
        }
        config::when_read(view, || match AddOnDeployment::<A>::read(key, view)? {
            Some(deployment) if deployment.live.addon.is_terminating() => Ok(deployment.finish(now)),
            Some(deployment) => Ok(deployment.plan(now)),
            None => match view.get::<ManagedClusterAddOn>(key)? {
                Some(addon) => addon_lifecycle::release(addon, A::options().hosted, view, now),
                None => {
                    let permissions = permissions::read(key, view)?;
                    addon_lifecycle::delete_leftovers(key, &permissions, view, now)
                }
            },
        })
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        addon_lifecycle::conclude(key, view, done, now)
    }
}

/// Returns the keys of the add-on on all clusters that have it.
pub(super) fn installations<A: AddOn>(view: &impl View) -> Vec<Key> {
    let mut keys = view.keys::<ManagedClusterAddOn>(Query::ALL);
    keys.retain(|key| key.name == A::NAME);
    keys
}

impl<A: AddOn> AddOnDeployment<A> {
    fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        if !self.cluster.spec.hub_accepts_client {
            plan.step(self.permissions.revoke());
            return plan;
        }
        let mut new = ManagedClusterAddOn::clone(&self.live.addon);
        let made = match &self.config {
            Assigned::Waits => Ok(None),
            Assigned::Content(config) => self.make(&mut new, config).map(Some),
        };
        let mut empty = Vec::new();
        if let Ok(Some(parts)) = &made {
            if let Some(held) = hold(&self.live, parts) {
                return held;
            }
            let wanted = permissions::wanted(&self.live.addon, &self.options);
            plan = deploy(&self.live, parts, &self.permissions, &wanted);
            empty = self.live.empty(parts);
        }
        self.report(&mut new, made.as_ref().map(|_| &*empty).map_err(String::as_str), now);
        plan.status = StatusWrite::between(self.live.addon.as_ref(), &new);
        plan
    }
}

#[cfg(test)]
#[path = "tests/deploy.rs"]
mod tests;
