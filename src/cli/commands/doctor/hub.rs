//! What the checks know of the hub: what several of them read is read once.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use object::{Kind, Metadata as _};

use super::finding::Finding;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::GITOPS_GROUP;
use engine::installation::MANAGED_BY;

/// The input of the checks.
pub(super) struct ExaminedHub {
    pub(super) client: kube::Client,
    /// Namespace of the operator.
    pub(super) namespace: String,
    /// Whether the hub has definitions of ours; a hub with the programs of OCM alone has none.
    pub(super) has_ours: bool,
    /// The Deployment of the operator, or why it cannot be read.
    pub(super) operator: Result<Option<Deployment>, Finding>,
    /// The definitions, or why they cannot be read.
    pub(super) definitions: Result<Vec<CustomResourceDefinition>, Finding>,
    /// The ConfigRepos, or why they cannot be read; none where they are not defined.
    pub(super) repositories: Result<Vec<ConfigRepo>, Finding>,
}

impl ExaminedHub {
    /// Returns the command that writes roles and policies again: `without_helm`, or helm's.
    pub(super) fn upgrade(&self, without_helm: &'static str) -> &'static str {
        if self.is_helm() { "helm upgrade" } else { without_helm }
    }

    /// Returns the command that writes the definitions again, which helm writes once only.
    pub(super) fn upgrade_definitions(&self, without_helm: &'static str) -> &'static str {
        match self.is_helm() {
            true => "wheelwright crds | kubectl apply --server-side --force-conflicts -f -",
            false => without_helm,
        }
    }

    /// Returns whether a definition is there, or cannot be looked up. What is not defined is not asked for:
    /// the check of the definitions names those that are missing.
    fn defines(&self, definition: &str) -> bool {
        match &self.definitions {
            Ok(all) => all.iter().any(|one| one.name() == definition),
            Err(_) => true,
        }
    }

    pub(super) fn serves<K: Kind>(&self) -> bool {
        self.defines(&format!("{}.{}", K::plural(&()), K::group(&())))
    }

    /// Returns whether all kinds of the fleet are defined. A hub without any definition of ours needs OCM's
    /// only.
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

/// Returns whether helm installed an operator: `wheelwright install` and `upgrade` leave such a hub to it.
pub(super) fn is_of_helm(operator: &Deployment) -> bool {
    operator.label(MANAGED_BY) == Some("Helm")
}
