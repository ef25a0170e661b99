//! What keeps a cluster out of a placement: predicates first, then taints.

pub mod cel;
mod facts;
pub mod predicate;
pub mod taint;

use jiff::Timestamp;

pub use facts::Facts;

/// How far a cluster came through the filters; the order is that of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verdict {
    /// There is no such cluster, or it is being deleted. Nothing brings it back, so its decision goes at once.
    #[default]
    Gone,
    /// It is in none of the sets the placement may use.
    Outside,
    /// No predicate matches it.
    Unmatched,
    /// It has a taint that is not tolerated.
    Tainted,
    /// It had a taint whose toleration has expired; that was announced, so its decision goes at once.
    Expired,
    /// It may be selected.
    Feasible,
}

/// What the taints of a cluster mean for a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tolerated {
    /// When the first toleration it depends on expires.
    pub until: Option<Timestamp>,
    /// Whether the cluster should come after those without such taints.
    pub avoid: bool,
}
