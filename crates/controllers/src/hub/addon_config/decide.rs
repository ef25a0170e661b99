//! Decides which cluster runs which configurations: calls the rollout engine for each placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::PlacementRollout;
use super::input::{AddOnInput, INVALID, MISSING, Node, Problem};
use crate::hub::addon_removal::Removal;
use crate::placement_reads::answers_since;
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOnStatus, InstallProgression};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::False;
use api::condition::{Condition, Observation, find_condition, set_condition};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use api::names::addon_conditions;
use engine::addon::config::{Config, address, resolve};
use engine::addon::{config_refs, progress};
use engine::rollout::input::{Cluster, Hash};
use engine::rollout::policy::RollOut;
use engine::rollout::{self, ClusterState, Input, Policy, Refused, RolloutDecision, Strategy};
use object::Key;
use object::text::plain;
use reconcile::{Read, View};

/// Limit of the characters of a message of a cluster.
const MESSAGE: usize = 240;

/// The rollouts of an add-on, decided but not written.
#[derive(Default)]
pub(super) struct DecidedRollouts {
    /// The rollout of each placement.
    pub(super) rollouts: Vec<PlacementRollout>,
    /// The entries of the placements in the status of the add-on.
    pub(super) progressions: Vec<InstallProgression>,
    /// The record of each placement in the status of the policy.
    pub(super) memories: Vec<RolloutStatus>,
    /// Clusters that get other configurations.
    pub(super) assigned: BTreeMap<String, Vec<Config>>,
    /// Clusters that were assigned their wanted configurations.
    pub(super) ready: BTreeSet<String>,
    /// The removal of the add-on from clusters that no placement selects any more.
    pub(super) removal: Removal,
    /// Clusters on which the add-on is installed now, because the policy rolls out its installation.
    pub(super) installed: BTreeSet<String>,
}

/// The input that all placements of an add-on share.
struct AddOnContext<'a, V> {
    view: &'a V,
    now: Timestamp,
    status: ClusterManagementAddOnStatus,
    policy: Result<Policy, Refused>,
    granted: BTreeSet<String>,
    memory: Option<Arc<RolloutPolicy>>,
}

/// Configurations by their address.
type Contents = BTreeMap<Hash, Vec<Config>>;

/// A cluster as the engine takes it, and the configurations behind the hashes that it may be assigned.
struct Candidate {
    cluster: Cluster,
    choices: Vec<(Hash, Vec<Config>)>,
}

impl AddOnInput {
    /// Calls the rollout engine for every placement; an add-on that the hub does not manage has no rollout.
    pub(super) fn decide(&mut self, view: &impl View, now: Timestamp) -> Read<DecidedRollouts> {
        let mut decided = DecidedRollouts { removal: self.removal(view, now)?, ..DecidedRollouts::default() };
        if !config_refs::is_managed(&self.cma) {
            return Ok(decided);
        }
        let (policy, granted) = rollout_policy::policy_for(RolloutOwner::AddOn(&self.name), view)?;
        let memory = rollout_policy::object_for(RolloutOwner::AddOn(&self.name), view)?;
        let status = self.cma.status.clone().unwrap_or_default();
        let pass = AddOnContext { view, now, status, policy, granted, memory };
        let placements = std::mem::take(&mut self.placements);
        for node in &placements {
            self.decide_placement(node, &pass, &mut decided)?;
        }
        self.placements = placements;
        self.decide_rest(&mut decided, view)?;
        Ok(decided)
    }

