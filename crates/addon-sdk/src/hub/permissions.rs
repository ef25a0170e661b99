//! The permissions of the agent of an add-on on the hub: a Role and its RoleBinding in the namespace of the
//! cluster.
//!
//! Both belong to the add-on on the cluster, and go after it.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL};
use engine::addon::registration;
use object::{Key, Kind, Metadata as _};
use reconcile::{Action, Read, View};

/// The permissions that the agent has.
pub(super) struct Held {
    role: Option<Arc<Role>>,
    binding: Option<Arc<RoleBinding>>,
}

/// Returns the name of both objects.
fn name(addon: &str) -> String {
    format!("open-cluster-management:{addon}:agent")
}

/// Returns the add-on on a cluster that a Role or a RoleBinding is for.
pub(super) fn addon_of<K: Kind>(object: &K) -> Option<Key> {
    let addon = object.label(ADDON_NAME_LABEL)?;
    (object.name() == name(addon)).then(|| Key::namespaced(object.namespace(), addon))
}

impl Held {
    pub(super) fn read(addon: &Key, view: &impl View) -> Read<Self> {
        let key = Key::namespaced(&addon.namespace, name(&addon.name));
        Ok(Self { role: view.get(&key)?, binding: view.get(&key)? })
    }

    /// Gives these permissions, and takes all others.
    pub(super) fn give(&self, addon: &ManagedClusterAddOn, rules: &[PolicyRule]) -> Vec<Action> {
        if rules.is_empty() {
            return self.revoke();
        }
        let metadata = metadata(addon);
        let role = Role { metadata: metadata.clone(), rules: Some(rules.to_vec()) };
        let role_ref = RoleRef {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "Role".into(),
            name: name(addon.name()),
        };
        let subjects = Some(registration::subjects(addon));
        let binding = RoleBinding { metadata, role_ref, subjects };
        let role = Action::ensure(&role, self.role.as_deref());
        let binding = Action::ensure(&binding, self.binding.as_deref());
        role.into_iter().chain(binding).collect()
    }

    /// Takes all permissions.
    pub(super) fn revoke(&self) -> Vec<Action> {
        let role = self.role.as_deref().filter(|role| !role.is_terminating());
        let binding = self.binding.as_deref().filter(|binding| !binding.is_terminating());
        binding.map(Action::delete).into_iter().chain(role.map(Action::delete)).collect()
    }
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
