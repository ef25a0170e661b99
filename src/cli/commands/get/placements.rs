//! Placements as a table or as trees.

use super::shown::{Rows, condition, object_age, status};
use crate::cli::CommandError;
use crate::cli::tree::Tree;
use crate::cli::writer::list;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::Conditions as _;
use api::names::placement_conditions::{MISCONFIGURED, SATISFIED};
use api::names::{DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL};
use object::{Key, Metadata as _};

pub(super) async fn rows(_: &kube::Client, placements: &[Placement]) -> Result<Rows<5>, CommandError> {
    let line = |placement: &Placement| {
        let selected = placement.status.as_ref().map(|status| status.number_of_selected_clusters);
        [
            placement.namespace().to_owned(),
            placement.name().to_owned(),
            selected.map_or_else(|| "-".into(), |number| number.to_string()),
            status(placement.conditions(), SATISFIED),
            object_age(placement),
        ]
    };
    Ok(Rows {
        titles: ["NAMESPACE", "NAME", "SELECTED", "SATISFIED", "AGE"],
        lines: placements.iter().map(line).collect(),
    })
}

pub(super) async fn placements(
    client: &kube::Client,
    placements: &[Placement],
) -> Result<Vec<Tree>, CommandError> {
    let decisions = list::<PlacementDecision>(client, "", PLACEMENT_LABEL).await?;
    Ok(placements.iter().map(|placement| self::placement(placement, &decisions)).collect())
}

fn placement(placement: &Placement, decisions: &[PlacementDecision]) -> Tree {
    let key = Key::of(placement);
    let own = decisions.iter().filter(|decision| {
        decision.namespace() == key.namespace && decision.label(PLACEMENT_LABEL) == Some(&key.name)
    });
    let selected = placement.status.as_ref().map(|status| status.number_of_selected_clusters);
    let conditions = placement.conditions();
    Tree::new(key.to_string()).with([
        Tree::field("ClusterSets", &placement.spec.cluster_sets.join(",")),
        Tree::field("Selected", &selected.map(|number| number.to_string()).unwrap_or_default()),
        condition("Satisfied", conditions, SATISFIED, true),
        condition("Misconfigured", conditions, MISCONFIGURED, false),
        Tree::new("Decisions").with(own.map(decision)),
        Tree::new(format!("why: wheelwright explain placement {key}")),
    ])
}

fn decision(decision: &PlacementDecision) -> Tree {
    let clusters: Vec<&str> = decision
        .status
        .iter()
        .flat_map(|status| &status.decisions)
        .map(|decision| decision.cluster_name.as_str())
        .collect();
    let group = decision.label(DECISION_GROUP_NAME_LABEL).filter(|group| !group.is_empty());
    let name = group.map_or(decision.name().to_owned(), |group| format!("{} ({group})", decision.name()));
    Tree::field(&name, &clusters.join(","))
}
