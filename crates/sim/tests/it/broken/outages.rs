//! Processes that do not recover after an outage.

use std::cell::Cell;

use jiff::Timestamp;

use super::{check, with_faults};
use reconcile::{Dispatcher, WatchedKind, WatcherEvent};
use sim::history::draw_with_outages;
use sim::{Faults, Invariant, Setup};

/// Does not relist ConfigRepos after a long list failure, so nothing about them is ever planned again.
fn without_list_after_outage(
    dispatcher: &mut Dispatcher,
    kind: &WatchedKind,
    event: WatcherEvent,
    now: Timestamp,
) {
    thread_local! {
        static IS_STALE: Cell<bool> = const { Cell::new(false) };
    }
    if kind.gvk.kind == "ConfigRepo" {
        match event {
            WatcherEvent::Stale => IS_STALE.set(true),
            WatcherEvent::Listed { .. } if IS_STALE.replace(false) => return,
            _ => {}
        }
    }
    dispatcher.watched(kind, event, now);
}

#[test]
fn a_process_that_does_not_list_a_kind_again_after_an_outage_is_found() {
    let setup = Setup { hear: without_list_after_outage, ..Setup::coalescing() };
    let unlisted = |seed| with_faults(draw_with_outages(seed), Faults { unlisted: 300, ..Faults::default() });
    check(setup, unlisted, 108, &[Invariant::NoWriteAtRest]);
}
