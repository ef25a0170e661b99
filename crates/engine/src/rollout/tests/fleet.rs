//! A large fleet in virtual time, under faults of every kind, driven by the rollout engine.
//!
//! The hub and its spokes are reduced to what a rollout needs. Assignments are lost or arrive late. Clusters
//! apply, succeed, fail, hang, become unreachable for minutes, leave and join. Passes crash halfway. A second
//! commit arrives before the first is complete. The [oracle](crate::rollout::oracle) checks every pass, and the
//! rollout must finish although the fleet changes constantly. A seed reproduces its run on every machine.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::on_all_cores;
use crate::rollout::cluster::{Cluster, Group, GroupKey, Hash, Health, Report};
use crate::rollout::decision::Assignment;
use crate::rollout::policy::{OnBreach, Superseding};
use crate::rollout::strategy::{Mandatory, Options, Progressive, ProgressivePerGroup};
use crate::rollout::{ClusterState, Input, Policy, RolloutDecision, Size, Strategy, advance, oracle};
use object::Random;
use object::duration::later;

/// The rates of faults, in permille.
#[derive(Clone, Copy, Debug)]
struct FaultProfile {
    /// The initial number of clusters, which stays about constant.
    clusters: usize,
    /// The time between two passes.
    step: SignedDuration,
    /// Clusters that leave per minute. As many join.
    churn: u32,
    /// Clusters that fail with a new revision.
    failing: u32,
    /// Clusters that never report an outcome for a new revision.
    hanging: u32,
    /// Clusters that become unreachable per minute, for one to four minutes.
    silence: u32,
    /// Writes of a pass that are lost.
    lost: u32,
    /// Passes that crash halfway.
    crash: u32,
}

