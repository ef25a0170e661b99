//! API servers with faults: a proxy in front of the real kube-apiserver answers wrongly, late or not at all.

mod call;
mod chain;
mod fleet;
mod kills;
mod leaders;
mod proxy;
mod restore;
mod stream;
