//! `wheelwright repo reconcile`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use api::names::RECONCILE_AT_ANNOTATION;
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use futures::StreamExt as _;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use object::text::short_commit;
use object::{Key, Metadata as _};
use serde_json::json;
use tokio::time::{sleep, timeout_at};

use super::RepoName;
use crate::cli::connect::HubArgs;
use crate::cli::duration::{Wait, wait};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, failed};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;

/// Time before an ended watch is started again.
const REWATCH: Duration = Duration::from_millis(100);

/// Fetch a repository now, and wait until its commit is applied, is rejected, or waits for a person.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    /// Time to wait for the result, such as `5m`. 0 does not wait.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = wait)]
    timeout: Wait,
    #[command(flatten)]
    hub: HubArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = WriteArgs::of(args.hub.clone()).connect().await?;
        let repo = args.repo.find(writer.client()).await?;
        let key = Key::of(&repo);
        if repo.spec.suspend {
            let error = anyhow!("ConfigRepo {key} is suspended");
            return Err(CommandError::hinted(error, format!("wheelwright repo resume {key}")));
        }
        let asked = now().to_string();
        let patch = json!({"metadata": {"annotations": {RECONCILE_AT_ANNOTATION: asked}}});
        let written = writer.merge::<ConfigRepo>(&key, patch).await?;
        ui.line(format!("asked for a fetch of ConfigRepo {key}"))?;
        if args.timeout.is_zero() {
            return Ok(ExitCode::SUCCESS);
        }
        let answered = answer(writer.client(), written, &asked);
        let Ok(repo) = timeout_at(args.timeout.deadline(), answered).await else {
            let error = anyhow!("ConfigRepo {key} has no result after {}", args.timeout);
            return Err(CommandError::hinted(error, "wheelwright status shows what it waits for"));
        };
        report(&key, &repo?.status.unwrap_or_default(), ui)
    })
}

/// Returns whether the request was answered, and the commit is applied, rejected or waits for a person.
fn is_settled(repo: &ConfigRepo, asked: &str) -> bool {
    let Some(status) = &repo.status else { return false };
    let is = |type_| find_condition(&status.conditions, type_).is_some_and(|condition| condition.is_true());
    status.last_handled_reconcile_at == asked && (is(READY) || is(STALLED) || !is(RECONCILING))
}

/// Follows the ConfigRepo until it is settled.
async fn answer(hub: &kube::Client, mut repo: ConfigRepo, asked: &str) -> Result<ConfigRepo, CommandError> {
    let repos: Api<ConfigRepo> = Api::namespaced(hub.clone(), repo.namespace());
    let fields = WatchParams::default().fields(&format!("metadata.name={}", repo.name()));
    let name = repo.name().to_owned();
    let failed = || failed(format!("watch ConfigRepo {name}"));
    while !is_settled(&repo, asked) {
        let version = repo.metadata.resource_version.clone().unwrap_or_default();
        let mut events = repos.watch(&fields, &version).await.map_err(failed())?.boxed();
        while let Some(event) = events.next().await {
            match event.map_err(failed())? {
                WatchEvent::Added(seen) | WatchEvent::Modified(seen) => repo = seen,
                WatchEvent::Deleted(_) => {
                    return Err(anyhow!("ConfigRepo {name} was deleted").into());
                }
                WatchEvent::Bookmark(_) => {}
                // The version is too old: the next round begins with the present object.
                WatchEvent::Error(_) => {
                    repo = repos.get(&name).await.map_err(failed())?;
                    break;
                }
            }
            if is_settled(&repo, asked) {
                return Ok(repo);
            }
        }
        // API servers end each watch after some minutes.
        sleep(REWATCH).await;
    }
    Ok(repo)
}

/// Prints the result.
///
/// # Errors
/// The commit is not applied.
fn report(key: &Key, status: &ConfigRepoStatus, ui: &mut Ui) -> CommandResult {
    let ready = find_condition(&status.conditions, READY);
    let message = ready.map_or("", |ready| ready.message.as_str());
    if ready.is_some_and(|ready| ready.is_true()) {
        let commit = status.applied.as_ref().map_or("", |applied| short_commit(&applied.commit));
        ui.line(format!("ConfigRepo {key} is ready at {commit}: {message}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reason = ready.map_or("", |ready| ready.reason.as_str());
    Err(anyhow!("ConfigRepo {key} is not ready: {reason}: {message}").into())
}
