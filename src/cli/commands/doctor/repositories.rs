//! Checks the ConfigRepos: they can be fetched, and the objects that they name exist.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use object::{Key, Metadata as _};

use super::ExaminedHub;
use super::finding::{Finding, all};
use crate::cli::writer::find;
use api::condition::find_condition;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL, gitops_conditions};
use controllers::hub::overview::unanswered;
use object::text::{plain, short_commit};

const CHECK: &str = "repositories";
/// Longest message of a condition that is shown.
const LONGEST_MESSAGE: usize = 300;

/// What to do about a ConfigRepo that no operator answers.
const UNANSWERED: &str = "see whether an operator leads, and runs the controller config-repo";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let repos = match all::<ConfigRepo>(CHECK, &hub.client, "").await {
        Ok(repos) => repos,
        Err(unread) => return vec![unread],
    };
    if repos.is_empty() {
        let advice =
            "kubectl apply -f examples-repo/bootstrap/config-repo.yaml, with the URL of your repository";
        return vec![Finding::warning(CHECK, "there is no ConfigRepo", advice)];
    }
    let mut findings = Vec::new();
    for repo in &repos {
        findings.push(examine_one(hub, repo).await.unwrap_or_else(|unread| unread));
    }
    findings
}

async fn examine_one(hub: &ExaminedHub, repo: &ConfigRepo) -> Result<Finding, Finding> {
    let key = Key::of(repo);
    if let Some(missing) = missing_secret(hub, repo).await? {
        let message = format!("{key}: there is no Secret {}/{missing}", key.namespace);
        return Ok(Finding::bad(
            CHECK,
            message,
            format!(
                "kubectl create secret generic {missing} -n {}, with keys of docs/repositories.md (Private repositories)",
                key.namespace
            ),
        ));
    }
    if repo.spec.service_account_name.is_empty() {
        let namespace = find::<Namespace>(&hub.client, &Key::cluster(&key.namespace)).await;
        let namespace = namespace.map_err(|error| Finding::unknown(CHECK, error))?.unwrap_or_default();
        if namespace.label(OPERATOR_IDENTITY_LABEL) != Some(OPERATOR_IDENTITY_ALLOWED) {
            let message =
                format!("{key}: it names no service account, and its namespace may not act as the operator");
            let label = format!("{OPERATOR_IDENTITY_LABEL}={OPERATOR_IDENTITY_ALLOWED}");
            let advice =
                format!("set spec.serviceAccountName, or kubectl label namespace {} {label}", key.namespace);
            return Ok(Finding::bad(CHECK, message, advice));
        }
    }
    Ok(condition(repo))
}

/// Returns the first Secret that a ConfigRepo names and that does not exist.
async fn missing_secret(hub: &ExaminedHub, repo: &ConfigRepo) -> Result<Option<String>, Finding> {
    let report = repo.spec.report.as_ref();
    let statuses = report.and_then(|report| report.commit_status.as_ref()).map(|status| &status.secret_ref);
    let written =
        report.into_iter().flat_map(|report| report.secret_ref.iter().chain(&report.signing_key_ref));
    let written = written.chain(statuses);
    let read = repo.spec.verify.iter().map(|verify| &verify.secret_ref);
    let hooks = repo.spec.webhook.iter().map(|webhook| &webhook.secret_ref);
    for secret in repo.spec.secret_ref.iter().chain(written).chain(read).chain(hooks) {
        let found = find::<Secret>(&hub.client, &Key::namespaced(repo.namespace(), &secret.name)).await;
        if found.map_err(|error| Finding::unknown(CHECK, error))?.is_none() {
            return Ok(Some(secret.name.clone()));
        }
    }
    Ok(None)
}

/// Returns a finding about the conditions of a ConfigRepo.
fn condition(repo: &ConfigRepo) -> Finding {
    let key = Key::of(repo);
    if repo.spec.suspend {
        return Finding::warning(CHECK, format!("{key} is suspended"), "set spec.suspend to false to go on");
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
    let message = plain(&ready.message, LONGEST_MESSAGE);
    if !ready.is_true() {
        let message = format!("{key}: {}: {message}", ready.reason);
        return Finding::bad(
            CHECK,
            message,
            format!("kubectl describe configrepo {} -n {}", key.name, key.namespace),
        );
    }
    let reported = find_condition(&status.conditions, gitops_conditions::REPORTED);
    if let Some(reported) = reported.filter(|reported| reported.is_false()) {
        let message = format!("{key}: no report: {}", plain(&reported.message, LONGEST_MESSAGE));
        return Finding::warning(CHECK, message, "see spec.report and its write credentials");
    }
    let sent = find_condition(&status.conditions, gitops_conditions::COMMIT_STATUS_REPORTED);
    if let Some(sent) = sent.filter(|sent| sent.is_false()) {
        let message = format!("{key}: no commit status: {}", plain(&sent.message, LONGEST_MESSAGE));
        return Finding::warning(CHECK, message, "see spec.report.commitStatus and its token");
    }
    Finding::good(CHECK, format!("{key} has applied {commit}"))
}
