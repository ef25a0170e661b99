//! The status of an add-on on one cluster: the outcome of its rollout, its deployment and its health.

use jiff::{SignedDuration, Timestamp};

use super::deployment::{AddOnDeployment, DeployOutcome};
use api::Condition;
use api::addon::v1alpha1::{AddOnConfig, HealthCheckMode, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, find_condition, set_condition};
use api::names::addon_conditions::{
    AVAILABLE, DEGRADED, HOSTING_MANIFEST_APPLIED, MANIFEST_APPLIED, PROGRESSING,
};
use api::names::cluster_conditions;
use engine::addon::health;
use engine::addon::hosting::{Host, hosting_cluster};
use engine::addon::works_status::WorksStatus;
use engine::addon::{degraded, progress};
use engine::work;
use object::duration::later;
use reconcile::Plan;

/// Time that a rollout may take on a cluster, after the hub has written what the agent needs, before the status
/// gives the reason for the delay. In a large fleet, the hub's own writes take as long, and another one per
/// cluster would delay them further.
pub(super) const SLOW_ROLLOUT: SignedDuration = SignedDuration::from_secs(10);
/// Condition times that the hub writes are rounded, so they may be in the future by less than this.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// Returns the time of the hub's first write for a rollout that was assigned at `started`. `deployed` is the time
/// of the first write before this plan, maybe for an earlier assignment.
fn first_write(
    started: Option<Timestamp>,
    deployed: Option<Timestamp>,
    writes: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    // A time in the future was stored before the clock was set back.
    let counts =
        |deployed: &Timestamp| *deployed <= now && started.is_none_or(|started| *deployed >= started);
    deployed.filter(counts).or(writes.then_some(now))
}

impl AddOnDeployment {
    /// Sets the status of the add-on.
    pub(super) fn report(
        &self,
        plan: &mut Plan,
        new: &mut ManagedClusterAddOn,
        verdict: DeployOutcome,
        now: Timestamp,
    ) {
        let (started, has_completed) = (self.started(), self.has_completed());
        let trouble = self.trouble();
        let status = new.status.get_or_insert_default();
        if self.has_template {
            self.live.host.report(&mut status.conditions, now);
        }
        let references = &mut status.config_references;
        // A completed rollout stays complete; afterwards, the condition Available reports the health.
        let outcome = if has_completed { None } else { self.outcome(&verdict) };
        let has_ended = has_completed || outcome.is_some();
        match outcome {
            Some(outcome) => {
                if outcome.reason == progress::COMPLETED {
                    for reference in references {
                        reference.last_applied_config.clone_from(&reference.desired_config);
                    }
                }
                set_condition(&mut status.conditions, outcome, now);
            }
            None => {
                // A time in the future comes from a clock that was ahead, unless it is within the rounding of
                // condition times.
                let started = started.filter(|started| now.duration_until(*started) < ROUNDING);
                let until = started.map(|started| later(verdict.deployed.unwrap_or(started), SLOW_ROLLOUT));
                // A definite failure is reported immediately.
                let may_pass = trouble.is_none()
                    || matches!(self.works_status, WorksStatus::Unsealed(_) | WorksStatus::NotReady(_));
                if let Some(until) = until.filter(|until| *until > now && may_pass) {
                    plan.wake(until);
                    return;
                }
                self.report_open(&mut status.conditions, &verdict, now);
                if !has_completed {
                    self.report_trouble(&mut status.conditions, trouble.as_deref(), now);
                }
            }
        }
        if self.has_template {
            status.related_objects = degraded::related_objects(&self.live.works());
            if let Some(degraded) = self.degraded(&verdict).filter(|_| has_ended) {
                set_condition(&mut status.conditions, degraded, now);
            }
            let is_registered = matches!(self.sources, Ok(Some(_)));
            let empty = verdict.empty.as_deref().map_err(String::as_str);
            health::report_deployment(&mut status.conditions, &self.live, is_registered, empty, now);
        }
        let check = status.health_check.as_ref();
        let finds_health = check.is_some_and(|check| check.mode == HealthCheckMode::Customized);
        self.report_health(&mut status.conditions, finds_health, now);
    }

    /// Returns the time of the hub's first write for the open rollout, including this plan.
    pub(super) fn deployed(
        &self,
        before: Option<Timestamp>,
        plan: &Plan,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let writes = !plan.steps.is_empty();
        first_write(self.started(), before, writes, now).filter(|_| !self.has_completed())
    }

    /// Returns true if the rollout of the assigned configurations is complete. A cluster that returns to its last
    /// good configurations is not complete until its works are restored.
    fn has_completed(&self) -> bool {
        let progressing = self.live.addon.condition(PROGRESSING);
        if progressing.is_some_and(|condition| condition.reason != progress::COMPLETED) {
            return false;
        }
        let status = self.live.addon.status.as_ref();
        let references = status.map(|status| &status.config_references).filter(|all| !all.is_empty());
        references.is_some_and(|all| all.iter().all(|one| one.last_applied_config == one.desired_config))
    }

