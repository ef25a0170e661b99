//! The input of a report, parsed from wire types.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::config_repo::ConfigRepoState;
use super::placement::PlacementState;
use crate::addon::progress;
use crate::plural::counted;
use crate::rollout::ClusterState;
use crate::rollout::cluster::Hash;
use crate::rollout::decision::Counts;
use crate::rollout::state::Wait;
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ConfigSpecHash, InstallProgression, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::gitops::v1alpha1::{
    ConfigRepo, RemovalStatus, Revision, RolloutCounts, RolloutPolicy, RolloutStatus,
};
use api::names::addon_conditions::{AVAILABLE, DEGRADED, PROGRESSING};
use api::names::{cluster_conditions, gitops_conditions};
use object::Metadata as _;

/// An add-on or ManifestWork on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadCluster {
    /// The state of the cluster in the rollout of the add-on.
    pub state: ClusterState,
    /// True if the workload works, in the version that the cluster runs.
    pub available: bool,
    /// True if the cluster reports an error about its assignment in any state, such as a rejected object or a
    /// crashing pod.
    pub reports_error: bool,
    /// The name of the cluster.
    pub name: String,
    /// The reason that the workload is not done or does not work. The text comes from the cluster and must be
    /// escaped.
    pub message: String,
    /// The configuration that is assigned to the cluster.
    pub runs: String,
    /// The time of the current assignment, by the hub's clock. For a work, this is in its record. For an add-on,
    /// this is the time of its condition Progressing until the add-on is done.
    pub started: Option<Timestamp>,
    /// The time at which the cluster was done, failed or had returned, by the hub's clock. For an add-on, this
    /// is the time of its condition Progressing. For a work, this is the recorded time of its success.
    pub ended: Option<Timestamp>,
}

impl WorkloadCluster {
    /// Reads the add-on of a cluster in the given state.
    pub fn read(name: &str, state: &ClusterState, addon: Option<&ManagedClusterAddOn>) -> Self {
        let conditions = addon.and_then(|addon| addon.status.as_ref()).map(|status| &status.conditions);
        let condition = |type_| conditions.and_then(|conditions| find_condition(conditions, type_));
        let message_of =
            |type_| condition(type_).map(|condition| condition.message.clone()).unwrap_or_default();
        let is_degraded = condition(DEGRADED).is_some_and(Condition::is_true);
        let available = condition(AVAILABLE).is_some_and(Condition::is_true) && !is_degraded;
        let progress = || conditions.and_then(|all| progress::message(all)).unwrap_or_default().to_owned();
        let reports_error = is_degraded && has_turn(state);
        let message = match state {
            ClusterState::Done | ClusterState::Returned { .. } if available => String::new(),
            ClusterState::Done | ClusterState::Returned { .. } if is_degraded => message_of(DEGRADED),
            ClusterState::Done | ClusterState::Returned { .. } => message_of(AVAILABLE),
            ClusterState::Returning { .. } => [state.to_string(), message_of(PROGRESSING)].join("; "),
            ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Progressing { .. }
            | ClusterState::Starting
            | ClusterState::Soaking { .. } => progress(),
            ClusterState::Waiting(_)
            | ClusterState::Skipped
            | ClusterState::Unreachable { .. }
            | ClusterState::Quarantined => state.to_string(),
        };
        let runs = addon.map(version_of).unwrap_or_default();
        let progressing = condition(PROGRESSING);
        let since = progressing.map(|progressing| progressing.last_transition_time.0);
        let has_completed = progressing.is_some_and(Condition::is_false);
        let (started, ended) = match state {
            ClusterState::Done | ClusterState::Failed { .. } | ClusterState::Returned { .. } => {
                (None, since.filter(|_| has_completed))
            }
            _ => (since.filter(|_| has_turn(state) && !has_completed), None),
        };
        let (state, name) = (state.clone(), name.to_owned());
        Self { state, available, reports_error, name, message, runs, started, ended }
    }

    /// Returns the urgency of the state, where 0 is the worst.
    pub(super) fn rank(&self) -> u8 {
        match &self.state {
            ClusterState::Failed { .. } => 0,
            ClusterState::TimedOut => 1,
            ClusterState::Quarantined => 2,
            ClusterState::Unreachable { .. } => 3,
            ClusterState::Done | ClusterState::Returned { .. } if !self.available => 4,
            ClusterState::Returning { .. } => 5,
            ClusterState::Progressing { .. } => 6,
            ClusterState::Starting => 7,
            ClusterState::Soaking { .. } => 8,
            ClusterState::Waiting(_) => 9,
            ClusterState::Skipped => 10,
            ClusterState::Returned { .. } => 11,
            ClusterState::Done => 12,
        }
    }

