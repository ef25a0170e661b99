//! The overview of a fleet, and the pages that show no fleet.

use jiff::Timestamp;
use maud::{Markup, html};

use super::attention;
use super::fleet_map::{Grouping, cells, map};
use super::html::Frame;
use super::paging::encoded;
use super::placements::placements;
use super::repositories::repositories;
use super::rollouts::{open_rollouts, rollouts};
use super::shown::Shown;
use engine::plural::counted;

/// Returns the page that asks for a token, with the reason why the last token was rejected. `has_oidc` is true if the
/// visitor can get a token from the identity provider of the hub.
pub(super) fn login(reason: &str, has_oidc: bool) -> String {
    let main = html! {
        section .panel.narrow {
            h1 { "Log in" }
            @if !reason.is_empty() { p .problem role="alert" { (reason) } }
            @if has_oidc { p { a .btn.go #oidc href="oidc-login" { "Log in with your identity provider" } } }
            p { "You see what the hub lets you see. A token of a service account comes from "
                code { "kubectl create token NAME" } "." }
            form method="post" action="login" {
                label for="token" { "Token of the hub" }
                input #token type="password" name="token" autocomplete="off" required;
                button .go { "Log in" }
            }
        }
    };
    Frame { title: "Log in", is_bare: true, ..Frame::default() }.document(&main)
}

/// Returns the page after a login with the identity provider, which leads to the overview.
pub(super) fn logged_in() -> String {
    let main = html! {
        section .panel.narrow {
            h1 { "Logged in" }
            p { a #on href="./" { "Go to the fleet" } }
        }
    };
    Frame { title: "Logged in", is_bare: true, ..Frame::default() }.document(&main)
}

/// Returns the page for a rejected request.
pub(super) fn refused(reason: &str) -> String {
    unanswered("Refused", reason)
}

fn unanswered(title: &'static str, reason: &str) -> String {
    let main = html! {
        section .panel.narrow {
            h1 { (title) }
            p .problem role="alert" { (reason) }
            p { a #back href="./" { "Back to the fleet" } }
        }
    };
    Frame { title, ..Frame::default() }.document(&main)
}

/// Returns the content while the fleet cannot be read.
pub(super) fn problem(reason: &str) -> Markup {
    html! {
        section .panel.narrow {
            h1 { "Fleet" }
            p .problem { "The hub cannot be read now: " (reason) }
        }
    }
}

/// Returns the content of the overview, with the clusters grouped by a property.
pub(super) fn content(by: &str, shown: &Shown, now: Timestamp) -> Markup {
    let cells = cells(shown);
    let grouping = Grouping::parse(by, shown);
    let open = open_rollouts(shown).count();
    html! {
        div .head {
            h1 { "Fleet" }
            p .dim { (counted(cells.len(), "cluster"))
                @if shown.clusters {
                    " · " (shown.overview.clusters.available) " of " (shown.overview.clusters.total) " available"
                }
                " · " (counted(open, "open rollout"))
            }
        }
        (attention::band(shown, now))
        section .panel aria-labelledby="clusters" {
            header {
                h2 #clusters { "Clusters" }
                span .dim.small { "by " (grouping.words()) ", each in its most urgent state" }
                a .small #table href="clusters" { "Show as a table" }
            }
            @if cells.is_empty() { p .empty { "There is no cluster that you may see." } }
            @else { div .body { (map(&cells, grouping, shown)) } }
        }
        (rollouts(shown, now))
        (repositories(shown, now))
        (placements(shown))
        @for note in &shown.notes { p .note.dim.small { (note) } }
    }
}

/// Returns the page for a cluster that does not exist, or whose objects the visitor may not see.
pub(super) fn no_cluster(name: &str) -> String {
    let main = html! {
        section .panel.narrow {
            h1 { "Not found" }
            p .problem role="alert" { "There is no cluster " (name) " that you may see." }
            p { a #search href={ "clusters?q=" (encoded(name)) } { "Search for names that contain it" } }
            p { a #back href="./" { "Back to the fleet" } }
        }
    };
    Frame { title: "Not found", ..Frame::default() }.document(&main)
}

/// Returns the page for a rollout or a repository that does not exist, or that the visitor may not see.
pub(super) fn missing(what: &str, name: &str) -> String {
    unanswered("Not found", &format!("There is no {what} {name} that you may see."))
}

/// Returns the page for a placement that does not exist.
pub(super) fn no_placement(name: &str) -> String {
    unanswered("Not found", &format!("There is no Placement {name}."))
}
