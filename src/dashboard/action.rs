//! Makes the changes that a visitor requests, with the visitor's token, so that the hub authorizes and audits the
//! visitor. The dashboard itself has no write permissions.

use axum::http::StatusCode;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actions::undo_token;
use super::rights::namespace;
use crate::shell::{client, message};
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy, RolloutPolicySpec};
use api::names::{APPROVE_DELETION_ANNOTATION, APPROVE_PLAN_ANNOTATION, DASHBOARD};
use controllers::policy_change::{
    PolicyChange, PolicyScope, change, edit, is_for_everything, pausing, resume_everything,
};
use controllers::undo::{self, Undo, quarantine, releasing};
use object::Metadata as _;

/// The number of attempts after conflicts, the default of client-go's `RetryOnConflict`.
const ATTEMPTS: usize = 5;

/// The action of a button.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verb {
    Pause,
    Resume,
    Undo,
    Approve,
    SuspendRepository,
    ResumeRepository,
    ApproveDeletions,
    ApprovePlan,
}

/// The form of a button.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ActionForm {
    pub(super) verb: Verb,
    /// The name of an add-on, or NAMESPACE/NAME of a set or a ConfigRepo.
    pub(super) subject: String,
    /// The approval, or the revisions to undo, as shown on the page.
    #[serde(default)]
    pub(super) token: String,
}

/// The reason why a change is not made.
#[derive(Debug, thiserror::Error)]
enum ActionError {
    #[error("{}", message(.0))]
    Hub(#[from] kube::Error),
    #[error(
        "RolloutPolicy {policy} exists and is not for {subject}; add {subject} to it: kubectl edit rolloutpolicy {policy}"
    )]
    NameTaken { policy: String, subject: String },
    #[error(
        "RolloutPolicy {policy} pauses everything, not {subject} alone; resume everything: {}",
        resume_everything(.policy)
    )]
    AllPaused { policy: String, subject: String },
    #[error("its rollout has changed since the page was loaded; review it again")]
    Changed,
}

/// Makes the change of a form. `hub` is the connection, `token` is the visitor's, and `undo` lists the revisions
/// of the subject that can be undone, as far as the visitor may see them.
///
/// # Errors
/// Fails if the hub rejects a request. The text names the change that was not made and comes with the HTTP status.
pub(super) async fn act(
    hub: &kube::Config,
    token: &str,
    form: &ActionForm,
    undo: &[Undo],
) -> Result<(), (StatusCode, String)> {
    let ActionForm { verb, subject, token: approval } = form;
    if !is_subject(subject) {
        return Err((StatusCode::BAD_REQUEST, format!("there is nothing with the name {subject:?}")));
    }
    let auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    let mut config = hub.clone();
    config.auth_info = auth_info;
    let hub = client(config).map_err(|error| (StatusCode::BAD_GATEWAY, message(&error)))?;
    let done = match verb {
        Verb::Pause => {
            change_policy(&hub, subject, PolicyScope::Named, |spec| spec.paused = true).await.map(drop)
        }
        Verb::Undo if undo.is_empty() || undo_token(undo) != *approval => Err(ActionError::Changed),
        Verb::Undo => self::undo(&hub, subject, undo).await,
        Verb::Resume => resume(&hub, subject).await,
        Verb::Approve => {
            let approve = |spec: &mut RolloutPolicySpec| {
                if !spec.approved.contains(approval) {
                    spec.approved.push(approval.clone());
                }
            };
            change_policy(&hub, subject, PolicyScope::InEffect, approve).await.map(drop)
        }
        Verb::SuspendRepository => patch_repository(&hub, subject, json!({"spec": {"suspend": true}})).await,
        Verb::ResumeRepository => patch_repository(&hub, subject, json!({"spec": {"suspend": false}})).await,
        Verb::ApproveDeletions => {
            let annotations = json!({APPROVE_DELETION_ANNOTATION: approval});
            patch_repository(&hub, subject, json!({"metadata": {"annotations": annotations}})).await
        }
        Verb::ApprovePlan => {
            let annotations = json!({APPROVE_PLAN_ANNOTATION: approval});
            patch_repository(&hub, subject, json!({"metadata": {"annotations": annotations}})).await
        }
    };
    done.map_err(|error| (status(&error), format!("{subject} was not changed: {error}")))
}

/// Returns true if a subject consists of valid names. The names become parts of URL paths.
pub(super) fn is_subject(subject: &str) -> bool {
    let is_name = |text: &str| {
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        !text.is_empty() && text.chars().all(is_label) && !text.starts_with('.')
    };
    subject.split('/').all(is_name)
}

