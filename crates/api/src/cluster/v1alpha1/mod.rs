//! Scores, claims, and the rollout strategy that other groups embed.

mod add_on_placement_score;
mod cluster_claim;
mod rollout_strategy;

pub use add_on_placement_score::{AddOnPlacementScore, AddOnPlacementScoreItem, AddOnPlacementScoreStatus};
pub use cluster_claim::{ClusterClaim, ClusterClaimSpec};
pub use rollout_strategy::{
    MandatoryDecisionGroup, RolloutAll, RolloutProgressive, RolloutProgressivePerGroup, RolloutStrategy,
    RolloutType,
};
