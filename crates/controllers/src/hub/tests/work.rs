//! An in-memory hub with controllers of the operator, and the work that it does in a second.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::Value;

use super::memory_hub::MemoryHub;
use reconcile::{Command, Dispatcher, DispatcherLimits};

/// The reconciliations by controller and key, and the writes by kind.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) plans: BTreeMap<String, usize>,
    pub(crate) writes: BTreeMap<String, usize>,
}

/// Returns a hub with controllers of the operator, which coalesce changes within 50 ms.
pub(crate) fn hub_with(register: impl FnOnce(&mut Dispatcher), objects: Vec<Value>) -> MemoryHub {
    let limits = DispatcherLimits { coalesce: SignedDuration::from_millis(50), computations: 1 };
    let mut dispatcher = Dispatcher::new(limits, false);
    register(&mut dispatcher);
    MemoryHub::new(dispatcher, objects)
}

/// Advances the clock by a second, and runs and writes the plans that are due.
pub(crate) fn advance_a_second(hub: &mut MemoryHub) -> Work {
    let mut work = Work::default();
    for _ in 0..10 {
        hub.now += SignedDuration::from_millis(100);
        loop {
            let commands = hub.dispatcher.due(hub.now);
            if commands.is_empty() {
                break;
            }
            for command in commands {
                if let Command::Reconciled(ended) = &command {
                    assert!(ended.failure.is_none(), "{:?}", ended.failure);
                    *work.plans.entry(format!("{} {}", ended.controller, ended.key)).or_default() += 1;
                }
                if let Some(written) = hub.execute(command) {
                    *work.writes.entry(written.gvk().kind).or_default() += 1;
                }
            }
        }
    }
    work
}
