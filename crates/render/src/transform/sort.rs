//! The order of the output.

use crate::kustomization::SortOptions;
use crate::resource::Resource;

/// Sorts objects into the output order.
pub(crate) fn apply(resources: &mut [Resource], options: &SortOptions) {
    match options {
        SortOptions::Fifo => {}
        SortOptions::Legacy { first, last } => {
            resources.sort_by_cached_key(|resource| key(resource, first, last))
        }
    }
}

/// Sorts by rank of the kind, kind, namespace and name. Absent parts come last.
fn key(resource: &Resource, first: &[String], last: &[String]) -> (i64, NamespaceLast, String) {
    let gvk = resource.gvk();
    let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
    let at = |kinds: &[String]| {
        kinds.iter().rposition(|kind| *kind == gvk.kind).and_then(|at| i64::try_from(at).ok())
    };
    let count = i64::try_from(first.len()).unwrap_or(i64::MAX);
    // If a kind is in both lists, the list of last kinds wins.
    let rank = at(last).map(|at| at + 1).or_else(|| at(first).map(|at| at - count)).unwrap_or_default();
    let kind = format!("{}_{}_{}", or(&gvk.group, "~G"), or(&gvk.version, "~V"), or(&gvk.kind, "~K"));
    let printed =
        [or(&gvk.kind, "[noKind]"), or(&gvk.version, "[noVer]"), or(&gvk.group, "[noGrp]")].join(".");
    let name = format!("{printed}|{}|{}", or(resource.namespace(), "~X"), or(resource.name(), "~N"));
    (rank, NamespaceLast { is_namespace: gvk.kind == "Namespace", is_core: gvk.group.is_empty(), kind }, name)
}

/// Sorts kinds by name, but the core Namespace before other kinds with the same name.
#[derive(PartialEq, Eq)]
struct NamespaceLast {
    is_namespace: bool,
    is_core: bool,
    kind: String,
}

impl PartialOrd for NamespaceLast {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NamespaceLast {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let swapped = self.is_namespace && other.is_namespace && (self.is_core || other.is_core);
        if swapped { other.kind.cmp(&self.kind) } else { self.kind.cmp(&other.kind) }
    }
}
