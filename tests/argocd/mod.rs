//! Argo CD on the same hub: the files of `examples/argocd` work as Argo CD runs them, and in `live` Argo CD itself runs beside our operator.

#[path = "../../crates/sim/tests/it/argo_cd.rs"]
mod argo_cd;
mod health;
mod live;
mod observe;
mod recipes;
