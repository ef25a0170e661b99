//! Finds objects that the API server cannot validate before other objects of the same commit are written.

use std::collections::BTreeSet;

use super::decide::defined_kind;
use super::writes::Apply;
use crate::order::{PERMISSIONS, ROOM};
use crate::registration::rbac::RBAC;
use object::ObjectRef;

/// The prerequisites of other objects that a commit creates or changes.
pub(super) struct Arrivals<'a> {
    /// The groups and kinds of new or changed definitions.
    kinds: BTreeSet<(&'a str, &'a str)>,
    /// The new namespaces.
    namespaces: BTreeSet<&'a str>,
    /// The first stage whose objects may need roles or bindings from the commit.
    permitted: Option<u8>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn of(applies: &[(Apply<'a>, bool)], are_permissions_needed: bool) -> Self {
        let desired = || applies.iter().map(|(apply, _)| apply.desired);
        let is_new_namespace =
            |apply: &&Apply<'_>| apply.is_new && apply.desired.reference.gvk.kind == "Namespace";
        let permissions = applies.iter().filter(|(apply, _)| apply.desired.reference.gvk.group == RBAC);
        let first = permissions.map(|(apply, _)| apply.stage).min();
        let namespaces = applies.iter().map(|(apply, _)| apply).filter(is_new_namespace);
        Self {
            kinds: desired().filter_map(defined_kind).collect(),
            namespaces: namespaces.map(|apply| apply.desired.reference.key.name.as_str()).collect(),
            permitted: first.filter(|_| are_permissions_needed).map(|first| first + 1),
        }
    }

    /// Returns the last stage that an object depends on for its validation; `None` if the API server can
    /// validate it now.
    pub(super) fn stage(&self, apply: &Apply<'_>) -> Option<u8> {
        let ObjectRef { gvk, key } = &apply.desired.reference;
        if self.permitted.is_some_and(|first| apply.stage >= first) {
            return Some(PERMISSIONS);
        }
        let arrives = self.kinds.contains(&(gvk.group.as_str(), gvk.kind.as_str()))
            || self.namespaces.contains(key.namespace.as_str());
        arrives.then_some(ROOM)
    }
}
