//! The page of a placement: the reason for each cluster, in the words of `explain placement`.

use maud::html;

use super::PlacementQuery;
use super::html::{Frame, cluster_link};
use super::paging::{Page, encoded};
use engine::placement::explain::Explanation;
use engine::plural::counted;

/// Returns the page, with the clusters of the query's state whose names contain its text.
pub(super) fn page(explanation: &Explanation, query: &PlacementQuery, visitor: Option<&str>) -> String {
    let Explanation { placement, error, disabled, .. } = explanation;
    let facts = facts(explanation);
    let search = query.q.trim();
    let mut by_state = explanation.by_state();
    for clusters in by_state.values_mut() {
        clusters.retain(|cluster| cluster.cluster_name.contains(search));
    }
    let is_wanted = |state: &str| query.state.is_empty() || query.state == state;
    by_state.retain(|state, clusters| !clusters.is_empty() && is_wanted(&state.to_string()));
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #placements href="placements" { "Placements" } }
        div .head {
            h1 { (placement) }
            form .filter action="placement" {
                input type="hidden" name="of" value=(placement);
                label .vh for="q" { "Cluster name contains" }
                input #q type="search" name="q" value=(search) placeholder="Why this cluster?" autocomplete="off"
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
        @if by_state.is_empty() && !search.is_empty() {
            p .panel.calm #none { "There is no cluster whose name contains " b { (search) } "." }
        }
        @if !search.is_empty() || !query.state.is_empty() {
            p .small { a #all href={ "placement?of=" (encoded(placement)) } { "Show all clusters" } }
        }
        @for (state, clusters) in &by_state {
            @let state = state.to_string();
            @let fields = [("of", placement.as_str()), ("state", &state), ("q", search)];
            @let page = Page::new(if query.state.is_empty() { 1 } else { query.page }, clusters.len());
            section .panel {
                header { h2 { (state) " " span .dim { (counted(clusters.len(), "cluster")) } } }
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
    };
    Frame { title: &format!("Placement {placement}"), visitor, ..Frame::default() }.document(&main)
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
