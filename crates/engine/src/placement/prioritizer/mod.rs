//! The prioritizers, which rank feasible clusters.
//!
//! A prioritizer gives each cluster a score from -100 to 100. The total of a cluster is the sum of its weighted
//! scores. A built-in prioritizer consists of a file with a [`Prioritizer`] and its entry in [`BUILT_IN`];
//! nothing else knows its name.

mod addon;
mod balance;
mod reported;
mod resource;
mod steady;
mod weights;

use jiff::Timestamp;

use super::fleet::{Fleet, Id};
use super::input::Cycle;
use super::published::Published;
use api::cluster::v1::ManagedCluster;

pub(super) use addon::first_invalid;
pub(super) use reported::Reported;
pub(super) use weights::{ScoreKey, Weighted, weights};

/// The maximum score. The minimum is its negative.
const MAX_SCORE: i64 = 100;

/// The prioritizers that a placement can name in `scoreCoordinate.builtIn`.
pub(super) static BUILT_IN: &[&Prioritizer] =
    &[&balance::BALANCE, &steady::STEADY, &resource::ALLOCATABLE_CPU, &resource::ALLOCATABLE_MEMORY];

/// A method for scoring clusters.
pub struct Prioritizer {
    /// The name in the spec, in explanations and in events.
    pub name: &'static str,
    /// The range to which its scores are relative.
    pub(super) scale: Scale,
    /// Scores one cluster.
    pub(super) score: fn(&ScoreInput<'_>) -> Score,
    /// Returns true if two states of a cluster differ in the fields that the scale and score read. Only such
    /// changes wake the placements.
    pub(super) differs: fn(&ManagedCluster, &ManagedCluster) -> bool,
}

impl std::fmt::Debug for Prioritizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns true if any prioritizer may score two states of a cluster differently.
pub(super) fn differs(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    BUILT_IN.iter().any(|prioritizer| (prioritizer.differs)(old, new))
}

/// The range to which the scores of a prioritizer are relative.
pub(super) enum Scale {
    /// Scores depend only on the cluster.
    Absolute,
    /// Scores depend on a range that is measured over the whole hub.
    Hub(fn(&Fleet, &Published) -> Range),
    /// Scores depend on the minimum and maximum that feasible clusters report.
    Feasible(fn(&ManagedCluster) -> Option<f64>),
}

/// The input of a prioritizer for one cluster.
pub(super) struct ScoreInput<'a> {
    pub cycle: &'a Cycle<'a>,
    pub id: Id,
    /// The range measured by its [`Scale`].
    pub range: Range,
    /// The add-on score to read, for the add-on prioritizer.
    pub add_on: Option<&'a ScoreKey>,
}

/// The score of a prioritizer for one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    /// A score, and the first moment at which it is no longer valid.
    Valid { value: i64, until: Option<Timestamp> },
    /// The cluster does not report the value. The score counts as 0.
    Unreported,
    /// No add-on published the score. It counts as 0, and the cluster ranks after all clusters with valid
    /// scores.
    Missing,
    /// The score was valid until this time. It counts as missing.
    Expired(Timestamp),
}

impl Score {
    fn lasting(value: i64) -> Self {
        Self::Valid { value, until: None }
    }

    /// Returns the score, if it is valid.
    pub(super) fn value(self) -> Option<i64> {
        match self {
            Self::Valid { value, .. } => Some(value),
            Self::Unreported | Self::Missing | Self::Expired(_) => None,
        }
    }
}

/// The minimum and maximum of the values to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    /// The minimum; infinite if there is no value.
    pub least: f64,
    /// The maximum; negative infinite if there is no value.
    pub most: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Range {
    /// Extends the range to include a value.
    #[must_use]
    pub(super) fn with(self, value: f64) -> Self {
        Self { least: self.least.min(value), most: self.most.max(value) }
    }
}

/// Measures the range of every weighted prioritizer, given all feasible clusters.
pub(super) fn measure(cycle: &Cycle<'_>, feasible: &[Id]) -> Vec<Range> {
    let range = |weighted: &Weighted| match weighted.prioritizer.scale {
        Scale::Absolute => Range::default(),
        Scale::Hub(measure) => measure(cycle.fleet, cycle.published),
        Scale::Feasible(reported) => {
            let clusters = feasible.iter().filter_map(|id| cycle.fleet.cluster(*id));
            clusters.filter_map(|cluster| reported(cluster)).fold(Range::default(), Range::with)
        }
    };
    cycle.policy.weights.iter().map(range).collect()
}
