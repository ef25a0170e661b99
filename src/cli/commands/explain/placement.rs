//! `wheelwright explain placement`.

use std::process::ExitCode;

use anyhow::anyhow;

use crate::cli::origin::{Origin, read_by};
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use controllers::hub::placement::{PlacementController, explain};
use engine::placement::explain::{ClusterExplanation, Explanation};
use object::Key;

/// Explain which clusters a placement selects: the filter that removed a cluster, and the score that each
/// prioritizer gave the others.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Placement, as NAMESPACE/NAME.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = key)]
    placement: Key,
    #[command(flatten)]
    origin: Origin,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn key(text: &str) -> Result<Key, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Key::namespaced(namespace, name))
        }
        Some(_) | None => Err("a placement is named as NAMESPACE/NAME".into()),
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let caches = args.origin.read(&read_by::<PlacementController>())?;
    let missing = || {
        CommandError::hinted(
            anyhow!("there is no Placement {}", args.placement),
            "kubectl get placements --all-namespaces",
        )
    };
    let explanation = explain(&args.placement, &caches, now())?.ok_or_else(missing)?;
    match args.output {
        Output::Json => ui.json(&explanation)?,
        Output::Text => ui.text(text(&explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats an explanation: conditions, the pipeline, then one line per cluster.
fn text(explanation: &Explanation) -> String {
    let mut page = format!("Placement {}\n", explanation.placement);
    page.extend(
        explanation
            .disabled
            .iter()
            .map(|why| format!("  is not scheduled: {why}; this is the result that it would have\n")),
    );
    match &explanation.error {
        Some(error) => page += &format!("  is invalid, so its decisions are kept: {}\n", indented(error)),
        None => page += &pipeline(explanation),
    }
    page.extend(explanation.conditions.iter().map(|condition| format!("  {}\n", indented(condition))));
    let width =
        explanation.clusters.iter().map(|explained| explained.cluster_name.len()).max().unwrap_or_default();
    let states = explanation.by_state();
    let counts = states.iter().map(|(state, clusters)| format!("{} {state}", clusters.len()));
    let counts: Vec<_> = counts.collect();
    page += &format!("  clusters: {}\n", if counts.is_empty() { "none".into() } else { counts.join(", ") });
    let explained = states.into_values().flatten();
    page.extend(explained.map(|explained| line(explained, width)));
    page
}

/// Formats the number of requested clusters, the number of clusters left after each filter, and the prioritizers.
fn pipeline(explanation: &Explanation) -> String {
    let wanted = explanation.number_of_clusters.map_or_else(|| "all".into(), |number| number.to_string());
    let mut page = format!("  wants {wanted} of cluster sets [{}]\n", explanation.cluster_sets.join(","));
    for filter in &explanation.filtered_pipeline_results {
        page += &format!("  {} left after {}\n", filter.filtered_clusters.len(), filter.name);
    }
    let weights: Vec<_> = explanation
        .prioritize_results
        .iter()
        .map(|result| format!("{} x {}", result.name, result.weight))
        .collect();
    if !weights.is_empty() {
        page += &format!("  prioritizers: {}\n", weights.join(", "));
    }
    page
}

/// Indents the continuation lines of a text, such as an excerpt of an expression.
fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

fn line(explained: &ClusterExplanation, width: usize) -> String {
    let ClusterExplanation { cluster_name, state, .. } = explained;
    format!("{cluster_name:width$}  {state:15} {}\n", indented(&explained.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::placement::explain::SchedulingState;

    fn explained(cluster_name: &str, state: SchedulingState, rank: Option<usize>) -> ClusterExplanation {
        ClusterExplanation {
            cluster_name: cluster_name.into(),
            state,
            why: "why".into(),
            rank,
            ..ClusterExplanation::default()
        }
    }

    #[test]
    fn selected_clusters_come_first_and_are_counted() {
        let clusters = vec![
            explained("a", SchedulingState::Predicate, None),
            explained("b", SchedulingState::Outranked, Some(2)),
            explained("c", SchedulingState::Selected, Some(1)),
        ];
        let page = text(&Explanation { clusters, ..Explanation::default() });
        assert!(page.ends_with(
            "  clusters: 1 Selected, 1 Outranked, 1 Predicate\n\
             c  Selected        why; rank 1\nb  Outranked       why; rank 2\na  Predicate       why\n"
        ));
    }

    #[test]
    fn an_error_of_several_lines_is_indented() {
        let page =
            text(&Explanation { error: Some("Predicate:bad\n| x.\n| ..^".into()), ..Explanation::default() });
        let expected =
            "  is invalid, so its decisions are kept: Predicate:bad\n    | x.\n    | ..^\n  clusters: none\n";
        assert!(page.ends_with(expected), "{page}");
    }

    #[test]
    fn a_placement_is_named_with_its_namespace() {
        assert_eq!(key("ns/p"), Ok(Key::namespaced("ns", "p")));
        assert!(["p", "/p", "ns/"].into_iter().all(|text| key(text).is_err()));
    }
}
