//! Wires the agent of a spoke: join the hub, run the agent's controllers, and keep the certificate fresh
//! beside them.

mod addon_health;
mod addon_secrets;
mod addon_status;
mod addon_token;
mod addons;
mod files;
mod hub;
mod join;
mod kept;
mod leave;
mod life;
mod requests;
mod spoke;
mod switch;
mod wait;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::hub::Hub;
use self::join::Credentials;
use self::life::{End, IdentityUse};
use self::wait::Wait;
use crate::serve::{self, Listen};
use crate::shell::{self, Handle, Selection, Shell, ShellOptions, now};
use api::addon::v1alpha1::KubeClientDriver;
use api::cluster::v1::ClientConfig;
use api::crds;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use controllers::agent_identity::ClaimOptions;
use object::Key;
use object::text::with_causes;
use reconcile::{Controller, Register, Scope};

pub use hub::Bootstrap;
pub use join::JoinError;
pub use leave::{Leaver, leave};
pub use spoke::{cluster_name, install_definitions};

/// First wait after a failed attempt to join, or after an identity in use; doubles with each, up to
/// [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

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
    pub controllers: Selection,
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
            controllers: Selection::default(),
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

/// Runs until `stop`. Failed attempts are repeated: the hub may be away, or a request not approved yet.
pub async fn run(mut options: AgentOptions, stop: CancellationToken) {
    let (running, seen) = watch::channel(Err("the agent has not joined the hub yet".to_owned()));
    if let Some(at) = options.listen {
        let stop = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = serve::serve_agent(at, seen, stop).await {
                error!(address = %at.address, %error, "cannot serve health and metrics");
            }
        });
    }
    let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT);
    // Without its identity, the agent does not know the hub that it is registered at.
    while let Err(error) = switch::to_kept(&mut options).await {
        let error = with_causes(&error);
        warn!(cluster = options.cluster, error, "cannot read the identity yet; the agent tries again");
        if stop.run_until_cancelled(sleep(wait.take())).await.is_none() {
            return;
        }
    }
    wait.next = FIRST_WAIT;
    // A certificate that the hub refuses is not used again, however long it is valid.
    let mut refused = String::new();
    while !stop.is_cancelled() {
        let began = Instant::now();
        let end = live(&options, &refused, &running, &stop).await;
        wait.next = wait_after(began.elapsed(), wait.next);
        let waits = match end {
            Ok(End::Over) => true,
            Ok(End::Refused(certificate)) => {
                warn!(cluster = options.cluster, "the hub refuses the certificate; joining again");
                refused = certificate;
                false
            }
            Ok(End::Lost(why)) => {
                warn!(cluster = options.cluster, error = why, "the hub is lost; looking for another one");
                switch::to_next(&mut options).await;
                false
            }
            Err(error) => {
                let error = with_causes(&error);
                warn!(
                    cluster = options.cluster,
                    error,
                    wait_seconds = wait.next.as_secs_f32(),
                    "cannot join or serve the hub; the agent tries again"
                );
                running.send_modify(|state| {
                    *state = Err(format!("the agent has not joined the hub yet: {error}"))
                });
                switch::to_next(&mut options).await;
                true
            }
        };
        if waits {
            stop.run_until_cancelled(sleep(wait.take())).await;
        }
    }
}

/// Returns the wait after an identity that was in use for `used`: the first one if that was long. An identity
/// that ends at once again and again, as with a wrong clock, is a request to the hub each time.
fn wait_after(used: Duration, wait: Duration) -> Duration {
    if used > LONGEST_WAIT * 2 { FIRST_WAIT } else { wait }
}

