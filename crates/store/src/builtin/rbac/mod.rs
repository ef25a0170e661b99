//! `rbac.authorization.k8s.io`: roles and their bindings.

mod binding;
mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod rule;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] =
    &[&cluster_role::KIND, &cluster_role_binding::KIND, &role::KIND, &role_binding::KIND];
