//! `certificates.k8s.io`: requests for certificates.

mod certificate_signing_request;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&certificate_signing_request::KIND];
