//! A summary of the whole fleet, for `wheelwright status`, the dashboard, the metrics and the demo.
//!
//! Rollouts are decided in the same way as for `explain rollout` and the reports, so that every view uses the same
//! words.

mod cluster;
mod repository;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::addon_config::{explain, observing};
use super::replica_set::{self, ReportedSet};
use crate::MESSAGE;
use crate::addon_reads;
use crate::addon_removal::Removal;
use crate::placement_rollout::PlacementRollout;
use crate::policy_change::waiting_approvals;
use crate::rollout_policy::{RolloutOwner, applicable};
use crate::undo::{Undo, undo_of};
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use api::names::{cluster_conditions, placement_conditions};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::config_refs;
use engine::plural::counted;
use engine::report::{self, Workload};
use engine::rollout::ClusterState;
use engine::rollout::decision::Stage;
use object::text::plain;
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, View, Watches};

pub use self::cluster::{ClusterSummary, Mark, template_version};
pub use self::repository::{
    CommitSummary, ConditionSummary, DirectorySummary, HeldChange, HeldField, HeldFields, HeldObjects,
    ObjectList, ReportSummary, Repository, unanswered,
};

/// Reads the input of an [`Overview`] without writing anything. It fills the caches of a process that shows the
/// fleet.
pub struct OverviewController;

impl Controller for OverviewController {
    const NAME: &'static str = "overview";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        super::addon_config::AddOnConfigController::watches(watches);
        watches.read::<ConfigRepo>();
        watches.read::<Placement>();
        watches.read::<ManifestWorkReplicaSet>();
        watches.read::<ManifestWork>();
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let addon = view.get::<ClusterManagementAddOn>(key)?;
        let has_template = addon.is_some_and(|addon| config_refs::has_template(&addon));
        observing(has_template, view, || Ok(Plan::nothing()))
    }
}

/// The current state of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The ConfigRepos, sorted by namespace and name.
    pub repositories: Vec<Repository>,
    /// The clusters of the fleet.
    pub clusters: Clusters,
    /// The placements, sorted by namespace and name.
    pub placements: Vec<PlacementOverview>,
    /// The add-ons, sorted by name.
    pub add_ons: Vec<WorkloadSummary>,
    /// The ManifestWorkReplicaSets, sorted by namespace and name.
    pub replica_sets: Vec<WorkloadSummary>,
}

/// The clusters of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Clusters {
    /// Number of clusters, including unreadable ones.
    pub total: usize,
    /// Number of available clusters.
    pub available: usize,
    /// The other clusters, sorted by name.
    pub troubled: Vec<UnavailableCluster>,
    /// The labels of all clusters, by name; empty for unreadable clusters. Omitted in the JSON of `wheelwright
    /// status`.
    #[serde(skip)]
    pub labels: Arc<BTreeMap<String, BTreeMap<String, String>>>,
}

/// A cluster that is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnavailableCluster {
    /// Name of the cluster.
    pub name: String,
    /// The reason that it is not available.
    pub message: String,
}

/// The summary of a Placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementOverview {
    /// Namespace and name.
    pub name: String,
    /// Number of selected clusters.
    pub selected: usize,
    /// True if it found as many clusters as it requests.
    pub satisfied: bool,
    /// Message of the condition PlacementSatisfied.
    pub message: String,
}

