//! Wires the operator: an election, the shell with the hub's controllers, the source controller, health,
//! metrics, the conversion webhook, custom signers and traces.

mod applied;
mod last_reports;
pub mod registration;
mod run;
mod sealing;
mod signer;
pub mod source;
pub mod traces;
pub mod webhook;

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::serve::receiver::ReceiverOptions;
use crate::shell::{self, Election, ElectionOptions, EnabledControllers};
use api::names::SYSTEM_NAMESPACE;
use reconcile::{Controller, Register};

pub use run::run;

/// The options of an operator.
pub struct OperatorOptions {
    /// The client for the hub.
    pub hub: kube::Client,
    /// The controllers to run.
    pub controllers: EnabledControllers,
    /// The election to win before any write. Without one, this must be the only operator.
    pub election: Option<LeaderCandidate>,
    /// The address for health and metrics.
    pub listen: Option<SocketAddr>,
    /// The receiver for webhooks from git servers.
    pub receiver: Option<ReceiverOptions>,
    /// The conversion webhook, if this operator serves it.
    pub webhook: Option<webhook::WebhookOptions>,
    /// The operator's namespace, and the default namespace for authorities of custom signers.
    pub namespace: String,
    /// True if the operator publishes clusters as ClusterProfiles.
    pub cluster_profiles: bool,
    /// Argo CD, if the hub has one that the operator supports.
    pub argo_cd: Option<ArgoCd>,
    /// The options of fetches.
    pub sources: source::SourceOptions,
    /// The collector for traces, if any.
    pub traces: Option<traces::TraceOptions>,
}

impl OperatorOptions {
    /// Returns the options for the only operator of a hub, with all controllers and no server. ConfigRepos may
    /// use repositories on this machine.
    pub fn new(hub: kube::Client, cache: impl Into<PathBuf>) -> Self {
        Self {
            hub,
            controllers: EnabledControllers::default(),
            election: None,
            listen: None,
            receiver: None,
            webhook: None,
            namespace: SYSTEM_NAMESPACE.into(),
            cluster_profiles: false,
            argo_cd: None,
            sources: source::SourceOptions {
                cache: cache.into(),
                local_repositories: true,
                hosts: Vec::new(),
            },
            traces: None,
        }
    }
}

/// The settings for Argo CD on the hub.
pub struct ArgoCd {
    /// The namespace of Argo CD.
    pub namespace: String,
    /// True if the operator writes Argo CD's cluster secrets.
    pub cluster_secrets: bool,
    /// The ManagedServiceAccount whose tokens Argo CD uses to reach clusters; empty if it does not connect.
    pub account: String,
    /// True if the operator wraps Argo CD's Applications in works.
    pub pull_model: bool,
}

/// One of several operators.
pub struct LeaderCandidate {
    pub election: Election,
    /// The client for the leader's work. It sends nothing without leadership.
    pub leader: kube::Client,
}

impl LeaderCandidate {
    /// Creates a candidate. The election has its own connection, so that no renewal waits for other requests.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn new(hub: &kube::Config, options: ElectionOptions) -> Result<Self, kube::Error> {
        let election = Election::new(shell::client(hub.clone())?, options);
        let leader = shell::leader_client(hub.clone(), election.leadership())?;
        Ok(Self { election, leader })
    }
}

/// Returns the names of the hub's controllers, for `--controllers`.
pub fn controller_names() -> Vec<&'static str> {
    struct Names(Vec<&'static str>);
    impl Register for Names {
        fn add<C: Controller>(&mut self) {
            self.0.push(C::NAME);
        }
    }
    let mut names = Names(Vec::new());
    controllers::hub(&mut names);
    controllers::cluster_profiles(&mut names);
    controllers::argo_cd(&mut names);
    controllers::argo_cd_pull_model(&mut names);
    names.0
}
