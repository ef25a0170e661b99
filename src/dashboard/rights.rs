//! The rights of a visitor, determined by SubjectAccessReviews on the hub.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};

use crate::shell::message;
use api::names::{ADDON_GROUP, CLUSTER_GROUP, GITOPS_GROUP, WORK_GROUP};
use controllers::hub::overview::{Overview, WorkloadSummary};

/// The maximum number of namespaces to review per right.
const NAMESPACES: usize = 256;
/// The maximum number of concurrent reviews.
const AT_ONCE: usize = 16;

/// A right that a part of the dashboard requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Right {
    ListClusters,
    /// Reads a single cluster. Reviewed for the page of the cluster.
    GetCluster,
    ListAddOns,
    ListPolicies,
    /// Pauses, resumes and approves.
    ChangePolicies,
    ListPlacements,
    /// Reads the objects that decide a placement, in addition to the placement itself.
    ExplainPlacements,
    ListAddOnsOfClusters,
    ListReplicaSets,
    ListWorks,
    ListRepositories,
    ChangeRepositories,
}

/// A verb, an API group, a resource and a subresource.
type Access = (&'static str, &'static str, &'static str, &'static str);

impl Right {
    /// The rights that a visitor may have everywhere.
    const ALL: [Self; 11] = [
        Self::ListClusters,
        Self::ListAddOns,
        Self::ListPolicies,
        Self::ChangePolicies,
        Self::ListPlacements,
        Self::ExplainPlacements,
        Self::ListAddOnsOfClusters,
        Self::ListReplicaSets,
        Self::ListWorks,
        Self::ListRepositories,
        Self::ChangeRepositories,
    ];

    /// Returns the permissions that the right consists of.
    fn accesses(self) -> &'static [Access] {
        match self {
            Self::ListClusters => &[("list", CLUSTER_GROUP, "managedclusters", "")],
            Self::GetCluster => &[("get", CLUSTER_GROUP, "managedclusters", "")],
            Self::ListAddOns => &[("list", ADDON_GROUP, "clustermanagementaddons", "")],
            Self::ListPolicies => &[("list", GITOPS_GROUP, "rolloutpolicies", "")],
            Self::ChangePolicies => &[
                ("list", GITOPS_GROUP, "rolloutpolicies", ""),
                ("create", GITOPS_GROUP, "rolloutpolicies", ""),
                ("patch", GITOPS_GROUP, "rolloutpolicies", ""),
                ("patch", GITOPS_GROUP, "rolloutpolicies", "status"),
            ],
            Self::ListPlacements => &[("list", CLUSTER_GROUP, "placements", "")],
            Self::ExplainPlacements => &[
                ("list", CLUSTER_GROUP, "managedclusters", ""),
                ("list", CLUSTER_GROUP, "managedclustersets", ""),
                ("list", CLUSTER_GROUP, "addonplacementscores", ""),
            ],
            Self::ListAddOnsOfClusters => &[("list", ADDON_GROUP, "managedclusteraddons", "")],
            Self::ListReplicaSets => &[("list", WORK_GROUP, "manifestworkreplicasets", "")],
            Self::ListWorks => &[("list", WORK_GROUP, "manifestworks", "")],
            Self::ListRepositories => &[("list", GITOPS_GROUP, "configrepos", "")],
            Self::ChangeRepositories => &[("patch", GITOPS_GROUP, "configrepos", "")],
        }
    }

    /// Returns the namespaces of a fleet in which a visitor may have the right; empty if the right is not
    /// namespaced.
    fn namespaces(self, overview: &Overview) -> BTreeSet<&str> {
        match self {
            Self::ListClusters
            | Self::GetCluster
            | Self::ListAddOns
            | Self::ListPolicies
            | Self::ChangePolicies
            | Self::ExplainPlacements => BTreeSet::new(),
            Self::ListPlacements => {
                let workloads = overview.workloads();
                let groups = workloads.flat_map(|workload| &workload.groups);
                let rolled_out =
                    groups.map(|group| namespace(&group.placement)).filter(|one| !one.is_empty());
                overview.placements.iter().map(|one| namespace(&one.name)).chain(rolled_out).collect()
            }
            Self::ListAddOnsOfClusters => clusters(&overview.add_ons),
            Self::ListReplicaSets => overview.replica_sets.iter().map(|one| namespace(&one.name)).collect(),
            Self::ListWorks => clusters(&overview.replica_sets),
            Self::ListRepositories | Self::ChangeRepositories => {
                overview.repositories.iter().map(|one| namespace(&one.name)).collect()
            }
        }
    }
}