/// An add-on or a ManifestWorkReplicaSet on all of its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSummary {
    /// Name of the add-on, or NAMESPACE/NAME of the set.
    pub name: String,
    /// Number of clusters that are done or skipped.
    pub settled: usize,
    /// Number of clusters on which it failed.
    pub failed: usize,
    /// Number of clusters that are returning from a quarantined revision.
    pub returning: usize,
    /// Number of clusters that have returned from a quarantined revision, or never had it.
    pub returned: usize,
    /// Number of clusters that have nothing to return to from a quarantined revision.
    pub quarantined: usize,
    /// Number of the other clusters that report an error.
    pub warned: usize,
    /// Number of clusters where the rollout has ended, but the workload does not work.
    pub broken: usize,
    /// Number of clusters that have or get it; for a set, the clusters that its placements select.
    pub total: usize,
    /// Number of clusters that have the work of a set although no placement selects them any longer.
    pub unselected: usize,
    /// The reasons that its rollouts are held, and the approvals that they wait for.
    pub holds: Vec<String>,
    /// Mistakes in its strategies that a person should correct, such as a mandatory group without clusters.
    pub corrections: Vec<String>,
    /// The rules of its strategies and policies as sentences, by placement.
    pub rules: BTreeMap<String, Vec<String>>,
    /// The RolloutPolicies that pause it.
    pub paused_by: Vec<String>,
    /// The tokens of the approvals that it waits for, with their descriptions.
    pub approvals: BTreeMap<String, String>,
    /// The revisions that an undo would revert; empty if no rollout is in progress, or if [`Overview::read`] read
    /// the fleet. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub undo: Vec<Undo>,
    /// The placements whose rollout was stopped by too many failures. Omitted in the JSON of `wheelwright status`.
    #[serde(skip)]
    pub stopped: BTreeSet<String>,
    /// The stages of its rollouts by placement, in the order in which they start.
    pub stages: Vec<StageSummary>,
    /// Its clusters by placement and decision group, in the order in which they start.
    pub groups: Vec<GroupSummary>,
}

/// A stage of the rollout to a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageSummary {
    /// Namespace and name of the placement.
    pub placement: String,
    /// The clusters of the stage and their limits.
    #[serde(flatten)]
    pub stage: Stage,
}

/// Clusters that start together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSummary {
    /// Namespace and name of the placement; empty for clusters that no placement selects.
    pub placement: String,
    /// Name of the decision group.
    pub name: String,
    /// The clusters, sorted by name.
    pub clusters: Vec<ClusterSummary>,
}

impl Overview {
    /// Returns the add-ons and ManifestWorkReplicaSets.
    pub fn workloads(&self) -> impl Iterator<Item = &WorkloadSummary> {
        self.add_ons.iter().chain(&self.replica_sets)
    }

    /// Reads the fleet. Unreadable objects are left out, except that unreadable clusters are counted.
    ///
    /// # Errors
    /// Fails if a kind has not been read completely.
    pub fn read(view: &impl View, now: Timestamp) -> Read<Self> {
        Self::read_with(view, now, false)
    }

    /// Reads the fleet like [`Overview::read`], but including [`WorkloadSummary::undo`]. For this, each rollout in
    /// progress is decided twice.
    ///
    /// # Errors
    /// Fails if a kind has not been read completely.
    pub fn with_undo(view: &impl View, now: Timestamp) -> Read<Self> {
        Self::read_with(view, now, true)
    }

    fn read_with(view: &impl View, now: Timestamp, has_undo: bool) -> Read<Self> {
        let repositories = view.list_readable::<ConfigRepo>(Query::ALL)?;
        let placements = view.list_readable::<Placement>(Query::ALL)?;
        let policies = view.list_readable::<RolloutPolicy>(Query::ALL)?;
        Ok(Self {
            repositories: repositories.iter().map(|repo| Repository::from_config_repo(repo)).collect(),
            clusters: clusters(view)?,
            placements: placements.iter().map(|placement| self::placement(placement)).collect(),
            add_ons: add_ons(&policies, view, now, has_undo)?,
            replica_sets: replica_sets(&policies, view, now, has_undo)?,
        })
    }
}

fn clusters(view: &impl View) -> Read<Clusters> {
    let unreadable = view.unreadable::<ManagedCluster>(Query::ALL)?;
    let readable = view.list_readable::<ManagedCluster>(Query::ALL)?;
    let mut troubled: BTreeMap<String, String> = readable
        .iter()
        .filter_map(|cluster| Some((cluster.name().to_owned(), unavailable_reason(cluster)?)))
        .collect();
    let refused = unreadable.iter().map(|refused| {
        (refused.key.name.clone(), plain(&format!("cannot be read: {}", refused.reason), MESSAGE))
    });
    troubled.extend(refused);
    let mut labels: BTreeMap<_, _> = troubled.keys().map(|name| (name.clone(), BTreeMap::new())).collect();
    labels.extend(
        readable
            .iter()
            .map(|cluster| (cluster.name().to_owned(), cluster.metadata.labels.clone().unwrap_or_default())),
    );
    let total = labels.len();
    let available = total - troubled.len();
    let troubled = troubled.into_iter().map(|(name, message)| UnavailableCluster { name, message }).collect();
    Ok(Clusters { total, available, troubled, labels: Arc::new(labels) })
}

