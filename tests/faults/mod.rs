//! Faulty API servers: a proxy in front of a real kube-apiserver responds incorrectly, late or not at all.

mod call;
mod chain;
mod fleet;
mod kills;
mod leaders;
mod proxy;
mod restore;
mod stream;
