//! The progress of a configuration on one cluster, and on the clusters of a placement.

use jiff::Timestamp;

use super::config::{Config, address};
use super::config_refs;
use super::degraded::{MANIFEST_REJECTED, PROBE_UNAVAILABLE, WORKLOAD_FAILED, is_by_works};
use super::selection::UNDECIDED;
use crate::plural::counted;
use crate::rollout::RolloutDecision;
use crate::rollout::cluster::{Cluster, Hash, Health, Report};
use crate::rollout::decision::Counts;
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, InstallProgression, ManagedClusterAddOn};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, find_condition, set_condition};
use api::names::addon_conditions::{CONFIGURED, DEGRADED, LAST_GOOD, PROGRESSING};

/// The `Progressing` reason while a cluster does not run its configuration yet.
pub const UNDER_WAY: &str = "Progressing";
/// The `Progressing` reason when the cluster runs its configuration.
pub const COMPLETED: &str = "Completed";
/// The `Progressing` reason when the cluster cannot run its configuration, or too many clusters failed.
pub const FAILED: &str = "Failed";
/// OCM's message while the works of an add-on do not have its configuration yet.
pub const MISMATCH: &str = "mca and work configs mismatch";
/// The `Progressing` reason when the add-on does not support the kind of a configuration.
pub const UNSUPPORTED: &str = "ConfigurationUnsupported";

/// Returns the state of a cluster that should run `wants`, for the rollout engine.
pub fn cluster(addon: &ManagedClusterAddOn, wants: &[Config]) -> Cluster {
    let name = addon.metadata.namespace.clone().unwrap_or_default();
    let wanted = Hash(address(wants));
    let Some(status) =
        addon.status.as_ref().filter(|status| wants.is_empty() || !status.config_references.is_empty())
    else {
        let nothing =
            wants.is_empty().then(|| Health { of: wanted.clone(), report: Report::Succeeded, since: None });
        return Cluster {
            name,
            runs: nothing.as_ref().map(|_| wanted.clone()),
            wants: wanted,
            health: nothing,
            ..Cluster::default()
        };
    };
    let hash = |configs: Vec<Config>| {
        if configs == wants { wanted.clone() } else { Hash(address(&configs)) }
    };
    let runs = config_refs::desired(&status.config_references).map(hash);
    let applied = config_refs::applied(&status.config_references).map(hash);
    let progressing = find_condition(&status.conditions, PROGRESSING);
    let since = progressing.map(|condition| condition.last_transition_time.0);
    let reason = progressing.map(|condition| condition.reason.as_str()).unwrap_or_default();
    let health = runs.clone().map(|of| match reason {
        _ if applied.as_ref() == Some(&of) => Health {
            of,
            report: relapse(&status.conditions).filter(|_| reason == COMPLETED).unwrap_or(Report::Succeeded),
            since: since.filter(|_| reason == COMPLETED),
        },
        FAILED | UNSUPPORTED => Health { of, report: Report::Failed, since },
        UNDER_WAY => Health { of, report: Report::Progressing, since },
        _ => Health { of, report: Report::Progressing, since: None },
    });
    let runs_since = since.filter(|_| reason == UNDER_WAY);
    Cluster { name, wants: wanted, runs, runs_since, health, last_good: applied, ..Cluster::default() }
}

/// Returns the way in which an add-on stopped working after it ran successfully, from its condition `Degraded`;
/// `None` if it works.
fn relapse(conditions: &[Condition]) -> Option<Report> {
    let degraded = find_condition(conditions, DEGRADED).filter(|degraded| degraded.is_true())?;
    match degraded.reason.as_str() {
        PROBE_UNAVAILABLE => Some(Report::Relapsed { failed: false }),
        WORKLOAD_FAILED | MANIFEST_REJECTED => Some(Report::Relapsed { failed: true }),
        _ => None,
    }
}

/// Returns the time since which an add-on works again after it had stopped working; `None` if it never had.
pub fn recovered(addon: &ManagedClusterAddOn) -> Option<Timestamp> {
    let degraded = find_condition(&addon.status.as_ref()?.conditions, DEGRADED)?;
    (degraded.status == False).then_some(degraded.last_transition_time.0)
}

