//! The query of a page of a fleet.

use serde::Deserialize;

/// A page of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum View {
    #[default]
    Overview,
    Attention,
    Clusters,
    Rollouts,
    Rollout,
    Repositories,
    Repository,
    Placements,
}

impl View {
    pub(super) const ALL: [Self; 8] = [
        Self::Overview,
        Self::Attention,
        Self::Clusters,
        Self::Rollouts,
        Self::Rollout,
        Self::Repositories,
        Self::Repository,
        Self::Placements,
    ];

    /// Returns the path of the page.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Overview => "",
            Self::Attention => "attention",
            Self::Clusters => "clusters",
            Self::Rollouts => "rollouts",
            Self::Rollout => "rollout",
            Self::Repositories => "repositories",
            Self::Repository => "repository",
            Self::Placements => "placements",
        }
    }
}

/// The query of a page of a fleet, and of its events.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FleetQuery {
    /// The page; for the events only.
    pub(super) view: View,
    /// The name of an add-on, or NAMESPACE/NAME of a set or a repository.
    pub(super) of: String,
    /// The property that groups the clusters of the map.
    pub(super) by: String,
    /// The CSS class of a state.
    pub(super) state: String,
    /// The name of a cluster set.
    pub(super) set: String,
    /// A label selector, such as `region=eu`.
    pub(super) label: String,
    /// The title of a group of a rollout.
    pub(super) group: String,
    /// The name of an add-on, or NAMESPACE/NAME of a set.
    pub(super) rollout: String,
    /// A part of a name.
    pub(super) q: String,
    /// The page of a list, starting at 1.
    pub(super) page: usize,
}