    /// Returns true if the report lists the cluster: it is progressing or has a problem, rather than only
    /// waiting.
    pub(crate) fn needs_attention(&self) -> bool {
        self.rank() < 9
    }

    /// Returns true if the cluster runs the wanted revision, or is skipped.
    pub fn is_settled(&self) -> bool {
        self.state.is_settled()
    }

    /// Returns true if the revision failed on the cluster, or is quarantined.
    pub fn has_failed(&self) -> bool {
        self.state.has_failed()
    }
}

/// Returns true if a cluster has received its assignment, so that its reports describe it.
pub fn has_turn(state: &ClusterState) -> bool {
    match state {
        ClusterState::Done
        | ClusterState::Failed { .. }
        | ClusterState::TimedOut
        | ClusterState::Progressing { .. }
        | ClusterState::Starting
        | ClusterState::Soaking { .. } => true,
        ClusterState::Waiting(_)
        | ClusterState::Skipped
        | ClusterState::Unreachable { .. }
        | ClusterState::Returning { .. }
        | ClusterState::Returned { .. }
        | ClusterState::Quarantined => false,
    }
}

/// The rollout of an add-on or set on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The namespace and name of the placement.
    pub placement: String,
    /// The reason of its condition.
    pub state: String,
    /// The message of its condition.
    pub message: String,
    /// The configurations to roll out.
    pub desired: String,
    /// The configurations that last succeeded on every cluster. Clusters return to them.
    pub last_good: String,
    /// The clusters of the placement, if the desired configurations are quarantined.
    pub quarantined: Option<RolloutCounts>,
}

impl Rollout {
    fn read(progression: &InstallProgression, records: &[&RolloutStatus]) -> Self {
        let condition = find_condition(&progression.conditions, PROGRESSING).cloned();
        let (state, message) = condition.map(|c| (c.reason, c.message)).unwrap_or_default();
        let placement = format!("{}/{}", progression.namespace, progression.name);
        let references = || progression.config_references.iter();
        let desired = references().map(|r| (r.resource.as_str(), r.desired_config.as_ref()));
        let last_good = references().map(|r| (r.resource.as_str(), r.last_known_good_config.as_ref()));
        let is_its = |record: &&&RolloutStatus| {
            (&record.placement_namespace, &record.placement_name)
                == (&progression.namespace, &progression.name)
        };
        let quarantined = records.iter().find(is_its).and_then(|record| quarantined(record));
        let (desired, last_good) = (names_of(desired), names_of(last_good));
        Self { placement, state, message, desired, last_good, quarantined }
    }
}

impl Rollout {
    /// Describes the quarantined configurations, and how far the clusters have returned to the previous ones.
    pub(super) fn quarantine(&self) -> Option<String> {
        let Self { placement, desired, last_good, quarantined, state: _, message: _ } = self;
        let counts = quarantined.as_ref()?;
        let good = if last_good.is_empty() { "what each of them ran before" } else { last_good };
        let mut text = format!("Quarantined on {placement}: {desired}.");
        for (count, what) in [
            (counts.returning, format!("returning to {good}")),
            (counts.returned, format!("back on {good}")),
            (counts.quarantined, "still running it, because no earlier revision succeeded there".to_owned()),
        ] {
            if count > 0 {
                let are = if count == 1 { "is" } else { "are" };
                text.push_str(&format!(" {} {are} {what}.", counted(count, "cluster")));
            }
        }
        Some(text)
    }
}

/// Returns the clusters of a rollout by state, if its revision is quarantined.
pub(super) fn quarantined(record: &RolloutStatus) -> Option<RolloutCounts> {
    let is_quarantined = !record.quarantined.is_empty() && record.quarantined == record.revision;
    is_quarantined.then(|| record.counts.clone())
}

/// An add-on, a ManifestWorkReplicaSet, or all ManifestWorks of one name, across all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The name, which is NAMESPACE/NAME for a set.
    pub name: String,
    /// The rollout of each placement.
    pub rollouts: Vec<Rollout>,
    /// The reasons for which rollouts are on hold, and the approvals that they wait for.
    pub holds: Vec<String>,
    /// The tokens of the approvals that its rollouts and removals wait for.
    pub approvals: Vec<String>,
    /// The clusters, worst first.
    pub clusters: Vec<Arc<WorkloadCluster>>,
}

