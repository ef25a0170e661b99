//! The filter stage: predicates first, then taints.

mod attributes;
pub mod cel;
mod evaluate;
pub(super) mod predicate;
pub(super) mod taint;

pub use attributes::ClusterAttributes;
pub(super) use evaluate::{Evaluation, evaluate};

/// The furthest filter stage that a cluster reached, in pipeline order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FilterResult {
    /// The cluster does not exist or is being deleted. It cannot come back, so its decision is removed at once.
    #[default]
    Gone,
    /// The cluster is in none of the placement's sets.
    Outside,
    /// No predicate matches the cluster.
    Unmatched,
    /// The cluster has an untolerated taint.
    Tainted,
    /// The toleration of a taint expired. The time was known in advance, so the decision is removed at once.
    Expired,
    /// The cluster passed all filters.
    Feasible,
}

impl FilterResult {
    /// The number of variants.
    pub(crate) const COUNT: usize = Self::Feasible as usize + 1;
}
