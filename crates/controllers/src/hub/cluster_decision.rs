//! Publishes the clusters of a placement for the ApplicationSets of Argo CD.
//!
//! If the list is empty, Argo CD removes every application; if a cluster is missing, Argo CD removes its
//! application. Therefore a list is written in one write, only from complete decisions, and more clusters than a
//! budget allows are removed from it only after an approval.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::placement_reads::{placement_of, selection};
use api::cluster::v1::{ManagedCluster, ManagedClusterClaim};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{ClusterDecision, ClusterDecisionStatus, ConfigRepo};
use api::names::argo::APPLICATION_SET_REFRESH_ANNOTATION;
use api::names::{
    APPROVE_DELETION_ANNOTATION, CLUSTER_DECISION_ANNOTATION, CONFIG_REPO_ANNOTATION,
    REFRESH_APPLICATION_SETS_ANNOTATION,
};
use engine::addon::selection::Selection;
use engine::placement::{DecisionEntry, decision_list};
use object::{Gvk, Key, Metadata as _, ObjectRef};
use reconcile::{
    Action, Controller, Event, EventType, Plan, Precondition, Query, Read, Site, Subresource, View, Watches,
};

/// Maximum number of characters of a value. A claim may be longer than any application needs.
const VALUE: usize = 256;
/// Maximum number of ApplicationSets that are refreshed for one list.
const MAX_REFRESHED: usize = 10;

pub(crate) struct ClusterDecisionController;

