//! ValidatingAdmissionPolicies: rules about fields that roles cannot express (KEP-3488).
//!
//! Policies and bindings are parsed once, when they are written ([`Policies`]). Every create, update, patch and
//! deletion evaluates those that match ([`Store::admit`](super::Store)). CEL has the functions of Kubernetes,
//! including the `authorizer`. A policy that cannot be evaluated here is rejected when it is written: one with
//! parameters, audit annotations, or an unknown function or variable.
//!
//! There are three differences from kube-apiserver. `request.options` only has `propagationPolicy`. A policy takes
//! effect immediately, not seconds later. For writes through `scale`, policies see the scaled object instead of
//! the Scale.

mod authorizer;
mod checks;
mod evaluate;
mod expression;
mod matching;
mod policy;

pub(super) use checks::{check_binding, check_policy};
pub(super) use matching::{Admission, AdmissionOperation};
pub(super) use policy::Policies;