/// Returns the reason that a cluster is not available; `None` if it is.
fn unavailable_reason(cluster: &ManagedCluster) -> Option<String> {
    if !cluster.spec.hub_accepts_client {
        return Some("waiting to be accepted (spec.hubAcceptsClient)".into());
    }
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match find_condition(conditions, cluster_conditions::AVAILABLE) {
        Some(condition) if condition.is_true() => None,
        Some(condition) => {
            let message = condition.message.trim_end_matches('.');
            Some(plain(&format!("{message} (since {})", condition.last_transition_time.0), MESSAGE))
        }
        None => Some("its agent has not reported yet".into()),
    }
}

fn placement(placement: &Placement) -> PlacementOverview {
    let status = placement.status.clone().unwrap_or_default();
    let satisfied = find_condition(&status.conditions, placement_conditions::SATISFIED);
    PlacementOverview {
        name: Key::of(placement).to_string(),
        selected: usize::try_from(status.number_of_selected_clusters).unwrap_or_default(),
        satisfied: satisfied.is_some_and(Condition::is_true),
        message: satisfied.map(|satisfied| plain(&satisfied.message, MESSAGE)).unwrap_or_default(),
    }
}

fn add_ons(
    policies: &[Arc<RolloutPolicy>],
    view: &impl View,
    now: Timestamp,
    has_undo: bool,
) -> Read<Vec<WorkloadSummary>> {
    let mut add_ons = Vec::new();
    for addon in view.list_readable::<ClusterManagementAddOn>(Query::ALL)? {
        let Some(explained) = explain(addon.name(), view, now)? else { continue };
        let on = addon_reads::of_clusters(addon.name(), view)?.addons;
        let on: BTreeMap<&str, &ManagedClusterAddOn> =
            on.iter().map(|addon| (addon.namespace(), addon.as_ref())).collect();
        let clusters = explained.states.iter().map(|(name, state)| {
            Arc::new(report::WorkloadCluster::read(name, state, on.get(name.as_str()).copied()))
        });
        let workload = Workload::read(&addon, clusters.collect(), policies);
        let policies = applicable(policies, RolloutOwner::AddOn(addon.name()));
        let summary = summary(&workload, &policies, &explained.rollouts, &explained.removal);
        let undo = || undo_of(&explained.rollouts, |revision| explained.version(revision), now).ok();
        let undo = has_undo.then(undo).flatten().unwrap_or_default();
        add_ons.push(WorkloadSummary { undo, ..summary });
    }
    Ok(add_ons)
}

fn replica_sets(
    policies: &[Arc<RolloutPolicy>],
    view: &impl View,
    now: Timestamp,
    has_undo: bool,
) -> Read<Vec<WorkloadSummary>> {
    let mut replica_sets = Vec::new();
    for set in view.list_readable::<ManifestWorkReplicaSet>(Query::ALL)? {
        let Some(ReportedSet { set: workload, rollouts, .. }) = replica_set::report(&set, view, now)? else {
            continue;
        };
        let key = Key::of(set.as_ref());
        let policies = applicable(policies, RolloutOwner::ReplicaSet(&key));
        let summary = summary(&workload, &policies, &rollouts, &Removal::default());
        let undo = || undo_of(&rollouts, |revision| format!("the template {}", revision.short()), now).ok();
        let undo = has_undo.then(undo).flatten().unwrap_or_default();
        let decisions = rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
        let unselected = decisions.map(|decision| decision.kept.len() + decision.removed.len()).sum();
        replica_sets.push(WorkloadSummary { undo, unselected, ..summary });
    }
    Ok(replica_sets)
}

