//! `certificates.k8s.io`: certificate signing requests.

mod certificate_signing_request;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&certificate_signing_request::KIND];
