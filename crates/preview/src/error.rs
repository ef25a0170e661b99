//! The errors of a preview.

use super::scope::PreviewScope;
use object::{Gvk, Key};

/// The reason why a commit has no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The snapshot has no such ConfigRepo.
    #[error("there is no ConfigRepo {0} on the hub")]
    NoRepo(Key),
    /// The ConfigRepo only reports and applies nothing.
    #[error(
        "ConfigRepo {0} is in Observe mode: another tool applies its commits, so there is nothing to preview"
    )]
    Observes(Key),
    /// The ConfigRepo is suspended.
    #[error("ConfigRepo {0} is suspended, so commits have no effect until it is resumed")]
    Suspended(Key),
    /// The snapshot lacks these kinds, of which the commit or the inventory has objects.
    #[error("the hub snapshot does not cover these kinds: {}", names(.0))]
    Unread(Vec<Gvk>),
    /// The snapshot leaves out objects of add-ons or sets that the commit touches.
    #[error("the snapshot of the hub leaves out objects that the commit touches")]
    LeftOut(PreviewScope),
    /// The controllers never come to rest.
    #[error("cannot preview the commit: the controllers are still writing after {0} steps")]
    NeverSettles(u32),
}

fn names(kinds: &[Gvk]) -> String {
    kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
