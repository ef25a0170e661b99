//! The input of a scheduling cycle.

use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::Fleet;
use super::policy::{Misconfigured, SchedulingPolicy};
use super::published::Published;
use super::sets::SetMembers;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::ManagedClusterSet;
use object::Metadata as _;

/// The limit of [`ScheduleInput::max_steps`] for real placements: evaluation takes 8 s at most.
pub const MAX_STEPS: u64 = 2_000_000;

/// The input of scheduling one placement.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleInput<'a> {
    /// The placement.
    pub placement: &'a Placement,
    /// The sets that are bound to its namespace and exist, in the order of their names.
    pub bound: &'a [Arc<ManagedClusterSet>],
    /// Its published decisions.
    pub decisions: &'a [Arc<PlacementDecision>],
    /// The clusters.
    pub fleet: &'a Fleet,
    /// The steps that CEL expressions may take for all clusters together; see
    /// [`filter::cel`](super::filter::cel).
    pub max_steps: u64,
}

impl<'a> ScheduleInput<'a> {
    /// Returns the bound sets the placement asks for.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = &'a Arc<ManagedClusterSet>> + use<'a> {
        let asked = &self.placement.spec.cluster_sets;
        let name = |set: &ManagedClusterSet| set.name().to_owned();
        self.bound.iter().filter(move |set| asked.is_empty() || asked.contains(&name(set)))
    }

    /// Reads the members of the eligible sets.
    pub(super) fn sets(&self) -> Vec<SetMembers> {
        self.eligible().map(|set| SetMembers::of(set)).collect()
    }

    /// Reads and checks the placement.
    pub(super) fn policy(&self) -> Result<SchedulingPolicy, Misconfigured> {
        let policy = SchedulingPolicy::read(&self.placement.spec)?;
        SchedulingPolicy::check_name(self.placement.metadata.name.as_deref().unwrap_or_default())?;
        Ok(policy)
    }
}

/// The parsed input: every stage of a cycle reads it, no stage changes it.
#[derive(Clone, Copy)]
pub(super) struct Cycle<'a> {
    pub policy: &'a SchedulingPolicy,
    pub sets: &'a [SetMembers],
    pub fleet: &'a Fleet,
    pub published: &'a Published,
    pub now: Timestamp,
}
