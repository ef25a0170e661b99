//! Runs the parts of the operator concurrently.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::applied::AppliedLog;
use super::sealing::SealingKey;
use super::traces::Tracer;
use super::{ArgoCd, LeaderCandidate, OperatorOptions, last_reports, signer, source, webhook};
use crate::serve::receiver::{self, ReceiverOptions};
use crate::shell::{self, Election, Shell, ShellOptions};
use controllers::sealing::Sealing;
use reconcile::Scope;

/// The maximum number of queued webhook deliveries, which have at most 1 MiB each.
const MAX_DELIVERIES: usize = 32;

/// The time limit for sending the last spans when an operator stops.
const FLUSH: Duration = Duration::from_secs(3);

/// Runs until `stop`, or until leadership is lost.
#[expect(clippy::too_many_lines, reason = "it wires the parts of the operator, one after the other")]
pub async fn run(options: OperatorOptions, stop: CancellationToken) {
    let OperatorOptions {
        hub,
        controllers,
        election,
        listen,
        receiver,
        webhook,
        namespace,
        cluster_profiles,
        argo_cd,
        sources,
        traces,
    } = options;
    let (election, leader) = match election {
        Some(LeaderCandidate { election, leader }) => (Some(election), leader),
        None => (None, hub.clone()),
    };
    if let Some(webhook) = webhook {
        tokio::spawn(webhook::run(hub.clone(), webhook, stop.clone()));
    }
    let attempts = sources.cache.join("attempts");
    let traces = traces.map(Tracer::new).map(|(tracer, exporter)| (Arc::new(tracer), exporter));
    let tracer = traces.as_ref().map(|(tracer, _)| Arc::clone(tracer));
    let sealing = SealingKey::new(leader.clone(), &namespace);
    let setting = sealing.setting();
    let sources = source::SourceController::new(hub, sources, sealing.clone(), tracer);
    let shell_options = ShellOptions {
        hub: leader.clone(),
        spoke: None,
        scope: Scope::Everything,
        optional_group: None,
        controllers,
        push: Some(sources.push()),
        commit_status: Some(sources.commit_status()),
        notify: Some(sources.notify()),
        leadership: election.as_ref().map(Election::leadership),
        attempts: Some(attempts),
    };
    let shell = shell_with(shell_options, argo_cd, cluster_profiles, setting);
    let handle = shell.handle();
    let (applied, observing) = (AppliedLog::default(), traces.as_ref().map(|(tracer, _)| Arc::clone(tracer)));
    handle.observe(Arc::new(move |activity| {
        applied.observe(&activity);
        if let Some(tracer) = &observing {
            tracer.observe(&activity);
        }
    }));
    let exporting = traces.map(|(_, exporter)| {
        let stop = CancellationToken::new();
        (stop.clone(), tokio::spawn(exporter.run(stop)))
    });
    // Stops everything below when leadership is lost. That is not a requested stop, so `stop` is not canceled.
    let over = stop.child_token();
    if let Some(address) = listen {
        tokio::spawn(serve(address, handle.clone(), over.clone()));
    }
    if let Some(receiver) = receiver {
        let webhooks = sources.webhooks(election.as_ref().map(Election::leadership));
        tokio::spawn(receive(receiver, webhooks, over.clone()));
    }
    let fetching = sources.run(shell.handle(), over.clone());
    let signing = signer::run(leader, shell.handle(), namespace, over.clone());
    let (leadership, handle) = (election.as_ref().map(Election::leadership), shell.handle());
    let work = async {
        over.run_until_cancelled(sealing.load()).await;
        tokio::join!(shell.run(over.clone()), fetching, signing);
        if stop.is_cancelled() {
            last_reports::push(handle, leadership).await;
        }
    };
    shell::lead(election, over.clone(), work).await;
    if let Some((stop, exporting)) = exporting {
        stop.cancel();
        if timeout(FLUSH, exporting).await.is_err() {
            warn!("the last spans were not sent: the collector did not respond in time");
        }
    }
}

/// Returns the shell with the hub's controllers, optionally with those for ClusterProfiles and Argo CD.
fn shell_with(
    options: ShellOptions,
    argo_cd: Option<ArgoCd>,
    cluster_profiles: bool,
    sealing: Sealing,
) -> Shell {
    let (scope, cluster_secrets, pull_model) = match argo_cd {
        Some(ArgoCd { namespace, cluster_secrets, account, pull_model }) => {
            (Scope::ArgoCd { namespace, account }, cluster_secrets, pull_model)
        }
        None => (Scope::Everything, false, false),
    };
    Shell::new(ShellOptions { scope, ..options }, |register| {
        register.set_settings(sealing);
        controllers::hub(register);
        if cluster_profiles {
            controllers::cluster_profiles(register);
        }
        if cluster_secrets {
            controllers::argo_cd(register);
        }
        if pull_model {
            controllers::argo_cd_pull_model(register);
        }
    })
}

async fn serve(address: SocketAddr, handle: shell::Handle, over: CancellationToken) {
    if let Err(error) = crate::serve::serve(address, handle, over).await {
        error!(%address, %error, "cannot serve health and metrics");
    }
}

/// Receives webhooks from git servers.
async fn receive(receiver: ReceiverOptions, webhooks: source::Webhooks, over: CancellationToken) {
    let address = receiver.listen;
    let (sender, deliveries) = mpsc::channel(MAX_DELIVERIES);
    let (served, ()) =
        tokio::join!(receiver::serve(receiver, sender, over.clone()), webhooks.run(deliveries, over));
    if let Err(error) = served {
        error!(%address, %error, "cannot serve webhooks of git servers");
    }
}