    fn decide_placement<V: View>(
        &mut self,
        node: &Node,
        pass: &AddOnContext<'_, V>,
        decided: &mut DecidedRollouts,
    ) -> Read<()> {
        let desired = resolve([self.defaults.as_slice(), &node.configs]);
        let revision = Hash(address(&desired));
        let Key { namespace, name } = node.placement.clone();
        let before = pass.status.install_progressions.iter();
        let before = before.clone().find(|p| (&p.namespace, &p.name) == (&namespace, &name)).cloned();
        let mut progression = InstallProgression { namespace, name, ..before.unwrap_or_default() };
        let placement = node.placement.clone();
        // Configurations that are rolled out already were checked before.
        let told = find_condition(&progression.conditions, addon_conditions::PROGRESSING);
        let is_checked =
            progress::is_of(&progression, &desired) && told.is_some_and(|told| !Problem::is_told(told));
        let problem = if is_checked { None } else { self.problem(&desired, pass.view)? };
        if let Some(problem) = problem {
            let condition = problem.of_placement();
            let decision = Err(condition.message.clone());
            set_condition(&mut progression.conditions, condition, pass.now);
            decided.rollouts.push(PlacementRollout { placement, revision, input: None, decision });
            decided.progressions.push(progression);
            return Ok(());
        }
        let mut input = Input::new(revision.clone(), Strategy::read(&node.rollout_strategy, node.group_size));
        input.policy = pass.policy.clone();
        input.granted = pass.granted.clone();
        input.began = progress::began(&mut progression, &desired, pass.now);
        let name = self.name.clone();
        let subject = RolloutOwner::AddOn(&name);
        let memory = pass.memory.as_ref();
        let remembered =
            memory.and_then(|policy| rollout_policy::remembered(policy, subject, &node.placement));
        input.quarantined =
            remembered.map(|status| Hash(status.quarantined.clone())).filter(|hash| !hash.0.is_empty());
        let last_strategy = remembered.and_then(|status| status.strategy.clone());
        input.last_strategy =
            last_strategy.as_ref().and_then(|last| Strategy::read(last, node.group_size).ok());
        let contents = self.read_clusters(&mut input, node, &progression, pass)?;
        let decision = rollout::advance(&input, pass.now);
        decided.assign(&input, &decision, &contents);
        let is_rolled_out =
            input.policy.as_ref().is_ok_and(|policy| policy.roll_out == RollOut::InstallAndContent);
        let absent = decision.starting().filter(|name| is_rolled_out && !self.addons.contains_key(*name));
        decided.installed.extend(absent.filter(|name| !self.unreadable.contains(*name)).map(str::to_owned));

        progression.config_references = config_refs::install_references(
            &desired,
            &progression.config_references,
            decision.counts.is_complete(),
        );
        let own = node.clusters().count();
        let mut condition = progress::placement_condition(node.selection.clusters().count(), own, &decision);
        if let Some(first) = decision.breach.as_ref().and_then(|_| self.first_failure(&decision)) {
            condition.message.push_str(&format!(" {first}"));
        }
        if let Some(wait) = node.waits_for {
            condition.message.push_str(&format!(" {wait}"));
        }
        let unreadable: Vec<&str> = node.clusters().filter(|name| self.unreadable.contains(*name)).collect();
        if let [first, ..] = unreadable.as_slice() {
            let told = format!(" {} of the clusters cannot be read, such as {first}.", unreadable.len());
            condition.message.push_str(&told);
        }
        if !decided.removal.decision.kept.is_empty() {
            condition.message.push_str(&format!(" {}.", decided.removal));
        }
        set_condition(&mut progression.conditions, condition, pass.now);
        let mut memory = rollout_policy::rollout_status(subject, &placement, &input, &decision);
        let good = config_refs::last_known_good(&progression.config_references);
        memory.last_good = good.map(|good| address(&good)).unwrap_or_default();
        memory.strategy =
            if input.strategy.is_ok() { Some(node.rollout_strategy.clone()) } else { last_strategy };
        decided.memories.push(memory);
        decided.progressions.push(progression);
        let decision = Ok(decision);
        decided.rollouts.push(PlacementRollout { placement, revision, input: Some(input), decision });
        Ok(())
    }

    /// Adds the clusters of a placement to the input, and returns the configurations behind their hashes.
    fn read_clusters<V: View>(
        &mut self,
        input: &mut Input,
        node: &Node,
        progression: &InstallProgression,
        pass: &AddOnContext<'_, V>,
    ) -> Read<Contents> {
        let good = config_refs::last_known_good(&progression.config_references);
        let mut contents = Contents::new();
        let mut absent = node.taken.clone();
        for name in node.clusters() {
            match self.candidate(name, node, good.as_deref(), pass.view)? {
                Some(candidate) => {
                    contents.extend(candidate.choices);
                    input.clusters.push(candidate.cluster.at(pass.now));
                }
                None => {
                    absent.insert(name.to_owned());
                }
            }
        }
        input.groups = node.selection.without(&absent);
        Ok(contents)
    }

