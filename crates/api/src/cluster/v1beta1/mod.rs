//! Placements and their decisions.

mod placement;
mod placement_decision;

pub use placement::{
    AddOnScore, ClusterCelSelector, ClusterClaimSelector, ClusterPredicate, ClusterSelector, DecisionGroup,
    DecisionGroupStatus, DecisionStrategy, GroupClusterSelector, GroupStrategy, Placement, PlacementSpec,
    PlacementStatus, PrioritizerConfig, PrioritizerMode, PrioritizerPolicy, ScoreCoordinate, ScoreType,
    SortBy, SpreadConstraint, SpreadPolicy, Toleration, TolerationOperator, TopologyKeyType,
    UnsatisfiableAction,
};
pub use placement_decision::{ClusterDecision, PlacementDecision, PlacementDecisionStatus};
