//! `apiextensions.k8s.io`: definitions of custom kinds.

mod custom_resource_definition;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&custom_resource_definition::KIND];
