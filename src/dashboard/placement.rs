//! The page of a placement: the reason for each cluster, in the words of `explain placement`.

use maud::{Markup, html};

use super::PlacementQuery;
use super::html::{Frame, cluster_link, list, search};
use super::paging::{Page, address};
use controllers::hub::placement::LabelChange;
use engine::placement::explain::{ClusterExplanation, Explanation, SchedulingState};
use engine::plural::counted;

/// The maximum number of clusters to name that would be added or removed.
const NAMED: usize = 10;

/// Returns the page, with the clusters of the query's state whose names contain its text.
pub(super) fn page(explanation: &Explanation, query: &PlacementQuery, visitor: Option<&str>) -> String {
    let Explanation { placement, error, disabled, .. } = explanation;
    let facts = facts(explanation);
    let (text, what_if) = (query.q.trim(), query.what_if());
    let mut by_state = explanation.by_state();
    for clusters in by_state.values_mut() {
        clusters.retain(|cluster| cluster.cluster_name.contains(text));
    }
    let is_wanted = |state: &str| query.state.is_empty() || query.state == state;
    by_state.retain(|state, clusters| !clusters.is_empty() && is_wanted(&state.to_string()));
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #placements href="placements" { "Placements" } }
        div .head {
            h1 { (placement) }
            form .filter action="placement" {
                @for (name, value) in tried(placement, query) {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                label .vh for="q" { "Cluster name contains" }
                input #q type="search" name="q" value=(text) placeholder="Why this cluster?" autocomplete="off"
                    autocapitalize="none";
                button { "Explain" }
            }
        }
        @if let Some(reason) = disabled {
            p .hold { "It is not scheduled: " (reason) ". This is the result that it would have." }
        }
        @if let Some(error) = error {
            p .problem { "It is invalid, so its decisions are kept: " (error) }
        }
        section .panel aria-label="Specification" {
            dl .facts.body.top {
                @for (term, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
                    div { dt { (term) } dd { (fact) } }
                }
            }
        }
        (form(placement, query))
        @match &what_if {
            Some(Ok(change)) if error.is_none() => (outcome(explanation, change)),
            Some(Err(problem)) => p .problem role="alert" { (problem) },
            Some(Ok(_)) | None => {}
        }
        @if by_state.is_empty() && !text.is_empty() {
            p .panel.calm #none { "There is no cluster whose name contains " b { (text) } "." }
        }
        @if !text.is_empty() || !query.state.is_empty() {
            p .small { a #all href=(address("placement", &tried(placement, query), 1)) { "Show all clusters" } }
        }
        @for (state, clusters) in &by_state { (clusters_in(*state, clusters, placement, query)) }
    };
    Frame { title: &format!("Placement {placement}"), visitor, ..Frame::default() }.document(&main)
}

/// Returns the fields of the address of the result, for all clusters.
fn tried<'q>(placement: &'q str, query: &'q PlacementQuery) -> [(&'static str, &'q str); 3] {
    [("of", placement), ("cluster", &query.cluster), ("label", &query.label)]
}

/// Returns the clusters in a state, page by page if it is the state of the query.
fn clusters_in(
    state: SchedulingState,
    clusters: &[&ClusterExplanation],
    placement: &str,
    query: &PlacementQuery,
) -> Markup {
    let name = state.to_string();
    let filter = [("state", name.as_str()), ("q", query.q.trim())];
    let fields: Vec<_> = tried(placement, query).into_iter().chain(filter).collect();
    let page = Page::new(if query.state.is_empty() { 1 } else { query.page }, clusters.len());
    html! {
        section .panel {
            header {
                h2 { (title(state, query.what_if().is_some())) " " span .dim { (counted(clusters.len(), "cluster")) } }
            }
            table {
                thead { tr { th scope="col" { "Cluster" } th scope="col" { "Reason" } } }
                tbody {
                    @for cluster in page.rows(clusters) {
                        tr {
                            th scope="row" { (cluster_link("", &cluster.cluster_name)) }
                            td { (cluster.to_string()) }
                        }
                    }
                }
            }
            (page.links("placement", &fields))
        }
    }
}