impl Workload {
    /// Reads an add-on; `clusters` are all clusters that have it or will get it, by name.
    pub fn read(
        cma: &ClusterManagementAddOn,
        mut clusters: Vec<Arc<WorkloadCluster>>,
        policies: &[Arc<RolloutPolicy>],
    ) -> Self {
        let name = cma.name().to_owned();
        clusters.sort_by_key(|cluster| cluster.rank());
        let statuses = || policies.iter().filter_map(|policy| policy.status.as_ref());
        let records: Vec<&RolloutStatus> =
            statuses().flat_map(|status| &status.rollouts).filter(|record| record.add_on == name).collect();
        let rollouts: Vec<_> = cma
            .status
            .iter()
            .flat_map(|status| &status.install_progressions)
            .map(|progression| Rollout::read(progression, &records))
            .collect();
        let removals =
            statuses().flat_map(|status| &status.removals).filter(|removal| removal.add_on == name);
        let of_removals =
            removals.clone().filter(|removal| removal.held > 0).map(|removal| &removal.approval);
        let approvals = records.iter().flat_map(|record| &record.waiting_approvals).chain(of_removals);
        let approvals = approvals.filter(|token| !token.is_empty()).cloned().collect();
        let holds = records.into_iter().flat_map(|record| {
            let placement = format!("{}/{}", record.placement_namespace, record.placement_name);
            let rollout = rollouts.iter().find(|rollout| rollout.placement == placement);
            holds(record, &name, rollout.map_or("", |rollout| &rollout.desired))
        });
        let holds = holds.chain(removals.filter_map(held_removal)).collect();
        Self { rollouts, holds, approvals, clusters, name }
    }

    /// Returns the number of clusters by state.
    pub fn counts(&self) -> Counts {
        Counts::from_states(self.clusters.iter().map(|cluster| &cluster.state))
    }

    /// Returns the number of clusters by state, with the reason for waiting clusters, worst state first.
    pub fn labels(&self) -> Vec<(String, usize)> {
        let mut labels: Vec<(&ClusterState, usize)> = Vec::new();
        for state in self.clusters.iter().map(|cluster| &cluster.state) {
            match labels.iter_mut().find(|(known, _)| known.has_label_of(state)) {
                Some((_, count)) => *count += 1,
                None => labels.push((state, 1)),
            }
        }
        labels.into_iter().map(|(state, count)| (state.label(), count)).collect()
    }

    /// Returns the number of waiting clusters by reason.
    pub(super) fn waiting(&self) -> BTreeMap<&str, usize> {
        let mut waiting = BTreeMap::new();
        for cluster in &self.clusters {
            if let ClusterState::Waiting(wait) = &cluster.state {
                *waiting.entry(wait.reason()).or_default() += 1;
            }
        }
        waiting
    }

    /// Returns the number of clusters on which the workload does not work.
    pub(crate) fn unavailable(&self) -> usize {
        self.clusters.iter().filter(|cluster| !cluster.available).count()
    }

    /// Returns the number of clusters by configuration.
    pub fn versions(&self) -> BTreeMap<&str, usize> {
        let mut versions = BTreeMap::new();
        for cluster in &self.clusters {
            *versions.entry(cluster.runs.as_str()).or_default() += 1;
        }
        versions
    }
}

/// Returns the reasons for which a rollout of a workload is on hold, and the approvals that it waits for;
/// `desired` are the configurations to roll out.
pub(super) fn holds(record: &RolloutStatus, workload: &str, desired: &str) -> Vec<String> {
    let RolloutStatus { placement_namespace, placement_name, revision, quarantined, failure, hold, .. } =
        record;
    let name = if quarantined == revision && !desired.is_empty() { desired } else { short(quarantined) };
    let failed = if failure.is_empty() { String::new() } else { format!(": it failed on {failure}") };
    let quarantine = (!quarantined.is_empty()).then(|| {
        format!(
            "{name} is quarantined on {placement_namespace}/{placement_name}{failed}; {}",
            quarantine_remedy(workload)
        )
    });
    let wait = Wait::Quarantine { revision: Hash(quarantined.clone()) }.to_string();
    let hold = Some(hold).filter(|hold| !hold.is_empty() && **hold != wait).cloned();
    let approvals = record.waiting_approvals.iter().map(|token| format!("waits for the approval {token}"));
    hold.into_iter().chain(quarantine).chain(approvals).collect()
}

/// Returns the instructions for resolving a quarantine of a workload.
pub fn quarantine_remedy(workload: &str) -> String {
    format!(
        "fix or revert the commit first; wheelwright rollout resume {workload} --release rolls the same revision out again"
    )
}