    /// Returns the outcome of the rollout on this cluster; `None` while it is open.
    fn outcome(&self, verdict: &DeployOutcome) -> Option<Observation> {
        let failed =
            |message: &str| Some(Observation::new(PROGRESSING, False, progress::FAILED).message(message));
        let DeployOutcome { empty, deployed: _, misses_works } = verdict;
        if let Some(AddOnConfig { group, resource, .. }) = self.unsupported() {
            let message =
                format!("Configuration with gvr {group}/{resource} is not supported for this addon");
            return Some(Observation::new(PROGRESSING, False, progress::UNSUPPORTED).message(message));
        }
        if let Err(error) = empty {
            return failed(error);
        }
        if self.configs.is_empty() && self.has_template {
            return None;
        }
        let completed =
            || Observation::new(PROGRESSING, False, progress::COMPLETED).message("completed with no errors.");
        match &self.works_status {
            WorksStatus::Done if !misses_works => Some(completed()),
            WorksStatus::NoWorks if verdict.is_empty() => Some(completed()),
            WorksStatus::Refused(reason) | WorksStatus::Failed(reason) => failed(&self.with_trouble(reason)),
            WorksStatus::NoWorks
            | WorksStatus::OtherConfig
            | WorksStatus::Unreported(_)
            | WorksStatus::Unsealed(_)
            | WorksStatus::NotReady(_)
            | WorksStatus::NotHealthy(_)
            | WorksStatus::Done => None,
        }
    }

    /// Returns the `Degraded` condition after the rollout on the cluster has ended.
    fn degraded(&self, verdict: &DeployOutcome) -> Option<Observation> {
        let works = match &self.works_status {
            WorksStatus::NoWorks if verdict.is_empty() => &WorksStatus::Done,
            works => works,
        };
        let error = verdict.empty.as_ref().err().map(String::as_str);
        let degraded = degraded::condition(&self.live.host, error, works)?;
        let message = self.with_trouble(&degraded.message);
        Some(if degraded.status == True { degraded.message(message) } else { degraded })
    }

    /// Returns when the open rollout started: the time of the assignment or, if nothing is assigned, the creation
    /// of the add-on. `None` if the rollout has ended.
    fn started(&self) -> Option<Timestamp> {
        let progressing = self.live.addon.condition(PROGRESSING);
        let created = || self.live.addon.metadata.creation_timestamp.as_ref().map(|created| created.0);
        progressing
            .map_or_else(created, |condition| condition.is_true().then_some(condition.last_transition_time.0))
    }

    /// Reports what the rollout on the cluster waits for, in OCM's words if OCM has any. While a configuration is
    /// assigned, `Progressing` stays True, because the deadline counts from its transition time.
    fn report_open(&self, conditions: &mut Vec<Condition>, verdict: &DeployOutcome, now: Timestamp) {
        let lacks = |type_: &str| find_condition(conditions, type_).is_none();
        let is_assigned = !self.configs.is_empty();
        if is_assigned && !find_condition(conditions, PROGRESSING).is_some_and(Condition::is_true) {
            return;
        }
        let is_hosted = hosting_cluster(&self.live.addon).is_some();
        let missing = if is_assigned {
            None
        } else if lacks(MANIFEST_APPLIED) {
            Some(("WaitingForManifestApplied", MANIFEST_APPLIED))
        } else if is_hosted && lacks(HOSTING_MANIFEST_APPLIED) {
            Some(("WaitingForHostingManifestApplied", HOSTING_MANIFEST_APPLIED))
        } else {
            None
        };
        let cause = match &self.works_status {
            WorksStatus::Unreported(cause)
            | WorksStatus::Unsealed(cause)
            | WorksStatus::NotReady(cause)
            | WorksStatus::Refused(cause) => Some(cause.clone()),
            WorksStatus::NotHealthy(cause) | WorksStatus::Failed(cause) => Some(self.with_trouble(cause)),
            WorksStatus::NoWorks => Some("no addon works".to_owned()).filter(|_| !verdict.is_empty()),
            WorksStatus::OtherConfig => Some(progress::MISMATCH.to_owned()),
            WorksStatus::Done => None,
        };
        let wait = match (missing, cause) {
            (Some((reason, type_)), _) => {
                let message = format!("Waiting for ManagedClusterAddOn {type_} condition");
                Observation::new(PROGRESSING, False, reason).message(message)
            }
            (None, Some(cause)) => Observation::new(PROGRESSING, True, progress::UNDER_WAY)
                .message(format!("progressing... {cause}")),
            (None, None) => return,
        };
        set_condition(conditions, wait, now);
    }

