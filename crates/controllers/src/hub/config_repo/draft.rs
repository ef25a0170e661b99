//! A draft of the plan and the status of a ConfigRepo, which the planning stages complete.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::event;
use super::inventory::Recorded;
use super::status::{Phase, Readiness, conclude, is_about, is_waiting, still_applied};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ApprovedDeletions, ConfigRepo, ConfigRepoStatus, RecentDeletion};
use api::names;
use api::names::gitops_conditions::{READY, STALLED};
use engine::sync::{Inventory, ObjectId, Problem, Recent, SyncPlan};
use object::text::short_commit;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, StatusWrite};

/// Maximum number of objects per list in the status, such as held deletions.
pub(super) const MAX_LISTED: usize = 10;

/// A plan, and the status after its execution.
pub(super) struct Draft<'a> {
    pub(super) repo: &'a ConfigRepo,
    pub(super) key: Key,
    pub(super) now: Timestamp,
    pub(super) status: ConfigRepoStatus,
    pub(super) readiness: Option<Readiness>,
    /// True if the plan waits for a read and keeps the result for a commit that was judged before.
    pub(super) keeps_status: bool,
    /// The reason that the commit waits for its dependencies.
    pub(super) unmet: Option<Readiness>,
    /// A ConfigRepo that will soon request the objects that it wants, and the time when the wait for it ends.
    pub(super) awaited: Option<(Key, Timestamp)>,
    /// The policies of the commit that wait for the deletions of another ConfigRepo.
    pub(super) held_policies: Option<String>,
    /// The cycle of ConfigRepos that wait for each other's health, if this is one of them.
    pub(super) cycle: Option<Vec<String>>,
    pub(super) plan: Plan,
}

impl<'a> Draft<'a> {
    /// Starts with the current status.
    pub(super) fn of(repo: &'a ConfigRepo, now: Timestamp) -> Self {
        Self {
            repo,
            key: Key::of(repo),
            now,
            status: repo.status.clone().unwrap_or_default(),
            readiness: None,
            keeps_status: false,
            unmet: None,
            awaited: None,
            held_policies: None,
            cycle: None,
            plan: Plan::default(),
        }
    }

    /// Records the inventory and the deletions in the status, and returns the writes for them. They go into a
    /// separate step before objects are created and deleted. `digest` identifies the objects of the commit.
    pub(super) fn record(&mut self, recorded: &Recorded, sync: &SyncPlan<'_>, digest: &str) -> Vec<Action> {
        let SyncPlan { inventory, recent, is_approved, .. } = sync;
        let of_inventory = self.record_inventory(recorded, inventory);
        let approval = self.repo.annotation(names::APPROVE_DELETION_ANNOTATION).unwrap_or_default();
        let approved = is_approved.then(|| ApprovedDeletions {
            approval: approval.to_owned(),
            digest: digest.to_owned(),
            ..ApprovedDeletions::default()
        });
        let deletions = self.record_deletions(recent, approved);
        of_inventory.into_iter().chain(deletions).collect()
    }

    /// Records an inventory in the status, and returns the writes for it.
    pub(super) fn record_inventory(&mut self, recorded: &Recorded, inventory: &Inventory) -> Vec<Action> {
        self.status.objects = Some(i32::try_from(inventory.len()).unwrap_or(i32::MAX));
        self.status.inventory.clear();
        recorded.record(self.repo, inventory, &Inventory::new())
    }

    /// Returns the write that records new deletions or a person's approval of them. Expired deletions, and an
    /// approval of completed deletions, are removed with the next status write.
    fn record_deletions(&mut self, recent: &Recent, approved: Option<ApprovedDeletions>) -> Option<Action> {
        let before = recent_deletions(&self.status);
        let is_approval_new = approved.is_some() && self.status.approved_deletions != approved;
        self.status.approved_deletions = approved;
        let entry = |(id, at): (&ObjectId, &Timestamp)| RecentDeletion {
            object: id.path(),
            time: Time(*at),
            unknown: Default::default(),
        };
        self.status.recent_deletions = recent.iter().map(entry).collect();
        let is_new = is_approval_new || recent.keys().any(|id| !before.contains_key(id));
        let mut new = self.repo.clone();
        let status = new.status.get_or_insert_default();
        status.recent_deletions.clone_from(&self.status.recent_deletions);
        status.approved_deletions.clone_from(&self.status.approved_deletions);
        let write = is_new.then(|| StatusWrite::between(self.repo, &new)).flatten();
        write.map(|write| write.action())
    }

    /// Reports a wait. After a restart, the result for a commit that was judged before is kept, but an earlier
    /// wait for it is not.
    pub(super) fn wait(&mut self, commit: &str, reason: &str, message: &str) {
        if is_about(self.repo, commit) && !is_waiting(self.repo) {
            self.keeps_status = true;
        } else {
            self.readiness = Some(Readiness::new(Phase::Reconciling, reason, message));
        }
    }

    /// Reports that a commit waits for a read.
    pub(super) fn wait_for_read(&mut self, commit: &str, why: &str) {
        let applied = still_applied(&self.status);
        self.wait(commit, "Waiting", &format!("{} waits: {why}; {applied}", short_commit(commit)));
    }

    /// Reports the reason that no commit is applied.
    pub(super) fn refuse(&mut self, problems: &[Problem]) {
        self.status.held_plan.clear();
        self.readiness = Some(Readiness::refused(problems, &self.status));
    }

    /// Reports that the ConfigRepo is suspended, in addition to its last result.
    pub(super) fn suspend(&mut self) {
        const SUSPENDED: &str = "suspended (spec.suspend)";
        let phase = match () {
            () if self.repo.holds(READY) => Phase::Ready,
            () if self.repo.holds(STALLED) => Phase::Stalled,
            () => Phase::Reconciling,
        };
        self.readiness = Some(match self.repo.condition(READY) {
            None => Readiness::new(Phase::Reconciling, "Suspended", SUSPENDED),
            Some(ready) if ready.message.starts_with(SUSPENDED) => {
                Readiness::new(phase, &ready.reason, &ready.message)
            }
            Some(ready) => Readiness::new(phase, &ready.reason, format!("{SUSPENDED}; {}", ready.message)),
        });
    }

    /// Describes a commit as fully or partly applied.
    pub(super) fn applied(&self, commit: &str) -> String {
        let part = if self.status.partial.is_some() { " in part" } else { "" };
        format!("{commit} is applied{part}")
    }

    /// Reports that a commit is being rendered.
    pub(super) fn wait_for_rendering(&mut self, commit: &str) {
        let applied = still_applied(&self.status);
        self.wait(commit, "Rendering", &format!("{} is being rendered; {applied}", short_commit(commit)));
    }

    pub(super) fn finish(mut self) -> Plan {
        if self.status.held_plan.is_empty() {
            self.status.held_changes = None;
        }
        if let Some(readiness) = &self.readiness {
            let generation = self.repo.metadata.generation.unwrap_or_default();
            conclude(&mut self.status, generation, readiness, self.now);
            self.plan.events.extend(event::event(self.repo, &self.status, readiness));
        }
        let mut new = self.repo.clone();
        new.status = Some(self.status);
        self.plan.status = StatusWrite::between(self.repo, &new);
        self.plan
    }
}

/// Returns the record of deletions.
pub(super) fn recent_deletions(status: &ConfigRepoStatus) -> Recent {
    let deletions = &status.recent_deletions;
    deletions.iter().filter_map(|it| Some((ObjectId::from_path(&it.object)?, it.time.0))).collect()
}
