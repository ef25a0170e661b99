//! Wires the agent of a spoke: join the hub, run the agent's controllers, and keep the certificate fresh
//! beside them.

mod addon_status;
mod addon_token;
mod addons;
mod hub;
mod join;
mod life;
mod spoke;

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::hub::Hub;
use self::join::Credentials;
use self::life::{End, IdentityUse};
use crate::shell::{Selection, Shell, ShellOptions, now};
use api::addon::v1alpha1::KubeClientDriver;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use controllers::agent_identity::Identity;
use object::Key;
use reconcile::{Controller, Register, Scope};

pub use hub::Bootstrap;
pub use join::JoinError;

/// First wait after a failed attempt to join; doubles with each, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The options of an agent.
pub struct AgentOptions {
    /// How the hub is reached before the agent has an identity of its own.
    pub bootstrap: Bootstrap,
    /// The cluster the agent runs for.
    pub spoke: kube::Client,
    /// Name of the cluster on the hub.
    pub cluster: String,
    /// The name of the agent in its identity; a random one where absent.
    pub agent_id: Option<String>,
    /// The secret on the cluster that keeps the identity.
    pub secret: Key,
    /// How add-ons prove their identity to the API server of the hub.
    pub addon_driver: KubeClientDriver,
    /// The controllers that run. Without `lease` this is a work agent beside another registration agent,
    /// which makes and renews the identity.
    pub controllers: Selection,
}

impl AgentOptions {
    /// The options of an agent with all controllers, which keeps its identity where OCM's agent does.
    pub fn new(bootstrap: Bootstrap, spoke: kube::Client, cluster: impl Into<String>) -> Self {
        Self {
            bootstrap,
            spoke,
            cluster: cluster.into(),
            agent_id: None,
            secret: Key::namespaced(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET),
            addon_driver: KubeClientDriver::Csr,
            controllers: Selection::default(),
        }
    }

    /// Whether the agent makes and renews the identity.
    fn registers(&self) -> bool {
        self.controllers.includes("lease")
    }
}

/// The names of the agent's controllers, for `--controllers`.
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

/// Runs until `stop`. Failed attempts are repeated: the hub may be away, or a request not approved yet.
pub async fn run(options: AgentOptions, stop: CancellationToken) {
    let mut wait = FIRST_WAIT;
    // A certificate that the hub refuses is not used again, however long it is valid.
    let mut refused = String::new();
    while !stop.is_cancelled() {
        match live(&options, &refused, &stop).await {
            Ok(End::Over) => wait = FIRST_WAIT,
            Ok(End::Refused(certificate)) => {
                warn!(cluster = options.cluster, "the hub refuses the certificate; joining anew");
                refused = certificate;
            }
            Err(error) => {
                warn!(
                    cluster = options.cluster,
                    error = message(&error),
                    wait_seconds = wait.as_secs_f32(),
                    "cannot join or serve the hub; the agent tries again"
                );
                stop.run_until_cancelled(sleep(wait)).await;
                wait = LONGEST_WAIT.min(wait * 2);
            }
        }
    }
}

/// An error with its causes.
fn message(error: &JoinError) -> String {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    why
}

/// Uses one identity: joins if there is none yet, then runs the controllers until the identity ends.
async fn live(options: &AgentOptions, refused: &str, stop: &CancellationToken) -> Result<End, JoinError> {
    let hub = Hub::read(&options.bootstrap)?;
    spoke::prepare(&options.spoke).await?;
    // Before anything of another agent is touched.
    spoke::claim(options, &hub).await?;
    let credentials = identity(options, &hub, refused, stop).await?;
    let identity = Identity {
        cluster: options.cluster.clone(),
        agent_id: credentials.agent.clone(),
        hub_hash: hub.hash(),
    };
    spoke::write_claims(options, &hub, &identity).await?;
    let client = hub.client_with(&credentials).await?;
    let over = stop.child_token();
    let shell = Shell::new(
        ShellOptions {
            hub: client.clone(),
            spoke: Some(options.spoke.clone()),
            scope: Scope::OneCluster(options.cluster.clone()),
            controllers: options.controllers.clone(),
            push: None,
            leadership: None,
            attempts: None,
        },
        controllers::agent,
    );
    let life = IdentityUse { options, hub: &hub, client: &client, credentials: &credentials };
    let guarded = over.clone();
    let end = async {
        let end = guarded.run_until_cancelled(life.end(&guarded)).await;
        over.cancel();
        end.unwrap_or(End::Over)
    };
    let addons = addons::Addons {
        hub: &hub,
        client: &client,
        spoke: &options.spoke,
        cluster: &options.cluster,
        driver: options.addon_driver.clone(),
    };
    let handle = shell.handle();
    let keep = async {
        if options.registers() {
            addons.keep(handle, &over).await;
        }
    };
    let ((), end, ()) = tokio::join!(shell.run(over.clone()), end, keep);
    Ok(end)
}

/// The stored identity, or a new one if that is not usable.
async fn identity(
    options: &AgentOptions,
    hub: &Hub,
    refused: &str,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let held = spoke::load(options).await?;
    let usable = |held: &Credentials| {
        held.is_usable(&options.cluster, hub, now())
            && held.certificate != refused
            && options.agent_id.as_ref().is_none_or(|agent| *agent == held.agent)
    };
    if let Some(held) = held.filter(usable) {
        return Ok(held);
    }
    if !options.registers() {
        return Err(JoinError::NoIdentity(options.secret.clone()));
    }
    info!(cluster = options.cluster, hub = hub.server, "joining the hub");
    let client = hub.bootstrap_client().await?;
    join::create_cluster(&client, &options.cluster).await?;
    let agent = options.agent_id.as_deref();
    let asked = join::request(&client, join::AgentName { cluster: &options.cluster, agent }, stop);
    // A changed bootstrap kubeconfig ends the attempt, because this one may never succeed.
    let credentials = tokio::select! {
        credentials = asked => credentials?,
        () = life::bootstrap_changes(&options.bootstrap, hub) => return Err(JoinError::Moved),
    };
    spoke::store(options, &credentials, hub).await?;
    Ok(credentials)
}