    /// Returns a cluster as the engine reads it; `None` for one that will never succeed, so that no rollout
    /// waits for it. See docs/hazards.md#overlapping-placements.
    fn candidate(
        &mut self,
        name: &str,
        node: &Node,
        good: Option<&[Config]>,
        view: &impl View,
    ) -> Read<Option<Candidate>> {
        let addon = self.addons.get(name).cloned();
        // A cluster that cannot be read exists, and counts as unreachable.
        let is_unreadable = self.unreadable.contains(name);
        let managed = if is_unreadable { None } else { view.get::<ManagedCluster>(&Key::cluster(name))? };
        let is_leaving = addon.as_ref().is_some_and(|addon| addon.metadata.deletion_timestamp.is_some());
        let stays = |managed: &Arc<ManagedCluster>| managed.metadata.deletion_timestamp.is_none();
        if is_leaving || !(is_unreadable || managed.as_ref().is_some_and(stays)) {
            return Ok(None);
        }
        let own = self.own(addon.as_deref(), view)?;
        let wants = resolve([self.defaults.as_slice(), &node.configs, &own]);
        if let Some(problem) = self.problem(&wants, view)? {
            self.incomplete.insert(name.to_owned(), problem);
            return Ok(None);
        }
        let unknown =
            || Cluster { name: name.to_owned(), wants: Hash(address(&wants)), ..Cluster::default() };
        let mut cluster = addon.as_ref().map_or_else(unknown, |addon| progress::cluster(addon, &wants));
        cluster.unreachable = self.unreachable.contains(name);
        cluster.answers_since = managed.as_deref().and_then(answers_since);
        // The creation of the cluster is a time of the hub's clock. That of the add-on would not do: during a
        // first rollout, add-ons appear one after the other.
        let created = managed.as_ref().and_then(|managed| managed.metadata.creation_timestamp.as_ref());
        cluster.joined = created.map(|created| created.0);
        let applied = addon
            .as_ref()
            .and_then(|addon| config_refs::applied(&addon.status.as_ref()?.config_references))
            .filter(|configs| !configs.is_empty());
        // A cluster that already succeeded with a revision that may fail elsewhere returns to the last good
        // revision of all clusters, and keeps its own.
        let good_everywhere = || good.map(|good| resolve([good, &own]));
        let last_good =
            applied.filter(|configs| address(configs) != cluster.wants.0).or_else(good_everywhere);
        cluster.last_good = last_good.as_ref().map(|configs| Hash(address(configs)));
        let mut choices = vec![(cluster.wants.clone(), wants)];
        choices.extend(last_good.map(|configs| (Hash(address(&configs)), configs)));
        Ok(Some(Candidate { cluster, choices }))
    }

    /// Assigns add-ons outside of every placement their configurations at once, but not while placements are
    /// unsettled: then a placement may still select them.
    fn decide_rest(&mut self, decided: &mut DecidedRollouts, view: &impl View) -> Read<()> {
        if !self.settled {
            return Ok(());
        }
        let selected: BTreeSet<&str> =
            self.placements.iter().flat_map(|node| node.selection.clusters()).collect();
        let rest = self.addons.iter().filter(|(cluster, addon)| {
            !selected.contains(cluster.as_str()) && addon.metadata.deletion_timestamp.is_none()
        });
        let rest: Vec<_> = rest.map(|(cluster, addon)| (cluster.clone(), Arc::clone(addon))).collect();
        for (cluster, addon) in rest {
            let own = self.own(Some(&addon), view)?;
            let wants = resolve([self.defaults.as_slice(), &own]);
            let runs = progress::cluster(&addon, &wants).runs;
            if let Some(problem) = self.problem(&wants, view)? {
                self.incomplete.insert(cluster, problem);
            } else if runs == Some(Hash(address(&wants))) {
                decided.ready.insert(cluster);
            } else {
                decided.assigned.insert(cluster, wants);
            }
        }
        Ok(())
    }

