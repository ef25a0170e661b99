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

/// The production limit for [`ScheduleInput::max_steps`]: evaluation takes 8 s at most.
pub const MAX_STEPS: u64 = 2_000_000;

/// The input for scheduling one placement.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleInput<'a> {
    pub placement: &'a Placement,
    /// The existing cluster sets that are bound to its namespace, by name.
    pub bound: &'a [Arc<ManagedClusterSet>],
    /// The published decisions of the placement.
    pub decisions: &'a [Arc<PlacementDecision>],
    pub fleet: &'a Fleet,
    /// The maximum number of steps of CEL expressions for all clusters together; see
    /// [`filter::cel`](super::filter::cel).
    pub max_steps: u64,
}

impl<'a> ScheduleInput<'a> {
    /// Returns the bound sets that the placement requests.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = &'a Arc<ManagedClusterSet>> + use<'a> {
        let asked = &self.placement.spec.cluster_sets;
        let name = |set: &ManagedClusterSet| set.name().to_owned();
        self.bound.iter().filter(move |set| asked.is_empty() || asked.contains(&name(set)))
    }

    /// Returns the members of the eligible sets.
    pub(super) fn sets(&self) -> Vec<SetMembers> {
        self.eligible().map(|set| SetMembers::from_set(set)).collect()
    }

    /// Parses and validates the placement.
    pub(super) fn policy(&self) -> Result<SchedulingPolicy, Misconfigured> {
        let policy = SchedulingPolicy::read(&self.placement.spec)?;
        SchedulingPolicy::check_name(self.placement.metadata.name.as_deref().unwrap_or_default())?;
        Ok(policy)
    }
}

/// The parsed input, which is read-only for all stages of a cycle.
#[derive(Clone, Copy)]
pub(super) struct Cycle<'a> {
    pub policy: &'a SchedulingPolicy,
    pub sets: &'a [SetMembers],
    pub fleet: &'a Fleet,
    pub published: &'a Published,
    pub now: Timestamp,
}
