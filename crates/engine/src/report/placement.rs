//! Placements in a report.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::limits::{MAX_FILES, MESSAGE};
use api::cluster::v1beta1::Placement;
use api::condition::{Condition, find_condition};
use api::names::placement_conditions::SATISFIED;
use object::Key;
use object::text::{markdown, plain};

/// A placement and the clusters that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementState {
    /// The namespace and name.
    pub name: String,
    /// The number of clusters that the placement selects.
    pub selected: i32,
    /// The number of clusters that the placement requests; `None` for all matching clusters.
    pub wanted: Option<i32>,
    /// True if the placement selects enough clusters, by OCM's definition. An empty selection is not enough.
    pub satisfied: bool,
    /// The reason that the placement is not satisfied.
    pub message: String,
}

impl PlacementState {
    /// Reads the status of a placement.
    pub fn read(placement: &Placement) -> Self {
        let status = placement.status.clone().unwrap_or_default();
        let condition = find_condition(&status.conditions, SATISFIED);
        let satisfied = condition.is_some_and(Condition::is_true);
        let message = condition.filter(|_| !satisfied).map(|condition| condition.message.clone());
        Self {
            name: Key::of(placement).to_string(),
            selected: status.number_of_selected_clusters,
            wanted: placement.spec.number_of_clusters,
            satisfied,
            message: message.unwrap_or_default(),
        }
    }
}

/// Returns the table of placements, or an empty string if there are none.
pub(super) fn table(placements: &[PlacementState]) -> String {
    if placements.is_empty() {
        return String::new();
    }
    let mut table = "| Placement | Clusters | Satisfied | |\n|---|---|---|---|\n".to_owned();
    for PlacementState { name, selected, wanted, satisfied, message } in placements.iter().take(MAX_FILES) {
        let of = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
        let satisfied = if *satisfied { "yes" } else { "no" };
        let (name, message) = (markdown(name, 320), markdown(message, MESSAGE));
        let _ = writeln!(table, "| {name} | {selected}{of} | {satisfied} | {message} |");
    }
    if placements.len() > MAX_FILES {
        let _ = writeln!(table, "\nand {} more.", placements.len() - MAX_FILES);
    }
    table
}

/// Returns up to `most` placements as JSON, by name.
pub(super) fn values(placements: &[PlacementState], most: usize) -> Map<String, Value> {
    let values = placements.iter().take(most).map(|placement| {
        let PlacementState { name, selected, wanted, satisfied, message } = placement;
        let message = plain(message, MESSAGE);
        let value =
            json!({"selected": selected, "wanted": wanted, "satisfied": satisfied, "message": message});
        (plain(name, 320), value)
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_says_how_many_clusters_it_has_and_its_message_is_escaped() {
        let placement = |name: &str, wanted, satisfied, message: &str| {
            let (name, message) = (format!("fleet/{name}"), message.to_owned());
            PlacementState { name, selected: 2, wanted, satisfied, message }
        };
        let all = [placement("few", Some(3), false, "1 is | missing"), placement("all", None, true, "")];
        let rows = "| fleet/few | 2 of 3 | no | 1 is \\| missing |\n| fleet/all | 2 | yes |  |\n";
        assert!(table(&all).ends_with(rows), "{}", table(&all));
        let values = Value::Object(values(&all, 2));
        let few = json!({"selected": 2, "wanted": 3, "satisfied": false, "message": "1 is | missing"});
        assert_eq!((&values["fleet/few"], &values["fleet/all"]["wanted"]), (&few, &Value::Null));
    }
}