/// Uses one identity: joins if there is none yet, then runs the controllers until the identity ends.
/// `running` tells the servers of health and metrics which shell runs.
async fn live(
    options: &AgentOptions,
    refused: &str,
    running: &watch::Sender<Result<Handle, String>>,
    stop: &CancellationToken,
) -> Result<End, JoinError> {
    let hub = Hub::read(&options.bootstrap)?;
    spoke::install_definitions(&options.spoke, crds::spoke()).await?;
    // This comes before any write to objects of another agent.
    spoke::refuse_second(options, &hub).await?;
    let credentials = identity(options, &hub, refused, stop).await?;
    let settings = spoke::settings(options, &hub, &credentials).await?;
    let claim = settings.identity.is_claimed.then(|| settings.identity.value());
    let client = hub.client_with(&credentials).await?;
    let over = stop.child_token();
    let shell = Shell::new(
        ShellOptions {
            spoke: Some(options.spoke.clone()),
            scope: Scope::OneCluster(options.cluster.clone()),
            controllers: options.controllers.clone(),
            ..ShellOptions::new(client.clone())
        },
        |register| {
            register.set_settings(settings);
            controllers::agent(register);
        },
    );
    let handle = shell.handle();
    running.send_modify(|state| *state = Ok(handle.clone()));
    let life = IdentityUse {
        options,
        hub: &hub,
        client: &client,
        credentials: &credentials,
        claim,
        shell: Some(&handle),
    };
    let guarded = over.clone();
    let end = async {
        let end = guarded.run_until_cancelled(life.end(&guarded)).await;
        over.cancel();
        end.unwrap_or(End::Over)
    };
    let addons = addons::AddOns { hub: &hub, client: &client, options };
    let works = kept::KeptWorks::new(options, &hub);
    let write_addresses = async {
        if options.registers()
            && let Err(error) = join::write_addresses(&client, options).await
        {
            warn!(error = with_causes(&error), "cannot write the addresses of the cluster to the hub");
        }
    };
    let keep_works = async {
        if options.controllers.includes("work-agent") {
            works.run(&client, handle.clone(), &over).await;
        }
    };
    let keep_addons = async {
        if options.registers() {
            tokio::join!(addons.keep(handle.clone(), &over), addons.report_health(handle.clone(), &over));
        }
    };
    let ((), end, (), (), ()) =
        tokio::join!(shell.run(over.clone()), end, keep_works, keep_addons, write_addresses);
    Ok(end)
}

/// Returns the stored identity, or a new one if that is not usable.
async fn identity(
    options: &AgentOptions,
    hub: &Hub,
    refused: &str,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let held = spoke::load(options).await?.filter(|held| held.cluster() == options.cluster);
    let named = options.agent_id.clone().or_else(|| held.as_ref().map(|held| held.agent.clone()));
    let mut held = held.filter(|held| {
        held.is_for(&options.cluster, hub)
            && held.certificate != refused
            && named.as_ref().is_none_or(|agent| *agent == held.agent)
    });
    if let Some(held) = held.as_mut().filter(|held| options.registers() && !hub.is_named_by(&held.kubeconfig))
    {
        info!(
            cluster = options.cluster,
            "the CA of the hub or the proxy before it has changed; the identity stays"
        );
        held.kubeconfig = hub.stored_kubeconfig()?;
        spoke::store(options, held, hub).await?;
    }
    if let Some(held) = held.as_ref().filter(|held| held.expires() > now()) {
        return Ok(held.clone());
    }
    if !options.registers() {
        return Err(JoinError::NoIdentity(options.secret.clone()));
    }
    match (join_anew(options, hub, named.as_deref(), stop).await, held) {
        // With an expired identity, the controllers go on with the works while the agent tries to join.
        (Err(JoinError::Api { source, .. }), Some(held)) if shell::is_away(&source) => Ok(held),
        // It has expired by the clock of this machine, which may be wrong.
        (Err(JoinError::TooManyRequests(_)), Some(held)) => Ok(held),
        (joined, _) => joined,
    }
}

/// Joins the hub under the bootstrap identity, and keeps the new one.
async fn join_anew(
    options: &AgentOptions,
    hub: &Hub,
    agent: Option<&str>,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    info!(cluster = options.cluster, hub = hub.server, "joining the hub");
    let client = hub.bootstrap_client().await?;
    let subject = join::AgentName { cluster: &options.cluster, agent, seconds: options.certificate_seconds };
    // A changed bootstrap kubeconfig or a lost hub ends the attempt, because this one may never succeed.
    let credentials = tokio::select! {
        credentials = join::join(&client, options, subject, stop) => credentials?,
        () = life::bootstrap_changes(&options.bootstrap, hub) => return Err(JoinError::Moved),
        why = switch::lost_in_join(options, &client) => return Err(JoinError::Lost(why)),
    };
    spoke::store(options, &credentials, hub).await?;
    Ok(credentials)
}