impl Controller for ClusterDecisionController {
    const NAME: &'static str = "cluster-decision";
    type Primary = Placement;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<PlacementDecision>(|change, _| change.sides().filter_map(placement_of).collect());
        watches.on::<ClusterDecision>(|change, _| change.sides().map(Key::of).collect());
        watches.on::<ManagedCluster>(|change, view| {
            if !change.differs_in(|cluster| (&cluster.metadata.labels, claims(cluster))) {
                return Vec::new();
            }
            let lists = placements_with_list(view).into_iter();
            let names_it = |wanted: &str| change.differs_in(|cluster| description(cluster, wanted));
            lists.filter(|(_, wanted)| names_it(wanted)).map(|(placement, _)| placement).collect()
        });
        watches.on::<ConfigRepo>(|change, view| {
            if !change.differs_in(applied) {
                return Vec::new();
            }
            placements_with_list(view).into_iter().map(|(placement, _)| placement).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let live = view.get::<ClusterDecision>(key)?;
        // If the placement is gone, its list is deleted with its owner.
        let Some(placement) = view.get::<Placement>(key)?.filter(|it| !it.is_terminating()) else {
            return Ok(plan);
        };
        let Some(wanted) = placement.annotation(CLUSTER_DECISION_ANNOTATION) else {
            // Without a list, the generator fails, and the applications stay.
            plan.step(live.as_deref().map(Action::delete));
            return Ok(plan);
        };
        let selection = selection(key, view)?;
        if !selection.settled {
            return Ok(plan);
        }
        let published = live.as_ref().and_then(|live| live.status.as_ref());
        let before = published.map(|status| status.decisions.as_slice()).unwrap_or_default();
        let entries = entries(&placement, &selection, wanted, before, view)?;
        let approved = placement.annotation(APPROVE_DELETION_ANNOTATION).unwrap_or_default();
        match decision_list(entries, published, approved) {
            Ok(status) if published == Some(&status) => {}
            Ok(status) => {
                let is_same = status.decisions == before;
                let refreshed = if is_same { Vec::new() } else { refreshes(&placement) };
                plan.step([Action::apply_typed(&object(&placement, status))]);
                plan.step(refreshed);
            }
            Err(refused) => plan.events.push(too_large(&placement, &refused)),
        }
        Ok(plan)
    }
}

/// Returns the requests to generate the applications again, which Argo CD would otherwise do at its next poll.
/// They follow the write of the list. The ApplicationSets are not read first: the operator may be allowed to read
/// them in at most one namespace, and a list never waits for them. If one cannot be written, the poll updates it.
fn refreshes(placement: &Placement) -> Vec<Action> {
    let named = placement.annotation(REFRESH_APPLICATION_SETS_ANNOTATION).unwrap_or_default();
    let named = named.split(',').map(str::trim).filter(|name| !name.is_empty()).take(MAX_REFRESHED);
    let patch = json!({"metadata": {"annotations": {APPLICATION_SET_REFRESH_ANNOTATION: "true"}}});
    let refresh = |name: &str| Action::Patch {
        site: Site::Hub,
        target: ObjectRef {
            gvk: Gvk::parse("argoproj.io/v1alpha1", "ApplicationSet"),
            key: Key::namespaced(placement.namespace(), name),
        },
        subresource: Subresource::None,
        patch: patch.as_object().cloned().unwrap_or_default(),
        precondition: Precondition::default(),
        impersonate: None,
    };
    named.map(refresh).collect()
}

/// Returns the commit that a ConfigRepo has applied.
fn applied(repo: &ConfigRepo) -> Option<String> {
    Some(repo.status.as_ref()?.applied.as_ref()?.commit.clone())
}

/// Returns the placements that request a list, with the names of the labels and claims to include.
fn placements_with_list(view: &impl View) -> Vec<(Key, String)> {
    let all = view.readable::<Placement>(Query::ALL);
    let asks = |placement: &Arc<Placement>| {
        Some((Key::of(&**placement), placement.annotation(CLUSTER_DECISION_ANNOTATION)?.to_owned()))
    };
    all.iter().filter_map(asks).collect()
}

/// Returns the entries of the selected clusters, sorted by name. A cluster that is gone or unreadable keeps its
/// entry of `before`, because Argo CD deletes and recreates an application whose name changes. All entries keep
/// their revision while their ConfigRepo has none, because an application without a revision follows HEAD.
fn entries(
    placement: &Placement,
    selection: &Selection,
    wanted: &str,
    before: &[DecisionEntry],
    view: &impl View,
) -> Read<BTreeMap<String, DecisionEntry>> {
    let repo = placement.annotation(CONFIG_REPO_ANNOTATION).and_then(|repo| repo.split_once('/'));
    let is_from_repo = repo.is_some();
    let revision = match repo {
        Some((namespace, name)) => {
            view.get::<ConfigRepo>(&Key::namespaced(namespace, name))?.as_deref().and_then(applied)
        }
        None => None,
    };
    let before: BTreeMap<&str, &DecisionEntry> =
        before.iter().filter_map(|entry| Some((entry.get("clusterName")?.as_str(), entry))).collect();
    let mut entries = BTreeMap::new();
    for group in &selection.groups {
        for name in &group.clusters {
            let published = before.get(name.as_str()).copied();
            let Some(cluster) = view.get_readable::<ManagedCluster>(&Key::cluster(name.as_str()))? else {
                entries.extend(published.map(|entry| (name.clone(), entry.clone())));
                continue;
            };
            let published_revision =
                || published.and_then(|entry| entry.get("revision")).filter(|_| is_from_repo).cloned();
            let mut entry = DecisionEntry::from([("clusterName".to_owned(), name.clone())]);
            entry.insert("group".into(), group.key.name.clone());
            entry.insert("wave".into(), group.key.index.to_string());
            entry.insert("revision".into(), revision.clone().or_else(published_revision).unwrap_or_default());
            entry.extend(description(&cluster, wanted));
            entries.insert(name.clone(), entry);
        }
    }
    Ok(entries)
}

fn claims(cluster: &ManagedCluster) -> &[ManagedClusterClaim] {
    cluster.status.as_ref().map_or(&[], |status| &status.cluster_claims)
}

/// Returns the labels and claims of a cluster that an annotation names, as fields of its entry.
fn description(cluster: &ManagedCluster, wanted: &str) -> DecisionEntry {
    let mut description = DecisionEntry::new();
    for name in wanted.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let label = cluster.label(name).map(|value| (format!("labels.{name}"), value));
        let claim = claims(cluster).iter().rfind(|claim| claim.name == name);
        let claim = claim.map(|claim| (format!("claims.{name}"), claim.value.as_str()));
        let values = label.into_iter().chain(claim).filter(|(_, value)| value.chars().count() <= VALUE);
        description.extend(values.map(|(field, value)| (field, value.to_owned())));
    }
    description
}

/// Reports that the list was not updated.
fn too_large(placement: &Placement, refused: &str) -> Event {
    let hint = format!("name fewer labels and claims in the annotation {CLUSTER_DECISION_ANNOTATION}");
    let message = format!("{refused}; the list was not updated: {hint}");
    Event::new(placement, EventType::Warning, "ClusterDecisionTooLarge", "Publish", message)
}

fn object(placement: &Placement, status: ClusterDecisionStatus) -> ClusterDecision {
    let Key { namespace, name } = Key::of(placement);
    ClusterDecision {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            name: Some(name),
            owner_references: Some(vec![placement.controller_reference()]),
            ..ObjectMeta::default()
        },
        status: Some(status),
        ..ClusterDecision::default()
    }
}
