//! Checks the world at rest: everything is applied, nothing is left to write, every deletion has finished.

use jiff::SignedDuration;

use super::mirror::{Mirror, Write};
use super::{Author, CheckResult, CheckedDecision, Checker, Invariant, InvariantViolation, Violation};
use crate::{Faults, World};
use api::gitops::v1alpha1::RolloutPolicy;
use engine::sync::ObjectId;
use reconcile::Action;

/// The time without faults after which all remaining work depends on time: a deadline, the end of a backoff, or
/// the expiry of a record.
const SETTLE: SignedDuration = SignedDuration::from_mins(15);
/// The time in which the longest sequence of these waits ends: the default ten minutes per cluster, for a rollout
/// in progress, for the next queued rollout, and for the rollback from that one. A drift record expires after half
/// an hour.
const LAST: SignedDuration = SignedDuration::from_mins(35);
/// The longest of several limits: a clock's maximum lead, how long the secret of a departed cluster and the
/// objects of a work missing from a restored hub are kept, and how long a deletion counts against a budget.
const HOUR: SignedDuration = SignedDuration::from_mins(60);
/// The time in which restarted processes must write nothing.
const WATCH: SignedDuration = SignedDuration::from_mins(4);

impl World {
    /// Ends all faults, corrects all clocks, lets the world come to rest, and restarts every process. The
    /// restarted processes may write only leases, even while the world waits for a time.
    ///
    /// # Errors
    /// Returns the first broken invariant.
    pub(crate) fn check_rest(&mut self) -> Result<(), InvariantViolation> {
        self.faults = Faults::default();
        for spoke in self.spokes.values_mut() {
            spoke.connected = true;
        }
        self.set_clocks_right();
        self.run_for(SETTLE)?;
        self.check_restart(SignedDuration::ZERO)?;
        self.run_for(LAST)?;
        let waits = self.checker.has_secrets_of_clusters_that_left() || self.checker.has_held_deletions();
        if self.had_wrong_clock || self.was_restored || waits {
            self.run_for(HOUR)?;
        }
        let drained = self.checker.drained().and_then(|()| self.checker.has_one_revision());
        self.checker.note(drained, self.now);
        self.check_restart(WATCH)
    }

    /// Corrects all clocks and restarts the processes whose clock was wrong, so that they reconcile everything at
    /// the right time.
    fn set_clocks_right(&mut self) {
        if self.operator.clock() != SignedDuration::ZERO {
            self.set_operator_clock(SignedDuration::ZERO);
            self.restart_operator();
        }
        let is_wrong = |(_, spoke): &(&String, &crate::Spoke)| spoke.agent.clock() != SignedDuration::ZERO;
        let wrong: Vec<String> = self.spokes.iter().filter(is_wrong).map(|(name, _)| name.clone()).collect();
        for name in wrong {
            self.set_clock(&name, SignedDuration::ZERO);
            self.restart_agent(&name);
        }
    }

    /// Restarts every process and checks that they write only leases for a time.
    fn check_restart(&mut self, watch: SignedDuration) -> Result<(), InvariantViolation> {
        self.checker.at_rest = true;
        self.restart_operator();
        let names: Vec<String> = self.spokes.keys().cloned().collect();
        for name in names {
            self.restart_agent(&name);
        }
        let ran = self.run_for(watch);
        self.checker.at_rest = false;
        ran?;
        self.checker.violation().cloned().map_or(Ok(()), Err)
    }
}

impl Checker {
    /// Checks that a controller writes only leases while the world is at rest.
    pub(super) fn rests(&self, write: &Write, author: &Author<'_>) -> CheckResult {
        if !self.at_rest || write.id.kind == "Lease" {
            return Ok(());
        }
        let reason =
            format!("{} of {} writes although nothing changed: {write}", author.controller, author.key);
        Err(Violation::new(Invariant::NoWriteAtRest, &write.id, reason))
    }

    /// Checks that a controller plans only lease writes while the world is at rest.
    pub(super) fn plans_nothing(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let mut actions = decided.plan.steps.iter().flatten();
        if let Some(action) = actions.find(|action| self.at_rest && !is_lease(action)) {
            let invariant = match action {
                Action::Push(_) => Invariant::ReportsCauseNoCommit,
                _ => Invariant::NoWriteAtRest,
            };
            let reason = format!("{} plans a write although nothing changed", decided.controller);
            return Err(Violation::new(invariant, decided.key, reason));
        }
        Ok(())
    }

    /// Checks that no object waits for a finalizer of the product unless a person is holding the deletion.
    fn drained(&self) -> CheckResult {
        let mirrors = std::iter::once(("hub", &self.hub))
            .chain(self.spokes.iter().map(|(name, mirror)| (name.as_str(), mirror)));
        for (place, mirror) in mirrors {
            let mut terminating = mirror.all().filter(|(_, object)| object.is_terminating());
            if let Some((id, object)) = terminating.find(|(id, _)| !is_held(mirror, id)) {
                let finalizers = object.at(&["metadata", "finalizers"]);
                let reason = format!("on {place}, it is deleted and waits for {finalizers:?}");
                return Err(Violation::new(Invariant::FinalizersDrain, id, reason));
            }
        }
        Ok(())
    }
}

/// Returns true if a policy holds back removals of an add-on for which its ClusterManagementAddOn waits.
fn is_held(mirror: &Mirror, id: &ObjectId) -> bool {
    let policies = mirror.all().filter(|(id, _)| id.kind == "RolloutPolicy");
    let mut policies = policies.filter_map(|(_, object)| object.to_typed::<RolloutPolicy>().ok());
    let holds = |policy: RolloutPolicy| {
        let removals = policy.status.map(|status| status.removals).unwrap_or_default();
        removals.iter().any(|removal| removal.add_on == id.key.name && removal.held > 0)
    };
    id.kind == "ClusterManagementAddOn" && policies.any(holds)
}

/// Returns true if an action renews a lease, which happens at rest too.
fn is_lease(action: &Action) -> bool {
    match action {
        Action::Apply { object, .. } | Action::Create { object, .. } | Action::Replace { object, .. } => {
            object.kind() == "Lease"
        }
        Action::Patch { target, .. } | Action::Delete { target, .. } => target.gvk.kind == "Lease",
        Action::Push(_) | Action::SetCommitStatus(_) | Action::Notify(_) => false,
    }
}
