//! `wheelwright repo reconcile`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use api::names::approval_reasons::{DELETIONS_HELD, FROZEN, OUTSIDE_APPLY_WINDOWS};
use api::names::fetch_reasons;
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use api::names::{RECONCILE_AT_ANNOTATION, SYSTEM_NAMESPACE};
use futures::StreamExt as _;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use object::text::short_commit;
use object::{Key, Metadata as _};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

use super::RepoName;
use crate::cli::commands::doctor::operator;
use crate::cli::connect::HubArgs;
use crate::cli::duration::{Wait, wait};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, failed};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;

/// The time in which an operator that leads notices the request.
const NOTICED: Duration = Duration::from_secs(5);

/// The delay before a watch is restarted.
const REWATCH: Duration = Duration::from_millis(100);

/// The reasons for a commit to wait until a time, which is in the message.
const TIMED: [&str; 3] = [DELETIONS_HELD, FROZEN, OUTSIDE_APPLY_WINDOWS];

/// Fetch a repository now, and wait until its commit is applied, is rejected, or waits for a person or a time.
///
/// If the fetch fails, the command ends, even if the operator tries again. If the commit waits, for example for the end of a freeze, the command prints what it waits for and until
/// when. If no operator leads, it says so after a few seconds. The exit code is 1 unless the commit is applied.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    /// Time to wait for the result, such as `5m`. 0 does not wait.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = wait)]
    timeout: Wait,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    operator_namespace: String,
    #[command(flatten)]
    hub: HubArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = WriteArgs::new(args.hub.clone()).connect().await?;
        let repo = args.repo.find(writer.client()).await?;
        let key = Key::of(&repo);
        if repo.spec.suspend {
            let error = anyhow!("ConfigRepo {key} is suspended");
            return Err(CommandError::hinted(error, format!("wheelwright repo resume {key}")));
        }
        let asked = now().to_string();
        let patch = json!({"metadata": {"annotations": {RECONCILE_AT_ANNOTATION: asked}}});
        let mut repo = writer.merge::<ConfigRepo>(&key, patch).await?;
        ui.line(format!("requested a fetch of ConfigRepo {key}"))?;
        if args.timeout.is_zero() {
            return Ok(ExitCode::SUCCESS);
        }
        let (client, end) = (writer.client(), args.timeout.deadline());
        let noticed = end.min(Instant::now() + NOTICED);
        let mut answered = timeout_at(noticed, answer(client, &mut repo, &asked, ui)).await;
        if answered.is_err() {
            if !is_handled(&repo, &asked)
                && let Some(leader) = operator::no_leader(client, &args.operator_namespace).await
            {
                ui.text(leader.text(ui.style()))?;
            }
            answered = timeout_at(end, answer(client, &mut repo, &asked, ui)).await;
        }
        let status = repo.status.unwrap_or_default();
        match answered {
            Ok(answered) => answered?,
            Err(_) => {
                let (reason, message) = ready(&status);
                let error = anyhow!(
                    "ConfigRepo {key} has no result after {}; its condition Ready is {reason}: {message}",
                    args.timeout
                );
                return Err(CommandError::hinted(error, "wheelwright status shows what it does"));
            }
        }
        report(&key, &status, ui)
    })
}

/// Returns true if the status has the result of the request.
fn is_handled(repo: &ConfigRepo, asked: &str) -> bool {
    repo.status.as_ref().is_some_and(|status| status.last_handled_reconcile_at == asked)
}

/// Returns true if the request was handled, and the fetch has failed, or the commit is applied, is rejected, or waits
/// for a person or a time.
fn is_settled(repo: &ConfigRepo, asked: &str) -> bool {
    let Some(status) = &repo.status else { return false };
    let is = |type_| find_condition(&status.conditions, type_).is_some_and(|condition| condition.is_true());
    let reason = ready(status).0;
    let is_final = TIMED.contains(&reason) || fetch_reasons::TRANSIENT.contains(&reason);
    let is_over = is(READY) || is(STALLED) || is_final || !is(RECONCILING);
    is_handled(repo, asked) && is_over
}

