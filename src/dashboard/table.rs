//! The paginated table of clusters, filtered by state, set, label, group, rollout and name.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};

use super::fleet_map::{Cell, cells, cells_of};
use super::html::{cluster_link, legend, relative, search, select, state};
use super::paging::{Page, address};
use super::query::FleetQuery;
use super::shown::Shown;
use super::state::State;
use api::names::CLUSTER_SET_LABEL;
use controllers::hub::overview::WorkloadSummary;
use object::Selector;

/// The maximum number of values in a field of the filter.
const VALUES: usize = 200;

/// Returns a workload by name.
pub(super) fn workload<'s>(shown: &'s Shown, name: &str) -> Option<&'s WorkloadSummary> {
    let overview = &shown.overview;
    overview.workloads().find(|workload| workload.name == name)
}

/// Returns the fields of the address, with another state.
fn fields<'q>(query: &'q FleetQuery, state: &'q str) -> [(&'static str, &'q str); 6] {
    [
        ("state", state),
        ("set", &query.set),
        ("label", &query.label),
        ("rollout", &query.rollout),
        ("group", &query.group),
        ("q", &query.q),
    ]
}

/// Returns the clusters of the filter in any state, or the reason why the label selector is invalid.
fn matching<'s>(query: &FleetQuery, shown: &'s Shown) -> Result<Vec<Cell<'s>>, String> {
    let selector: Selector =
        query.label.parse().map_err(|error| format!("the label selector is invalid: {error}"))?;
    let mut all = match query.rollout.as_str() {
        "" => cells(shown),
        name => workload(shown, name).map(cells_of).unwrap_or_default(),
    };
    let none = BTreeMap::new();
    all.retain(|cell| {
        let labels = shown.overview.clusters.labels.get(cell.name).unwrap_or(&none);
        let is_in_set = query.set.is_empty() || labels.get(CLUSTER_SET_LABEL) == Some(&query.set);
        let is_in_group = query.group.is_empty() || *cell.group == *query.group;
        is_in_set && is_in_group && selector.matches(labels) && cell.name.contains(query.q.trim())
    });
    Ok(all)
}

/// Returns the content of the page.
pub(super) fn page(query: &FleetQuery, shown: &Shown, now: Timestamp) -> Markup {
    let (matching, problem) = match matching(query, shown) {
        Ok(matching) => (matching, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let counts = State::count(matching.iter().map(|cell| cell.state));
    let wanted = State::from_class(&query.state);
    let mut rows: Vec<_> =
        matching.into_iter().filter(|cell| wanted.is_none_or(|wanted| cell.state == wanted)).collect();
    rows.sort_by(|a, b| (a.state, a.name).cmp(&(b.state, b.name)));
    let page = Page::new(query.page, rows.len());
    html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Clusters" }
        div .head { h1 { "Clusters" } p .dim { (rows.len()) " shown" } }
        (filters(query, shown))
        @if let Some(problem) = problem { p .problem role="alert" { (problem) } }
        section .panel aria-label="Clusters" {
            div .body.top {
                (legend("Filter by state", &counts, Some(wanted.map_or("", State::class)), |state| {
                    address("clusters", &fields(query, state), 1)
                }))
            }
            @if rows.is_empty() { p .empty { "No cluster matches." } }
            @else { (table(page.rows(&rows), Some(shown), now)) (page.links("clusters", &fields(query, &query.state))) }
        }
    }
}

fn filters(query: &FleetQuery, shown: &Shown) -> Markup {
    let of_clusters = shown.overview.clusters.labels.values();
    let all: BTreeSet<_> = of_clusters.filter_map(|labels| labels.get(CLUSTER_SET_LABEL)).collect();
    let sets: Vec<_> = all.into_iter().map(String::as_str).take(VALUES).collect();
    let rollouts: Vec<_> = shown.overview.workloads().map(|one| one.name.as_str()).take(VALUES).collect();
    let is_filtered = fields(query, "").iter().any(|(_, value)| !value.is_empty());
    html! {
        form .filters action="clusters" {
            @for (name, value) in [("state", &query.state), ("group", &query.group)] {
                @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
            }
            @if shown.clusters {
                (select("set", "Any set", &sets, &query.set))
                (search("label", "Labels, such as region=eu,!edge", &query.label))
            }
            (select("rollout", "Any add-on or set of works", &rollouts, &query.rollout))
            (search("q", "Name contains", &query.q))
            button { "Filter" }
            @if !query.group.is_empty() { span .dim { "group " b { (query.group) } } }
            @if is_filtered { a #clear href="clusters" { "Clear" } }
        }
    }
}

/// Returns clusters as a table; with their sets and groups if `shown` has the labels.
pub(super) fn table<'c>(
    cells: impl Iterator<Item = &'c Cell<'c>>,
    shown: Option<&Shown>,
    now: Timestamp,
) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Version" }
                @if shown.is_some() { th scope="col" { "Set" } th scope="col" { "Group" } }
                th scope="col" { "Reason" } th scope="col" { "Since" }
            } }
            tbody { @for cell in cells { (row(cell, shown, now)) } }
        }
    }
}

fn row(cell: &Cell<'_>, shown: Option<&Shown>, now: Timestamp) -> Markup {
    let Cell { name, state: of, label, version, reason, since, until, group } = cell;
    html! {
        tr {
            th scope="row" { (cluster_link("table", name)) }
            td { (state(*of, label)) }
            td data-label="Version" { (version) }
            @if let Some(shown) = shown {
                td .when data-label="Set" { (shown.label(name, CLUSTER_SET_LABEL).unwrap_or("–")) }
                td .dim data-label="Group" { (group) }
            }
            td .why { (reason) }
            td .when {
                @if let Some(since) = since { (relative(*since, now)) " " }
                @if let Some(until) = until { span .small.dim { "ends " (relative(*until, now)) } }
            }
        }
    }
}
