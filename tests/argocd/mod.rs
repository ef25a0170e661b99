//! Argo CD on the same hub: the files of `examples/argocd` work as Argo CD runs them.

#[path = "../../crates/sim/tests/it/argo_cd.rs"]
mod argo_cd;
mod health;
mod observe;
mod recipes;
