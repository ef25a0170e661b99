//! The RolloutPolicy of an add-on or a set, and changes of it by a person.

use anyhow::anyhow;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec, RolloutStatus};
use api::names::CONFIG_REPO_ANNOTATION;
use api::names::DEFAULT_ROLLOUT_POLICY;
use kube::api::{Patch, PatchParams};
use object::{Key, Metadata as _, merge_diff};
use serde_json::json;

use crate::cli::CommandError;
use crate::cli::writer::{Writer, api, failed, get, list, retry_on_conflict};

/// Which policy a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The one in effect. The change is about revisions of the subject, so it concerns nothing else.
    InEffect,
    /// One that names the subject, so that a policy for everything stays as it is.
    Named,
}

/// Whether a policy names an add-on, or a set as NAMESPACE/NAME.
fn names(spec: &RolloutPolicySpec, subject: &str) -> bool {
    let named = if subject.contains('/') { &spec.replica_sets } else { &spec.add_ons };
    named.iter().any(|name| name == subject)
}

fn is_about(rollout: &RolloutStatus, subject: &str) -> bool {
    if subject.contains('/') { rollout.replica_set == subject } else { rollout.add_on == subject }
}

/// The policy in effect, by the rule of the operator: one that names the subject, else one that names nothing,
/// last the one that the operator made.
pub(super) async fn in_effect(writer: &Writer, subject: &str) -> Result<Option<RolloutPolicy>, CommandError> {
    let policies = list::<RolloutPolicy>(writer.client(), "", "").await?;
    let is_for_all =
        |policy: &&RolloutPolicy| policy.spec.add_ons.is_empty() && policy.spec.replica_sets.is_empty();
    let named = policies.iter().find(|policy| names(&policy.spec, subject));
    let is_made = |policy: &&RolloutPolicy| policy.metadata.name.as_deref() == Some(DEFAULT_ROLLOUT_POLICY);
    let of_people = policies.iter().filter(is_for_all).find(|policy| !is_made(policy));
    Ok(named.or(of_people).or_else(|| policies.iter().filter(is_for_all).find(is_made)).cloned())
}

/// Changes the policy of a subject, and makes one where none fits. Returns it as it is then.
pub(super) async fn change(
    writer: &mut Writer,
    subject: &str,
    scope: Scope,
    edit: impl FnOnce(&mut RolloutPolicySpec),
) -> Result<RolloutPolicy, CommandError> {
    match in_effect(writer, subject).await? {
        Some(policy) if scope == Scope::InEffect || names(&policy.spec, subject) => {
            change_present(writer, &policy, edit).await
        }
        for_all => create(writer, subject, for_all.as_ref(), edit).await,
    }
}

async fn change_present(
    writer: &mut Writer,
    policy: &RolloutPolicy,
    edit: impl FnOnce(&mut RolloutPolicySpec),
) -> Result<RolloutPolicy, CommandError> {
    let mut spec = policy.spec.clone();
    edit(&mut spec);
    let name = policy.name();
    if spec == policy.spec {
        writer.say(format!("RolloutPolicy {name} is already so"));
        return Ok(policy.clone());
    }
    let patch = json!({
        "metadata": {"resourceVersion": policy.metadata.resource_version},
        "spec": merge_diff(&json!(policy.spec), &json!(spec)),
    });
    let changed = writer.merge::<RolloutPolicy>(&Key::cluster(name), patch).await?;
    let others = policy.spec.add_ons.iter().chain(&policy.spec.replica_sets).count();
    writer.say(format!("RolloutPolicy {name} is changed"));
    if others > 1 {
        let all: Vec<_> =
            policy.spec.add_ons.iter().chain(&policy.spec.replica_sets).map(String::as_str).collect();
        writer.say(format!("note: it is for all of {}", all.join(", ")));
    }
    if let Some(repo) = policy.annotation(CONFIG_REPO_ANNOTATION) {
        writer.say(format!(
            "note: it comes from ConfigRepo {repo}, which corrects the fields that the repository has"
        ));
    }
    Ok(changed)
}

/// Makes a policy for a subject alone, with the rules of the policy for everything and its record of the subject.
async fn create(
    writer: &mut Writer,
    subject: &str,
    for_all: Option<&RolloutPolicy>,
    edit: impl FnOnce(&mut RolloutPolicySpec),
) -> Result<RolloutPolicy, CommandError> {
    // The defaults of a policy are the rules without one.
    let mut spec = for_all.map(|policy| policy.spec.clone()).unwrap_or_default();
    let named = if subject.contains('/') { &mut spec.replica_sets } else { &mut spec.add_ons };
    named.push(subject.to_owned());
    edit(&mut spec);
    let name = subject.replace('/', ".");
    let mut policy = RolloutPolicy { spec, ..RolloutPolicy::default() };
    policy.metadata.name = Some(name.clone());
    let Some(created) = writer.create(&policy).await? else {
        let error = anyhow!("RolloutPolicy {name} exists and is not for {subject}");
        return Err(CommandError::hinted(
            error,
            format!("add {subject} to it: kubectl edit rolloutpolicy {name}"),
        ));
    };
    writer.say(format!("RolloutPolicy {name} is made for {subject}"));
    let record = for_all.and_then(|policy| policy.status.as_ref()).map(|status| status.rollouts.as_slice());
    let record: Vec<_> =
        record.unwrap_or_default().iter().filter(|rollout| is_about(rollout, subject)).cloned().collect();
    if record.is_empty() {
        return Ok(created);
    }
    remember(writer, &name, |rollouts| rollouts.extend(record.clone())).await?;
    Ok(created)
}

/// Changes the record of rollouts in the status of a policy, from which the operator goes on.
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
