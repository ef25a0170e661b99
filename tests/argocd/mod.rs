//! Argo CD on the same hub: the files of `examples/argocd` work as Argo CD runs them.

mod health;
mod recipes;
