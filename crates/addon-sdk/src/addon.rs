//! The trait that add-on authors implement.

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
/// It is a type and not a value: its decisions depend only on the objects on the hub. Put what differs between
/// installations into an AddOnDeploymentConfig, which people can see and rollouts deliver.
pub trait AddOn: Send + Sync + 'static {
    /// Name of the ClusterManagementAddOn.
    const NAME: &'static str;

    /// Returns the objects of the add-on on one cluster. Each has apiVersion, kind and name.
    ///
    /// A Job or Pod with the annotation `addon.open-cluster-management.io/addon-pre-delete` runs when the add-on
    /// is deleted. The add-on is kept until the Job or Pod completes.
    ///
    /// # Errors
    /// Returns the reason that the objects cannot be built, for the condition `ManifestApplied`. The objects
    /// already on the cluster are left running.
    fn manifests(installation: &Installation<'_>) -> Result<Vec<Object>, String>;

    /// Returns the other settings of the add-on. By default, the agent has an identity without permissions and
    /// reports its health with a Lease.
    fn options() -> AddOnOptions {
        AddOnOptions::default()
    }
}

/// The settings of an add-on other than its objects.
pub struct AddOnOptions {
    /// The source of the add-on's health.
    pub health: HealthProber,
    /// Permissions of the agent on the hub, in the namespace of its cluster; `None` if the agent has no identity
    /// on the hub. The manager can only grant permissions that it has itself.
    pub hub_permissions: Option<Vec<PolicyRule>>,
    /// Roles on the hub that an agent with an identity also has. The manager needs the permissions of these roles
    /// itself, or the verb `bind` for them.
    pub hub_roles: Vec<HubRole>,
    /// Signers of additional certificates for the agent.
    pub signers: Vec<Signer>,
    /// Feedback and update rules of the ManifestWorks, in addition to those for the health of workloads.
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// True if part of the add-on may run on another cluster of the hub, which the annotation
    /// `addon.open-cluster-management.io/hosting-cluster-name` of the add-on names. Each object then sets its
    /// location with the annotation `addon.open-cluster-management.io/hosted-manifest-location`: `managed` (the
    /// default), `hosting` or `none`. If false, all objects go to the add-on's cluster.
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

/// A role that exists on the hub, and the namespace in which it is bound to the agent, as in an AddOnTemplate.
pub enum HubRole {
    /// A ClusterRole with this name, in the namespace of the agent's cluster.
    CurrentCluster(&'static str),
    /// A Role or ClusterRole, in one namespace for all clusters.
    SingleNamespace {
        /// The namespace of the RoleBinding.
        namespace: &'static str,
        /// The Role or ClusterRole to bind to the agent.
        role: RoleRef,
    },
}

/// The source of an add-on's health.
pub enum HealthProber {
    /// The agent renews a Lease on its cluster ([`agent::run`](crate::agent::run)), and the registration agent
    /// of the cluster reports it.
    Lease,
    /// Like [`HealthProber::Lease`], but the agent calls this function before each renewal. It does not renew the
    /// Lease if the function fails or does not return. The agent logs the error.
    AgentProbe(fn() -> Result<(), String>),
    /// The objects are applied, and the Deployments and DaemonSets among them are available.
    Workloads,
    /// Like [`HealthProber::Workloads`], and this function must accept the works with their feedback. Its error
    /// becomes the message of the condition.
    Probe(fn(&[&ManifestWork]) -> Result<(), String>),
}

/// A signer of certificates for agents other than the hub's own signer.
pub struct Signer {
    /// The name of the signer, such as `example.com/agents`.
    pub name: &'static str,
    /// The subject on a cluster whose requests the manager approves; `None` for OCM's default.
    pub subject: Option<fn(cluster: &str) -> Subject>,
    /// Signs an approved request and returns the certificate in PEM. `None` if another process signs.
    pub sign: Option<SignFn>,
}

/// Signs a request.
///
/// # Errors
/// Returns the reason that the request is not signed; it stays open.
pub type SignFn = fn(&CertificateSigningRequest, Timestamp) -> Result<Vec<u8>, String>;

/// An add-on on one cluster, as stored on the hub.
pub struct Installation<'a> {
    /// The add-on, from the cluster's namespace on the hub.
    pub addon: &'a ManagedClusterAddOn,
    /// The cluster of the add-on.
    pub cluster: &'a ManagedCluster,
    /// The AddOnDeploymentConfig that the rollout assigned, with the variables of the add-on's annotation added.
    pub config: AddOnDeploymentConfigSpec,
}

impl Installation<'_> {
    /// Returns the name of the cluster.
    pub fn cluster_name(&self) -> &str {
        self.cluster.name()
    }

    /// Returns the cluster that hosts part of the add-on, from the add-on's annotation; `None` without the
    /// annotation. It has no effect without [`AddOnOptions::hosted`].
    pub fn hosting_cluster(&self) -> Option<&str> {
        engine::addon::hosting::hosting_cluster(self.addon)
    }

    /// Returns the name of the Secret on the cluster that has the agent's kubeconfig for the hub.
    pub fn hub_kubeconfig_secret(&self) -> String {
        format!("{}-hub-kubeconfig", self.addon.name())
    }

    /// Returns the namespace of the agent and its Secret.
    pub fn namespace(&self) -> &str {
        if self.config.agent_install_namespace.is_empty() {
            api::names::DEFAULT_ADDON_NAMESPACE
        } else {
            &self.config.agent_install_namespace
        }
    }

    /// Returns the variables by name. The annotation `addon.open-cluster-management.io/values` of the add-on
    /// overrides the configuration.
    pub fn values(&self) -> BTreeMap<&str, &str> {
        let variables = self.config.customized_variables.iter();
        variables.map(|variable| (variable.name.as_str(), variable.value.as_str())).collect()
    }
}
