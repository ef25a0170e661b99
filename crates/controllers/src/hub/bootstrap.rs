//! Keeps what agents may do before they have joined: create their cluster and ask for a certificate.
//!
//! An administrator may narrow the role or bind others to it; what exists is left as it is.

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

use engine::registration::rbac;
use object::{Key, Kind, Object};
use reconcile::{Action, Controller, Plan, Read, View, Watches};

/// See the [module](self).
pub(crate) struct BootstrapController;

impl Controller for BootstrapController {
    const NAME: &'static str = "bootstrap";
    type Primary = ClusterRole;
    const EXPECTED: &'static [&'static str] = &[rbac::BOOTSTRAP_ROLE];

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ClusterRoleBinding>(|change, _| {
            let ours = change
                .sides()
                .any(|binding| binding.metadata.name.as_deref() == Some(rbac::BOOTSTRAP_BINDING));
            if ours { vec![Key::cluster(rbac::BOOTSTRAP_ROLE)] } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        if key.name != rbac::BOOTSTRAP_ROLE {
            return Ok(Plan::nothing());
        }
        let mut plan = Plan::nothing();
        let role = missing(&rbac::bootstrap_role(), view)?;
        let binding = missing(&rbac::bootstrap_binding(), view)?;
        plan.step(role.into_iter().chain(binding));
        Ok(plan)
    }
}

fn missing<K: Kind>(wanted: &K, view: &impl View) -> Read<Option<Action>> {
    Ok(view.get::<K>(&Key::of(wanted))?.is_none().then(|| Action::create(Object::from_typed(wanted))))
}
