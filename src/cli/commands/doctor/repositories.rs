//! Checks that the ConfigRepos can be fetched and that the objects they reference exist.

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use object::{Key, Metadata as _};

use super::finding::{Finding, Health};
use super::git_server;
use super::hub::ExaminedHub;
use crate::cli::CommandError;
use crate::cli::writer::find;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, SecretRef};
use api::names::{OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL, gitops_conditions};
use controllers::MESSAGE;
use controllers::hub::overview::{Repository, unanswered};
use object::text::{plain, short_commit};

pub(super) const CHECK: &str = "repositories";
/// The number of ConfigRepos that are checked in parallel. Each check may wait for a git server.
const AT_ONCE: usize = 8;

/// The advice for a ConfigRepo that no operator reconciles.
const UNANSWERED: &str = "check whether an operator is leading and runs the controller config-repo";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let repos = match &hub.repositories {
        Ok(repos) => repos,
        Err(unread) => return vec![unread.clone()],
    };
    if repos.is_empty() {
        let advice =
            "kubectl apply -f examples-repo/bootstrap/config-repo.yaml, with the URL of your repository";
        return vec![Finding::warning(CHECK, "there is no ConfigRepo", advice)];
    }
    stream::iter(repos).map(|repo| examine_one(hub, repo)).buffered(AT_ONCE).concat().await
}

async fn examine_one(hub: &ExaminedHub, repo: &ConfigRepo) -> Vec<Finding> {
    let (credentials, identity) = (credentials(hub, repo).await, identity(hub, repo).await);
    let (credentials, problem) = match credentials {
        Ok(credentials) => (credentials, None),
        Err(problem) => (None, Some(problem)),
    };
    let problems: Vec<Finding> = problem.into_iter().chain(identity.err()).collect();
    if let Some(wrong) = problems.iter().find(|problem| problem.health == Health::Bad) {
        return vec![wrong.clone()];
    }
    let mut findings = vec![condition(repo)];
    if problems.is_empty() && !repo.spec.suspend {
        findings.extend(git_server::examine(hub, repo, credentials).await);
    }
    findings.extend(problems);
    findings
}

/// Returns the finding for a ConfigRepo whose git server is not checked, because an object cannot be read.
fn not_asked(key: &Key, error: CommandError) -> Finding {
    let finding = Finding::unknown(CHECK, error);
    Finding { message: format!("{key}: its git server was not checked: {}", finding.message), ..finding }
}

/// Returns a finding if a ConfigRepo has no service account and is not allowed to act as the operator.
async fn identity(hub: &ExaminedHub, repo: &ConfigRepo) -> Result<(), Finding> {
    if !repo.spec.service_account_name.is_empty() {
        return Ok(());
    }
    let key = Key::of(repo);
    let namespace = find::<Namespace>(&hub.client, &Key::cluster(&key.namespace))
        .await
        .map_err(|error| not_asked(&key, error))?
        .unwrap_or_default();
    if namespace.label(OPERATOR_IDENTITY_LABEL) == Some(OPERATOR_IDENTITY_ALLOWED) {
        return Ok(());
    }
    let message =
        format!("{key}: it names no service account, and its namespace may not act as the operator");
    let label = format!("{OPERATOR_IDENTITY_LABEL}={OPERATOR_IDENTITY_ALLOWED}");
    let advice = format!("set spec.serviceAccountName, or kubectl label namespace {} {label}", key.namespace);
    Err(Finding::bad(CHECK, message, advice))
}

/// Checks that the Secrets of a ConfigRepo exist, and returns the Secret of `spec.secretRef`.
async fn credentials(hub: &ExaminedHub, repo: &ConfigRepo) -> Result<Option<Secret>, Finding> {
    let key = Key::of(repo);
    let of_fetches = repo.spec.secret_ref.as_ref().map(|secret| secret.key(&key.namespace));
    let named: BTreeSet<Key> = secrets(repo).map(|secret| secret.key(&key.namespace)).collect();
    let mut credentials = None;
    for secret in named {
        let found = find::<Secret>(&hub.client, &secret).await.map_err(|error| not_asked(&key, error))?;
        if found.is_none() {
            let advice = format!(
                "kubectl create secret generic {} -n {}, with the keys in docs/reference/config-repo.md",
                secret.name, secret.namespace
            );
            return Err(Finding::bad(CHECK, format!("{key}: there is no Secret {secret}"), advice));
        }
        if of_fetches.as_ref() == Some(&secret) {
            credentials = found;
        }
    }
    Ok(credentials)
}