/// Returns the reason from the conditions that an add-on is not done or does not work, without OCM's prefix for
/// add-ons in progress.
pub fn message(conditions: &[Condition]) -> Option<&str> {
    let progressing = find_condition(conditions, PROGRESSING);
    let degraded = find_condition(conditions, DEGRADED).filter(|degraded| degraded.is_true());
    // `Progressing` reports that it ran successfully, or does not say why it has not.
    let says_nothing = progressing
        .is_none_or(|progressing| progressing.reason == COMPLETED || progressing.message.ends_with(MISMATCH));
    let said = degraded.filter(|_| says_nothing).or(progressing)?;
    Some(said.message.strip_prefix("progressing... ").unwrap_or(&said.message))
}

/// The reason for assigning configurations to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// The turn of the cluster has come.
    InTurn,
    /// The wanted configurations are quarantined, and the cluster returns to these.
    Return,
}

/// Assigns configurations to an add-on on a cluster and marks them as progressing from now, in one write.
///
/// The time of `Progressing` is reset even if its status stays the same, because deadlines count from it. See
/// docs/hazards.md#deadline-of-the-old-config.
///
/// The same write records the previously successful configurations. Otherwise they would be lost, because
/// `lastAppliedConfig` becomes the assigned configuration as soon as it succeeds on the cluster, while it may
/// still fail on others.
pub fn assign(
    addon: &mut ManagedClusterAddOn,
    configs: &[Config],
    assignment: Assigned,
    generation: impl Fn(&Config) -> i64,
    now: Timestamp,
) {
    let good = match assignment {
        Assigned::InTurn => good_before(addon, configs),
        Assigned::Return => Some(configs.to_vec()),
    };
    let status = addon.status.get_or_insert_default();
    status.config_references = config_refs::references(configs, &status.config_references, generation);
    if assignment == Assigned::Return {
        // The configurations count as successful again only once their works report it.
        status.config_references.iter_mut().for_each(|reference| reference.last_applied_config = None);
    }
    if let Some(good) = good.and_then(|good| config_refs::written(&good)) {
        let recorded = Observation::new(LAST_GOOD, True, "Recorded").message(good);
        set_condition(&mut status.conditions, recorded, now);
    }
    configured(&mut status.conditions, true, now);
    // Errors of the previous configurations say nothing about these.
    let is_about_others =
        |condition: &Condition| condition.type_ == DEGRADED && is_by_works(&condition.reason);
    status.conditions.retain(|condition| condition.type_ != PROGRESSING && !is_about_others(condition));
    set_condition(
        &mut status.conditions,
        Observation::new(PROGRESSING, True, UNDER_WAY).message(format!("progressing... {MISMATCH}")),
        now,
    );
}

/// Returns the configurations that succeeded on a cluster before it is assigned `configs`; `None` to keep the
/// current record.
fn good_before(addon: &ManagedClusterAddOn, configs: &[Config]) -> Option<Vec<Config>> {
    let references = &addon.status.as_ref()?.config_references;
    let recorded = last_good(addon);
    // A cluster that is returning or has returned keeps the configuration that it returned to.
    let returned = recorded.is_some() && config_refs::desired(references) == recorded;
    let applied = config_refs::applied(references).filter(|applied| !applied.is_empty());
    applied.filter(|applied| !returned && applied != configs)
}

/// Returns the configurations that succeeded on a cluster before the assigned ones, as recorded by [`assign`].
pub fn last_good(addon: &ManagedClusterAddOn) -> Option<Vec<Config>> {
    let recorded = find_condition(&addon.status.as_ref()?.conditions, LAST_GOOD)?;
    config_refs::read(&recorded.message)
}

/// Sets the condition `Configured`, which is true if the configurations of an add-on on a cluster are decided.
pub fn configured(conditions: &mut Vec<Condition>, is: bool, now: Timestamp) {
    let observation = if is {
        Observation::new(CONFIGURED, True, "ConfigurationsConfigured").message("Configurations configured")
    } else {
        Observation::new(CONFIGURED, False, "ConfigurationsNotConfigured")
            .message("Configurations updated and not configured yet")
    };
    set_condition(conditions, observation, now);
}

