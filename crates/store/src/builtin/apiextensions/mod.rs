//! `apiextensions.k8s.io`: definitions of custom resources.

mod custom_resource_definition;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&custom_resource_definition::KIND];
