//! The permissions of an add-on's agent on the hub: a Role and its RoleBinding in the namespace of the cluster,
//! and RoleBindings for existing roles.
//!
//! The add-on owns the objects in the namespace of its cluster, so the garbage collector deletes them with it.
//! Owner references cannot point to another namespace.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::addon::{AddOnOptions, HubRole};
use addon_lifecycle::{Permissions, WantedPermissions};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL};
use engine::addon::registration;
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// Returns the permissions from the options of an add-on. An agent without an identity gets none.
pub(super) fn wanted(addon: &ManagedClusterAddOn, options: &AddOnOptions) -> WantedPermissions {
    let Some(rules) = &options.hub_permissions else { return WantedPermissions::default() };
    let metadata = metadata(addon);
    let rules = Some(rules.clone()).filter(|rules| !rules.is_empty());
    let role = rules.map(|rules| Role { metadata: metadata.clone(), rules: Some(rules) });
    let own = role.as_ref().map(|role| RoleBinding {
        metadata,
        role_ref: role_ref("Role", role.name()),
        subjects: Some(registration::subjects(addon)),
    });
    let existing = options.hub_roles.iter().map(|role| match role {
        HubRole::CurrentCluster(name) => {
            registration::role_binding(addon, None, role_ref("ClusterRole", name))
        }
        HubRole::SingleNamespace { namespace, role } => {
            registration::role_binding(addon, Some((*namespace).to_owned()), role.clone())
        }
    });
    let bindings = own.into_iter().chain(existing).collect();
    WantedPermissions { role, bindings }
}

/// Reads the permissions that the agent has.
pub(super) fn read(addon: &Key, view: &impl View) -> Read<Permissions> {
    Ok(Permissions {
        role: view.get(&Key::namespaced(&addon.namespace, name(&addon.name)))?,
        ..Permissions::read(addon, registration::addon_of_permission, view)?
    })
}

/// Returns the name of an agent's Role and RoleBinding.
fn name(addon: &str) -> String {
    format!("open-cluster-management:{addon}:agent")
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some("rbac.authorization.k8s.io".into()), kind: kind.into(), name: name.into() }
}

fn metadata(addon: &ManagedClusterAddOn) -> ObjectMeta {
    let labels = [
        (ADDON_NAME_LABEL.to_owned(), addon.name().to_owned()),
        (CLUSTER_NAME_LABEL.to_owned(), addon.namespace().to_owned()),
    ];
    ObjectMeta {
        namespace: Some(addon.namespace().to_owned()),
        name: Some(name(addon.name())),
        labels: Some(labels.into()),
        owner_references: Some(vec![addon.owner_reference()]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
#[path = "tests/permissions.rs"]
mod tests;
