//! Checks that no cluster is lost that a Placement should select: from its decisions, from the list for Argo CD,
//! or from the cluster's Argo CD secret.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::cluster::v1::{ManagedCluster, TaintEffect};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::ClusterDecision;
use api::names::{
    APPROVE_DELETION_ANNOTATION, CLUSTER_SECRETS_ANNOTATION, LEFT_SINCE_ANNOTATION, PLACEMENT_LABEL,
};
use engine::placement::filter::ClusterAttributes;
use engine::placement::sets::SetMembers;
use object::{Key, Metadata as _, Selector};
use reconcile::{Action, Plan, Query, Subresource, View};

/// The number of clusters that may leave a list at once without approval: the larger of a number and a fraction
/// (1/20).
const BUDGET: (usize, usize) = (5, 20);

impl Checker {
    /// Checks that a plan drops no cluster that a Placement should select.
    pub(super) fn selected(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        match decided.controller {
            "placement" => decisions_stay(decided),
            "cluster-decision" => list_is_whole(decided),
            "cluster-secret" => secrets_stay(decided),
            _ => Ok(()),
        }
    }

    /// Returns true if Argo CD's secret of a departed cluster still exists.
    pub(super) fn has_secrets_of_clusters_that_left(&self) -> bool {
        self.hub.of_kind("", "Secret").any(|secret| secret.annotations().contains_key(LEFT_SINCE_ANNOTATION))
    }
}

fn lost(blames: &Key, reason: String) -> CheckResult {
    Err(Violation::new(Invariant::ArgoCdKeepsClusters, blames, reason))
}

/// Checks that a Placement without a cluster limit drops only clusters that no longer match. It keeps clusters
/// that cannot be read or do not respond.
fn decisions_stay(decided: &CheckedDecision<'_>) -> CheckResult {
    let CheckedDecision { key, view, plan, .. } = decided;
    let Ok(Some(placement)) = view.get::<Placement>(key) else { return Ok(()) };
    let mut before = BTreeSet::new();
    let mut after = BTreeSet::new();
    for page in pages(key, *view) {
        let clusters = clusters(&page);
        before.extend(clusters.iter().cloned());
        after.extend(after_plan(&Key::of(&page), plan).unwrap_or(clusters));
    }
    for action in plan.steps.iter().flatten() {
        if let Action::Patch { target, .. } = action {
            after.extend(after_plan(&target.key, plan).unwrap_or_default());
        }
    }
    let mut dropped = before.difference(&after);
    match dropped.find(|cluster| fits(&placement, cluster, *view)) {
        Some(cluster) => {
            let reason = format!("it drops the cluster {cluster}, which fits");
            Err(Violation::new(Invariant::PlacementsKeepWhatFits, key, reason))
        }
        None => Ok(()),
    }
}

fn pages(placement: &Key, view: &impl View) -> Vec<PlacementDecision> {
    let query = Query::label(PLACEMENT_LABEL, &placement.name).within(&placement.namespace);
    let pages = view.list::<PlacementDecision>(query).unwrap_or_default();
    pages.iter().map(|page| PlacementDecision::clone(page)).collect()
}

fn clusters(page: &PlacementDecision) -> BTreeSet<String> {
    let decisions = page.status.iter().flat_map(|status| &status.decisions);
    decisions.map(|decision| decision.cluster_name.clone()).collect()
}

/// Returns the clusters on a page of decisions after a plan; `None` if the plan does not write the page.
fn after_plan(page: &Key, plan: &Plan) -> Option<BTreeSet<String>> {
    let mut written = plan.steps.iter().flatten().filter_map(|action| match action {
        Action::Delete { target, .. } if target.key == *page => Some(BTreeSet::new()),
        Action::Patch { target, subresource: Subresource::Status, patch, .. } if target.key == *page => {
            let decisions = patch.get("status")?.get("decisions")?.as_array()?.iter();
            Some(decisions.filter_map(|it| it.get("clusterName")?.as_str()).map(str::to_owned).collect())
        }
        _ => None,
    });
    written.next_back()
}