impl Default for FaultProfile {
    fn default() -> Self {
        let step = SignedDuration::from_secs(20);
        Self { clusters: 1000, step, churn: 50, failing: 10, hanging: 5, silence: 20, lost: 20, crash: 50 }
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RunSummary {
    /// The number of passes until every cluster of the last commit was done, or the rollout was stopped.
    passes: usize,
    /// True if the last revision exceeded its failure budget and was stopped or undone.
    stopped: bool,
    /// The number of clusters ever, including those that left.
    clusters: usize,
}

/// A run that broke a promise or did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, pass {pass}: {promise}")]
struct BrokenRun {
    seed: u64,
    pass: usize,
    promise: String,
}

/// The number of passes within which a rollout must finish. A tenth of the fleet is in flight at a time, and
/// only hanging clusters take more than a minute. The limit is four times the expected number.
const MAX_PASSES: usize = 240;
/// The pass in which the second commit arrives.
const SECOND_COMMIT: usize = 9;
const DEADLINE: SignedDuration = SignedDuration::from_mins(3);
const SOAK: SignedDuration = SignedDuration::from_secs(10);
const GROUPS: usize = 5;

/// Simulates one seed to its end.
///
/// # Errors
/// [`BrokenRun`] names the promise. The seed and the faults reproduce the run.
fn run(seed: u64, faults: FaultProfile) -> Result<RunSummary, BrokenRun> {
    let mut fleet = Fleet::new(seed, faults);
    let mut summary = RunSummary::default();
    for pass in 0..MAX_PASSES {
        let broken = |promise: String| BrokenRun { seed, pass, promise };
        if pass == SECOND_COMMIT {
            fleet.commit("r3");
        }
        fleet.live();
        let decision = advance(&fleet.input, fleet.now);
        oracle::check(&fleet.input, &decision, fleet.now).map_err(|promise| broken(promise.to_string()))?;
        summary.passes = pass + 1;
        summary.clusters = fleet.named;
        summary.stopped = decision.breach.is_some() || decision.quarantine.is_some();
        if pass > SECOND_COMMIT && (summary.stopped || fleet.is_through(&decision)) {
            return Ok(summary);
        }
        fleet.write(&decision);
    }
    Err(BrokenRun { seed, pass: MAX_PASSES, promise: "the rollout ends".into() })
}

/// An event in the future.
enum Event {
    /// The spoke receives its assignment.
    Apply,
    Report(Hash, Report),
    /// The spoke becomes reachable again.
    Answer,
}

struct Fleet {
    random: Random,
    faults: FaultProfile,
    now: Timestamp,
    input: Input,
    /// Clusters that existed when the last revision was committed.
    founders: BTreeSet<String>,
    named: usize,
    queue: BTreeMap<(Timestamp, u64), (String, Event)>,
    queued: u64,
}

impl Fleet {
    fn new(seed: u64, faults: FaultProfile) -> Self {
        let mut random = Random::new(seed);
        let options = Options { soak: SOAK, deadline: Some(DEADLINE), failures: Size::Percent(5) };
        let progressive = |mandatory, concurrency| {
            let options = options.clone();
            Strategy::Progressive(Progressive { options, mandatory, concurrency: Some(concurrency) })
        };
        let strategy = match random.below(3) {
            0 => Strategy::ProgressivePerGroup(ProgressivePerGroup {
                options: Options { failures: Size::Percent(10), ..options },
                mandatory: Vec::new(),
            }),
            1 => progressive(vec![Mandatory::Index(0)], Size::Percent(10)),
            _ => progressive(Vec::new(), Size::Count(120)),
        };
        let mut input = Input::new("r2", Ok(strategy));
        input.policy = Ok(Policy {
            on_breach: if random.chance(500) { OnBreach::Rollback } else { OnBreach::Pause },
            superseding: if random.chance(500) { Superseding::FinishCurrent } else { Superseding::Latest },
            unreachable: Size::Percent(20),
            ..Policy::default()
        });
        let group = |index: usize| Group {
            key: GroupKey { index: i32::try_from(index).unwrap_or(i32::MAX), name: format!("g{index}") },
            clusters: Vec::new(),
        };
        input.groups = (0..GROUPS).map(group).collect();
        let now = Timestamp::UNIX_EPOCH;
        let (founders, queue) = (BTreeSet::new(), BTreeMap::new());
        let mut fleet = Self { random, faults, now, input, founders, named: 0, queue, queued: 0 };
        let old = Hash::from("r1");
        for _ in 0..faults.clusters {
            let health = Some(Health { of: old.clone(), report: Report::Succeeded, since: Some(now) });
            fleet.join(Cluster {
                runs: Some(old.clone()),
                runs_since: Some(now),
                health,
                ..Cluster::default()
            });
        }
        fleet.founders = fleet.members();
        fleet
    }

    fn members(&self) -> BTreeSet<String> {
        self.input.groups.iter().flat_map(|group| group.clusters.iter().cloned()).collect()
    }

    fn commit(&mut self, revision: &str) {
        (self.input.revision, self.input.late_since) = (revision.into(), None);
        for cluster in &mut self.input.clusters {
            cluster.wants = revision.into();
        }
        self.founders = self.members();
    }

    /// Adds a cluster with the next name to a random group. A few go to the first group, the canaries.
    fn join(&mut self, cluster: Cluster) {
        let name = format!("c{:06}", (self.named * 7919) % 1_000_003);
        self.named += 1;
        let group = if self.random.chance(20) { 0 } else { 1 + self.random.below(GROUPS as u64 - 1) };
        if let Some(group) = usize::try_from(group).ok().and_then(|at| self.input.groups.get_mut(at)) {
            group.clusters.push(name.clone());
        }
        let wants = self.input.revision.clone();
        self.input.clusters.push(Cluster { name, wants, last_good: Some("r1".into()), ..cluster });
    }

    fn schedule(&mut self, after: u64, cluster: String, event: Event) {
        let after = SignedDuration::from_secs(i64::try_from(after).unwrap_or(i64::MAX));
        self.queued += 1;
        self.queue.insert((later(self.now, after), self.queued), (cluster, event));
    }

    /// Advances everything except the hub by one time step.
    fn live(&mut self) {
        self.now = later(self.now, self.faults.step);
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (at, cluster) in self.input.clusters.iter().enumerate() {
            known.insert(cluster.name.clone(), at);
        }
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (at, (name, event)) = (entry.key().0, entry.remove());
            if let Some(index) = known.get(&name) {
                self.happen(*index, at, name, event);
            }
        }
        self.churn();
        self.silence();
    }

    /// Applies an event. `index` is the position of the cluster in the input.
    fn happen(&mut self, index: usize, at: Timestamp, name: String, event: Event) {
        let Some(cluster) = self.input.clusters.get_mut(index) else { return };
        match event {
            Event::Answer => {
                cluster.unreachable = false;
                cluster.answers_since = Some(at);
                self.schedule(5, name, Event::Apply);
            }
            Event::Apply | Event::Report(..) if cluster.unreachable => {}
            Event::Report(of, report) => {
                // A spoke reports the hash that it applied, although the hub may have assigned another one
                // since.
                cluster.health = Some(Health { of, report, since: Some(at) });
            }
            Event::Apply => {
                let Some(of) = cluster.runs.clone() else { return };
                if cluster
                    .health
                    .as_ref()
                    .is_some_and(|health| health.of == of && health.report == Report::Succeeded)
                {
                    return;
                }
                cluster.health =
                    Some(Health { of: of.clone(), report: Report::Progressing, since: Some(at) });
                let after = 5 + self.random.below(40);
                if of.0 != "r1" && self.random.chance(self.faults.hanging) {
                    return;
                }
                let fails = of.0 != "r1" && self.random.chance(self.faults.failing);
                self.schedule(
                    after,
                    name,
                    Event::Report(of, if fails { Report::Failed } else { Report::Succeeded }),
                );
            }
        }
    }

    /// Returns a random number of clusters for one step, from an average rate in permille per minute.
    fn some(&mut self, permille_a_minute: u32) -> usize {
        let mean = self.faults.clusters as u64
            * u64::from(permille_a_minute)
            * self.faults.step.unsigned_abs().as_secs()
            / 60;
        usize::try_from((mean + self.random.below(1000)) / 1000).unwrap_or_default()
    }

    fn churn(&mut self) {
        for _ in 0..self.some(self.faults.churn) {
            let group = usize::try_from(self.random.below(GROUPS as u64)).unwrap_or_default();
            let clusters = self.input.groups.get(group).map_or(0, |group| group.clusters.len());
            let at = usize::try_from(self.random.below(clusters as u64)).unwrap_or_default();
            if clusters > 1
                && let Some(group) = self.input.groups.get_mut(group)
            {
                group.clusters.swap_remove(at);
            }
            self.join(Cluster { joined: Some(self.now), ..Cluster::default() });
        }
    }

    fn silence(&mut self) {
        for _ in 0..self.some(self.faults.silence) {
            let at = usize::try_from(self.random.below(self.input.clusters.len() as u64)).unwrap_or_default();
            let minutes = 60 + self.random.below(180);
            if let Some(cluster) = self.input.clusters.get_mut(at).filter(|cluster| !cluster.unreachable) {
                cluster.unreachable = true;
                let name = cluster.name.clone();
                self.schedule(minutes, name, Event::Answer);
            }
        }
    }

    /// Writes the decision of a pass, the rollout record first. Some writes are lost, and some passes crash.
    fn write(&mut self, decision: &RolloutDecision) {
        self.input.quarantined = decision.quarantine.clone();
        self.input.late_since = decision.late_since;
        // People grant every approval sooner or later.
        if self.random.chance(300) {
            self.input.granted.extend(decision.approvals.iter().cloned());
        }
        let crashes = self.random.chance(self.faults.crash);
        let mut left = if crashes { self.random.below(20) } else { u64::MAX };
        let mut assigned = Vec::new();
        for cluster in &mut self.input.clusters {
            let Some(assignment) =
                decision.clusters.get(&cluster.name).filter(|assignment| assignment.assigned != cluster.runs)
            else {
                continue;
            };
            let lost = left == 0 || self.random.chance(self.faults.lost);
            left = left.saturating_sub(1);
            if !lost {
                cluster.runs = assignment.assigned.clone();
                cluster.runs_since = Some(self.now);
                assigned.push(cluster.name.clone());
            }
        }
        let removed: BTreeSet<&String> =
            decision.removed.iter().take(usize::try_from(left).unwrap_or(usize::MAX)).collect();
        self.input.clusters.retain(|cluster| !removed.contains(&cluster.name));
        for name in assigned {
            let after = 1 + self.random.below(15);
            self.schedule(after, name, Event::Apply);
        }
    }

    /// Returns true if all clusters of the last commit are done. Clusters that joined later are ignored, because
    /// clusters join all the time.
    fn is_through(&self, decision: &RolloutDecision) -> bool {
        let open = |assignment: &Assignment| match &assignment.state {
            ClusterState::Waiting(_) | ClusterState::Starting | ClusterState::Progressing { .. } => true,
            ClusterState::Done
            | ClusterState::Soaking { .. }
            | ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Skipped
            | ClusterState::Unreachable { .. }
            | ClusterState::Returning { .. }
            | ClusterState::Returned { .. }
            | ClusterState::Quarantined => false,
        };
        !decision.clusters.iter().any(|(name, assignment)| self.founders.contains(name) && open(assignment))
    }
}

fn seeds(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(default)
}

/// Returns the faults of a run. Every fiftieth run has 1,000 clusters, the others 50; all runs have 1,000 if the
/// seeds are set manually. In every fourth run, more clusters fail than any budget allows.
fn faults(seed: u64) -> FaultProfile {
    let large = seed.is_multiple_of(50) || std::env::var_os("WHEELWRIGHT_FLEET_SEEDS").is_some();
    let fair = FaultProfile { clusters: if large { 1000 } else { 50 }, ..FaultProfile::default() };
    if seed % 4 == 3 { FaultProfile { failing: 100, hanging: 40, ..fair } } else { fair }
}

/// Set `WHEELWRIGHT_FLEET_SEEDS=10000` for a manual run, with `--release`.
#[test]
fn a_rollout_ends_and_keeps_its_promises_under_any_faults() {
    let seeds = seeds("WHEELWRIGHT_FLEET_SEEDS", 200);
    let runs: Vec<RunSummary> = on_all_cores(0..seeds, |seed| run(seed, faults(seed)).unwrap());
    let stopped = runs.iter().filter(|summary| summary.stopped).count();
    let passes: usize = runs.iter().map(|summary| summary.passes).sum();
    let clusters: usize = runs.iter().map(|summary| summary.clusters).sum();
    println!(
        "{} seeds, {clusters} clusters, {passes} passes; {stopped} rollouts stopped by their budget",
        runs.len()
    );
    assert!(
        (runs.len() / 10..runs.len() / 2).contains(&stopped),
        "rollouts get through, and those that must not do not"
    );
}

#[test]
fn a_seed_is_one_run() {
    let faults = FaultProfile { clusters: 100, ..FaultProfile::default() };
    assert_eq!(run(7, faults), run(7, faults));
}
