//! Writes the decisions in an order that is safe to stop at any point.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::decide::DecidedAddOn;
use super::fleet::AddOnFleets;
use super::input::AddOnInput;
use crate::addon_creation::install;
use crate::placement_rollout::PlacementRollout;
use crate::rollout_driver::wakes;
use crate::rollout_events::{self, RolloutChange};
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{
    ClusterManagementAddOnStatus, ConfigSpecHash, InstallProgression, ManagedClusterAddOn,
};
use api::condition::{find_condition, set_condition};
use api::gitops::v1alpha1::RolloutStatus;
use api::names::SYSTEM_NAMESPACE;
use api::names::addon_conditions::PROGRESSING;
use engine::addon::config::Config;
use engine::addon::progress::Assigned;
use engine::addon::{config_refs, progress, registration, snapshot, spec_hash};
use engine::rollout::Strategy;
use object::{Key, Object};
use reconcile::{Action, Event, EventType, Plan, Read, StatusWrite, View};

impl AddOnInput {
    /// Returns the writes that are due now.
    pub(super) fn plan(mut self, view: &impl View, now: Timestamp) -> Read<Plan> {
        let decided = self.decide(view, now)?;
        let mut plan = Plan::nothing();
        if !config_refs::is_managed(&self.cma) {
            let before = self.cma.status.clone().unwrap_or_default();
            plan.step(rollout_policy::forget_elsewhere(RolloutOwner::AddOn(&self.name), None, view)?);
            plan.status = self.status_write(self.status(before.install_progressions));
            self.keep(view)?;
            return Ok(plan);
        }
        let nodes = self.placements.iter().map(|placement| &placement.node);
        for at in wakes(nodes, &decided.rollouts).chain(decided.retry) {
            plan.wake(at);
        }
        let progressions: Vec<_> =
            self.placements.iter().map(|placement| placement.progression.clone()).collect();
        let rollouts = decided.rollouts.iter().zip(&progressions);
        let events: Vec<_> = rollouts
            .flat_map(|(rollout, progression)| self.events(rollout, progression, &decided.records))
            .collect();
        let status = self.status(progressions);
        let truncate_history = self.truncate_history(&decided, &status, view)?;
        self.write(&mut plan, decided, view, now)?;
        plan.step(truncate_history);
        rollout_events::draft(&mut plan, self.status_write(status), events);
        self.keep(view)?;
        Ok(plan)
    }

    /// Returns the status with the default configurations. As in OCM, they are written for every add-on, even if
    /// another manager writes the rest.
    fn status(&self, install_progressions: Vec<InstallProgression>) -> ClusterManagementAddOnStatus {
        ClusterManagementAddOnStatus {
            default_config_references: config_refs::default_references(&self.defaults),
            install_progressions,
            ..self.cma.status.clone().unwrap_or_default()
        }
    }

    fn status_write(&self, status: ClusterManagementAddOnStatus) -> Option<StatusWrite> {
        StatusWrite::from_status(self.cma.as_ref(), self.cma.status.as_ref(), &status)
    }

    /// Stores the state that the next decision needs.
    pub(super) fn keep(self, view: &impl View) -> Read<()> {
        let Self { name, fleet, .. } = self;
        view.index(|fleets: &mut AddOnFleets| fleets.keep(Key::cluster(name), fleet))
    }

    /// Returns the events of the rollout on a placement.
    fn events(
        &self,
        rollout: &PlacementRollout,
        progression: &InstallProgression,
        records: &[RolloutStatus],
    ) -> Vec<Event> {
        let is_same =
            |p: &&InstallProgression| (&p.namespace, &p.name) == (&progression.namespace, &progression.name);
        let mut known = self.cma.status.iter().flat_map(|status| &status.install_progressions);
        let unknown = InstallProgression::default();
        let before = known.find(is_same).unwrap_or(&unknown);
        let ((old_reason, old), (reason, message)) = (progressing(before), progressing(progression));
        let (Some(input), Ok(decision)) = (&rollout.input, &rollout.decision) else {
            let note = format!("on placement {}: {message}", rollout.placement);
            let event = rollout_events::event(&*self.cma, EventType::Warning, reason, note);
            let is_news = reason != progress::UNDER_WAY && reason != old_reason;
            return if is_news { vec![event] } else { Vec::new() };
        };
        let good = |p: &InstallProgression| config_refs::last_known_good(&p.config_references);
        let remembered = rollout_policy::remembered(records, &rollout.placement);
        let old = if desired(before).eq(desired(progression)) { old } else { "" };
        let counts = &decision.counts;
        let begun = counts.starting + counts.progressing + counts.soaking + counts.failed + counts.timed_out;
        let change = RolloutChange {
            placement: &rollout.placement,
            input,
            decision,
            revision: &names_of(progression),
            failure: &rollout.failure,
            before: old,
            message,
            waited: remembered.map(|status| status.waiting_approvals.as_slice()).unwrap_or_default(),
            starts: begun > 0 && (old.is_empty() || progress::waits(old)),
            completes: decision.counts.is_complete()
                && !progression.config_references.is_empty()
                && good(before) != good(progression),
        };
        change.events(&*self.cma)
    }

