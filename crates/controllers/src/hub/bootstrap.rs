//! Creates the permissions of agents that have not joined yet: to create their cluster and to request a
//! certificate.
//!
//! An administrator may narrow the role or bind other subjects to it, so existing objects are left unchanged.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

use engine::registration::rbac::{BOOTSTRAP_BINDING, BOOTSTRAP_ROLE, bootstrap_binding, bootstrap_role};
use object::{Key, Kind, Metadata as _, Object};
use reconcile::{Action, Controller, Plan, Read, View, Watches};

pub(crate) struct BootstrapController;

impl Controller for BootstrapController {
    const NAME: &'static str = "bootstrap";
    type Primary = ClusterRole;
    const EXPECTED: &'static [&'static str] = &[BOOTSTRAP_ROLE];

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ClusterRoleBinding>(|change, _| {
            let binding = change.latest().filter(|binding| binding.name() == BOOTSTRAP_BINDING);
            binding.map(|_| Key::cluster(BOOTSTRAP_ROLE)).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if key.name == BOOTSTRAP_ROLE {
            plan.step(create_if_absent(&bootstrap_role(), view)?);
            plan.step(create_if_absent(&bootstrap_binding(), view)?);
        }
        Ok(plan)
    }
}

fn create_if_absent<K: Kind>(wanted: &K, view: &impl View) -> Read<Option<Action>> {
    let live = view.get::<K>(&Key::of(wanted))?;
    Ok(live.is_none().then(|| Action::create(Object::from_typed(wanted))))
}
