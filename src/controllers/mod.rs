//! One pure controller per file; [`hub`] and [`agent`] register them.
//!
//! A controller is thin: it reads the [`View`](crate::reconcile::View) into the input of an engine and turns the engine's
//! answer into a [`Plan`](crate::reconcile::Plan).

use crate::reconcile::Register;

/// Registers the controllers of the hub, in the order data flows through them.
pub fn hub(register: &mut impl Register) {
    let _ = register;
}

/// Registers the controllers of the spoke agent.
pub fn agent(register: &mut impl Register) {
    let _ = register;
}
