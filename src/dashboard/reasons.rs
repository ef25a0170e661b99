//! The meaning of the reasons in conditions, and what to do about them, from the pages of the documentation.

use std::sync::LazyLock;

use jiff::Timestamp;
use maud::{Markup, html};

use super::html::{Frame, ago, state};
use super::state::State;
use api::names::{cluster_conditions, gitops_conditions};
use controllers::hub::overview::ConditionSummary;

const OF_REPOSITORIES: [&str; 2] =
    [include_str!("../../docs/conditions.md"), include_str!("../../docs/conditions-of-git.md")];
const OF_OBJECTS: [&str; 4] = [
    include_str!("../../docs/conditions-of-clusters.md"),
    include_str!("../../docs/conditions-of-addons.md"),
    include_str!("../../docs/conditions-of-works.md"),
    include_str!("../../docs/conditions-of-klusterlets.md"),
];

static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    OF_REPOSITORIES
        .into_iter()
        .flat_map(sections)
        .map(|section| Section { is_of_repositories: true, ..section })
        .chain(OF_OBJECTS.into_iter().flat_map(sections))
        .filter(|section| !section.reasons.is_empty())
        .collect()
});

/// A section of a page of the documentation.
struct Section {
    title: &'static str,
    is_of_repositories: bool,
    reasons: Vec<Reason>,
}

/// A row of a table of reasons.
struct Reason {
    /// The reasons, each between backticks.
    names: &'static str,
    /// The conditions with these reasons; empty on the pages about repositories.
    conditions: &'static str,
    meaning: &'static str,
    advice: &'static str,
}

impl Reason {
    fn parse(row: &'static str) -> Option<Self> {
        let cells: Vec<_> =
            row.strip_prefix("| ")?.trim_end_matches('|').split(" | ").map(str::trim).collect();
        let (names, conditions, meaning, advice) = match *cells.as_slice() {
            [names, meaning, advice] => (names, "", meaning, advice),
            [names, conditions, meaning, advice] => (names, conditions, meaning, advice),
            _ => return None,
        };
        names.starts_with('`').then_some(Self { names, conditions, meaning, advice })
    }

    fn is_of(&self, reason: &str) -> bool {
        self.names().any(|name| name == reason)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split('`').skip(1).step_by(2)
    }
}

fn sections(page: &'static str) -> impl Iterator<Item = Section> {
    page.split("\n## ").skip(1).map(|text| {
        let title = text.lines().next().unwrap_or_default();
        Section {
            title,
            is_of_repositories: false,
            reasons: text.lines().filter_map(Reason::parse).collect(),
        }
    })
}

/// Returns the row about a reason of a condition, with its section.
fn find(is_of_repositories: bool, condition: &ConditionSummary) -> Option<Known> {
    SECTIONS
        .iter()
        .filter(|section| section.is_of_repositories == is_of_repositories)
        .flat_map(|section| section.reasons.iter().map(move |row| (section, row)))
        .filter(|(_, row)| row.is_of(&condition.reason))
        // The pages about repositories name no conditions.
        .find(|(_, row)| row.conditions.is_empty() || row.conditions.contains(&condition.type_))
}

/// Returns the id of a reason on the page about conditions.
fn id(section: &Section, reason: &str) -> String {
    format!("{}:{reason}", section.title.replace(' ', "-"))
}

/// Renders a text of the documentation: code, and links as their text.
fn inline(text: &str) -> Markup {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let (label, target) = link.split_once("](").unwrap_or((link, ""));
        plain.push_str(before);
        plain.push_str(label);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    html! {
        @for (number, part) in plain.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Returns the state in which a condition is shown.
fn state_of(condition: &ConditionSummary) -> State {
    match (condition.type_.as_str(), condition.status.as_str()) {
        (gitops_conditions::RECONCILING, "True") => State::InFlight,
        (gitops_conditions::STALLED, "True") => State::Failed,
        (gitops_conditions::RECONCILING | gitops_conditions::STALLED | cluster_conditions::DELETING, _) => {
            State::Idle
        }
        (_, "True") => State::Done,
        (_, "False") => State::Failed,
        _ => State::Unreachable,
    }
}

/// Returns the panel with the conditions of an object. Each links to its reason, and those that are not well say what
/// to do.
pub(super) fn panel(is_of_repositories: bool, conditions: &[ConditionSummary], now: Timestamp) -> Markup {
    html! {
        section .panel aria-labelledby="conditions" {
            header { h2 #conditions { "Conditions" } }
            @if conditions.is_empty() { p .empty { "None has been reported yet." } }
            ul .rows {
                @for (number, condition) in conditions.iter().enumerate() {
                    @let before = conditions.iter().take(number);
                    // Ready and Stalled have the same reason.
                    @let is_new = !before.into_iter().any(|before| before.reason == condition.reason);
                    (row(find(is_of_repositories, condition), condition, is_new, now))
                }
            }
        }
    }
}

/// A row of a table of reasons, with its section.
type Known = (&'static Section, &'static Reason);

fn row(known: Option<Known>, condition: &ConditionSummary, is_new: bool, now: Timestamp) -> Markup {
    let ConditionSummary { type_, status, reason, message, since } = condition;
    let shown = state_of(condition);
    html! {
        li .row {
            h3 { (type_) } (state(shown, status)) span .end.small { (ago(since, now)) }
            p .small.why {
                @if let Some((section, _)) = known {
                    a id={ "reason:" (type_) } href={ "conditions#" (id(section, reason)) } { (reason) }
                } @else { (reason) }
                @if !message.is_empty() { ": " (message) }
            }
            @if let Some((_, known)) = known.filter(|(_, known)| is_new && shown != State::Done && !known.advice.is_empty()) {
                p .small.advice { b { "What to do: " } (inline(known.advice)) }
            }
        }
    }
}

/// Returns the page with all reasons.
pub(super) fn page(visitor: Option<&str>) -> String {
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / Conditions" }
        div .head { h1 { "Reasons of conditions" } p .dim { "what each means, and what to do" } }
        @for section in SECTIONS.iter() { (table(section)) }
    };
    Frame { title: "Conditions", visitor, ..Frame::default() }.document(&main)
}

fn table(section: &Section) -> Markup {
    let Section { title, is_of_repositories, reasons } = section;
    let of = if *is_of_repositories { "ConfigRepo" } else { "" };
    html! {
        section .panel {
            header { h2 { (title) } span .dim.small { (of) } }
            table .reasons {
                thead { tr { th scope="col" { "Reason" } th scope="col" { "Meaning" } th scope="col" { "What to do" } } }
                tbody {
                    @for reason in reasons {
                        tr {
                            th scope="row" {
                                @for name in reason.names() { span id=(id(section, name)) { code { (name) } } " " }
                                @if !reason.conditions.is_empty() { br; span .small.dim { (inline(reason.conditions)) } }
                            }
                            td { (inline(reason.meaning)) }
                            td { (inline(reason.advice)) }
                        }
                    }
                }
            }
        }
    }
}