/// Returns the time since which a placement's clusters progress to `desired`; `None` if they do not.
///
/// If the configurations change, the time of `Progressing` is reset even if its status stays the same, because
/// the rollout compares it with the times at which clusters joined.
pub fn began(progression: &mut InstallProgression, desired: &[Config], now: Timestamp) -> Option<Timestamp> {
    if !is_of(progression, desired) {
        progression.conditions.retain(|condition| condition.type_ != PROGRESSING);
        return Some(now);
    }
    find_condition(&progression.conditions, PROGRESSING)
        .filter(|c| c.is_true())
        .map(|condition| condition.last_transition_time.0)
}

/// Returns true if the status assigns `desired` to the clusters of a placement.
pub fn is_of(progression: &InstallProgression, desired: &[Config]) -> bool {
    let last = progression
        .config_references
        .iter()
        .map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?)));
    last.collect::<Option<Vec<_>>>().is_some_and(|last| address(&last) == address(desired))
}

/// Returns the condition of a placement's rollout. The messages are OCM's, except for failures and for the
/// reason that the rollout is on hold.
///
/// A decided placement (`is_decided`) that selects no cluster is done. OCM's manager reports it as progressing
/// indefinitely.
pub fn placement_condition(
    selected: usize,
    own: usize,
    is_decided: bool,
    decision: &RolloutDecision,
) -> Observation {
    let counts = &decision.counts;
    let (done, failed, timed_out) =
        (counts.done + counts.skipped, counts.failed + counts.quarantined, counts.timed_out);
    let rolling = counts.starting + counts.progressing + counts.soaking;
    let head = format!("selected clusters {selected}. configured addons");
    let is_nobody = is_decided && decision.refused.is_empty();
    if done == own && (own > 0 || is_nobody) {
        let message =
            format!("{head} {done}/{own} completed with no errors, {failed} failed {timed_out} timeout.");
        return Observation::new(PROGRESSING, False, COMPLETED).message(message);
    }
    if let Some(revision) = &decision.quarantine {
        let message = format!(
            "{head} {done}/{own} {}. {revision} is quarantined: it is not rolled out again until a commit changes the \
             content, or a person adds it to spec.releasedRevisions of the RolloutPolicy.",
            returns(counts)
        );
        return Observation::new(PROGRESSING, False, FAILED).message(message);
    }
    if let Some(breach) = &decision.breach {
        let message = format!(
            "{head} {done}/{own} stopped, {failed} failed {timed_out} timeout. {breach}; the rest waits."
        );
        return Observation::new(PROGRESSING, False, FAILED).message(message);
    }
    let mut message =
        format!("{head} {}/{own} progressing..., {failed} failed {timed_out} timeout.", rolling + done);
    for more in decision.corrections().chain(decision.hold.iter().map(ToString::to_string)) {
        message = format!("{message} {more}.");
    }
    Observation::new(PROGRESSING, True, UNDER_WAY).message(message)
}

/// Describes how many clusters have returned from a quarantined revision.
fn returns(counts: &Counts) -> String {
    let Counts { returning, returned, quarantined, .. } = *counts;
    let mut text = match returning {
        0 => format!("rolled back; {} the previous revision", runs(returned)),
        _ => format!("rolling back {}", counted(returning, "cluster")),
    };
    if returning > 0 && returned > 0 {
        text.push_str(&format!(", {} the previous revision", runs(returned)));
    }
    if quarantined > 0 {
        text.push_str(&format!(", no previous revision on {}", counted(quarantined, "cluster")));
    }
    text
}

fn runs(clusters: usize) -> String {
    format!("{} {}", counted(clusters, "cluster"), if clusters == 1 { "runs" } else { "run" })
}

/// Returns the condition of a rollout on `selected` clusters that waits for placement decisions.
pub fn undecided_condition(selected: usize) -> Observation {
    let mut condition = placement_condition(selected, selected, false, &RolloutDecision::default());
    condition.message.push_str(&format!(" {UNDECIDED}."));
    condition
}

/// Returns the part of a [`placement_condition`] message after OCM's numbers, or all of any other message.
pub fn details(message: &str) -> &str {
    let is_placement = message.starts_with("selected clusters ");
    let parts = message.split_once(" timeout.").filter(|_| is_placement);
    parts.map_or(message, |(_, details)| details.trim_start())
}