/// Watches the ConfigRepo until it is settled, and prints what it waits for.
async fn answer(
    hub: &kube::Client,
    repo: &mut ConfigRepo,
    asked: &str,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let repos: Api<ConfigRepo> = Api::namespaced(hub.clone(), repo.namespace());
    let fields = WatchParams::default().fields(&format!("metadata.name={}", repo.name()));
    let name = repo.name().to_owned();
    let failed = || failed(format!("watch ConfigRepo {name}"));
    let mut printed = String::new();
    while !is_settled(repo, asked) {
        let version = repo.metadata.resource_version.clone().unwrap_or_default();
        let mut events = repos.watch(&fields, &version).await.map_err(failed())?.boxed();
        while let Some(event) = events.next().await {
            match event.map_err(failed())? {
                WatchEvent::Added(seen) | WatchEvent::Modified(seen) => *repo = seen,
                WatchEvent::Deleted(_) => {
                    return Err(anyhow!("ConfigRepo {name} was deleted").into());
                }
                WatchEvent::Bookmark(_) => {}
                // The version is too old: continue from the current object.
                WatchEvent::Error(_) => {
                    *repo = repos.get(&name).await.map_err(failed())?;
                    break;
                }
            }
            if is_settled(repo, asked) {
                return Ok(());
            }
            // Before, the state is the state of an earlier fetch.
            let state = repo.status.as_ref().filter(|_| is_handled(repo, asked)).map(ready);
            let state = state.map(|(reason, message)| format!("{reason}: {message}")).unwrap_or_default();
            if state != printed {
                ui.line(&state)?;
                printed = state;
            }
        }
        // API servers end each watch after some minutes.
        sleep(REWATCH).await;
    }
    Ok(())
}

/// Returns the reason and the message of the condition Ready.
fn ready(status: &ConfigRepoStatus) -> (&str, &str) {
    let ready = find_condition(&status.conditions, READY);
    ready.map_or(("Unknown", "no operator has read it yet"), |ready| (&ready.reason, &ready.message))
}

/// Prints the result.
///
/// # Errors
/// Fails if the commit is not applied.
fn report(key: &Key, status: &ConfigRepoStatus, ui: &mut Ui) -> CommandResult {
    let (reason, message) = ready(status);
    if find_condition(&status.conditions, READY).is_some_and(|ready| ready.is_true()) {
        let commit = status.applied.as_ref().map_or("", |applied| short_commit(&applied.commit));
        ui.line(format!("ConfigRepo {key} is ready at {commit}: {message}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(anyhow!("ConfigRepo {key} is not ready: {reason}: {message}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_fetch_and_a_wait_for_a_time_or_a_person_are_results_and_a_wait_for_health_is_not() {
        let settled = |reason: &str, condition: &str, handled: &str| {
            let conditions = ["Ready", "Reconciling", "Stalled"].map(|type_| {
                let status = if type_ == condition { "True" } else { "False" };
                json!({"type": type_, "status": status, "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z"})
            });
            let status = json!({"lastHandledReconcileAt": handled, "conditions": conditions});
            let repo = json!({"metadata": {"name": "fleet"}, "spec": {"url": "x"}, "status": status});
            is_settled(&serde_json::from_value(repo).unwrap(), "now")
        };
        for (reason, condition) in [
            ("Applied", "Ready"),
            ("InvalidObject", "Stalled"),
            ("DeletionsHeld", "Stalled"),
            ("DeletionsHeld", "Reconciling"),
            ("Frozen", "Reconciling"),
            ("OutsideApplyWindows", "Reconciling"),
            ("SourceUnreachable", "Reconciling"),
        ] {
            assert!(settled(reason, condition, "now"), "{reason}");
            assert!(!settled(reason, condition, "before"), "{reason} of an earlier request");
        }
        assert!(!settled("WaitingForHealth", "Reconciling", "now"));
    }
}
