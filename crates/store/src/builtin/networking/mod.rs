//! `networking.k8s.io`.

mod ingress;
mod ingress_class;
mod network_policy;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&ingress::KIND, &ingress_class::KIND, &network_policy::KIND];
