//! The controllers of an add-on's manager, as pure decisions.

mod deletion;
mod deploy;
mod deployment;
mod hashes;
mod permissions;
mod request;
mod status;

use reconcile::Register;

use crate::AddOn;

/// Registers the controllers of an add-on.
pub(crate) fn controllers<A: AddOn>(register: &mut impl Register) {
    register.add::<hashes::HashController<A>>();
    register.add::<hashes::OwnHashController<A>>();
    register.add::<deploy::DeployController<A>>();
    register.add::<request::RequestController<A>>();
}

#[cfg(test)]
mod tests;
