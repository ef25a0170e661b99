//! HTML parts that several pages use. Maud escapes all text.

use std::fmt::Display;

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

use super::state::State;

/// The frame of a page: its title and the header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame<'a> {
    /// The title, without the program's name.
    pub(super) title: &'a str,
    /// The name of the visitor, who may log out.
    pub(super) visitor: Option<&'a str>,
    /// The path of the page if it is in the navigation; otherwise empty.
    pub(super) here: &'a str,
    /// The address of the events that keep `main` current; empty for a static page.
    pub(super) events: &'a str,
    /// True if the header has no links, because the visitor is unknown.
    pub(super) is_bare: bool,
}

impl Frame<'_> {
    /// Returns the document around the content.
    pub(super) fn document(self, main: &Markup) -> String {
        let is_live = !self.events.is_empty();
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    title { (self.title) " – Wheelwright" }
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    link rel="stylesheet" href="style.css";
                    link rel="icon" href="data:,";
                    script src="script.js" defer {}
                }
                body {
                    a .skip href="#fleet" { "Skip to the content" }
                    (self.header())
                    @if is_live { p #refusal .problem role="alert" {} }
                    main #fleet data-events=[is_live.then_some(self.events)] tabindex="-1" { (main) }
                }
            }
        };
        document.into_string()
    }

    fn header(self) -> Markup {
        let is_live = !self.events.is_empty();
        html! {
            header .bar {
                a .brand href="./" { (logo()) "Wheelwright" }
                @if !self.is_bare { (self.navigation()) }
                @if is_live { p #state .dim.small role="status" { "as it was when the page was loaded" } }
                @if let Some(name) = self.visitor {
                    form .who method="post" action="logout" {
                        span .dim.small { (name) } " " button { "Log out" }
                    }
                }
            }
        }
    }

    fn navigation(self) -> Markup {
        let is_here = |path: &str| (self.here == path).then_some("page");
        html! {
            nav aria-label="Main" {
                a href="./" aria-current=[is_here("./")] { "Overview" }
                a href="rollouts" aria-current=[is_here("rollouts")] { "Rollouts" }
                a href="repositories" aria-current=[is_here("repositories")] { "Repositories" }
                a href="clusters" aria-current=[is_here("clusters")] { "Clusters" }
            }
            form .find role="search" action="cluster" {
                label .vh for="of" { "Find a cluster" }
                input #of type="search" name="of" placeholder="Find a cluster ( / )" autocomplete="off"
                    autocapitalize="none" required;
                button { "Show" }
            }
        }
    }
}

fn logo() -> Markup {
    html! {
        svg viewBox="0 0 20 20" aria-hidden="true" {
            circle cx="10" cy="10" r="8" {} circle cx="10" cy="10" r="2" {}
            path d="M10 2v6M10 12v6M2 10h6M12 10h6" {}
        }
    }
}

/// A button that asks for confirmation before a change.
pub(super) struct Action<'a> {
    /// The value of the field `verb`.
    pub(super) verb: &'static str,
    /// The subject of the change: the name of an add-on, or NAMESPACE/NAME.
    pub(super) subject: &'a str,
    /// The approval, or the revisions to undo; empty for other verbs.
    pub(super) token: String,
    /// The label of the button, such as "Pause proxy".
    pub(super) label: String,
    /// The effect, with the affected clusters or objects.
    pub(super) effect: Markup,
}

impl Action<'_> {
    /// Returns an id that is unique on the page. After an update, the script uses it to restore the open
    /// confirmation and the focused button.
    fn id(&self) -> String {
        format!("{} {} {}", self.verb, self.subject, self.token).trim_end().replace(' ', ":")
    }
}

impl Render for Action<'_> {
    fn render(&self) -> Markup {
        let Self { verb, subject, token, label, effect } = self;
        // For sighted users, the position of the button replaces the rest of the label.
        let (short, rest) = label.split_once(' ').unwrap_or((label, ""));
        let class = match *verb {
            "approve" | "approve-plan" | "approve-deletions" => "btn go",
            "undo" => "btn risk",
            _ => "btn",
        };
        let id = self.id();
        html! {
            details .ask id={ "ask:" (id) } {
                summary id={ "open:" (id) } class=(class) {
                    (short) @if !rest.is_empty() { span .vh { " " (rest) } } "…"
                }
                form method="post" action="act" {
                    div { (effect) }
                    input type="hidden" name="verb" value=(verb);
                    input type="hidden" name="subject" value=(subject);
                    input type="hidden" name="token" value=(token);
                    button .go id=(id) { (label) }
                }
            }
        }
    }
}