/// Returns the form that tries a label.
fn form(placement: &str, query: &PlacementQuery) -> Markup {
    html! {
        section .panel aria-labelledby="what-if" {
            header {
                h2 #what-if { "What if a cluster had another label?" }
                span .small.dim { "changes nothing" }
            }
            form .filters.body action="placement" {
                input type="hidden" name="of" value=(placement);
                (search("cluster", "Cluster", &query.cluster))
                (search("label", "Label: region=eu, or region-", &query.label))
                button { "Try" }
                @if query.what_if().is_some() {
                    a #actual href=(address("placement", &[("of", placement)], 1)) { "Show the actual result" }
                }
            }
        }
    }
}

/// Describes what a change of a label would do to the cluster, and to the decisions.
fn outcome(explanation: &Explanation, change: &LabelChange) -> Markup {
    let is_it =
        |one: &&ClusterExplanation| one.cluster_name == change.cluster && one.state != SchedulingState::Gone;
    let cluster = explanation.clusters.iter().find(is_it);
    let names = |wanted: SchedulingState| -> Vec<String> {
        let clusters = explanation.clusters.iter().filter(|one| one.state == wanted);
        clusters.map(|one| one.cluster_name.clone()).collect()
    };
    let changes = [
        (names(SchedulingState::Arriving), "would be added:"),
        (names(SchedulingState::Leaving), "would be removed:"),
    ];
    html! {
        section .panel.verdict aria-labelledby="outcome" {
            header { h2 #outcome { "If " (change.cluster) " had " (change) } }
            div .body {
                @match cluster {
                    None => p .problem { "There is no cluster " (change.cluster) ", so this is the actual result." },
                    Some(one) => p { b { (title(one.state, true)) } ": " (one.to_string()) },
                }
                @if changes.iter().all(|(names, _)| names.is_empty()) {
                    p { "The decisions would stay as they are." }
                }
                @for (names, what) in changes.iter().filter(|(names, _)| !names.is_empty()) {
                    h3 { (counted(names.len(), "cluster")) " " (what) }
                    (list(names.get(..NAMED).unwrap_or(names), names.len().saturating_sub(NAMED)))
                }
            }
        }
    }
}

/// Returns the title of the clusters in a state. If a label is tried, the decisions do not follow.
fn title(state: SchedulingState, is_tried: bool) -> String {
    match state {
        SchedulingState::Arriving if is_tried => "Would be added".into(),
        SchedulingState::Leaving if is_tried => "Would be removed".into(),
        _ => state.to_string(),
    }
}

/// Returns the requirements of the placement, and the number of clusters left after each step.
fn facts(explanation: &Explanation) -> [(&'static str, String); 5] {
    let Explanation {
        placement: _,
        filtered_pipeline_results,
        prioritize_results,
        aggregated_scores: _,
        error: _,
        disabled: _,
        cluster_sets,
        number_of_clusters,
        conditions,
        clusters: _,
    } = explanation;
    let wanted = number_of_clusters.map_or_else(|| "all".to_owned(), |number| number.to_string());
    let filters = filtered_pipeline_results.iter();
    let filters = filters.map(|filter| format!("{} after {}", filter.filtered_clusters.len(), filter.name));
    let weights = prioritize_results.iter().map(|result| format!("{} x {}", result.name, result.weight));
    [
        ("Wants", wanted),
        ("Cluster sets", cluster_sets.join(", ")),
        ("Clusters left", filters.collect::<Vec<_>>().join(", ")),
        ("Prioritizers", weights.collect::<Vec<_>>().join(", ")),
        ("Conditions", conditions.join("; ")),
    ]
}
