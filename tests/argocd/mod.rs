//! Argo CD beside us: what `examples/argocd` gives to it works as Argo CD would run it.

mod health;