/// Returns true if a [`placement_condition`] message says that no cluster has started.
pub fn waits(message: &str) -> bool {
    message.contains("configured addons 0/") && message.contains(", 0 failed 0 timeout.")
}

/// Returns the name of an add-on.
pub fn name(cma: &ClusterManagementAddOn) -> &str {
    cma.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::config::ConfigKind;
    use object::Key;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn config(name: &str, hash: &str) -> Config {
        Config {
            kind: ConfigKind { group: "g".into(), resource: "r".into() },
            key: Key::cluster(name),
            hash: hash.into(),
        }
    }

    fn assigned(configs: &[Config], at: Timestamp) -> ManagedClusterAddOn {
        let mut addon: ManagedClusterAddOn =
            serde_json::from_value(json!({"metadata": {"namespace": "c"}, "spec": {}})).unwrap();
        assign(&mut addon, configs, Assigned::InTurn, |_| 1, at);
        addon
    }

    fn complete(addon: &mut ManagedClusterAddOn, now: Timestamp) {
        let status = addon.status.as_mut().unwrap();
        status.config_references.iter_mut().for_each(|r| r.last_applied_config.clone_from(&r.desired_config));
        set_condition(&mut status.conditions, Observation::new(PROGRESSING, False, COMPLETED), now);
    }

    #[test]
    fn only_the_numbers_of_ocm_are_left_out_of_the_details() {
        let condition = "selected clusters 2. configured addons 1/2 progressing..., 0 failed 0 timeout.";
        assert_eq!(details(condition), "");
        let error = "1 cluster reports an error: c1: dial: i/o timeout. Again in 5s.";
        assert_eq!(details(&format!("{condition} {error}")), error);
        assert_eq!(details(error), error, "of a set");
    }

    #[test]
    fn a_rollout_to_no_cluster_is_complete_once_the_placement_is_decided() {
        let nobody = RolloutDecision::default();
        let [decided, open] = [true, false].map(|decided| placement_condition(0, 0, decided, &nobody));
        assert_eq!((decided.reason.as_ref(), open.reason.as_ref()), (COMPLETED, UNDER_WAY));
        assert!(waits(&open.message) && waits(&decided.message), "{} {}", open.message, decided.message);
    }

    #[test]
    fn the_deadline_of_a_configuration_starts_when_it_is_assigned() {
        let mut addon = assigned(&[config("a", "1")], at(10));
        assign(&mut addon, &[config("a", "2")], Assigned::InTurn, |_| 1, at(500));
        assert_eq!(cluster(&addon, &[config("a", "2")]).runs_since, Some(at(500)));
    }

    #[test]
    fn success_keeps_its_time_despite_other_reports() {
        let mut addon = assigned(&[config("a", "1")], at(10));
        complete(&mut addon, at(20));
        let health = cluster(&addon, &[config("a", "1")]).health.unwrap();
        assert_eq!((health.report, health.since), (Report::Succeeded, Some(at(20))));
    }

    #[test]
    fn an_addon_that_ran_its_configuration_and_is_degraded_has_relapsed() {
        let mut addon = assigned(&[config("a", "1")], at(10));
        complete(&mut addon, at(20));
        let check = |addon: &mut ManagedClusterAddOn, reason: &str, want: Report| {
            let degraded = Observation::new(DEGRADED, True, reason).message("why");
            set_condition(&mut addon.status.as_mut().unwrap().conditions, degraded, at(30));
            let health = cluster(addon, &[config("a", "1")]).health.unwrap();
            assert_eq!((health.report, health.since), (want, Some(at(20))), "{reason}");
            assert_eq!(message(&addon.status.as_ref().unwrap().conditions), Some("why"));
        };
        check(&mut addon, "ProbeUnavailable", Report::Relapsed { failed: false });
        check(&mut addon, "WorkloadFailed", Report::Relapsed { failed: true });
        check(&mut addon, "AddonManifestAppliedFailed", Report::Relapsed { failed: true });
        check(&mut addon, "SetPermissionFailed", Report::Succeeded);
        let mut unwritten = assigned(&[config("a", "1")], at(10));
        let refused = Observation::new(DEGRADED, True, "ManifestWorkApplyFailed").message("forbidden");
        set_condition(&mut unwritten.status.as_mut().unwrap().conditions, refused, at(20));
        assert_eq!(message(&unwritten.status.as_ref().unwrap().conditions), Some("forbidden"));
        // It returns to what it ran, so the problem concerns the previous configuration.
        let mut back = addon.clone();
        set_condition(
            &mut back.status.as_mut().unwrap().conditions,
            Observation::new(DEGRADED, True, "ProbeUnavailable"),
            at(30),
        );
        assign(&mut back, &[config("a", "1")], Assigned::InTurn, |_| 1, at(40));
        assert_eq!(cluster(&back, &[config("a", "1")]).health.unwrap().report, Report::Succeeded);
        assert_eq!(recovered(&addon), None);
        let working = Observation::new(DEGRADED, False, "AsExpected");
        set_condition(&mut addon.status.as_mut().unwrap().conditions, working, at(50));
        assert_eq!(cluster(&addon, &[config("a", "1")]).health.unwrap().report, Report::Succeeded);
        assert_eq!(recovered(&addon), Some(at(50)));
    }

    #[test]
    fn the_last_good_configuration_survives_a_name_change() {
        let mut addon = assigned(&[config("a-1", "1")], at(10));
        complete(&mut addon, at(20));
        let good = cluster(&addon, &[config("a-1", "1")]).runs;
        assign(&mut addon, &[config("a-2", "2")], Assigned::InTurn, |_| 1, at(30));
        let found = cluster(&addon, &[config("a-2", "2")]);
        assert_eq!((found.last_good, found.health.unwrap().report), (good, Report::Progressing));
    }

    #[test]
    fn the_previous_success_stays_known_after_the_next_one() {
        let [first, second, third] = ["1", "2", "3"].map(|hash| [config("a", hash)]);
        let mut addon = assigned(&first, at(10));
        assert_eq!(last_good(&addon), None, "nothing ran before");
        complete(&mut addon, at(20));
        assign(&mut addon, &second, Assigned::InTurn, |_| 1, at(30));
        complete(&mut addon, at(40));
        assert_eq!(last_good(&addon), Some(first.to_vec()));
        // It returns, and the next configurations arrive before it has returned.
        assign(&mut addon, &first, Assigned::Return, |_| 1, at(50));
        let returning = cluster(&addon, &second);
        assert_eq!((returning.last_good, returning.health.unwrap().report), (None, Report::Progressing));
        assign(&mut addon, &third, Assigned::InTurn, |_| 1, at(60));
        assert_eq!(last_good(&addon), Some(first.to_vec()));
        // It has returned before they arrive.
        assign(&mut addon, &first, Assigned::Return, |_| 1, at(70));
        complete(&mut addon, at(80));
        assign(&mut addon, &second, Assigned::InTurn, |_| 1, at(90));
        assert_eq!(last_good(&addon), Some(first.to_vec()));
        complete(&mut addon, at(100));
        assign(&mut addon, &third, Assigned::InTurn, |_| 1, at(110));
        assert_eq!(last_good(&addon), Some(second.to_vec()), "the last that succeeded here");
        // A revert by a normal rollout is a change like any other.
        assign(&mut addon, &second, Assigned::InTurn, |_| 1, at(120));
        complete(&mut addon, at(130));
        assign(&mut addon, &first, Assigned::InTurn, |_| 1, at(140));
        assert_eq!(last_good(&addon), Some(second.to_vec()));
    }

    #[test]
    fn an_entry_without_a_desired_configuration_is_to_do() {
        let mut addon = assigned(&[config("a", "1")], at(10));
        addon.status.as_mut().unwrap().config_references[0].desired_config = None;
        let found = cluster(&addon, &[config("a", "1")]);
        assert_eq!((found.runs, found.health), (None, None));
    }

    #[test]
    fn an_addon_without_configurations_needs_no_rollout() {
        let addon = ManagedClusterAddOn::default();
        let found = cluster(&addon, &[]);
        assert_eq!(found.runs, Some(found.wants));
        assert_eq!(cluster(&addon, &[config("a", "1")]).runs, None);
    }
}