impl WorkloadSummary {
    /// Returns the clusters, group by group.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterSummary> + Clone {
        self.groups.iter().flat_map(|group| &group.clusters)
    }

    /// Returns groups of clusters with their counts.
    pub fn of(groups: Vec<GroupSummary>) -> Self {
        let clusters = || groups.iter().flat_map(|group| &group.clusters);
        let count = |is_counted: fn(&ClusterState) -> bool| {
            clusters().filter(|cluster| is_counted(&cluster.state)).count()
        };
        Self {
            settled: count(ClusterState::is_settled),
            failed: count(ClusterState::is_failure),
            returning: count(|state| matches!(state, ClusterState::Returning { .. })),
            returned: count(|state| matches!(state, ClusterState::Returned { .. })),
            quarantined: count(|state| matches!(state, ClusterState::Quarantined)),
            warned: clusters().filter(|cluster| cluster.mark() == Mark::Warned).count(),
            broken: clusters().filter(|cluster| cluster.is_broken()).count(),
            total: count(|_| true),
            groups,
            ..Self::default()
        }
    }

    /// Returns the first cluster with a message where the workload has failed or no longer works, or else the first
    /// cluster that reports an error.
    pub fn first_troubled(&self) -> Option<&ClusterSummary> {
        let troubled = self.clusters().filter(|cluster| match cluster.mark() {
            Mark::Bad => (cluster.state.is_failure() || cluster.is_broken()) && !cluster.message.is_empty(),
            Mark::Warned => true,
            Mark::Returned | Mark::Busy | Mark::Waiting | Mark::Good => false,
        });
        troubled.min_by_key(|cluster| cluster.mark())
    }

    /// Returns a one-line summary: on how many clusters it is done, or that all of them have returned from a
    /// quarantined revision.
    pub fn progress(&self) -> String {
        let total = counted(self.total, "cluster");
        if self.total > 0 && self.returned == self.total {
            let versions: BTreeSet<&str> =
                self.clusters().map(|cluster| cluster.version(&self.name)).collect();
            let version = versions.first().filter(|version| versions.len() == 1 && !version.is_empty());
            let before = version
                .map_or_else(|| "the previous revision".to_owned(), |version| format!("version {version}"));
            let are = if self.total == 1 { "is" } else { "are" };
            return format!("{} of {total} {are} back on {before}", self.total);
        }
        let mut line = format!("{} of {total} done", self.settled);
        let others = [
            (self.failed, "failed"),
            (self.returning, "returning"),
            (self.returned, "returned"),
            (self.quarantined, "quarantined"),
            (self.warned, if self.warned == 1 { "reports an error" } else { "report an error" }),
            (self.broken, "not available"),
        ];
        for (number, what) in others {
            if number > 0 {
                let _ = write!(line, ", {number} {what}");
            }
        }
        if self.unselected > 0 {
            let clusters = counted(self.unselected, "cluster");
            let _ = write!(line, ", still on {clusters} that no placement selects");
        }
        line
    }
}

/// Returns the clusters of a workload by group, and what holds its rollouts.
fn summary(
    workload: &Workload,
    policies: &[&Arc<RolloutPolicy>],
    rollouts: &[PlacementRollout],
    removal: &Removal,
) -> WorkloadSummary {
    let mut groups: BTreeMap<(String, i32, String), Vec<ClusterSummary>> = BTreeMap::new();
    let group_of = |name: &str| rollouts.iter().find_map(|rollout| group(rollout, name));
    for cluster in &workload.clusters {
        let summary = ClusterSummary {
            name: cluster.name.clone(),
            runs: cluster.runs.clone(),
            state: cluster.state.clone(),
            available: cluster.available,
            reports_error: cluster.reports_error,
            message: plain(&cluster.message, MESSAGE),
            since: cluster.ended.or(cluster.started),
        };
        groups.entry(group_of(&cluster.name).unwrap_or_default()).or_default().push(summary);
    }
    let group = |((placement, _, name), mut clusters): (_, Vec<ClusterSummary>)| {
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        GroupSummary { placement, name, clusters }
    };
    let undecided = |rollout: &PlacementRollout| {
        rollout.decision.as_ref().err().map(|reason| format!("{}: {reason}", rollout.placement))
    };
    let undecided: Vec<String> = rollouts.iter().filter_map(undecided).collect();
    let paused_by = policies.iter().filter(|policy| policy.spec.paused);
    WorkloadSummary {
        name: workload.name.clone(),
        holds: workload.holds.iter().chain(&undecided).map(|hold| plain(hold, MESSAGE)).collect(),
        corrections: corrections(rollouts),
        rules: rollouts.iter().filter_map(rules_of).collect(),
        paused_by: paused_by.map(|policy| policy.name().to_owned()).collect(),
        approvals: waiting_approvals(rollouts, removal),
        stopped: rollouts.iter().filter(is_stopped).map(|rollout| rollout.placement.to_string()).collect(),
        stages: stages(rollouts),
        ..WorkloadSummary::of(groups.into_iter().map(group).collect())
    }
}

