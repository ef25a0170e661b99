//! The pages of a fleet that need no further reads, and the events that keep some of them current.

use axum::response::Response;
use jiff::Timestamp;
use maud::Markup;
use serde::Deserialize;

use super::html::Frame;
use super::paging::address;
use super::shown::Shown;
use super::{attention, document, page, placements, repositories, repository, rollout, rollouts, table};

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

    /// Returns the entry of the navigation for the page.
    fn here(self) -> &'static str {
        match self {
            Self::Overview => "./",
            Self::Clusters => "clusters",
            Self::Rollouts | Self::Rollout => "rollouts",
            Self::Repositories | Self::Repository => "repositories",
            Self::Attention | Self::Placements => "",
        }
    }

    /// Returns true if events keep the page current. An update of a page with a filter would take away what a
    /// person types.
    fn is_live(self) -> bool {
        match self {
            Self::Overview | Self::Attention | Self::Rollout | Self::Repository => true,
            Self::Clusters | Self::Rollouts | Self::Repositories | Self::Placements => false,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Overview => "Fleet",
            Self::Attention => "Needs attention",
            Self::Clusters => "Clusters",
            Self::Rollouts | Self::Rollout => "Rollouts",
            Self::Repositories | Self::Repository => "Repositories",
            Self::Placements => "Placements",
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

impl FleetQuery {
    /// Returns the content of the page, for the part of the fleet that a visitor may see; `None` if the subject of
    /// the page does not exist there.
    pub(super) fn content(&self, shown: &Shown, now: Timestamp) -> Option<Markup> {
        match self.view {
            View::Overview => Some(page::content(&self.by, shown, now)),
            View::Attention => Some(attention::page(self.page, shown, now)),
            View::Clusters => Some(table::page(self, shown, now)),
            View::Rollouts => Some(rollouts::page(self, shown, now)),
            View::Rollout => rollout::content(&self.of, shown, now),
            View::Repositories => Some(repositories::page(self, shown, now)),
            View::Repository => repository::content(&self.of, shown, now),
            View::Placements => Some(placements::page(self, shown)),
        }
    }

    /// Returns the document around the content.
    pub(super) fn document(&self, content: &Markup, visitor: Option<&str>) -> Response {
        let fields = [("view", self.view.path()), ("of", &self.of), ("by", &self.by)];
        let events = if self.view.is_live() { address("events", &fields, self.page) } else { String::new() };
        let title = if self.of.is_empty() { self.view.title() } else { &self.of };
        document(
            Frame { title, visitor, here: self.view.here(), events: &events, is_bare: false }
                .document(content),
        )
    }

    /// Returns the page for a subject that does not exist, or that the visitor may not see.
    pub(super) fn missing(&self) -> String {
        let what = if self.view == View::Repository { "repository" } else { "rollout" };
        page::missing(what, &self.of)
    }
}
