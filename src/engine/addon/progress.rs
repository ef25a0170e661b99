//! How far a configuration is: on one cluster, and on the clusters of a placement.

use jiff::Timestamp;

use super::config::{Config, address};
use super::wire;
use crate::api::Condition;
use crate::api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use crate::api::names::addon_conditions::{CONFIGURED, PROGRESSING};
use crate::engine::rollout::input::{Cluster, Hash, Health, Report};
use crate::engine::rollout::wave::Wave;
use crate::object::condition::{Observation, find_condition, set_condition};

/// `Progressing` reason while a configuration is on its way.
pub const UNDER_WAY: &str = "Progressing";
/// `Progressing` reason once it has arrived.
pub const COMPLETED: &str = "Completed";
/// `Progressing` reason when it cannot arrive, or too many clusters failed.
pub const FAILED: &str = "Failed";

/// What the rollout is told of a cluster that should run `wants`.
pub fn cluster(addon: &ManagedClusterAddOn, wants: &[Config]) -> Cluster {
    let name = addon.metadata.namespace.clone().unwrap_or_default();
    let wanted = Hash(address(wants));
    let Some(status) = addon.status.as_ref().filter(|status| wants.is_empty() || !status.config_references.is_empty()) else {
        let nothing = wants.is_empty().then(|| Health { of: wanted.clone(), report: Report::Succeeded, since: None });
        return Cluster { name, runs: nothing.as_ref().map(|_| wanted.clone()), wants: wanted, health: nothing, ..Cluster::default() };
    };
    let runs = wire::desired(&status.config_references).map(|configs| Hash(address(&configs)));
    let applied = wire::applied(&status.config_references).map(|configs| Hash(address(&configs)));
    let progressing = find_condition(&status.conditions, PROGRESSING);
    let since = progressing.map(|condition| condition.last_transition_time.0);
    let reason = progressing.map(|condition| condition.reason.as_str()).unwrap_or_default();
    let health = runs.clone().map(|of| match reason {
        _ if applied.as_ref() == Some(&of) => Health { of, report: Report::Succeeded, since: since.filter(|_| reason == COMPLETED) },
        FAILED => Health { of, report: Report::Failed, since },
        UNDER_WAY => Health { of, report: Report::Progressing, since },
        _ => Health { of, report: Report::Progressing, since: None },
    });
    let runs_since = since.filter(|_| reason == UNDER_WAY);
    Cluster { name, wants: wanted, runs, runs_since, health, last_good: applied, ..Cluster::default() }
}

/// Assigns configurations to a cluster's add-on, in one write: what it should run, and that it is on its way from now.
///
/// The time of `Progressing` starts anew although its status may stay, because deadlines count from it (hazard R6).
pub fn assign(addon: &mut ManagedClusterAddOn, configs: &[Config], generation: impl Fn(&Config) -> i64, now: Timestamp) {
    let status = addon.status.get_or_insert_default();
    status.config_references = wire::references(configs, &status.config_references, generation);
    configured(&mut status.conditions, true, now);
    status.conditions.retain(|condition| condition.type_ != PROGRESSING);
    let message = "progressing... mca and work configs mismatch";
    set_condition(&mut status.conditions, Observation::new(PROGRESSING, "True", UNDER_WAY, message), now);
}

/// Says whether the configurations of a cluster's add-on are decided.
pub fn configured(conditions: &mut Vec<Condition>, is: bool, now: Timestamp) {
    let observation = if is {
        Observation::new(CONFIGURED, "True", "ConfigurationsConfigured", "Configurations configured")
    } else {
        Observation::new(CONFIGURED, "False", "ConfigurationsNotConfigured", "Configurations updated and not configured yet")
    };
    set_condition(conditions, observation, now);
}

/// How a placement fares, in OCM's words, and in ours where OCM has none: what failed, and what holds the rollout.
pub fn placement_condition(selected: usize, own: usize, wave: &Wave) -> Observation {
    let counts = &wave.counts;
    let (done, failed, timed_out) = (counts.done + counts.skipped, counts.failed + counts.quarantined, counts.timed_out);
    let rolling = counts.starting + counts.progressing + counts.soaking;
    let head = format!("selected clusters {selected}. configured addons");
    if own > 0 && done == own {
        let message = format!("{head} {done}/{own} completed with no errors, {failed} failed {timed_out} timeout.");
        return Observation::new(PROGRESSING, "False", COMPLETED, message);
    }
    if let Some(breach) = &wave.breach {
        let message = format!("{head} {done}/{own} stopped, {failed} failed {timed_out} timeout. {breach}; the rest waits.");
        return Observation::new(PROGRESSING, "False", FAILED, message);
    }
    let mut message = format!("{head} {}/{own} progressing..., {failed} failed {timed_out} timeout.", rolling + done);
    let refused = wave.refused.iter().map(ToString::to_string);
    for more in refused.chain(wave.hold.iter().map(ToString::to_string)) {
        message = format!("{message} {more}.");
    }
    Observation::new(PROGRESSING, "True", UNDER_WAY, message)
}

/// The name of an add-on.
pub fn name(cma: &ClusterManagementAddOn) -> &str {
    cma.metadata.name.as_deref().unwrap_or_default()
}
