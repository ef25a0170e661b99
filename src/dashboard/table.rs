//! The paginated table of clusters, filtered by state, group, rollout and name.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::fleet_map::{Cell, cells, cells_of, encoded};
use super::html::{Frame, ago, clock, cluster_link, state};
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::WorkloadSummary;

/// The number of rows per page.
pub(super) const ROWS: usize = 50;

/// The query of the table.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TableQuery {
    /// The CSS class of a state.
    #[serde(default)]
    state: String,
    /// The title of a group.
    #[serde(default)]
    group: String,
    /// The name of an add-on, or NAMESPACE/NAME of a set.
    #[serde(default)]
    rollout: String,
    /// A part of a cluster name.
    #[serde(default)]
    q: String,
    /// The page number, starting at 1.
    #[serde(default)]
    page: usize,
}

impl TableQuery {
    /// Returns the address of the table with another state and page.
    fn address(&self, state: &str, page: usize) -> String {
        let fields = [("state", state), ("group", &self.group), ("rollout", &self.rollout), ("q", &self.q)];
        let fields = fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<_> = fields.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let page = if page > 1 { vec![format!("page={page}")] } else { Vec::new() };
        format!("clusters?{}", [fields, page].concat().join("&"))
    }

    fn is_match(&self, cell: &Cell<'_>) -> bool {
        (self.group.is_empty() || cell.group == self.group) && cell.name.contains(self.q.trim())
    }
}

/// Returns a workload by name.
pub(super) fn workload<'s>(shown: &'s Shown, name: &str) -> Option<&'s WorkloadSummary> {
    let overview = &shown.overview;
    overview.workloads().find(|workload| workload.name == name)
}

pub(super) fn page(query: &TableQuery, shown: &Shown, visitor: Option<&str>, now: Timestamp) -> String {
    let all = match query.rollout.as_str() {
        "" => cells(shown),
        name => workload(shown, name).map(cells_of).unwrap_or_default(),
    };
    let matching: Vec<Cell<'_>> = all.into_iter().filter(|cell| query.is_match(cell)).collect();
    let counts = State::count(matching.iter().map(|cell| cell.state));
    let wanted = State::from_class(&query.state);
    let total = matching.len();
    let mut rows: Vec<_> =
        matching.into_iter().filter(|cell| wanted.is_none_or(|wanted| cell.state == wanted)).collect();
    rows.sort_by(|a, b| (a.state, a.name).cmp(&(b.state, b.name)));
    let pages = rows.len().div_ceil(ROWS).max(1);
    let number = query.page.clamp(1, pages);
    let shown_rows = rows.iter().skip((number - 1) * ROWS).take(ROWS);
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Clusters" }
        div .head { h1 { "Clusters" } (filters(query)) }
        section .panel aria-label="Clusters" {
            div .body.top {
                nav .legend aria-label="Filter by state" {
                    a href=(query.address("", 1)) aria-current=[wanted.is_none().then_some("true")] {
                        "All" b { (total) }
                    }
                    @for (state, count) in counts {
                        a href=(query.address(state.class(), 1))
                            aria-current=[(wanted == Some(state)).then_some("true")] {
                            span class={ "st " (state.class()) } { (state.word()) } b { (count) }
                        }
                    }
                }
            }
            @if rows.is_empty() { p .empty { "No cluster matches." } }
            @else { (table(shown_rows, now)) (paging(query, number, pages)) }
        }
    };
    Frame { title: "Clusters", visitor, here: "clusters", ..Frame::default() }.document(&main)
}

fn filters(query: &TableQuery) -> Markup {
    html! {
        @for (name, value) in [("group", &query.group), ("rollout", &query.rollout)] {
            @if !value.is_empty() { p .dim { (name) " " b { (value) } } }
        }
        form .filter action="clusters" {
            @for (name, value) in [("state", &query.state), ("group", &query.group), ("rollout", &query.rollout)] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
            label .vh for="q" { "Name contains" }
            input #q type="search" name="q" value=(query.q) placeholder="Name contains" autocomplete="off"
                autocapitalize="none";
            button { "Filter" }
        }
    }
}

/// Returns clusters as a table.
pub(super) fn table<'c>(cells: impl Iterator<Item = &'c Cell<'c>>, now: Timestamp) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Version" }
                th scope="col" { "Since" } th scope="col" { "Group" } th scope="col" { "Reason" }
            } }
            tbody {
                @for cell in cells {
                    tr {
                        th scope="row" { (cluster_link("table", cell.name)) }
                        td { (state(cell.state, &cell.label)) }
                        td { (cell.version) }
                        td {
                            @if let Some(since) = cell.since { (ago(&since.to_string(), now)) " " }
                            @if let Some(until) = cell.until { span .dim { "until " (clock(until)) } }
                        }
                        td .dim { (cell.group) }
                        td .why { (cell.why) }
                    }
                }
            }
        }
    }
}

fn paging(query: &TableQuery, number: usize, pages: usize) -> Markup {
    html! {
        @if pages > 1 {
            nav .paging aria-label="Pages" {
                @if number > 1 { a .btn href=(query.address(&query.state, number - 1)) { "Previous" } }
                span .dim { "Page " (number) " of " (pages) }
                @if number < pages { a .btn href=(query.address(&query.state, number + 1)) { "Next" } }
            }
        }
    }
}
