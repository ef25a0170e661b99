//! Reads and edits the RolloutPolicy of an add-on or a set.

use anyhow::anyhow;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec, RolloutStatus};
use api::names::CONFIG_REPO_ANNOTATION;
use controllers::policy_change::{self, PolicyChange, PolicyScope, is_for_everything};
use kube::api::{Patch, PatchParams};
use object::{Key, Metadata as _};
use serde_json::json;

use crate::cli::CommandError;
use crate::cli::writer::{Writer, api, failed, get, list, retry_on_conflict};

pub(super) async fn policies(writer: &Writer) -> Result<Vec<RolloutPolicy>, CommandError> {
    list::<RolloutPolicy>(writer.client(), "", "").await
}

/// Edits the policy of a subject, or creates one. Returns the new policy.
pub(super) async fn change(
    writer: &mut Writer,
    subject: &str,
    scope: PolicyScope,
    edit: impl Fn(&mut RolloutPolicySpec),
) -> Result<RolloutPolicy, CommandError> {
    let decide = |policies: &[RolloutPolicy]| policy_change::change(policies, subject, scope, &edit);
    write(writer, subject, decide).await
}

/// Edits a policy by name. A missing policy is not an error.
pub(super) async fn edit(
    writer: &mut Writer,
    name: &str,
    edit: impl Fn(&mut RolloutPolicySpec),
) -> Result<RolloutPolicy, CommandError> {
    let decide = |policies: &[RolloutPolicy]| {
        let policy = policies.iter().find(|policy| policy.name() == name);
        policy.map_or_else(
            || PolicyChange::Unchanged(RolloutPolicy::default()),
            |policy| policy_change::edit(policy, &edit),
        )
    };
    write(writer, name, decide).await
}

async fn write(
    writer: &mut Writer,
    subject: &str,
    decide: impl Fn(&[RolloutPolicy]) -> PolicyChange,
) -> Result<RolloutPolicy, CommandError> {
    let written = retry_on_conflict(async || {
        let change = decide(&policies(writer).await?);
        let written = match &change {
            PolicyChange::Unchanged(_) | PolicyChange::NameTaken(_) => Ok(None),
            PolicyChange::Patch { policy, patch } => {
                writer.try_merge::<RolloutPolicy>(&Key::of(policy), patch).await.map(Some)
            }
            PolicyChange::Create(policy) => writer.try_create(policy).await?.map(Some),
        };
        Ok(written.map(|written| (change, written)))
    });
    let (change, written) =
        written.await?.map_err(failed(format!("change the RolloutPolicy of {subject}")))?;
    let written = match written {
        Some(object) => Some(writer.add_object::<RolloutPolicy>(&object)?),
        None => None,
    };
    match change {
        PolicyChange::Unchanged(policy) => {
            writer.add_line(format!("RolloutPolicy {} is unchanged", policy.name()));
            Ok(policy)
        }
        PolicyChange::NameTaken(name) => {
            let error = anyhow!("RolloutPolicy {name} exists and is not for {subject}");
            let hint = format!("add {subject} to it: kubectl edit rolloutpolicy {name}");
            Err(CommandError::hinted(error, hint))
        }
        PolicyChange::Patch { policy, patch: _ } => {
            report_change(writer, &policy);
            Ok(written.unwrap_or(policy))
        }
        PolicyChange::Create(policy) => {
            let about = if is_for_everything(&policy) { "every add-on and set" } else { subject };
            writer.add_line(format!("created RolloutPolicy {} for {about}", policy.name()));
            Ok(written.unwrap_or(policy))
        }
    }
}

/// Returns the names of the add-ons and sets in a policy.
pub(super) fn subjects(policy: &RolloutPolicy) -> Vec<&str> {
    let names = policy.spec.add_ons.iter().chain(&policy.spec.replica_sets);
    names.map(String::as_str).collect()
}

fn report_change(writer: &mut Writer, policy: &RolloutPolicy) {
    writer.add_line(format!("updated RolloutPolicy {}", policy.name()));
    let all = subjects(policy);
    if all.len() > 1 {
        writer.add_line(format!("note: it applies to all of {}", all.join(", ")));
    }
    if let Some(repo) = policy.annotation(CONFIG_REPO_ANNOTATION) {
        writer.add_line(format!(
            "note: ConfigRepo {repo} applies this policy and will revert the fields that are set in the repository"
        ));
    }
}

/// Edits the record of rollouts in the status of a policy.
pub(super) async fn remember(
    writer: &mut Writer,
    name: &str,
    edit: impl Fn(&mut Vec<RolloutStatus>),
) -> Result<(), CommandError> {
    if writer.is_dry_run() {
        return Ok(());
    }
    let access = api::<RolloutPolicy>(writer.client(), "");
    let written = retry_on_conflict(async || {
        let hint = "kubectl get rolloutpolicies";
        let policy = get::<RolloutPolicy>(writer.client(), &Key::cluster(name), hint).await?;
        let mut rollouts = policy.status.unwrap_or_default().rollouts;
        edit(&mut rollouts);
        let version = policy.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"rollouts": rollouts}});
        Ok(access.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    })
    .await?;
    written.map_err(failed(format!("write the status of RolloutPolicy {name}")))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use axum::http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    /// Returns a client of a hub on which another writer changes the policy before each of the first `conflicts`
    /// patches.
    fn hub(conflicts: usize, patches: &Arc<Mutex<Vec<Value>>>) -> kube::Client {
        let patches = Arc::clone(patches);
        let service = tower::service_fn(move |request: Request<Body>| {
            let patches = Arc::clone(&patches);
            async move {
                let is_patch = request.method() == Method::PATCH;
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut patches = patches.lock().unwrap();
                let version = patches.len().to_string();
                let policy = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
                    "metadata": {"name": "proxy", "resourceVersion": version}, "spec": {"addOns": ["proxy"]}});
                if is_patch {
                    patches.push(serde_json::from_slice(&body).unwrap());
                }
                let (code, answer) = match is_patch {
                    true if patches.len() <= conflicts => (
                        409,
                        json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}),
                    ),
                    true => (200, policy),
                    false => (200, json!({"metadata": {}, "items": [policy]})),
                };
                let answer =
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_that_changes_in_between_is_read_again() {
        for (conflicts, succeeds, tries) in [(0, true, 1), (2, true, 3), (9, false, 4)] {
            let patches = Arc::default();
            let mut writer = Writer::new(hub(conflicts, &patches));
            let changed = change(&mut writer, "proxy", PolicyScope::Named, |spec| spec.paused = true).await;
            let patches = patches.lock().unwrap();
            assert_eq!((changed.is_ok(), patches.len()), (succeeds, tries), "{conflicts}");
            let last = patches.last().unwrap();
            assert_eq!(
                last["metadata"]["resourceVersion"],
                (tries - 1).to_string(),
                "the version that was read last"
            );
            assert_eq!(last["spec"], json!({"paused": true}));
        }
    }
}