    /// Returns the problem with the assigned configuration, in the cluster's words; `None` if it is only
    /// progressing.
    fn trouble(&self) -> Option<String> {
        match &self.works_status {
            WorksStatus::Refused(reason) => Some(reason.clone()),
            WorksStatus::NotHealthy(_) | WorksStatus::Failed(_) => {
                self.live.works().iter().find_map(|work| work::pod_trouble(work))
            }
            // An agent may publish its key later, and a failure to apply an object may be temporary.
            WorksStatus::Unsealed(reason) | WorksStatus::NotReady(reason) => Some(reason.clone()),
            WorksStatus::NoWorks
            | WorksStatus::OtherConfig
            | WorksStatus::Unreported(_)
            | WorksStatus::Done => None,
        }
    }

    /// Appends the reason from the pods to a message that does not contain it.
    fn with_trouble(&self, reason: &str) -> String {
        match self.trouble() {
            Some(trouble) if !reason.contains(&trouble) => format!("{trouble} ({reason})"),
            Some(_) | None => reason.to_owned(),
        }
    }

    /// Reports an error of an open rollout before its deadline, and clears it when it is over.
    fn report_trouble(&self, conditions: &mut Vec<Condition>, trouble: Option<&str>, now: Timestamp) {
        // Other reasons come from rejected permissions and works, which are cleared elsewhere.
        let is_by_works =
            |condition: &Condition| condition.is_true() && degraded::is_by_works(&condition.reason);
        let is_degraded = find_condition(conditions, DEGRADED).is_some_and(is_by_works);
        let degraded = trouble.and_then(|_| degraded::condition(&self.live.host, None, &self.works_status));
        let observed = match (trouble.zip(degraded), is_degraded) {
            _ if !self.has_template => return,
            (Some((message, degraded)), _) => degraded.message(message),
            (None, true) => Observation::new(DEGRADED, False, "AsExpected"),
            (None, false) => return,
        };
        set_condition(conditions, observed, now);
    }

    /// Returns a configuration that the add-on names but whose kind it does not support.
    fn unsupported(&self) -> Option<&AddOnConfig> {
        let supported = &self.live.addon.status.as_ref()?.supported_configs;
        let is_supported = |config: &&AddOnConfig| {
            supported.iter().any(|kind| (&kind.group, &kind.resource) == (&config.group, &config.resource))
        };
        self.live.addon.spec.configs.iter().find(|config| !supported.is_empty() && !is_supported(config))
    }

    /// Reports the health. `finds_health` is true if the status already records that the hub judges the health;
    /// otherwise the agent writes the same condition.
    fn report_health(&self, conditions: &mut Vec<Condition>, finds_health: bool, now: Timestamp) {
        let finds_health = finds_health && self.has_template;
        let unknown =
            |reason: &str, message: &str| Observation::new(AVAILABLE, Unknown, reason).message(message);
        let lost = |cluster: &ManagedCluster| {
            let available = cluster.condition(cluster_conditions::AVAILABLE);
            let lost = available.filter(|available| available.status == Unknown);
            lost.map(|lost| unknown(&lost.reason, &lost.message))
        };
        let health = match (lost(&self.cluster), &self.live.host) {
            (Some(lost), _) => Some(lost),
            (None, _) if !finds_health => None,
            (None, Host::Invalid(message)) => Some(unknown("HostingClusterInvalid", message)),
            (None, Host::None | Host::Valid(_)) if find_condition(conditions, MANIFEST_APPLIED).is_none() => {
                None
            }
            (None, Host::None) => Some(health::availability(self.name(), &self.live.works())),
            (None, Host::Valid(host)) => {
                Some(lost(host).unwrap_or_else(|| health::availability(self.name(), &self.live.works())))
            }
        };
        if let Some(mut health) = health {
            if let Some(trouble) = self.trouble().filter(|_| health.status == False) {
                health.message = format!("{}; {trouble}", health.message);
            }
            set_condition(conditions, health, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_of_a_rollout_is_the_first_one_after_its_assignment() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first =
            |deployed: Option<i64>, writes| first_write(Some(at(100)), deployed.map(at), writes, at(107));
        assert_eq!(first(None, false), None, "nothing is written yet");
        assert_eq!(first(None, true), Some(at(107)));
        assert_eq!(first(Some(103), true), Some(at(103)));
        assert_eq!(first(Some(103), false), Some(at(103)));
        assert_eq!(first(Some(3), true), Some(at(107)), "the earlier write was for another assignment");
        assert_eq!(first(Some(3), false), None, "the works were as they should be");
        assert_eq!(first(Some(200), true), Some(at(107)), "the clock was set back");
    }
}
