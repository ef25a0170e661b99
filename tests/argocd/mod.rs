//! Argo CD on the same hub: it can use the files of `examples/argocd` unchanged, and in `live` it runs alongside
//! our operator.

#[path = "../../crates/sim/tests/it/argo_cd.rs"]
mod argo_cd;
mod health;
mod live;
mod observe;
mod recipes;
