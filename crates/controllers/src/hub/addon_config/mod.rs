//! Decides which configuration each cluster's add-on runs: resolves references, keeps snapshots, and rolls them
//! out.
//!
//! The order of writes makes this safe: a snapshot exists before any cluster is assigned its hash, and a
//! quarantine is recorded before any cluster returns from the revision.

mod config_problem;
mod decide;
pub(super) mod fleet;
mod hashes;
mod history;
mod input;
mod observed;
mod open_clusters;
mod report;
mod workload;
mod write;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;

use self::decide::DecidedAddOn;
use self::input::AddOnInput;
use crate::addon_creation;
use crate::addon_deletion;
use crate::addon_reads;
use crate::addon_removal::Removal;
use crate::placement_reads::is_unreachable;
use crate::placement_rollout::PlacementRollout;
use crate::rollout_events;
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::names::{ADDON_NAME_LABEL, addon_conditions};
use engine::addon::config::Config;
use engine::addon::config_refs;
use engine::rollout::ClusterState;
use engine::rollout::cluster::Hash;
use object::{Key, Metadata as _};
use reconcile::{Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(in crate::hub) use self::fleet::AddOnFleets;
pub(in crate::hub) use self::observed::{is_config, observing};
pub(in crate::hub) use self::report::{last_change, report};

/// Decides which cluster gets which configuration of an add-on, and when.
pub struct AddOnConfigController;

impl Controller for AddOnConfigController {
    const NAME: &'static str = "addon-config";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            let addon = change.latest().filter(|_| change.differs_in(read_fields));
            addon.map(addon_reads::key_of_addon).into_iter().collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let differs = change.differs_in(is_unreachable);
            if differs { view.keys::<ClusterManagementAddOn>(Query::ALL) } else { Vec::new() }
        });
        addon_reads::wake_on_readability(watches);
        addon_reads::wake_on_policies(watches);
        addon_creation::wake_on_refused(watches);
        watches.on_observed(|change, view| {
            if is_config(change) { view.keys::<ClusterManagementAddOn>(Query::ALL) } else { Vec::new() }
        });
        addon_reads::wake_on_placements(watches);
        watches.on::<ControllerRevision>(|change, _| {
            // A snapshot never changes. A deleted snapshot is written again.
            let gone = change.old.as_deref().filter(|_| change.new.is_none());
            let addon = gone.and_then(|snapshot| snapshot.label(ADDON_NAME_LABEL));
            addon.map(Key::cluster).into_iter().collect()
        });
        watches.keep::<AddOnFleets>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(cma) = view.get::<ClusterManagementAddOn>(key)? else {
            let mut plan = Plan::nothing();
            plan.step(history::delete_all(&key.name, view)?);
            plan.step(rollout_policy::forget_elsewhere(RolloutOwner::AddOn(&key.name), None, view)?);
            return Ok(plan);
        };
        if cma.metadata.deletion_timestamp.is_some() {
            return addon_deletion::report(&cma, view, now);
        }
        let has_template = config_refs::has_template(&cma);
        observing(has_template, view, || AddOnInput::read(cma, view, now)?.plan(view, now))
    }

    /// Returns the status. It describes the rollout as a whole, so a failed write to one cluster does not delay
    /// it. The event of a rollback is emitted with its record, even if a later write fails.
    ///
    /// A new rejection of the add-on on a cluster is recorded instead; the next plan writes the status.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let status = rollout_events::status_of_addon(done);
        if status.as_ref().is_some_and(rollout_events::tells_of_rollback) {
            return Ok(status);
        }
        Ok(addon_creation::record_refused(&key.name, done, view, now)?.or(status))
    }
}

/// The rollouts of an add-on, as decided now.
pub struct AddOnRollouts {
    /// The rollout of each placement.
    pub rollouts: Vec<PlacementRollout>,
    /// The configurations for the hashes.
    pub contents: BTreeMap<Hash, Vec<Config>>,
    /// The state of every cluster that has or gets the add-on, including clusters without a placement.
    pub states: BTreeMap<String, ClusterState>,
    /// The removal of the add-on from clusters that no placement selects any longer.
    pub removal: Removal,
    /// The reasons that clusters are not done: object, condition and message, as their agents report them. The
    /// texts come from the clusters and must be escaped.
    pub messages: BTreeMap<String, String>,
}

impl AddOnRollouts {
    /// Returns the display name of a revision: the name of its template and the start of its hash.
    pub fn version(&self, revision: &Hash) -> String {
        let mut configs = self.contents.get(revision).into_iter().flatten();
        let template = configs.find(|config| config.kind.resource == "addontemplates");
        template.map_or_else(
            || revision.short().to_owned(),
            |template| format!("{} ({})", template.key.name, revision.short()),
        )
    }
}

/// Decides the rollouts of an add-on without writing anything. Returns `None` if the add-on does not exist.
///
/// This is the only source of cluster states: `explain rollout`, the reports, the demo and the controller use it.
/// docs/design/rollout-states.md explains why states are not stored instead.
///
/// # Errors
/// Fails if a kind or an object that the decision needs could not be read.
pub fn explain(name: &str, view: &impl View, now: Timestamp) -> Read<Option<AddOnRollouts>> {
    let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(name))? else { return Ok(None) };
    let mut rollout = AddOnInput::read(cma, view, now)?;
    let contents = rollout.contents_by_hash();
    let decided = rollout.decide(view, now)?;
    let states = rollout
        .states(&decided, now)
        .into_iter()
        .map(|(name, state)| (name.to_owned(), state.into_owned()))
        .collect();
    let messages = rollout.messages(&states);
    let DecidedAddOn { rollouts, removal, .. } = decided;
    rollout.keep(view)?;
    Ok(Some(AddOnRollouts { rollouts, contents, states, removal, messages }))
}

/// Returns the fields of a cluster's add-on that a decision reads.
fn read_fields(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let condition = |type_| addon.condition(type_);
    let references = addon.status.as_ref().map(|status| &status.config_references);
    let conditions =
        [addon_conditions::PROGRESSING, addon_conditions::CONFIGURED, addon_conditions::DEGRADED]
            .map(condition);
    (&addon.spec, addon.is_terminating(), references, conditions)
}
