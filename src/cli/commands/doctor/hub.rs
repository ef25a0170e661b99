//! The facts about a hub that several checks use, each read once.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use object::{Kind, Metadata as _};

use super::finding::Finding;
use crate::cli::installation::HELM_RELEASE;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::GITOPS_GROUP;
use engine::installation::MANAGED_BY;

/// The input of the checks.
pub(super) struct ExaminedHub {
    pub(super) client: kube::Client,
    /// The namespace of the operator.
    pub(super) namespace: String,
    /// True if the hub has our CRDs; a hub with only OCM's components has none.
    pub(super) has_ours: bool,
    /// The Deployment of the operator, or a finding if it cannot be read.
    pub(super) operator: Result<Option<Deployment>, Finding>,
    /// The CRDs, or a finding if they cannot be read.
    pub(super) definitions: Result<Vec<CustomResourceDefinition>, Finding>,
    /// The ConfigRepos, or a finding if they cannot be read; empty if their CRD is missing.
    pub(super) repositories: Result<Vec<ConfigRepo>, Finding>,
}

impl ExaminedHub {
    /// Returns the command that writes roles and policies again: `helm upgrade` or `without_helm`. Helm 4 stops at
    /// an object that another client has changed, unless it is forced.
    pub(super) fn upgrade(&self, without_helm: &str) -> String {
        let Ok(Some(operator)) = &self.operator else { return without_helm.to_owned() };
        if !is_of_helm(operator) {
            return without_helm.to_owned();
        }
        let (release, namespace) = (operator.annotation(HELM_RELEASE).unwrap_or("RELEASE"), &self.namespace);
        format!(
            "helm upgrade {release} CHART -n {namespace} --reset-then-reuse-values, with helm 4 also --force-conflicts"
        )
    }

    /// Returns the command that writes the CRDs again. Helm only writes them at installation.
    pub(super) fn upgrade_definitions(&self, without_helm: &'static str) -> &'static str {
        match self.is_helm() {
            true => "wheelwright crds | kubectl apply --server-side --force-conflicts -f -",
            false => without_helm,
        }
    }

    /// Returns true if a CRD exists or the CRDs are unreadable. Checks skip kinds without a CRD, because the check
    /// of the CRDs reports missing ones.
    fn defines(&self, definition: &str) -> bool {
        match &self.definitions {
            Ok(all) => all.iter().any(|one| one.name() == definition),
            Err(_) => true,
        }
    }

    pub(super) fn serves<K: Kind>(&self) -> bool {
        self.defines(&format!("{}.{}", K::plural(&()), K::group(&())))
    }

    /// Returns true if all kinds of the fleet are defined. A hub without our CRDs only needs OCM's.
    pub(super) fn serves_fleet(&self) -> bool {
        let is_wanted = |one: &CustomResourceDefinition| self.has_ours || one.spec.group != GITOPS_GROUP;
        let mut wanted = crds::hub().into_iter().filter(is_wanted);
        wanted.all(|one| self.defines(one.name()))
    }

    pub(super) fn serves_repositories(&self) -> bool {
        self.has_ours && self.serves::<ConfigRepo>()
    }

    pub(super) fn is_helm(&self) -> bool {
        matches!(&self.operator, Ok(Some(operator)) if is_of_helm(operator))
    }
}

/// Returns true if Helm installed the operator. `wheelwright install` and `upgrade` refuse such a hub.
pub(super) fn is_of_helm(operator: &Deployment) -> bool {
    operator.label(MANAGED_BY) == Some("Helm")
}
