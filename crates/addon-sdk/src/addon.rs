//! The trait that the author of an add-on implements.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};

use api::addon::v1alpha1::{AddOnDeploymentConfigSpec, ManagedClusterAddOn, Subject};
use api::cluster::v1::ManagedCluster;
use api::work::v1::{ManifestConfigOption, ManifestWork};
use object::{Metadata as _, Object};

/// An add-on.
///
/// It is a type and not a value: what it decides follows from the objects on the hub alone. What differs
/// between installations belongs into an AddOnDeploymentConfig, where people see it and rollouts carry it.
pub trait AddOn: Send + Sync + 'static {
    /// Name of the ClusterManagementAddOn.
    const NAME: &'static str;

    /// Returns the objects of the add-on on one cluster. Each has apiVersion, kind and name.
    ///
    /// A Job or Pod with the annotation `addon.open-cluster-management.io/addon-pre-delete` runs when the add-on
    /// is deleted, and the add-on stays until it is complete.
    ///
    /// # Errors
    /// Says why the objects cannot be made, in words for the condition `ManifestApplied`. What runs on the
    /// cluster stays.
    fn manifests(installation: &Installation<'_>) -> Result<Vec<Object>, String>;

    /// Returns the settings beside the objects. By default the agent has an identity without permissions, and
    /// a lease says that it is alive.
    fn options() -> AddOnOptions {
        AddOnOptions::default()
    }
}

/// The settings of an add-on beside its objects.
pub struct AddOnOptions {
    /// How the health of the add-on is found.
    pub health: HealthProber,
    /// Permissions of the agent on the hub, in the namespace of its cluster; `None` if it has no identity
    /// there. The manager needs these permissions itself to give them.
    pub hub_permissions: Option<Vec<PolicyRule>>,
    /// Roles on the hub that an agent with an identity there has beside these permissions. The manager needs
    /// what they permit itself, or the verb `bind` for them.
    pub hub_roles: Vec<HubRole>,
    /// Signers of further certificates of the agent.
    pub signers: Vec<Signer>,
    /// Feedback and update rules of the ManifestWorks, beside those that find the health of workloads.
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// Whether a part of the add-on may run on another cluster of the hub, which the annotation
    /// `addon.open-cluster-management.io/hosting-cluster-name` of the add-on names. Each object then says
    /// where it goes, with the annotation `addon.open-cluster-management.io/hosted-manifest-location`:
    /// `managed`, which is the default, `hosting` or `none`. Otherwise everything goes to the cluster of the
    /// add-on.
    pub hosted: bool,
}

impl Default for AddOnOptions {
    fn default() -> Self {
        Self {
            health: HealthProber::Lease,
            hub_permissions: Some(Vec::new()),
            hub_roles: Vec::new(),
            signers: Vec::new(),
            manifest_configs: Vec::new(),
            hosted: false,
        }
    }
}

/// A role that exists on the hub, and the namespace in which the agent has it, as in an AddOnTemplate.
pub enum HubRole {
    /// A ClusterRole of this name, in the namespace of the agent's cluster.
    CurrentCluster(&'static str),
    /// A Role or a ClusterRole, in one namespace that is the same for all clusters.
    SingleNamespace {
        /// The namespace.
        namespace: &'static str,
        /// The role.
        role: RoleRef,
    },
}

/// How the health of an add-on is found.
pub enum HealthProber {
    /// The agent renews a Lease on its cluster ([`agent::run`](crate::agent::run)), and the registration agent
    /// of the cluster reports it.
    Lease,
    /// [`HealthProber::Lease`], and the agent calls this function before each renewal. It does not renew the
    /// Lease while the function fails or does not return. The error is for the log of the agent.
    AgentProbe(fn() -> Result<(), String>),
    /// The objects are applied, and the Deployments and DaemonSets among them are available.
    Workloads,
    /// [`HealthProber::Workloads`], and this function of the works with the feedback in their status agrees.
    /// The error is the message of the condition.
    Probe(fn(&[&ManifestWork]) -> Result<(), String>),
}

/// A signer of certificates for agents, other than the hub's own.
pub struct Signer {
    /// Its name, such as `example.com/agents`.
    pub name: &'static str,
    /// The subject on a cluster whose requests the manager approves; `None` for OCM's default.
    pub subject: Option<fn(cluster: &str) -> Subject>,
    /// Signs an approved request: a certificate in PEM. `None` if another process signs.
    pub sign: Option<SignFn>,
}

/// Signs a request.
///
/// # Errors
/// Says why it does not; the request stays open.
pub type SignFn = fn(&CertificateSigningRequest, Timestamp) -> Result<Vec<u8>, String>;

/// An add-on on one cluster, as the hub has it.
pub struct Installation<'a> {
    /// The add-on on the cluster.
    pub addon: &'a ManagedClusterAddOn,
    /// The cluster.
    pub cluster: &'a ManagedCluster,
    /// The AddOnDeploymentConfig that the rollout assigned, with the values of the add-on's annotation as
    /// further variables.
    pub config: AddOnDeploymentConfigSpec,
}

impl Installation<'_> {
    /// Returns the name of the cluster.
    pub fn cluster_name(&self) -> &str {
        self.cluster.name()
    }

    /// Returns the name of the cluster that the add-on's annotation names as the host of a part of it; `None`
    /// without the annotation. Without [`AddOnOptions::hosted`] it has no effect.
    pub fn hosting_cluster(&self) -> Option<&str> {
        engine::addon::hosting::hosting_cluster(self.addon)
    }

    /// Returns the name of the Secret on the cluster with the agent's kubeconfig for the hub.
    pub fn hub_kubeconfig_secret(&self) -> String {
        format!("{}-hub-kubeconfig", self.addon.name())
    }

    /// Returns the namespace of the agent and of its Secret.
    pub fn namespace(&self) -> &str {
        if self.config.agent_install_namespace.is_empty() {
            api::names::DEFAULT_ADDON_NAMESPACE
        } else {
            &self.config.agent_install_namespace
        }
    }

    /// Returns the variables by name: those of the configuration, then those of the annotation
    /// `addon.open-cluster-management.io/values` of the add-on.
    pub fn values(&self) -> BTreeMap<&str, &str> {
        let variables = self.config.customized_variables.iter();
        variables.map(|variable| (variable.name.as_str(), variable.value.as_str())).collect()
    }
}
