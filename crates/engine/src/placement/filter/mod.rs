//! The filter stage: predicates first, then taints.

mod attributes;
pub mod cel;
mod evaluate;
pub(super) mod predicate;
pub(super) mod taint;

pub use attributes::ClusterAttributes;
pub(super) use evaluate::{Evaluation, evaluate};

/// The stage of the filters that a cluster reached; the order is that of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FilterResult {
    /// The cluster does not exist or is being deleted. It cannot come back, so its decision goes at once.
    #[default]
    Gone,
    /// The cluster is in none of the sets the placement may use.
    Outside,
    /// No predicate matches the cluster.
    Unmatched,
    /// The cluster has a taint that is not tolerated.
    Tainted,
    /// The toleration of a taint expired. Its time was known before, so the decision goes at once.
    Expired,
    /// The cluster passed all filters.
    Feasible,
}

impl FilterResult {
    /// The number of variants.
    pub(crate) const COUNT: usize = Self::Feasible as usize + 1;
}
