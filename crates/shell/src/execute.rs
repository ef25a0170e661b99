//! Executes actions: one request each, or one write to git.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::core::params::PatchParams;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::api_server::ApiServer;
use super::{Leadership, Resources, crd};
use reconcile::{
    Act, Action, Answer, CommitStatus, Failure, FailureKind, Notification, Outcome, Precondition, Push, Site,
};

/// The maximum number of writes of one controller in flight, which share a connection. The limit is per
/// controller, so that a controller that writes ten thousand objects does not delay the single write of another.
/// API Priority and Fairness protects the server.
const WRITES_IN_FLIGHT: usize = 32;

/// Writes to a git server, a provider or a receiver of notifications.
type GitWriteFn<T> = Arc<dyn Fn(T) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Commits and pushes files; provided by the source controller.
pub type PushFn = GitWriteFn<Push>;

/// Sets the status of a commit at a git provider; provided by the source controller.
pub type CommitStatusFn = GitWriteFn<CommitStatus>;

/// Sends a notification to its receiver; provided by the source controller.
pub type NotifyFn = GitWriteFn<Notification>;

/// Executes actions on their targets.
pub(super) struct ActionExecutor {
    pub hub: Arc<Resources>,
    pub spoke: Option<Arc<Resources>>,
    pub push: Option<PushFn>,
    pub commit_status: Option<CommitStatusFn>,
    pub notify: Option<NotifyFn>,
    /// The leadership that allows this process to write; without one, it may always write.
    pub leadership: Option<Leadership>,
    /// The slots by controller.
    slots: Vec<Semaphore>,
}

impl ActionExecutor {
    pub(super) fn new(hub: Arc<Resources>, spoke: Option<Arc<Resources>>, controllers: usize) -> Self {
        let slots = (0..controllers).map(|_| Semaphore::new(WRITES_IN_FLIGHT)).collect();
        Self { hub, spoke, push: None, commit_status: None, notify: None, leadership: None, slots }
    }

    /// Executes one action. Only requests to API servers occupy a slot of the controller; pushes, commit statuses,
    /// notifications and waits for CRDs do not. A panic is a failure of this action: its key is retried, and others
    /// continue.
    pub(super) async fn act(&self, act: &Act) -> Outcome {
        let executed = self.execute(act.controller_id, act.controller, act.action());
        AssertUnwindSafe(executed).catch_unwind().await.unwrap_or_else(|_| {
            let message = "the write panicked, which is a bug".into();
            Err(Failure { kind: FailureKind::Unavailable, message })
        })
    }

    pub(super) async fn execute(
        &self,
        controller_id: usize,
        manager: &'static str,
        action: &Action,
    ) -> Outcome {
        let server = |site: &Site| self.server(*site, controller_id);
        match action {
            Action::Apply { object, force, manager: other, impersonate, dry_run, site } => {
                let server = server(site)?;
                let manager = other.as_deref().unwrap_or(manager);
                let params = PatchParams { force: *force, dry_run: *dry_run, ..PatchParams::apply(manager) };
                let applied = server.impersonating(impersonate.as_deref()).apply(object, &params).await?;
                if *dry_run {
                    return Ok(Answer::Nothing);
                }
                crd::established(server, applied).await.map(Answer::from)
            }
            Action::Create { object, impersonate, site } => {
                server(site)?.impersonating(impersonate.as_deref()).create(object, manager).await
            }
            Action::Patch { target, subresource, patch, precondition, impersonate, site } => {
                let server = server(site)?.impersonating(impersonate.as_deref());
                let mut body = Value::Object(patch.clone());
                guard(&mut body, precondition);
                let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
                server.patch(target, *subresource, &params, &body).await
            }
            Action::Replace { object, site } => server(site)?.replace(object).await,
            Action::Delete { target, precondition, orphan, impersonate, site } => {
                let server = server(site)?.impersonating(impersonate.as_deref());
                server.delete(target, precondition, *orphan).await
            }
            Action::Push(push) => {
                let none = "this process has no git remote to push to";
                self.write_to_git(self.push.as_ref(), push, none).await
            }
            Action::SetCommitStatus(status) => {
                let none = "this process reaches no git provider";
                self.write_to_git(self.commit_status.as_ref(), status, none).await
            }
            Action::Notify(notification) => {
                let none = "this process sends no notifications";
                self.write_to_git(self.notify.as_ref(), notification, none).await
            }
        }
    }

    fn server(&self, site: Site, controller_id: usize) -> Result<ApiServer<'_>, Failure> {
        let resources = match site {
            Site::Hub => Some(&*self.hub),
            Site::Spoke => self.spoke.as_deref(),
        };
        let (Some(resources), Some(slots)) = (resources, self.slots.get(controller_id)) else {
            let message = "cannot write to a spoke: only the agent has one".into();
            return Err(Failure { kind: FailureKind::Invalid, message });
        };
        Ok(ApiServer { resources, slots, impersonate: None, leadership: self.leadership.as_ref() })
    }

    /// Writes to a git server, a provider or a receiver. These know nothing of the lease, so this checks the
    /// leadership first.
    async fn write_to_git<T: Clone>(&self, write: Option<&GitWriteFn<T>>, what: &T, none: &str) -> Outcome {
        if let Some(Err(not_leading)) = self.leadership.as_ref().map(Leadership::check) {
            return Err(Failure { kind: FailureKind::Unavailable, message: not_leading.to_string() });
        }
        match write {
            Some(write) => write(what.clone()).await,
            None => Err(Failure { kind: FailureKind::Invalid, message: none.into() }),
        }
    }
}

fn guard(body: &mut Value, precondition: &Precondition) {
    let Precondition { uid, resource_version } = precondition;
    for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
        if !value.is_empty() {
            let meta =
                body.as_object_mut().map(|fields| fields.entry("metadata").or_insert_with(|| json!({})));
            if let Some(meta) = meta.and_then(Value::as_object_mut) {
                meta.insert(field.into(), value.as_str().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_is_part_of_the_patch() {
        let mut body = json!({"status": {"a": 1}});
        guard(&mut body, &Precondition { uid: "u".into(), resource_version: String::new() });
        assert_eq!(body, json!({"status": {"a": 1}, "metadata": {"uid": "u"}}));
    }
}
