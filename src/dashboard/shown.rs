//! The part of a fleet that a visitor may see, and the available buttons.

use std::collections::BTreeSet;

use super::rights::{Right, Rights, namespace};
use controllers::hub::overview::{Clusters, GroupSummary, Overview, WorkloadSummary};

/// The part of a fleet that a visitor may see.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The objects that the visitor may list; nothing in it is derived from other objects.
    pub(super) overview: Overview,
    /// True if the clusters are shown.
    pub(super) clusters: bool,
    /// True if placements link to their explanations.
    pub(super) explain_placements: bool,
    /// True if rollouts have buttons.
    pub(super) change_rollouts: bool,
    /// The repositories with buttons.
    pub(super) change_repositories: BTreeSet<String>,
    /// Notes about the parts that are not shown.
    pub(super) notes: Vec<String>,
}

impl Shown {
    /// Returns the whole fleet, without buttons.
    pub(super) fn all(overview: &Overview) -> Self {
        Self { overview: overview.clone(), clusters: true, explain_placements: true, ..Self::default() }
    }

    /// Returns the part of a fleet that a visitor with these rights may see.
    pub(super) fn to(rights: &Rights, overview: &Overview) -> Self {
        let Overview { repositories, clusters, placements, add_ons, replica_sets } = overview;
        let within = |right: Right, name: &str| rights.may(right, namespace(name));
        let repositories: Vec<_> =
            repositories.iter().filter(|one| within(Right::ListRepositories, &one.name)).cloned().collect();
        let changeable = repositories.iter().filter(|one| within(Right::ChangeRepositories, &one.name));
        let change_repositories = changeable.map(|one| one.name.clone()).collect();
        let placements =
            placements.iter().filter(|one| within(Right::ListPlacements, &one.name)).cloned().collect();
        let may_list_clusters = rights.may(Right::ListClusters, "");
        let add_ons = if rights.may(Right::ListAddOns, "") {
            add_ons.iter().map(|one| visible(one, Right::ListAddOnsOfClusters, rights)).collect()
        } else {
            Vec::new()
        };
        let replica_sets = replica_sets.iter().filter(|one| within(Right::ListReplicaSets, &one.name));
        let replica_sets = replica_sets.map(|one| visible(one, Right::ListWorks, rights)).collect();
        let clusters = if may_list_clusters { clusters.clone() } else { Clusters::default() };
        Self {
            overview: Overview { repositories, clusters, placements, add_ons, replica_sets },
            clusters: may_list_clusters,
            explain_placements: rights.may(Right::ExplainPlacements, ""),
            change_rollouts: rights.may(Right::ChangePolicies, ""),
            change_repositories,
            notes: notes(rights),
        }
    }
}

impl Shown {
    /// Returns the value of a cluster's label.
    pub(super) fn label(&self, cluster: &str, key: &str) -> Option<&str> {
        self.overview.clusters.labels.get(cluster)?.get(key).map(String::as_str)
    }
}

/// Returns an add-on or a set with the clusters that a right lets the visitor see. Counts only include these
/// clusters.
fn visible(workload: &WorkloadSummary, right: Right, rights: &Rights) -> WorkloadSummary {
    let WorkloadSummary {
        name,
        unselected,
        holds,
        corrections,
        rules,
        paused_by,
        approvals,
        undo,
        stages,
        groups,
        ..
    } = workload;
    let groups = groups.iter().filter_map(|group| visible_group(group, right, rights)).collect();
    let may_list_policies = rights.may(Right::ListPolicies, "");
    // The descriptions of approvals and undos name clusters and placements.
    let names_all = [right, Right::ListPlacements].iter().all(|one| rights.may(*one, ""));
    // A stage counts all its clusters.
    let may_count =
        |placement: &str| rights.may(right, "") && rights.may(Right::ListPlacements, namespace(placement));
    let may_read = |placement: &str| rights.may(Right::ListPlacements, namespace(placement));
    let copied = |(of, rules): (&String, &Vec<String>)| (of.clone(), rules.clone());
    let about = |(token, about): (&String, &String)| {
        (token.clone(), if names_all { about.clone() } else { token.clone() })
    };
    WorkloadSummary {
        name: name.clone(),
        unselected: if rights.may(right, "") { *unselected } else { 0 },
        holds: if may_list_policies { holds.clone() } else { Vec::new() },
        corrections: if rights.may(Right::ListPlacements, "") { corrections.clone() } else { Vec::new() },
        rules: rules.iter().filter(|(of, _)| may_list_policies && may_read(of)).map(copied).collect(),
        paused_by: if may_list_policies { paused_by.clone() } else { Vec::new() },
        approvals: approvals.iter().filter(|_| may_list_policies).map(about).collect(),
        undo: if names_all && may_list_policies { undo.clone() } else { Vec::new() },
        stages: stages.iter().filter(|one| may_count(&one.placement)).cloned().collect(),
        ..WorkloadSummary::of(groups)
    }
}

fn visible_group(group: &GroupSummary, right: Right, rights: &Rights) -> Option<GroupSummary> {
    let may_see = |cluster: &str| rights.may(right, cluster);
    let clusters: Vec<_> = group.clusters.iter().filter(|one| may_see(&one.name)).cloned().collect();
    let is_known =
        group.placement.is_empty() || rights.may(Right::ListPlacements, namespace(&group.placement));
    let (placement, name) = match is_known {
        true => (group.placement.clone(), group.name.clone()),
        false => ("a placement that you may not list".to_owned(), String::new()),
    };
    (!clusters.is_empty()).then_some(GroupSummary { placement, name, clusters })
}

fn notes(rights: &Rights) -> Vec<String> {
    let whole = [
        (Right::ListClusters, "You may not list managedclusters, so the clusters are not shown."),
        (Right::ListAddOns, "You may not list clustermanagementaddons, so no add-on is shown."),
        (
            Right::ListPolicies,
            "You may not list rolloutpolicies, so the reasons of held rollouts are not shown.",
        ),
    ];
    let whole = whole.iter().filter(|(right, _)| !rights.may(*right, "")).map(|(_, note)| *note);
    let parts = [
        (
            Right::ListRepositories,
            "Only repositories in namespaces whose configrepos you may list are shown.",
        ),
        (Right::ListPlacements, "Only placements in namespaces whose placements you may list are shown."),
        (
            Right::ListAddOnsOfClusters,
            "Add-ons are shown and counted only on clusters whose managedclusteraddons you may list.",
        ),
        (
            Right::ListReplicaSets,
            "Only ManifestWorkReplicaSets in namespaces whose manifestworkreplicasets you may list are shown.",
        ),
        (
            Right::ListWorks,
            "ManifestWorkReplicaSets are shown and counted only on clusters whose manifestworks you may list.",
        ),
    ];
    let parts = parts.iter().filter(|(right, _)| !rights.may(*right, "")).map(|(_, note)| *note);
    let cut = rights.cut.then_some(
        "Your permissions were checked in only some of the namespaces, because there are many: ask for a role in all of them.",
    );
    whole.chain(parts).chain(cut).map(str::to_owned).collect()
}
