//! The invariants by name.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;

/// A promise of the product. `Display` gives it as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// The world reaches a state without writes.
    ComesToRest,
    /// A second reconciliation writes nothing.
    NoWriteAtRest,
    /// Decisions are deterministic.
    SameInputSamePlan,
    /// Writes keep their preconditions.
    Preconditions,
    /// Objects of others are not deleted.
    NothingUnownedIsDeleted,
    /// Objects of others are not overwritten.
    NothingUnownedIsOverwritten,
    /// Ownership is recorded ahead.
    InventoryNamesEveryObject,
    /// Deletions keep their budget.
    DeletionBudget,
    /// The oracle of the rollout engine finds no broken promise.
    RolloutPromise,
    /// Works are rendered from the snapshot that the rollout assigned.
    WorksHaveAssignedContent,
    /// All objects of an add-on on a cluster are of one revision.
    NoMixOfRevisions,
    /// A failed read or a silence takes no cluster from a Placement.
    PlacementsKeepWhatFits,
    /// The lists and the secrets for Argo CD follow the decisions.
    ArgoCdKeepsClusters,
    /// A cluster gets access after its acceptance.
    OnlyAcceptedClustersGetAccess,
    /// Own writes count at once.
    OwnWritesAreSeen,
    /// A pause changes nothing.
    PauseHolds,
    /// A report causes no commit that is applied.
    ReportsCauseNoCommit,
    /// Deletions end.
    FinalizersDrain,
}

impl Display for Invariant {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ComesToRest => "The world comes to rest when nothing changes.",
            Self::NoWriteAtRest => "A controller writes nothing when desired equals live.",
            Self::SameInputSamePlan => "The same input gives the same plan.",
            Self::Preconditions => "A write never undoes a newer write of another.",
            Self::NothingUnownedIsDeleted => "A controller deletes only objects that are ours.",
            Self::NothingUnownedIsOverwritten => "A controller overwrites only objects that are ours.",
            Self::InventoryNamesEveryObject => {
                "An inventory names an object from before its creation until after its deletion."
            }
            Self::DeletionBudget => "Deletions stay within the budget unless a person approves them.",
            Self::RolloutPromise => "A rollout keeps its promises.",
            Self::WorksHaveAssignedContent => "The works of an add-on have the content that is assigned.",
            Self::NoMixOfRevisions => "A cluster at rest has one revision of an add-on, the assigned one.",
            Self::PlacementsKeepWhatFits => {
                "A Placement without a limit drops only clusters that do not fit."
            }
            Self::ArgoCdKeepsClusters => "Argo CD knows every cluster that its Placement selects.",
            Self::OnlyAcceptedClustersGetAccess => {
                "Only the agents of accepted clusters get permissions and certificates."
            }
            Self::OwnWritesAreSeen => "A controller decides on what it has written itself.",
            Self::PauseHolds => "Nothing moves while a policy pauses.",
            Self::ReportsCauseNoCommit => "A status commit never causes another commit.",
            Self::FinalizersDrain => "A deleted object goes away.",
        })
    }
}

/// A broken promise, with the object that shows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant:?} at {at}: {invariant} {blames}: {why}")]
pub struct InvariantViolation {
    /// The promise.
    pub invariant: Invariant,
    /// The object.
    pub blames: String,
    /// The description of the breach.
    pub why: String,
    /// When.
    pub at: Timestamp,
}
