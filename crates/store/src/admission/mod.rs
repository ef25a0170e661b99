//! ValidatingAdmissionPolicies: rules about fields that roles cannot express (KEP-3488).
//!
//! Policies and bindings are parsed once, when they are written ([`Policies`]). Every create, update, patch
//! and deletion evaluates those that match ([`Store::admit`](super::Store)). CEL has the functions of
//! Kubernetes, with the `authorizer`. A policy that cannot be evaluated here is refused when it is written:
//! one with parameters, audit annotations, or a function or variable that does not exist.
//!
//! Three things differ from kube-apiserver. `request.options` only has `propagationPolicy`. A policy is in
//! force with the response to its creation, not seconds later. For a write through `scale`, policies see the
//! scaled object and not the Scale.

mod authorizer;
mod checks;
mod evaluate;
mod expression;
mod matching;
mod policy;

pub(super) use checks::{check_binding, check_policy};
pub(super) use matching::{Admission, AdmissionOperation};
pub(super) use policy::Policies;