/// Returns the namespace of NAMESPACE/NAME.
pub(super) fn namespace(name: &str) -> &str {
    name.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Returns the names of the clusters of workloads.
fn clusters(workloads: &[WorkloadSummary]) -> BTreeSet<&str> {
    let groups = workloads.iter().flat_map(|workload| &workload.groups);
    groups.flat_map(|group| &group.clusters).map(|cluster| cluster.name.as_str()).collect()
}

/// The rights of a visitor in a fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    everywhere: BTreeSet<Right>,
    within: BTreeSet<(Right, String)>,
    /// True if there were more namespaces than the maximum to review.
    pub(super) cut: bool,
}

impl Rights {
    /// Returns true if the visitor has a right in a namespace or, if it is empty, everywhere.
    pub(super) fn may(&self, right: Right, namespace: &str) -> bool {
        self.everywhere.contains(&right) || self.within.contains(&(right, namespace.to_owned()))
    }

    /// Reviews the rights of a user on the hub.
    ///
    /// # Errors
    /// Fails if the hub does not respond to a review.
    pub(super) async fn read(
        hub: &kube::Client,
        user: &UserInfo,
        overview: &Overview,
    ) -> Result<Self, String> {
        let everywhere = Right::ALL.map(|right| (right, String::new()));
        let everywhere: BTreeSet<Right> =
            granted(hub, user, everywhere.into()).await?.into_iter().map(|(right, _)| right).collect();
        let (mut questions, mut cut) = (Vec::new(), false);
        for right in Right::ALL.into_iter().filter(|right| !everywhere.contains(right)) {
            let namespaces = right.namespaces(overview);
            cut |= namespaces.len() > NAMESPACES;
            questions.extend(namespaces.into_iter().take(NAMESPACES).map(|one| (right, one.to_owned())));
        }
        let within = granted(hub, user, questions).await?.into_iter().collect();
        Ok(Self { everywhere, within, cut })
    }

    /// Returns the rights, with the rights for a cluster and its namespace, which are reviewed on the hub.
    ///
    /// # Errors
    /// As for [`Rights::read`].
    pub(super) async fn with_cluster(
        &self,
        hub: &kube::Client,
        user: &UserInfo,
        cluster: &str,
    ) -> Result<Self, String> {
        let rights = [Right::GetCluster, Right::ListAddOnsOfClusters, Right::ListWorks];
        let questions = rights.map(|right| (right, cluster.to_owned()));
        let mut all = self.clone();
        all.within.extend(granted(hub, user, questions.into()).await?);
        Ok(all)
    }

    /// Returns all rights, for the local user.
    pub(super) fn every() -> Self {
        Self { everywhere: Right::ALL.into(), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn new(everywhere: &[Right], within: &[(Right, &str)]) -> Self {
        let within = within.iter().map(|(right, namespace)| (*right, (*namespace).to_owned())).collect();
        Self { everywhere: everywhere.iter().copied().collect(), within, cut: false }
    }
}

/// Returns the rights, each in a namespace, that a user has.
async fn granted(
    hub: &kube::Client,
    user: &UserInfo,
    questions: Vec<(Right, String)>,
) -> Result<Vec<(Right, String)>, String> {
    let ask = |question: (Right, String)| async {
        for access in question.0.accesses() {
            if !allows(hub, user, attributes(*access, &question)).await? {
                return Ok(None);
            }
        }
        Ok(Some(question))
    };
    let answers = stream::iter(questions).map(ask).buffer_unordered(AT_ONCE);
    answers.try_filter_map(|granted| std::future::ready(Ok(granted))).try_collect().await
}

/// Returns the attributes of a review for a permission in a namespace or for a cluster.
fn attributes(
    (verb, group, resource, subresource): Access,
    (right, of): &(Right, String),
) -> ResourceAttributes {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (namespace, name) = if *right == Right::GetCluster { ("", of.as_str()) } else { (of.as_str(), "") };
    ResourceAttributes {
        verb: text(verb),
        group: text(group),
        resource: text(resource),
        subresource: text(subresource),
        namespace: text(namespace),
        name: text(name),
        ..ResourceAttributes::default()
    }
}

async fn allows(hub: &kube::Client, user: &UserInfo, attributes: ResourceAttributes) -> Result<bool, String> {
    let UserInfo { username, uid, groups, extra } = user.clone();
    let spec = SubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        user: username,
        uid,
        groups,
        extra,
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviewed = Api::all(hub.clone()).create(&PostParams::default(), &review).await;
    let reviewed =
        reviewed.map_err(|error| format!("it does not say what you may do: {}", message(&error)))?;
    Ok(reviewed.status.is_some_and(|status| status.allowed && !status.denied.unwrap_or_default()))
}