/// Returns the Secrets that a ConfigRepo references.
pub(super) fn secrets(repo: &ConfigRepo) -> impl Iterator<Item = &SecretRef> {
    let report = repo.spec.report.as_ref();
    let statuses = report.and_then(|report| report.commit_status.as_ref()).map(|status| &status.secret_ref);
    let written =
        report.into_iter().flat_map(|report| report.secret_ref.iter().chain(&report.signing_key_ref));
    let written = written.chain(statuses);
    let read = repo.spec.verify.iter().map(|verify| &verify.secret_ref);
    let charts = repo.spec.charts.iter().map(|charts| &charts.secret_ref);
    let hooks = repo.spec.webhook.iter().map(|webhook| &webhook.secret_ref);
    let receivers = repo.spec.notifications.iter().map(|receiver| &receiver.secret_ref);
    repo.spec.secret_ref.iter().chain(written).chain(read).chain(charts).chain(hooks).chain(receivers)
}

/// Returns the finding for the conditions of a ConfigRepo.
fn condition(repo: &ConfigRepo) -> Finding {
    let key = Key::of(repo);
    if repo.spec.suspend {
        return Finding::warning(CHECK, format!("{key} is suspended"), "set spec.suspend to false to resume");
    }
    let status = repo.status.clone().unwrap_or_default();
    let Some(ready) = find_condition(&status.conditions, gitops_conditions::READY) else {
        let message = format!("{key}: no operator has reconciled it yet");
        return Finding::warning(CHECK, message, UNANSWERED);
    };
    if let Some(unanswered) = unanswered(repo) {
        return Finding::warning(CHECK, format!("{key}: {unanswered}"), UNANSWERED);
    }
    let commit = status.applied.map(|applied| applied.commit).unwrap_or_default();
    let commit = short_commit(&commit);
    let message = plain(&ready.message, MESSAGE);
    if !ready.is_true() {
        let message = format!("{key}: {}: {message}", ready.reason);
        if Repository::from_config_repo(repo).is_under_way() {
            return Finding::good(CHECK, message);
        }
        let advice = match ready.reason.as_str() {
            "Forbidden" => "grant the permission that the message names (docs/permissions.md)".into(),
            "PlanNotApproved" | "DeletionsHeld" => format!("wheelwright repo approve {key}"),
            _ => format!("kubectl describe configrepo {} -n {}", key.name, key.namespace),
        };
        return Finding::bad(CHECK, message, advice);
    }
    let reported = find_condition(&status.conditions, gitops_conditions::REPORTED);
    if let Some(reported) = reported.filter(|reported| reported.is_false()) {
        let message = format!("{key}: no report: {}", plain(&reported.message, MESSAGE));
        return Finding::warning(CHECK, message, "see spec.report and its write credentials");
    }
    let sent = find_condition(&status.conditions, gitops_conditions::COMMIT_STATUS_REPORTED);
    if let Some(sent) = sent.filter(|sent| sent.is_false()) {
        let message = format!("{key}: no commit status: {}", plain(&sent.message, MESSAGE));
        return Finding::warning(CHECK, message, "see spec.report.commitStatus and its token");
    }
    let notified = find_condition(&status.conditions, gitops_conditions::NOTIFIED);
    if let Some(notified) = notified.filter(|notified| notified.is_false()) {
        let message = format!("{key}: no notification: {}", plain(&notified.message, MESSAGE));
        return Finding::warning(
            CHECK,
            message,
            "see spec.notifications and its Secrets (docs/notifications.md)",
        );
    }
    Finding::good(CHECK, format!("{key} has applied {commit}"))
}
