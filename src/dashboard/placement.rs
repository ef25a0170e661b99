//! The page of a placement: the reason for each cluster, in the words of `explain placement`.

use std::fmt::Write as _;

use super::html::{cluster_link, document, escape};
use engine::placement::explain::Explanation;
use engine::plural::counted;

/// Limit of the clusters of each state.
const SHOWN_OF_STATE: usize = 50;

/// Returns the page.
pub(super) fn page(explanation: &Explanation) -> String {
    let Explanation {
        placement,
        filtered_pipeline_results,
        prioritize_results,
        aggregated_scores: _,
        error,
        disabled,
        cluster_sets,
        number_of_clusters,
        conditions,
        clusters: _,
    } = explanation;
    let mut main = format!("<main><p><a href=\"./\">Back to the fleet</a></p><h2>{}</h2>", escape(placement));
    if let Some(why) = disabled {
        let _ = write!(
            main,
            "<p class=\"hold\">It is not scheduled: {}; this is what would be.</p>",
            escape(why)
        );
    }
    if let Some(error) = error {
        let _ = write!(
            main,
            "<p class=\"problem\">It cannot be followed, so its decisions stay as they are: {}</p>",
            escape(error)
        );
    }
    let wanted = number_of_clusters.map_or_else(|| "all".to_owned(), |number| number.to_string());
    let filters = filtered_pipeline_results.iter();
    let filters = filters.map(|filter| format!("{} after {}", filter.filtered_clusters.len(), filter.name));
    let weights = prioritize_results.iter().map(|result| format!("{} x {}", result.name, result.weight));
    let facts = [
        ("Wants", wanted),
        ("Cluster sets", cluster_sets.join(", ")),
        ("Clusters left", filters.collect::<Vec<_>>().join(", ")),
        ("Prioritizers", weights.collect::<Vec<_>>().join(", ")),
        ("Conditions", conditions.join("; ")),
    ];
    main += "<dl>";
    for (term, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        let _ = write!(main, "<dt>{term}</dt><dd>{}</dd>", escape(fact));
    }
    main += "</dl>";
    for (state, clusters) in explanation.by_state() {
        let _ = write!(
            main,
            "<h3>{state} <small>{}</small></h3><table><thead><tr><th scope=\"col\">Cluster</th>\
             <th scope=\"col\">Reason</th></tr></thead><tbody>",
            counted(clusters.len(), "cluster")
        );
        for cluster in clusters.iter().take(SHOWN_OF_STATE) {
            let _ = write!(
                main,
                "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
                cluster_link("", &cluster.cluster_name),
                escape(&cluster.to_string())
            );
        }
        main += "</tbody></table>";
        if let Some(more) = clusters.len().checked_sub(SHOWN_OF_STATE).filter(|more| *more > 0) {
            let _ = write!(
                main,
                "<p>and {more} more; <code>wheelwright explain placement {}</code> names them</p>",
                escape(placement)
            );
        }
    }
    main += "</main>";
    document(&format!("Placement {placement}"), "", "", &main)
}
