//! The repositories of a fleet as a table.

use jiff::Timestamp;
use maud::{Markup, html};

use super::html::{ago, search, state};
use super::paging::{Page, encoded};
use super::query::FleetQuery;
use super::repository::{commit, summary};
use super::shown::Shown;
use super::state::State;
use controllers::hub::overview::Repository;
use object::text::clip;

/// The maximum number of repositories in the overview.
const SHOWN: usize = 10;
/// The maximum length of a message, in characters.
const MESSAGE: usize = 200;

/// Returns the first repositories, the most urgent ones first.
pub(super) fn repositories(shown: &Shown, now: Timestamp) -> Markup {
    let all = sorted(shown, "");
    html! {
        section .panel aria-labelledby="repositories" {
            header {
                h2 #repositories { "Repositories " span .dim { (all.len()) } }
                @if all.len() > SHOWN { a .small #all-repositories href="repositories" { "All repositories" } }
            }
            @if all.is_empty() { p .empty { "There is no ConfigRepo that you may see." } }
            @else { (table(all.iter().copied().take(SHOWN), now)) }
        }
    }
}

/// Returns the page with all repositories.
pub(super) fn page(query: &FleetQuery, shown: &Shown, now: Timestamp) -> Markup {
    let all = sorted(shown, query.q.trim());
    let page = Page::new(query.page, all.len());
    html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Repositories" }
        div .head {
            h1 { "Repositories" }
            form .filter action="repositories" {
                (search("q", "Name or URL contains", &query.q)) button { "Filter" }
            }
        }
        section .panel aria-label="Repositories" {
            @if all.is_empty() { p .empty { "No repository matches." } }
            @else { (table(page.rows(&all).copied(), now)) (page.links("repositories", &[("q", &query.q)])) }
        }
    }
}

/// Returns the repositories whose names or URLs contain a text, the most urgent ones first.
fn sorted<'s>(shown: &'s Shown, text: &str) -> Vec<&'s Repository> {
    let is_match = |one: &&Repository| one.name.contains(text) || one.url.contains(text);
    let mut all: Vec<_> = shown.overview.repositories.iter().filter(is_match).collect();
    all.sort_by_key(|repository| summary(repository).0);
    all
}

fn table<'s>(repositories: impl Iterator<Item = &'s Repository>, now: Timestamp) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Repository" } th scope="col" { "State" } th scope="col" { "Commit" }
                th scope="col" { "Seen" } th scope="col" { "Message" }
            } }
            tbody { @for repository in repositories { (row(repository, now)) } }
        }
    }
}

fn row(repository: &Repository, now: Timestamp) -> Markup {
    let Repository { name, url, follows, seen, seen_at, applied, message, report_error, .. } = repository;
    let (worst, word) = summary(repository);
    html! {
        tr {
            th scope="row" {
                a id={ "repository:" (name) } href={ "repository?of=" (encoded(name)) } { (name) }
                br; span .small.dim { (follows) }
            }
            td { (state(worst, word)) }
            td { (commit(url, seen)) }
            td .when { (ago(seen_at, now)) }
            td .why {
                (clip(message, MESSAGE))
                @if !applied.is_empty() && applied != seen { br; span .small.dim { "applied: " (commit(url, applied)) } }
                @if !report_error.is_empty() { br; span .small { (state(State::Warned, "Not reported")) } }
            }
        }
    }
}
