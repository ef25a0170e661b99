//! The permissions of an add-on's agent on the hub.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use api::names::CLUSTER_NAME_LABEL;
use object::{Key, Metadata as _};
use reconcile::{Action, Query, Read, View};

/// The permissions that the agent should have.
#[derive(Debug, Default)]
pub struct WantedPermissions {
    /// The Role of the agent, unless it has only existing roles.
    pub role: Option<Role>,
    /// The RoleBindings in all namespaces.
    pub bindings: Vec<RoleBinding>,
}

/// The permissions that the agent has.
#[derive(Debug)]
pub struct Permissions {
    /// The Role of the agent.
    pub role: Option<Arc<Role>>,
    /// The RoleBindings in all namespaces.
    pub bindings: Vec<Arc<RoleBinding>>,
}

impl Permissions {
    /// Reads the RoleBindings. `addon_of` returns the add-on on a cluster to which a RoleBinding belongs.
    ///
    /// # Errors
    /// Fails if the RoleBindings have not been read.
    pub fn read(addon: &Key, addon_of: fn(&RoleBinding) -> Option<Key>, view: &impl View) -> Read<Self> {
        let mut bindings = view.list::<RoleBinding>(Query::label(CLUSTER_NAME_LABEL, &addon.namespace))?;
        bindings.retain(|binding| addon_of(binding).as_ref() == Some(addon));
        Ok(Self { role: None, bindings })
    }

    /// Returns the RoleBinding with the name and namespace of another.
    pub fn binding(&self, wanted: &RoleBinding) -> Option<&RoleBinding> {
        let key = Key::of(wanted);
        self.bindings.iter().map(Arc::as_ref).find(|binding| Key::of(*binding) == key)
    }

    /// Grants the wanted permissions.
    pub fn give(&self, wanted: &WantedPermissions) -> Vec<Action> {
        let role = wanted.role.iter().filter_map(|role| Action::ensure(role, self.role.as_deref()));
        let bindings = wanted.bindings.iter();
        role.chain(bindings.filter_map(|wanted| Action::ensure(wanted, self.binding(wanted)))).collect()
    }

    /// Revokes all permissions except the wanted ones.
    pub fn revoke_others(&self, wanted: &WantedPermissions) -> Vec<Action> {
        let is_wanted =
            |binding: &RoleBinding| wanted.bindings.iter().any(|wanted| Key::of(wanted) == Key::of(binding));
        let bindings = self
            .bindings
            .iter()
            .map(Arc::as_ref)
            .filter(|binding| !binding.is_terminating() && !is_wanted(binding));
        let role = self.role.as_deref().filter(|role| !role.is_terminating() && wanted.role.is_none());
        bindings.map(Action::delete).chain(role.map(Action::delete)).collect()
    }

    /// Revokes all permissions.
    pub fn revoke(&self) -> Vec<Action> {
        self.revoke_others(&WantedPermissions::default())
    }
}
