//! The placements of a fleet.

use maud::{Markup, html};

use super::html::{search, state};
use super::paging::{Page, encoded};
use super::query::FleetQuery;
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::PlacementOverview;

/// The maximum number of placements in the overview.
const SHOWN: usize = 10;

/// Returns the first placements, unsatisfied ones first.
pub(super) fn placements(shown: &Shown) -> Markup {
    let all = sorted(shown, "");
    html! {
        section .panel aria-labelledby="placements" {
            header {
                h2 #placements { "Placements " span .dim { (all.len()) } }
                @if all.len() > SHOWN { a .small #all-placements href="placements" { "All placements" } }
            }
            @if all.is_empty() { p .empty { "There is no Placement that you may see." } }
            @else { (table(all.iter().copied().take(SHOWN), shown)) }
        }
    }
}

/// Returns the page with all placements.
pub(super) fn page(query: &FleetQuery, shown: &Shown) -> Markup {
    let all = sorted(shown, query.q.trim());
    let page = Page::new(query.page, all.len());
    html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Placements" }
        div .head {
            h1 { "Placements" }
            form .filter action="placements" { (search("q", "Name contains", &query.q)) button { "Filter" } }
        }
        section .panel aria-label="Placements" {
            @if all.is_empty() { p .empty { "No placement matches." } }
            @else { (table(page.rows(&all).copied(), shown)) (page.links("placements", &[("q", &query.q)])) }
        }
    }
}

/// Returns the placements whose names contain a text, unsatisfied ones first.
fn sorted<'s>(shown: &'s Shown, text: &str) -> Vec<&'s PlacementOverview> {
    let is_match = |placement: &&PlacementOverview| placement.name.contains(text);
    let mut all: Vec<_> = shown.overview.placements.iter().filter(is_match).collect();
    all.sort_by_key(|placement| placement.satisfied);
    all
}

fn table<'s>(placements: impl Iterator<Item = &'s PlacementOverview>, shown: &Shown) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Placement" } th scope="col" { "Clusters" } th scope="col" { "State" }
            } }
            tbody {
                @for PlacementOverview { name, selected, satisfied, message } in placements {
                    tr {
                        th scope="row" {
                            @if shown.explain_placements {
                                a id={ "placement:" (name) } href={ "placement?of=" (encoded(name)) } { (name) }
                            } @else { (name) }
                        }
                        td { (selected) " selected" }
                        td {
                            @if *satisfied { (state(State::Done, "Satisfied")) }
                            @else { (state(State::Warned, "Not satisfied")) " " (message) }
                        }
                    }
                }
            }
        }
    }
}
