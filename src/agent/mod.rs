//! Wires the agent of a spoke: joins the hub, runs the agent's controllers, and keeps the certificate fresh.

mod addon_health;
mod addon_registration;
mod addon_secrets;
mod addon_status;
mod addon_token;
mod addons;
mod credentials;
mod definitions;
mod error;
mod files;
mod hub;
mod identity;
mod join;
mod leave;
mod life;
mod requests;
mod run;
mod sealing;
mod spoke;
mod stored_works;
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

pub use definitions::install_definitions;
pub use error::JoinError;
pub use hub::Bootstrap;
pub use leave::{Leaver, leave};
pub use run::run;
pub use spoke::cluster_name;

/// The options of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// The way to reach the hub until the agent has its own identity.
    pub bootstrap: Bootstrap,
    /// Other hubs. An agent that loses its hub moves to the next hub that accepts it.
    pub other_hubs: Vec<Bootstrap>,
    /// The time for which the hub may be unreachable before the agent moves to another hub.
    pub hub_timeout: Duration,
    /// The cluster that the agent runs for.
    pub spoke: kube::Client,
    /// The cluster that stores the agent's secrets, if it is another one (hosted mode).
    pub management: Option<kube::Client>,
    /// The name of the cluster on the hub.
    pub cluster: String,
    /// The name of the agent in its identity. `None` means a random name.
    pub agent_id: Option<String>,
    /// The secret that stores the identity.
    pub secret: Key,
    /// The way in which add-ons prove their identity to the hub's API server.
    pub addon_driver: KubeClientDriver,
    /// A directory with the files of the identity, shared as by OCM's agents. The registration agent writes it,
    /// and a work agent reads it instead of the secret.
    pub directory: Option<PathBuf>,
    /// The requested lifetime of certificates, in seconds. `None` means the signer's default.
    pub certificate_seconds: Option<i32>,
    /// Annotations of a ManagedCluster that the agent creates.
    pub cluster_annotations: BTreeMap<String, String>,
    /// Labels of a ManagedCluster that the agent creates.
    pub cluster_labels: BTreeMap<String, String>,
    /// The addresses of the cluster's API server, for the spec of the ManagedCluster.
    pub client_configs: Vec<ClientConfig>,
    /// The selection of ClusterClaims to report.
    pub claims: ClaimOptions,
    /// The time to keep an AppliedManifestWork without a work on the hub. `None` means an hour.
    pub eviction_grace: Option<SignedDuration>,
    /// The address for health and metrics.
    pub listen: Option<Listen>,
    /// The controllers to run. Without `lease`, this is a work agent next to a separate registration agent,
    /// which creates and renews the identity.
    pub controllers: EnabledControllers,
}

impl AgentOptions {
    /// Returns the options of an agent with all controllers, which stores its identity like OCM's agent.
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

    /// Returns the cluster that stores the agent's secrets.
    fn home(&self) -> &kube::Client {
        self.management.as_ref().unwrap_or(&self.spoke)
    }

    /// Returns true if the agent creates and renews the identity.
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
