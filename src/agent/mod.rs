//! Wires the agent of a spoke: join the hub, run the agent's controllers, and keep the certificate fresh
//! beside them.

mod addon_health;
mod addon_registration;
mod addon_secrets;
mod addon_status;
mod addon_token;
mod addons;
mod credentials;
mod error;
mod files;
mod hub;
mod identity;
mod join;
mod kept;
mod leave;
mod life;
mod requests;
mod run;
mod spoke;
mod switch;
mod wait;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

use crate::serve::Listen;
use crate::shell::EnabledControllers;
use api::addon::v1alpha1::KubeClientDriver;
use api::cluster::v1::ClientConfig;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use controllers::agent_identity::ClaimOptions;
use object::Key;
use reconcile::{Controller, Register};

pub use error::JoinError;
pub use hub::Bootstrap;
pub use leave::{Leaver, leave};
pub use run::run;
pub use spoke::{cluster_name, install_definitions};

/// The options of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// How the hub is reached before the agent has an identity of its own.
    pub bootstrap: Bootstrap,
    /// Further hubs: the agent goes to the next one that takes it when it loses its hub.
    pub other_hubs: Vec<Bootstrap>,
    /// How long the hub may be away until the agent goes to another one.
    pub hub_timeout: Duration,
    /// The cluster the agent runs for.
    pub spoke: kube::Client,
    /// The cluster that keeps the secrets of the agent, if that is another one (hosted mode).
    pub management: Option<kube::Client>,
    /// Name of the cluster on the hub.
    pub cluster: String,
    /// The name of the agent in its identity; a random one where absent.
    pub agent_id: Option<String>,
    /// The secret that keeps the identity.
    pub secret: Key,
    /// How add-ons prove their identity to the API server of the hub.
    pub addon_driver: KubeClientDriver,
    /// A directory with the files of the identity, as OCM's agents share it. The registration agent writes
    /// it, and a work agent reads it in place of the secret.
    pub directory: Option<PathBuf>,
    /// The lifetime that the agent asks for in certificate requests, in seconds; the signer's own where
    /// absent.
    pub certificate_seconds: Option<i32>,
    /// Annotations of a ManagedCluster that the agent creates.
    pub cluster_annotations: BTreeMap<String, String>,
    /// Labels of a ManagedCluster that the agent creates.
    pub cluster_labels: BTreeMap<String, String>,
    /// How the API server of the cluster is reached, for the spec of the ManagedCluster.
    pub client_configs: Vec<ClientConfig>,
    /// Which ClusterClaims are reported.
    pub claims: ClaimOptions,
    /// How long the agent keeps an AppliedManifestWork without a work on the hub; an hour where absent.
    pub eviction_grace: Option<SignedDuration>,
    /// The address that serves health and metrics.
    pub listen: Option<Listen>,
    /// The controllers that run. Without `lease` this is a work agent beside another registration agent,
    /// which makes and renews the identity.
    pub controllers: EnabledControllers,
}

impl AgentOptions {
    /// Returns the options of an agent with all controllers, which keeps its identity where OCM's agent does.
    pub fn new(bootstrap: Bootstrap, spoke: kube::Client, cluster: impl Into<String>) -> Self {
        Self {
            bootstrap,
            other_hubs: Vec::new(),
            hub_timeout: switch::HUB_TIMEOUT,
            spoke,
            management: None,
            cluster: cluster.into(),
            agent_id: None,
            secret: Key::namespaced(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET),
            addon_driver: KubeClientDriver::Csr,
            directory: None,
            certificate_seconds: None,
            cluster_annotations: BTreeMap::new(),
            cluster_labels: BTreeMap::new(),
            client_configs: Vec::new(),
            claims: ClaimOptions::default(),
            eviction_grace: None,
            listen: None,
            controllers: EnabledControllers::default(),
        }
    }

    /// Returns the cluster that keeps the secrets of the agent.
    fn home(&self) -> &kube::Client {
        self.management.as_ref().unwrap_or(&self.spoke)
    }

    /// Returns whether the agent makes and renews the identity.
    fn registers(&self) -> bool {
        self.controllers.includes("lease")
    }
}

/// Returns the names of the agent's controllers, for `--controllers`.
pub fn controller_names() -> Vec<&'static str> {
    struct Names(Vec<&'static str>);
    impl Register for Names {
        fn add<C: Controller>(&mut self) {
            self.0.push(C::NAME);
        }
    }
    let mut names = Names(Vec::new());
    controllers::agent(&mut names);
    names.0
}
