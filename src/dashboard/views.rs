//! The pages of a fleet that need no further reads, and the events that keep some of them current.

use axum::response::Response;
use jiff::Timestamp;
use maud::Markup;

use super::html::Frame;
use super::paging::address;
use super::query::{FleetQuery, View};
use super::shown::Shown;
use super::{attention, document, page, placements, repositories, repository, rollout, rollouts, table};

impl View {
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
