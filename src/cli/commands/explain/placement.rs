//! `wheelwright explain placement`.

use std::process::ExitCode;

use anyhow::anyhow;

use super::origin::{Origin, Wanted};
use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1alpha1::AddOnPlacementScore;
use crate::api::cluster::v1beta1::{Placement, PlacementDecision};
use crate::api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult};
use crate::controllers::placement::explain;
use crate::engine::placement::explain::{Explanation, Story};
use crate::object::Key;
use crate::shell::now;

/// Explain which clusters a placement selects: which filter removed a cluster, and what each prioritizer gave the others.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The placement, as NAMESPACE/NAME.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = key)]
    placement: Key,
    #[command(flatten)]
    origin: Origin,
    /// How the explanation is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn key(text: &str) -> Result<Key, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Key::namespaced(namespace, name)),
        Some(_) | None => Err("a placement is named as NAMESPACE/NAME".into()),
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let caches = args.origin.read(&[
        Wanted::typed::<Placement>(),
        Wanted::typed::<PlacementDecision>(),
        Wanted::typed::<ManagedCluster>(),
        Wanted::typed::<ManagedClusterSet>(),
        Wanted::typed::<ManagedClusterSetBinding>(),
        Wanted::typed::<AddOnPlacementScore>(),
    ])?;
    let missing = || CommandError::hinted(anyhow!("there is no Placement {}", args.placement), "kubectl get placements --all-namespaces");
    let explanation = explain(&args.placement, &caches, now())?.ok_or_else(missing)?;
    match args.output {
        Output::Json => ui.json(&explanation)?,
        Output::Text => ui.text(text(&explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The explanation as a page: conditions, the pipeline, then a line per cluster.
fn text(explanation: &Explanation) -> String {
    let mut page = format!("Placement {}\n", explanation.placement);
    let wanted = explanation.number_of_clusters.map_or_else(|| "all".into(), |number| number.to_string());
    page += &format!("  wants {wanted} of cluster sets [{}]\n", explanation.cluster_sets.join(","));
    for filter in &explanation.filtered_pipeline_results {
        page += &format!("  {} left after {}\n", filter.filtered_clusters.len(), filter.name);
    }
    let weights: Vec<_> = explanation.prioritize_results.iter().map(|result| format!("{} x {}", result.name, result.weight)).collect();
    if !weights.is_empty() {
        page += &format!("  prioritizers: {}\n", weights.join(", "));
    }
    for condition in &explanation.conditions {
        page += &format!("  {condition}\n");
    }
    let width = explanation.clusters.iter().map(|story| story.cluster_name.len()).max().unwrap_or_default();
    for story in &explanation.clusters {
        page += &line(story, width);
    }
    page
}

fn line(story: &Story, width: usize) -> String {
    let Story { cluster_name, state, why, decision, rank, scores, total } = story;
    let mut facts = vec![why.clone()];
    facts.extend(decision.as_ref().map(|decision| format!("in {decision}")));
    facts.extend(rank.map(|rank| format!("rank {rank}")));
    let scores: Vec<_> = scores.iter().map(|(name, score)| format!("{name} {score}")).collect();
    facts.extend(total.map(|total| format!("score {total} ({})", scores.join(", "))));
    format!("{cluster_name:width$}  {state:16}{}\n", facts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_named_with_its_namespace() {
        assert_eq!(key("ns/p"), Ok(Key::namespaced("ns", "p")));
        assert!(["p", "/p", "ns/"].into_iter().all(|text| key(text).is_err()));
    }
}