fn is_stopped(rollout: &&PlacementRollout) -> bool {
    rollout.decision.as_ref().is_ok_and(|decision| decision.is_stopped())
}

/// Returns the stages of rollouts, each with its placement.
fn stages(rollouts: &[PlacementRollout]) -> Vec<StageSummary> {
    let of = |rollout: &PlacementRollout| -> Vec<StageSummary> {
        let stages = rollout.decision.iter().flat_map(|decision| &decision.stages);
        let placement = || rollout.placement.to_string();
        stages.map(|stage| StageSummary { placement: placement(), stage: stage.clone() }).collect()
    };
    rollouts.iter().flat_map(of).collect()
}

/// Returns the placement of a rollout with its rules.
fn rules_of(rollout: &PlacementRollout) -> Option<(String, Vec<String>)> {
    let strategy = rollout.decision.as_ref().ok()?.strategy.as_ref()?;
    let policy = rollout.input.as_ref()?.policy.as_ref().ok()?;
    Some((rollout.placement.to_string(), rules::rules(strategy, policy)))
}

/// Returns the mistakes in the strategies of rollouts that a person should correct, each with its placement.
fn corrections(rollouts: &[PlacementRollout]) -> Vec<String> {
    let of = |rollout: &PlacementRollout| -> Vec<String> {
        let decision = rollout.decision.iter();
        let corrections = decision.flat_map(|decision| decision.corrections());
        corrections.map(|one| plain(&format!("{}: {one}", rollout.placement), MESSAGE)).collect()
    };
    rollouts.iter().flat_map(of).collect()
}

/// Returns the placement of a cluster, and the index and name of its group there.
fn group(rollout: &PlacementRollout, cluster: &str) -> Option<(String, i32, String)> {
    let assignment = rollout.decision.as_ref().ok()?.clusters.get(cluster)?;
    Some((rollout.placement.to_string(), assignment.group.index, assignment.group.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::rollout::RolloutDecision;
    use engine::rollout::cluster::Hash;

    #[test]
    fn a_rollout_that_is_not_decided_says_why() {
        let (placement, reason) = (Key::namespaced("fleet", "gcp"), "not complete".to_owned());
        let rollout = PlacementRollout::undecided(placement, Hash::default(), reason);
        let summary = summary(&Workload::default(), &[], &[rollout], &Removal::default());
        assert_eq!(summary.holds, ["fleet/gcp: not complete"]);
    }

    #[test]
    fn the_stages_of_every_decided_rollout_are_listed_with_their_placement() {
        let stage = |name: &str, allowed: Option<usize>| Stage {
            name: name.into(),
            mandatory: false,
            clusters: 8,
            slots: 3,
            busy: 2,
            failures: 1,
            allowed,
            unfinished: 6,
        };
        let undecided = |name: &str| {
            PlacementRollout::undecided(Key::namespaced("fleet", name), Hash::default(), String::new())
        };
        let listed = vec![stage("canary", Some(0)), stage("rest", None)];
        let decision = Ok(Arc::new(RolloutDecision { stages: listed, ..RolloutDecision::default() }));
        let stages = stages(&[undecided("gcp"), PlacementRollout { decision, ..undecided("aws") }]);
        let lines: Vec<_> = stages.iter().map(|one| format!("{} {}", one.placement, one.stage)).collect();
        assert_eq!(
            lines,
            [
                "fleet/aws canary: 8 clusters, 6 unfinished, 2 of 3 slots in use, 1 failed (0 allowed)",
                "fleet/aws rest: 8 clusters, 6 unfinished, 2 of 3 slots in use, 1 failed (any allowed)",
            ]
        );
    }
}