/// Returns a link to the page of a cluster. `of` identifies the context of the link and makes its id unique on the
/// page, so that the script can restore the focus after an update.
pub(super) fn cluster_link(of: &str, cluster: &str) -> Markup {
    html! { a id={ "cluster:" (of) ":" (cluster) } href={ "cluster?of=" (cluster) } { (cluster) } }
}

/// Returns a state as a sign and a word.
pub(super) fn state(state: State, word: impl Display) -> Markup {
    html! { span class={ "st " (state.class()) } { (word.to_string()) } }
}

/// Returns links that show everything, or only what is in one state. `current` is the CSS class of the shown state, empty
/// for everything; `address` returns the address for a class.
pub(super) fn legend(
    label: &str,
    counts: &[(State, usize)],
    current: Option<&str>,
    address: impl Fn(&str) -> String,
) -> Markup {
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let is_current = |class: &str| (current == Some(class)).then_some("true");
    html! {
        nav .legend aria-label=(label) {
            a href=(address("")) aria-current=[is_current("")] { "All" b { (total) } }
            @for (one, count) in counts {
                a href=(address(one.class())) aria-current=[is_current(one.class())] {
                    (state(*one, one.word())) b { (count) }
                }
            }
        }
    }
}

/// Returns a field of a filter in which a person selects one of `values`, or all.
pub(super) fn select(name: &str, all: &str, values: &[&str], selected: &str) -> Markup {
    let id = format!("filter:{name}");
    html! {
        label .vh for=(id) { (all) }
        select id=(id) name=(name) {
            option value="" { (all) }
            @for value in values { option value=(value) selected[*value == selected] { (value) } }
        }
    }
}

/// Returns a field of a filter for text.
pub(super) fn search(name: &str, label: &str, value: &str) -> Markup {
    let id = format!("filter:{name}");
    html! {
        label .vh for=(id) { (label) }
        input id=(id) type="search" name=(name) value=(value) placeholder=(label) autocomplete="off" autocapitalize="none";
    }
}

/// Returns a list of texts, and the number of texts that are not listed; empty if there are none.
pub(super) fn list(texts: &[String], more: usize) -> Markup {
    html! {
        @if !texts.is_empty() {
            ul .plain {
                @for text in texts { li { (text) } }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
    }
}

/// Returns a time relative to now, with the time in UTC on hover; empty if the text is not a timestamp.
pub(super) fn ago(time: &str, now: Timestamp) -> Markup {
    time.parse().map(|at| relative(at, now)).unwrap_or_default()
}

/// Returns a time relative to now, with the time in UTC on hover.
pub(super) fn relative(at: Timestamp, now: Timestamp) -> Markup {
    let title = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at.to_string()) title=(title) { (distance(now.duration_since(at).as_secs())) } }
}

/// Formats the time since an event, or until it if the number is negative, like `script.js`.
fn distance(seconds: i64) -> String {
    match seconds {
        ..=-60 => format!("in {}", span(-seconds)),
        -59..-10 => "in less than 1 min".into(),
        // Clocks differ a little.
        -10..60 => "just now".into(),
        _ => format!("{} ago", span(seconds)),
    }
}

/// Formats a duration in its largest unit.
pub(super) fn span(seconds: i64) -> String {
    match seconds {
        ..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns counts as a bar in the colors of the states: done first, remaining last.
pub(super) fn bar(counts: &[(State, usize)]) -> Markup {
    let mut counts = counts.to_vec();
    counts.sort_by_key(|(state, _)| match state {
        State::Done => 0,
        State::InFlight => 1,
        State::Failed | State::Warned | State::Unreachable | State::Returned | State::Paused => 2,
        State::Waiting | State::Idle => 3,
    });
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let words: Vec<_> =
        counts.iter().map(|(state, count)| format!("{count} {}", state.word().to_lowercase())).collect();
    let mut start = 0;
    html! {
        svg .seg viewBox={ "0 0 " (total.max(1)) " 10" } preserveAspectRatio="none" role="img"
            aria-label=(words.join(", ")) {
            @for (state, count) in &counts {
                rect class=(state.class()) x=(start) width=(count) height="10" {}
                ({ start += count; PreEscaped("") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_time_has_one_unit_and_the_time_itself_on_hover() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (time, text) in [
            ("2026-01-02T03:03:30Z", "just now"),
            ("2026-01-02T03:04:10Z", "just now"),
            ("2026-01-02T02:22:05Z", "42 min ago"),
            ("2026-01-01T01:04:05Z", "26 h ago"),
            ("2025-12-23T03:04:05Z", "10 d ago"),
            ("2026-01-02T03:04:35Z", "in less than 1 min"),
            ("2026-01-02T05:05:05Z", "in 2 h"),
        ] {
            let html = ago(time, now).into_string();
            assert!(html.ends_with(&format!(" UTC\">{text}</time>")), "{html}");
        }
        assert_eq!(ago("", now).into_string(), "");
    }
}
