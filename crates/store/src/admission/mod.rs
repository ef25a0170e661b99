//! ValidatingAdmissionPolicies: who may change which fields, beyond what roles can say (KEP-3488).
//!
//! Policies and bindings are read once, when they are written ([`Policies`]). Every create, update, patch and
//! deletion asks those that match ([`Store::admit`](super::Store)). CEL has the functions of Kubernetes, with
//! the `authorizer`. A policy that cannot be evaluated here is refused when it is written: one with
//! parameters, audit annotations, or a function or variable that does not exist.
//!
//! Three things differ from kube-apiserver. `request.options` has `propagationPolicy` and nothing else. A policy is in force with the response to its creation, not seconds
//! later. A write through `scale` shows policies the scaled object and not the Scale.

mod authorizer;
mod evaluate;
mod expression;
mod matching;
mod policy;

pub(super) use evaluate::{Admission, Operation};
pub(super) use policy::{Policies, check_binding, check_policy};
