//! Wires the agent of a spoke: join the hub, keep the certificate fresh, run the agent's controllers.

mod addons;
mod hub;
mod join;
mod spoke;

use std::time::Duration;

use kube::config::Kubeconfig;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::shell::{Selection, Shell, ShellOptions, now};
use controllers::agent_identity::Identity;
use reconcile::Scope;

pub use join::JoinError;

/// First wait after a failed attempt to join; doubles with each, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What an agent runs with.
pub struct AgentOptions {
    /// How the hub is reached before the agent has an identity of its own.
    pub bootstrap: Kubeconfig,
    /// The cluster the agent runs for.
    pub spoke: kube::Client,
    /// Name of the cluster on the hub.
    pub cluster: String,
}

/// Runs until `stop`. What fails is attempted again: a hub that is away, a request nobody has approved yet.
pub async fn run(options: AgentOptions, stop: CancellationToken) {
    let mut wait = FIRST_WAIT;
    while !stop.is_cancelled() {
        match live(&options, &stop).await {
            Ok(()) => wait = FIRST_WAIT,
            Err(error) => {
                let mut why = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    why = format!("{why}: {cause}");
                    source = cause.source();
                }
                warn!(
                    cluster = options.cluster,
                    error = why,
                    wait_seconds = wait.as_secs_f32(),
                    "cannot go on yet"
                );
                stop.run_until_cancelled(sleep(wait)).await;
                wait = LONGEST_WAIT.min(wait * 2);
            }
        }
    }
}

/// One life of an identity: joins where there is none yet, then runs the controllers until it is time to renew it.
async fn live(options: &AgentOptions, stop: &CancellationToken) -> Result<(), JoinError> {
    let hub = hub::Hub::read(&options.bootstrap)?;
    spoke::prepare(&options.spoke).await?;
    let held = spoke::load(&options.spoke)
        .await?
        .filter(|credentials| credentials.is_usable(&options.cluster, &hub, now()));
    let credentials = match held {
        Some(credentials) if credentials.renew_at() > now() => credentials,
        Some(old) => {
            info!(cluster = options.cluster, "renewing the certificate");
            let client = hub.client_with(&old).await?;
            renew(options, &hub, &client, &old, stop).await?
        }
        None => {
            info!(cluster = options.cluster, hub = hub.server, "joining the hub");
            let client = hub.bootstrap_client().await?;
            join::create_cluster(&client, &options.cluster).await?;
            let credentials = join::request(&client, &options.cluster, None, stop).await?;
            spoke::store(&options.spoke, &credentials, &hub).await?;
            credentials
        }
    };
    let identity = Identity {
        cluster: options.cluster.clone(),
        agent_id: credentials.agent.clone(),
        hub_hash: hub.hash(),
    };
    spoke::tell(&options.spoke, &identity).await?;
    let client = hub.client_with(&credentials).await?;
    let over = stop.child_token();
    let shell = Shell::new(
        ShellOptions {
            hub: client.clone(),
            spoke: Some(options.spoke.clone()),
            scope: Scope::OneCluster(options.cluster.clone()),
            controllers: Selection::default(),
            push: None,
            leadership: None,
        },
        controllers::agent,
    );
    let renewal = async {
        sleep(now().duration_until(credentials.renew_at()).unsigned_abs()).await;
        over.cancel();
    };
    let guarded = over.clone();
    let addons =
        addons::Addons { hub: &hub, client: &client, spoke: &options.spoke, cluster: &options.cluster };
    let keep = addons.keep(shell.handle(), &over);
    tokio::join!(shell.run(over.clone()), guarded.run_until_cancelled(renewal), keep);
    Ok(())
}

async fn renew(
    options: &AgentOptions,
    hub: &hub::Hub,
    client: &kube::Client,
    old: &join::Credentials,
    stop: &CancellationToken,
) -> Result<join::Credentials, JoinError> {
    let new = join::request(client, &options.cluster, Some(old), stop).await?;
    spoke::store(&options.spoke, &new, hub).await?;
    Ok(new)
}