    /// Writes the snapshots first, then the records of the policy, then the clusters.
    fn write(&self, plan: &mut Plan, decided: DecidedAddOn, view: &impl View, now: Timestamp) -> Read<()> {
        let DecidedAddOn { assigned, returning, ready, waiting, rollouts, policy, records, .. } = decided;
        let (installed, refused) = (decided.installed, decided.refused);
        let memories: Vec<_> = rollouts.into_iter().filter_map(|rollout| rollout.record).collect();
        let mut snapshots = Vec::new();
        for (config, content) in &self.contents {
            // OCM's add-on manager assigns configurations without snapshots.
            let is_needed = !assigned.is_empty() || self.fleet.hashes.contains_key(&config.hash);
            if is_needed && view.get::<ControllerRevision>(&snapshot::key(&self.name, config))?.is_none() {
                let revision = snapshot::snapshot(&self.name, config, spec_hash::content(content));
                snapshots.push(Action::create(Object::from_typed(&revision)));
            }
        }
        if !snapshots.is_empty() {
            let metadata = ObjectMeta { name: Some(SYSTEM_NAMESPACE.into()), ..ObjectMeta::default() };
            plan.step([Action::create(Object::from_typed(&Namespace { metadata, ..Namespace::default() }))]);
        }
        plan.step(snapshots);
        // A strategy that stops on failures stays in force when an invalid one follows, so it must be remembered
        // before that. The records of a policy that no longer applies need a new policy too.
        let strategies = memories.iter().filter_map(|memory| memory.strategy.as_ref());
        let mut valid = strategies.filter_map(|wire| Strategy::read(wire, None).ok());
        let has_records = !records.is_empty() || valid.any(|strategy| strategy.stops_on_failures());
        let needs_policy = policy.is_none() && has_records;
        if let Some(policy) = &policy {
            plan.step(rollout_policy::remember_add_on(policy, &self.name, memories, refused));
        }
        let clusters: BTreeSet<&String> =
            assigned.keys().chain(self.incomplete.keys()).chain(&ready).chain(&waiting).collect();
        // In a single step, an add-on that the API server rejects blocks no other cluster.
        let installed = installed.iter().map(|cluster| install(&self.cma, cluster, view));
        let mut writes: Vec<Action> = installed.filter_map(Read::transpose).collect::<Read<_>>()?;
        writes.extend(needs_policy.then(rollout_policy::create_default));
        let subject = RolloutOwner::AddOn(&self.name);
        writes.extend(rollout_policy::forget_elsewhere(subject, policy.as_deref(), view)?);
        // Most clusters get the same configurations, so their template is read only once.
        let mut last: Option<(&Vec<Config>, Option<registration::Sources>)> = None;
        for (cluster, addon) in clusters.into_iter().filter_map(|name| self.fleet.addons.get_key_value(name))
        {
            let mut new = ManagedClusterAddOn::clone(addon);
            if let Some(configs) = assigned.get(cluster) {
                let generation = |config: &Config| {
                    self.contents.get(config).map(|content| content.generation()).unwrap_or_default()
                };
                let assignment =
                    if returning.contains(cluster) { Assigned::Return } else { Assigned::InTurn };
                progress::assign(&mut new, configs, assignment, generation, now);
                if last.as_ref().is_none_or(|(read, _)| *read != configs) {
                    last = Some((configs, self.template(configs, view)?.and_then(Result::ok)));
                }
                if let Some((_, Some(template))) = &last {
                    registration::fill(&mut new, template);
                }
            } else if let Some(problem) = self.incomplete.get(cluster) {
                let conditions = &mut new.status.get_or_insert_default().conditions;
                set_condition(conditions, problem.of_cluster(), now);
            } else {
                // Other managers may render an add-on from the names of its configurations. They wait for this
                // condition.
                let is_ready = ready.contains(cluster);
                progress::configured(&mut new.status.get_or_insert_default().conditions, is_ready, now);
            }
            let status = new.status.unwrap_or_default();
            let write = StatusWrite::from_status(addon.as_ref(), addon.status.as_ref(), &status);
            writes.extend(write.map(|write| write.action()));
        }
        plan.step(writes);
        Ok(())
    }
}

/// Returns the reason and message of the condition for the rollout on a placement.
fn progressing(progression: &InstallProgression) -> (&str, &str) {
    let condition = find_condition(&progression.conditions, PROGRESSING);
    condition.map(|condition| (condition.reason.as_str(), condition.message.as_str())).unwrap_or_default()
}

/// Returns the names of the configurations being rolled out on a placement, templates first.
fn names_of(progression: &InstallProgression) -> String {
    let mut names: Vec<_> = desired(progression)
        .filter_map(|(_, resource, config)| Some((resource != "addontemplates", config?.name.as_str())))
        .collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// Returns the configurations being rolled out on a placement.
fn desired(progression: &InstallProgression) -> impl Iterator<Item = (&str, &str, Option<&ConfigSpecHash>)> {
    progression
        .config_references
        .iter()
        .map(|r| (r.group.as_str(), r.resource.as_str(), r.desired_config.as_ref()))
}
