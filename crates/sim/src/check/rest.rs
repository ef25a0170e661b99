//! The world at rest: everything is applied, nothing is left to write, every deletion has ended.

use jiff::SignedDuration;

use super::{Broken, Check, Checker, Invariant, InvariantViolation};
use crate::{Faults, World};

/// The restarted processes write nothing for this time.
const WATCH: SignedDuration = SignedDuration::from_mins(4);

impl World {
    /// Ends all faults, lets the world come to rest, and restarts every process: they write nothing but leases.
    ///
    /// `settle` is longer than every deadline, backoff and lease of the world.
    ///
    /// # Errors
    /// The first broken invariant.
    pub(crate) fn check_rest(&mut self, settle: SignedDuration) -> Result<(), InvariantViolation> {
        self.faults = Faults::default();
        for spoke in self.spokes.values_mut() {
            spoke.connected = true;
        }
        self.run_for(settle)?;
        let drained = self.checker.drained();
        self.checker.note(drained, self.now);
        let pushed = self.commits();
        self.checker.at_rest = true;
        self.restart_operator();
        let names: Vec<String> = self.spokes.keys().cloned().collect();
        for name in names {
            self.restart_agent(&name);
        }
        let ran = self.run_for(WATCH);
        self.checker.at_rest = false;
        ran?;
        if self.commits() != pushed {
            let why = "a report is pushed although nothing changed";
            let broken = Broken::new(Invariant::ReportsCauseNoCommit, "the status branch", why);
            self.checker.note(Err(broken), self.now);
        }
        self.checker.violation().cloned().map_or(Ok(()), Err)
    }

    fn commits(&self) -> usize {
        self.branches.values().map(Vec::len).sum()
    }
}

impl Checker {
    /// No object waits for a finalizer of ours.
    fn drained(&self) -> Check {
        let mirrors = std::iter::once(("hub", &self.hub));
        let mirrors = mirrors.chain(self.spokes.iter().map(|(name, mirror)| (name.as_str(), mirror)));
        for (place, mirror) in mirrors {
            if let Some((id, object)) = mirror.all().find(|(_, object)| object.is_terminating()) {
                let finalizers = object.at(&["metadata", "finalizers"]);
                let why = format!("on {place}, it is deleted and waits for {finalizers:?}");
                return Err(Broken::new(Invariant::FinalizersDrain, id, why));
            }
        }
        Ok(())
    }
}
