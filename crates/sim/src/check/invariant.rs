//! Names the invariants.

use std::fmt::{Display, Formatter};

use jiff::Timestamp;

/// A promise of the product. `Display` prints it as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// The world reaches a state in which nothing is written.
    ComesToRest,
    /// A second reconciliation writes nothing.
    NoWriteAtRest,
    /// Decisions are deterministic.
    SameInputSamePlan,
    /// Writes keep their preconditions.
    Preconditions,
    /// Only owned objects are deleted.
    NothingUnownedIsDeleted,
    /// Only owned objects are overwritten.
    NothingUnownedIsOverwritten,
    /// Ownership is recorded before creation.
    InventoryNamesEveryObject,
    /// Deletions stay within their budget.
    DeletionBudget,
    /// The rollout engine's oracle finds no broken promise.
    RolloutPromise,
    /// Works are rendered from the snapshot that the rollout assigned.
    WorksHaveAssignedContent,
    /// All objects of an add-on on a cluster have the same revision.
    NoMixOfRevisions,
    /// A failed read or an unresponsive cluster removes no cluster from a Placement.
    PlacementsKeepWhatFits,
    /// Argo CD's lists and secrets follow the decisions.
    ArgoCdKeepsClusters,
    /// A cluster gets access only after its acceptance.
    OnlyAcceptedClustersGetAccess,
    /// Controllers see their own writes at once.
    OwnWritesAreSeen,
    /// Nothing changes during a pause.
    PauseHolds,
    /// A report causes no commit that is then applied.
    ReportsCauseNoCommit,
    /// Deletions finish.
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
#[error("{invariant:?} at {at}: {invariant} {blames}: {reason}")]
pub struct InvariantViolation {
    /// The broken promise.
    pub invariant: Invariant,
    /// The object that shows it.
    pub blames: String,
    /// A description of the violation.
    pub reason: String,
    /// When it was broken.
    pub at: Timestamp,
}
