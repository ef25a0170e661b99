//! Runs the agent: one identity after another, and the controllers under each.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::addon_registration::AddOns;
use super::error::JoinError;
use super::hub::BootstrapHub;
use super::life::{End, IdentityUse};
use super::stored_works::StoredWorks;
use super::wait::Wait;
use super::{AgentOptions, definitions, identity, join, sealing, spoke, switch};
use crate::serve;
use crate::shell::{Handle, Shell, ShellOptions, with_causes};
use api::cluster::v1::ManagedCluster;
use reconcile::{Scope, Site, View as _};
use seal::Identity;

/// The first wait after a failed attempt to join, or after the end of an identity. It doubles each time, up to
/// [`LONGEST_WAIT`].
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Runs until `stop`. Retries failures: the hub may be unreachable, or a request may wait for approval.
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
    // Without its identity, the agent does not know its current hub.
    while let Err(error) = switch::to_stored(&mut options).await {
        let error = with_causes(&error);
        warn!(cluster = options.cluster, error, "cannot read the identity yet; retrying");
        if stop.run_until_cancelled(sleep(wait.take())).await.is_none() {
            return;
        }
    }
    wait.next = FIRST_WAIT;
    // Never reuse a certificate that the hub has rejected, even if it has not expired.
    let mut refused = String::new();
    let mut sealing = Vec::new();
    while !stop.is_cancelled() {
        let began = Instant::now();
        let end = live(&options, &refused, &mut sealing, &running, &stop).await;
        wait.next = wait_after(began.elapsed(), wait.next);
        let waits = match end {
            Ok(End::Over) => true,
            Ok(End::Refused(certificate)) => {
                warn!(cluster = options.cluster, "the hub rejected the certificate; rejoining");
                refused = certificate;
                false
            }
            Ok(End::Lost(reason)) => {
                warn!(cluster = options.cluster, error = reason, "the hub is lost; looking for another one");
                switch::to_next(&mut options).await;
                false
            }
            Err(error) => {
                let error = with_causes(&error);
                warn!(
                    cluster = options.cluster,
                    error,
                    wait_seconds = wait.next.as_secs_f32(),
                    "cannot join the hub; retrying"
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

/// Returns the wait after an identity that was in use for `used`: the first wait again if that was long. With a
/// wrong clock, for example, each identity ends at once, and each attempt costs the hub a request.
fn wait_after(used: Duration, wait: Duration) -> Duration {
    if used > LONGEST_WAIT * 2 { FIRST_WAIT } else { wait }
}

/// Uses one identity: joins if there is none yet, then runs the controllers until the identity ends. Replaces the keys
/// that decrypt Secrets with the stored ones. Sends the running shell to the servers of health and metrics through
/// `running`.
async fn live(
    options: &AgentOptions,
    refused: &str,
    sealing: &mut Vec<Identity>,
    running: &watch::Sender<Result<Handle, String>>,
    stop: &CancellationToken,
) -> Result<End, JoinError> {
    let hub = BootstrapHub::read(&options.bootstrap)?;
    definitions::install_own(&options.spoke).await?;
    // This must come before any write to objects of another agent.
    spoke::refuse_second(options, &hub).await?;
    let credentials = identity::obtain(options, &hub, refused, stop).await?;
    *sealing = sealing::load(options, sealing).await?;
    let settings = spoke::settings(options, &hub, &credentials, sealing.clone()).await?;
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
        let end = tokio::select! {
            end = guarded.run_until_cancelled(life.end(&guarded)) => end.unwrap_or(End::Over),
            () = sealing::replaced(options, sealing) => End::Over,
        };
        over.cancel();
        end
    };
    let addons = AddOns { hub: &hub, client: &client, options };
    let works = StoredWorks::new(options, &hub);
    let write_addresses = async {
        if !options.registers() || options.client_configs.is_empty() {
            return;
        }
        // The agent gets this permission together with the one to read the cluster, after the certificate.
        while !handle.caches().is_listed::<ManagedCluster>(Site::Hub) {
            if over.run_until_cancelled(sleep(FIRST_WAIT)).await.is_none() {
                return;
            }
        }
        if let Err(error) = join::write_addresses(&client, options).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_that_expires_soon_is_followed_by_longer_and_longer_waits() {
        let second = Duration::from_secs(1);
        assert_eq!(wait_after(second, 8 * second), 8 * second);
        assert_eq!(wait_after(3600 * second, 8 * second), FIRST_WAIT);
    }
}