    /// Returns the state of every cluster that has the add-on or gets it: the decision of its rollout or,
    /// without a rollout, the report of its add-on.
    pub(super) fn states(&self, decided: &DecidedRollouts, now: Timestamp) -> BTreeMap<String, ClusterState> {
        let observe = |(name, addon): (&String, &Arc<_>)| {
            let runs = config_refs::assigned(addon);
            let wants = decided.assigned.get(name).cloned().or(runs).unwrap_or_default();
            let unreachable = self.unreachable.contains(name);
            let cluster = Cluster { unreachable, ..progress::cluster(addon, &wants) };
            (name.clone(), rollout::observe(&cluster.at(now), now))
        };
        let mut states: BTreeMap<_, _> = self.addons.iter().map(observe).collect();
        for decision in decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok()) {
            let clusters = decision.clusters.iter();
            states.extend(clusters.map(|(name, assignment)| (name.clone(), assignment.state.clone())));
        }
        states
    }
}

impl AddOnInput {
    /// Returns why clusters are not done, as far as their add-ons report a reason.
    pub(super) fn messages(&self, states: &BTreeMap<String, ClusterState>) -> BTreeMap<String, String> {
        let open = states.iter().filter(|(_, state)| match state {
            ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Progressing { .. }
            | ClusterState::Unreachable { .. } => true,
            ClusterState::Done
            | ClusterState::Soaking { .. }
            | ClusterState::Starting
            | ClusterState::Waiting(_)
            | ClusterState::Skipped
            | ClusterState::Quarantined { .. } => false,
        });
        open.filter_map(|(name, _)| Some((name.clone(), self.message(name)?))).collect()
    }

    fn message(&self, cluster: &str) -> Option<String> {
        let conditions = &self.addons.get(cluster)?.status.as_ref()?.conditions;
        let message = &find_condition(conditions, addon_conditions::PROGRESSING)?.message;
        let message = message.strip_prefix("progressing... ").unwrap_or(message);
        Some(plain(message, MESSAGE)).filter(|message| !message.is_empty())
    }

    /// Returns the first cluster that failed, and why.
    fn first_failure(&self, decision: &RolloutDecision) -> Option<String> {
        let mut failed = decision.clusters.iter().filter(|(_, assignment)| assignment.state.is_failure());
        failed.find_map(|(name, _)| Some(format!("{name}: {}.", self.message(name)?)))
    }
}

impl DecidedRollouts {
    /// Collects the assignments of the engine: the clusters that get other configurations, and the clusters
    /// that keep theirs.
    fn assign(&mut self, input: &Input, decision: &RolloutDecision, contents: &Contents) {
        for cluster in &input.clusters {
            let Some(assignment) = decision.clusters.get(&cluster.name) else { continue };
            if assignment.assigned == cluster.runs {
                if cluster.runs.as_ref() == Some(&cluster.wants) {
                    self.ready.insert(cluster.name.clone());
                }
                continue;
            }
            if let Some(configs) = assignment.assigned.as_ref().and_then(|hash| contents.get(hash)) {
                self.assigned.insert(cluster.name.clone(), configs.clone());
            }
        }
    }
}

impl Problem {
    fn is_told(condition: &Condition) -> bool {
        [MISSING, INVALID].contains(&condition.reason.as_str())
    }

    /// Returns the condition of a placement in the status of the add-on.
    fn of_placement(&self) -> Observation {
        let message = format!("{}; clusters keep what they run until that changes", self.message);
        Observation::new(addon_conditions::PROGRESSING, False, self.reason).message(message)
    }

    /// Returns the condition of an add-on about a configuration of its own.
    pub(super) fn of_cluster(&self) -> Observation {
        let message = format!("{}; the cluster keeps what it runs until that changes", self.message);
        Observation::new(addon_conditions::CONFIGURED, False, self.reason).message(message)
    }
}