/// Returns the removal that waits for a person or for the window to pass.
fn held_removal(removal: &RemovalStatus) -> Option<String> {
    let RemovalStatus { add_on: _, held, approval, recent: _, unknown: _ } = removal;
    let clusters = counted(held, "cluster");
    let wait = match approval.as_str() {
        "" => "until the pause ends".to_owned(),
        token => format!("for the approval {token}"),
    };
    (*held > 0).then(|| format!("the removal from {clusters} waits {wait}"))
}

/// Returns the time at which the condition Ready of a repository last changed.
pub fn ready_since(repo: &ConfigRepo, now: Timestamp) -> Option<Timestamp> {
    last_change(find_condition(&repo.status.as_ref()?.conditions, gitops_conditions::READY), now)
}

/// Returns the time at which the conditions last changed. Ignores times in the future, which were written by a
/// clock that ran ahead.
pub fn last_change<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
    now: Timestamp,
) -> Option<Timestamp> {
    let times = conditions.into_iter().map(|condition| condition.last_transition_time.0);
    times.filter(|time| *time <= now).max()
}

/// The content of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetReport {
    /// The namespace and name of the repository.
    pub repo: String,
    /// The commit that was fetched last.
    pub seen: String,
    /// The commit that was applied last.
    pub applied: String,
    /// True if the condition Ready is true.
    pub ready: bool,
    /// The reason and message of the most important condition.
    pub condition: (String, String),
    /// The number of clusters.
    pub clusters: usize,
    /// The number of available clusters.
    pub available: usize,
    /// The add-ons, by name.
    pub add_ons: Vec<Workload>,
    /// The ManifestWorkReplicaSets, by namespace and name.
    pub replica_sets: Vec<Workload>,
    /// The ManifestWorks without a controller, by name, worst first.
    pub works: Vec<Workload>,
    /// The placements that select too few clusters, then the others, each by namespace and name.
    pub placements: Vec<PlacementState>,
    /// The other ConfigRepos: first those that are not ready, then the others, each by namespace and name.
    pub others: Vec<ConfigRepoState>,
}

impl FleetReport {
    /// Reads the state of a repository and of clusters, without workloads, placements and other ConfigRepos.
    pub fn read(repo: &ConfigRepo, clusters: &[Arc<ManagedCluster>]) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let commit = |revision: Option<Revision>| revision.map(|r| r.commit).unwrap_or_default();
        let ready = find_condition(&status.conditions, gitops_conditions::READY);
        let is_available = |cluster: &&Arc<ManagedCluster>| {
            let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|c| c.type_ == cluster_conditions::AVAILABLE && c.is_true())
        };
        let namespace = repo.metadata.namespace.as_deref().unwrap_or_default();
        Self {
            repo: format!("{namespace}/{}", repo.metadata.name.as_deref().unwrap_or_default()),
            ready: ready.is_some_and(Condition::is_true),
            condition: ready.map(|c| (c.reason.clone(), c.message.clone())).unwrap_or_default(),
            seen: commit(status.seen),
            applied: commit(status.applied),
            clusters: clusters.len(),
            available: clusters.iter().filter(is_available).count(),
            add_ons: Vec::new(),
            replica_sets: Vec::new(),
            works: Vec::new(),
            placements: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Returns the add-ons, the sets, and then the works.
    pub(super) fn workloads(&self) -> impl Iterator<Item = &Workload> + Clone {
        self.add_ons.iter().chain(&self.replica_sets).chain(&self.works)
    }
}

/// Returns the display names of the configurations that are assigned to a cluster: the template names, each with
/// a short hash.
pub fn version_of(addon: &ManagedClusterAddOn) -> String {
    let references = addon.status.iter().flat_map(|status| &status.config_references);
    names_of(references.map(|reference| (reference.resource.as_str(), reference.desired_config.as_ref())))
}

/// Returns the display names of configurations by resource, with templates first.
fn names_of<'a>(configs: impl Iterator<Item = (&'a str, Option<&'a ConfigSpecHash>)>) -> String {
    let name = |(resource, config): (&'a str, Option<&'a ConfigSpecHash>)| {
        let ConfigSpecHash { name, spec_hash, .. } = config?;
        let name = if name.is_empty() { resource } else { name };
        Some((resource != "addontemplates", format!("{name}@{}", short(spec_hash))))
    };
    let mut names: Vec<(bool, String)> = configs.filter_map(name).collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}