/// Returns the status of the hub's rejection; 502 if the hub fails or does not respond.
fn status(error: &ActionError) -> StatusCode {
    match error {
        ActionError::NameTaken { .. } | ActionError::AllPaused { .. } | ActionError::Changed => {
            StatusCode::CONFLICT
        }
        ActionError::Hub(kube::Error::Api(refused)) => {
            let code = StatusCode::from_u16(refused.code).ok();
            code.filter(StatusCode::is_client_error).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        ActionError::Hub(_) => StatusCode::BAD_GATEWAY,
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(DASHBOARD.into()), ..PatchParams::default() }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

async fn patch_repository(hub: &kube::Client, subject: &str, patch: Value) -> Result<(), ActionError> {
    let name = subject.rsplit('/').next().unwrap_or_default();
    let repos: Api<ConfigRepo> = Api::namespaced(hub.clone(), namespace(subject));
    repos.patch(name, &params(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Repeats a change while others change the same object.
async fn retry<T, F: Future<Output = Result<T, ActionError>>>(
    attempt: impl Fn() -> F,
) -> Result<T, ActionError> {
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(ActionError::Hub(error)) if is_conflict(&error) => {}
            done => return done,
        }
    }
    attempt().await
}

/// Changes the policy of a subject, and returns its name.
async fn change_policy(
    hub: &kube::Client,
    subject: &str,
    scope: PolicyScope,
    edit: impl Fn(&mut RolloutPolicySpec),
) -> Result<String, ActionError> {
    retry(|| async {
        let policies = policies(hub).await?;
        write(hub, subject, change(&policies, subject, scope, &edit)).await
    })
    .await
}

async fn policies(hub: &kube::Client) -> Result<Vec<RolloutPolicy>, ActionError> {
    Ok(Api::all(hub.clone()).list(&ListParams::default()).await?.items)
}

/// Writes a change to the policy of a subject, and returns the name of the policy.
async fn write(hub: &kube::Client, subject: &str, change: PolicyChange) -> Result<String, ActionError> {
    let access: Api<RolloutPolicy> = Api::all(hub.clone());
    let policy = match change {
        PolicyChange::Unchanged(policy) => policy,
        PolicyChange::Patch { policy, patch } => {
            access.patch(policy.name(), &params(), &Patch::Merge(patch)).await?
        }
        PolicyChange::Create(policy) => {
            let create = PostParams { dry_run: false, field_manager: Some(DASHBOARD.into()) };
            access.create(&create, &policy).await?
        }
        PolicyChange::NameTaken(policy) => {
            return Err(ActionError::NameTaken { policy, subject: subject.into() });
        }
    };
    Ok(policy.name().to_owned())
}

/// Undoes revisions, like `wheelwright rollout undo`.
async fn undo(hub: &kube::Client, subject: &str, undo: &[Undo]) -> Result<(), ActionError> {
    let take_back = |spec: &mut RolloutPolicySpec| undo::take_back(undo, spec);
    let policy = &change_policy(hub, subject, PolicyScope::InEffect, take_back).await?;
    retry(|| async {
        let policies = policies(hub).await?;
        for other in releasing(&policies, subject, undo) {
            write(hub, subject, edit(other, take_back)).await?;
        }
        Ok(())
    })
    .await?;
    let access: &Api<RolloutPolicy> = &Api::all(hub.clone());
    retry(|| async {
        let policies = policies(hub).await?;
        let present = policies.into_iter().find(|one| one.name() == policy).ok_or(ActionError::Changed)?;
        let mut rollouts = present.status.unwrap_or_default().rollouts;
        quarantine(undo, subject, &mut rollouts);
        let version = present.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"rollouts": rollouts}});
        access.patch_status(policy, &params(), &Patch::Merge(patch)).await?;
        Ok(())
    })
    .await
}

/// Ends the pauses in the policies that name a subject. A policy for everything is not changed for one subject.
async fn resume(hub: &kube::Client, subject: &str) -> Result<(), ActionError> {
    retry(|| async {
        let policies = policies(hub).await?;
        let (all, named): (Vec<_>, Vec<_>) =
            pausing(&policies, subject).into_iter().partition(|policy| is_for_everything(policy));
        if let (Some(policy), true) = (all.first(), named.is_empty()) {
            return Err(ActionError::AllPaused { policy: policy.name().into(), subject: subject.into() });
        }
        for policy in named {
            write(hub, subject, edit(policy, |spec| spec.paused = false)).await?;
        }
        Ok(())
    })
    .await
}
