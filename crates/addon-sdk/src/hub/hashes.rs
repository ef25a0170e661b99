//! Reports the hashes of the add-on's configurations in its status, so that the hub can roll them out: in its
//! ClusterManagementAddOn and, for configurations that the add-on of a cluster names itself, on that cluster.
//!
//! OCM leaves this to the manager of each add-on. Our operator reports the hashes only for add-ons with templates.

use std::marker::PhantomData;

use jiff::Timestamp;

use super::deploy::installations;
use crate::AddOn;
use crate::config;
use api::addon::v1alpha1::{ClusterManagementAddOn, ConfigSpecHash, ManagedClusterAddOn};
use engine::addon::config_refs;
use object::Key;
use reconcile::{Controller, Plan, Read, StatusWrite, View, Watches};

pub(crate) struct HashController<A>(PhantomData<A>);

impl<A: AddOn> Controller for HashController<A> {
    const NAME: &'static str = "addon-sdk-hashes";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_observed(
            |change, _| {
                if config::is_config(change) { vec![Key::cluster(A::NAME)] } else { Vec::new() }
            },
        );
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        if key.name != A::NAME {
            return Ok(Plan::nothing());
        }
        config::when_read(view, || {
            let Some(cma) = view.get::<ClusterManagementAddOn>(key)? else { return Ok(Plan::nothing()) };
            let mut new = ClusterManagementAddOn::clone(&cma);
            let Some(status) = &mut new.status else { return Ok(Plan::nothing()) };
            for reference in &mut status.default_config_references {
                hash(&reference.group, &reference.resource, &mut reference.desired_config, view)?;
            }
            let placements = status.install_progressions.iter_mut();
            for reference in placements.flat_map(|placement| &mut placement.config_references) {
                hash(&reference.group, &reference.resource, &mut reference.desired_config, view)?;
            }
            Ok(Plan { status: StatusWrite::between(cma.as_ref(), &new), ..Plan::nothing() })
        })
    }
}

/// Reports the hashes of the configurations that the add-on on one cluster names itself.
pub(crate) struct OwnHashController<A>(PhantomData<A>);

impl<A: AddOn> Controller for OwnHashController<A> {
    const NAME: &'static str = "addon-sdk-own-hashes";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_observed(
            |change, view| {
                if config::is_config(change) { installations::<A>(view) } else { Vec::new() }
            },
        );
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let addon = view.get::<ManagedClusterAddOn>(key)?;
        let Some(addon) = addon.filter(|addon| key.name == A::NAME && !addon.spec.configs.is_empty()) else {
            return Ok(Plan::nothing());
        };
        config::when_read(view, || {
            let mut new = ManagedClusterAddOn::clone(&addon);
            for reference in new.status.iter_mut().flat_map(|status| &mut status.config_references) {
                let (group, resource) = (&reference.group, &reference.resource);
                let desired = &mut reference.desired_config;
                let is_own = |desired: &ConfigSpecHash| {
                    config::is_own(&addon, &config_refs::hashed(group, resource, desired))
                };
                if desired.as_ref().is_some_and(is_own) {
                    hash(group, resource, desired, view)?;
                }
            }
            Ok(Plan { status: StatusWrite::between(addon.as_ref(), &new), ..Plan::nothing() })
        })
    }
}

/// Sets the hash of a configuration that exists. If it does not exist, the hash stays, so that clusters keep what
/// they run.
fn hash(group: &str, resource: &str, desired: &mut Option<ConfigSpecHash>, view: &impl View) -> Read<()> {
    let Some(desired) = desired else { return Ok(()) };
    if let Some(hash) = config::live_hash(&config_refs::hashed(group, resource, desired), view)? {
        desired.spec_hash = hash;
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests/hashes.rs"]
mod tests;