/// Returns true if a Placement should select a cluster judging by its labels. A cluster limit, claims or
/// expressions may still exclude the cluster.
fn fits(placement: &Placement, name: &str, view: &impl View) -> bool {
    let spec = &placement.spec;
    let read = view.get_readable::<ManagedCluster>(&Key::cluster(name)).ok().flatten();
    let unreadable = view.unreadable::<ManagedCluster>(Query::ALL).unwrap_or_default();
    let labels = unreadable.iter().find(|it| it.key.name == name).map(|it| it.labels.clone());
    let mut cluster = read.map(|read| ManagedCluster::clone(&read)).unwrap_or_default();
    let exists = !cluster.name().is_empty() || labels.is_some();
    cluster.metadata.labels = labels.unwrap_or(cluster.metadata.labels);
    let attributes = ClusterAttributes::from_cluster(&cluster);
    let matches = spec.predicates.iter().any(|predicate| {
        let Some(selector) = &predicate.required_cluster_selector else { return true };
        let by_labels = selector.label_selector.as_ref().map(Selector::parse).transpose();
        selector.claim_selector.is_none()
            && selector.cel_selector.is_none()
            && by_labels.is_ok_and(|it| it.is_none_or(|it| it.matches_with(|key| attributes.label(key))))
    });
    let is_tainted = cluster.spec.taints.iter().any(|taint| taint.effect == TaintEffect::NoSelect);
    let tolerates = spec.tolerations.iter().any(|it| it.key.is_empty() && it.toleration_seconds.is_none());
    let is_in_set = |binding: &ManagedClusterSetBinding| {
        let asked = |set: &&str| spec.cluster_sets.is_empty() || spec.cluster_sets.iter().any(|it| it == set);
        let set = binding.cluster_set().filter(asked).map(Key::cluster);
        let set = set.and_then(|set| view.get::<ManagedClusterSet>(&set).ok().flatten());
        set.is_some_and(|set| SetMembers::from_set(&set).contains(&attributes))
    };
    let bindings = view.list::<ManagedClusterSetBinding>(Query::namespace(placement.namespace()));
    exists
        && !cluster.is_terminating()
        && spec.number_of_clusters.is_none()
        && (spec.predicates.is_empty() || matches)
        && (!is_tainted || tolerates)
        && bindings.unwrap_or_default().iter().any(|binding| is_in_set(binding))
}

/// Checks that a list contains every selected cluster, and that without approval it loses only a few clusters at
/// once and never all.
fn list_is_whole(decided: &CheckedDecision<'_>) -> CheckResult {
    let CheckedDecision { key, view, plan, .. } = decided;
    let written = plan.steps.iter().flatten().find_map(|action| match action {
        Action::Apply { object, .. } if object.kind() == "ClusterDecision" => object.to_typed().ok(),
        _ => None,
    });
    let Some(list) = written.as_ref().map(listed) else { return Ok(()) };
    let exists = |cluster: &&String| {
        view.get_readable::<ManagedCluster>(&Key::cluster(cluster.as_str())).is_ok_and(|it| it.is_some())
    };
    let selected: BTreeSet<String> = pages(key, *view).iter().flat_map(clusters).collect();
    if let Some(cluster) = selected.iter().filter(exists).find(|cluster| !list.contains(cluster.as_str())) {
        return lost(key, format!("the list lacks the cluster {cluster}"));
    }
    let before = view.get::<ClusterDecision>(key).ok().flatten();
    let before = before.as_deref().map(listed).unwrap_or_default();
    let left = before.difference(&list).count();
    let placement = view.get::<Placement>(key).ok().flatten();
    let is_approved = placement.is_some_and(|it| it.annotation(APPROVE_DELETION_ANNOTATION).is_some());
    if left <= BUDGET.0.max(before.len() / BUDGET.1) && (!list.is_empty() || left == 0) || is_approved {
        return Ok(());
    }
    let reason = format!("{left} of {} clusters leave the list at once", before.len());
    Err(Violation::new(Invariant::DeletionBudget, key, reason))
}

fn listed(list: &ClusterDecision) -> BTreeSet<String> {
    let entries = list.status.iter().flat_map(|status| &status.decisions);
    entries.filter_map(|entry| entry.get("clusterName")).cloned().collect()
}

/// Checks that the secret of a listed cluster is neither deleted nor marked as departed.
fn secrets_stay(decided: &CheckedDecision<'_>) -> CheckResult {
    let CheckedDecision { key, view, plan, .. } = decided;
    for action in plan.steps.iter().flatten() {
        let target = match action {
            Action::Delete { target, .. } => target,
            Action::Patch { target, patch, .. } if is_mark(patch.get("metadata")) => target,
            _ => continue,
        };
        if target.gvk.kind != "Secret" {
            continue;
        }
        let lists = view.list_readable::<ClusterDecision>(Query::namespace(&target.key.namespace));
        let asks = |list: &ClusterDecision| {
            let placement = view.get::<Placement>(&Key::of(list)).ok().flatten();
            placement.is_some_and(|it| it.annotation(CLUSTER_SECRETS_ANNOTATION).is_some())
        };
        let lists = lists.unwrap_or_default();
        if lists.iter().any(|list| listed(list).contains(&key.name) && asks(list)) {
            return lost(&target.key, format!("a list has the cluster {}", key.name));
        }
    }
    Ok(())
}

/// Returns true if metadata marks a cluster as departed.
fn is_mark(metadata: Option<&Value>) -> bool {
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|it| it.get(LEFT_SINCE_ANNOTATION)).is_some_and(Value::is_string)
}
