//! Executes actions: one request each, with a time limit. Failures are classified by the retry that they
//! need.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::HeaderValue;
use kube::Error;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::error::DiscoveryError;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::debug;

use super::client::retry_after;
use super::process::{CommitStatusFn, GitWriteFn, PushFn};
use super::{Leadership, Resources, crd};
use object::{Object, ObjectRef};
use reconcile::{Act, Action, Answer, Failure, FailureKind, Outcome, Precondition, Site, Subresource};

/// Limit of the writes of one controller in flight. They share a connection. The limit is per controller, so
/// that a controller that writes ten thousand objects does not delay the single write of another. The server
/// protects itself by priority and fairness.
const WRITES_IN_FLIGHT: usize = 32;

/// The longest wait that a server can ask for with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The targets of actions.
pub(super) struct Executor {
    pub hub: Arc<Resources>,
    pub spoke: Option<Arc<Resources>>,
    pub push: Option<PushFn>,
    pub commit_status: Option<CommitStatusFn>,
    /// Until when this process may write; without it the process may always write.
    pub leadership: Option<Leadership>,
    /// The slots by controller.
    slots: Vec<Semaphore>,
}

/// An API server, as one controller may use it.
#[derive(Clone, Copy)]
pub(super) struct ApiServer<'a> {
    resources: &'a Resources,
    slots: &'a Semaphore,
    /// The user that requests impersonate.
    impersonate: Option<&'a str>,
    leadership: Option<&'a Leadership>,
}

impl Executor {
    pub(super) fn new(hub: Arc<Resources>, spoke: Option<Arc<Resources>>, controllers: usize) -> Self {
        let slots = (0..controllers).map(|_| Semaphore::new(WRITES_IN_FLIGHT)).collect();
        Self { hub, spoke, push: None, commit_status: None, leadership: None, slots }
    }

    /// Executes one action. Only requests to API servers hold a slot of the controller: not a push, a commit
    /// status, or the wait for a CRD. A panic is a failure of this action: its key is tried again, and others
    /// go on.
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
                crd::established(server, applied).await.map(Answer::Object)
            }
            Action::Create { object, site } => server(site)?.create(object, manager).await,
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
        }
    }

    fn server(&self, site: Site, controller_id: usize) -> Result<ApiServer<'_>, Failure> {
        let resources = match site {
            Site::Hub => Some(&*self.hub),
            Site::Spoke => self.spoke.as_deref(),
        };
        let (Some(resources), Some(slots)) = (resources, self.slots.get(controller_id)) else {
            let message = "this process has no spoke to write to; only the agent has".into();
            return Err(Failure { kind: FailureKind::Invalid, message });
        };
        Ok(ApiServer { resources, slots, impersonate: None, leadership: self.leadership.as_ref() })
    }

    /// Writes to a git server or to its provider. They do not know the lease, so the leadership is checked
    /// first.
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

impl<'a> ApiServer<'a> {
    fn impersonating(self, impersonate: Option<&'a str>) -> Self {
        Self { impersonate, ..self }
    }

    /// Returns the object as it is now.
    pub(super) async fn get(self, target: &ObjectRef) -> Result<Object, Failure> {
        let request = self.home(target).await?.get(&target.key.name, &Default::default());
        self.send(target, request.map_err(Error::BuildRequest)).await
    }

    /// Returns the collection of an object.
    async fn home(self, target: &ObjectRef) -> Result<kube::core::Request, Failure> {
        let served = self.resources.served(&target.gvk).await.map_err(|e| failure(target, e))?;
        Ok(served.home(&target.key))
    }

    async fn apply(self, object: &Object, params: &PatchParams) -> Result<Object, Failure> {
        let target = object.reference();
        let request = self.home(&target).await?.patch(&target.key.name, params, &Patch::Apply(object));
        self.send(&target, request.map_err(Error::BuildRequest)).await
    }

    async fn create(self, object: &Object, manager: &str) -> Outcome {
        let target = object.reference();
        let home = self.home(&target).await?;
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
        let request = home.create(&params, body).map_err(Error::BuildRequest);
        match self.respond(request).await {
            Ok(created) => Ok(Answer::Object(created)),
            Err(Error::Api(status)) if status.is_already_exists() => {
                let request = home.get(&target.key.name, &Default::default()).map_err(Error::BuildRequest);
                self.send(&target, request).await.map(Answer::Object)
            }
            Err(error) => Err(failure(&target, error)),
        }
    }

    async fn patch(
        self,
        target: &ObjectRef,
        part: Subresource,
        params: &PatchParams,
        body: &Value,
    ) -> Outcome {
        let home = self.home(target).await?;
        let (name, patch) = (&target.key.name, Patch::Merge(body));
        let request = match part {
            Subresource::None => home.patch(name, params, &patch),
            Subresource::Status => home.patch_subresource("status", name, params, &patch),
            Subresource::Approval => home.patch_subresource("approval", name, params, &patch),
        };
        self.send(target, request.map_err(Error::BuildRequest)).await.map(Answer::Object)
    }

    async fn replace(self, object: &Object) -> Outcome {
        let target = object.reference();
        let home = self.home(&target).await?;
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let request =
            home.replace(&target.key.name, &PostParams::default(), body).map_err(Error::BuildRequest);
        self.send(&target, request).await.map(Answer::Object)
    }

    async fn delete(self, target: &ObjectRef, precondition: &Precondition, orphan: bool) -> Outcome {
        let home = self.home(target).await?;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (uid, resource_version) = (some(&precondition.uid), some(&precondition.resource_version));
        let params = DeleteParams {
            propagation_policy: Some(if orphan {
                PropagationPolicy::Orphan
            } else {
                PropagationPolicy::Background
            }),
            preconditions: (uid.is_some() || resource_version.is_some())
                .then_some(Preconditions { resource_version, uid }),
            ..DeleteParams::default()
        };
        match self.respond(home.delete(&target.key.name, &params).map_err(Error::BuildRequest)).await {
            // A `Status` means that the object is gone; the object itself means that finalizers hold it.
            Ok(answer) => Ok(answer.is_terminating().then_some(answer).into()),
            Err(Error::Api(status)) if status.is_not_found() => Ok(Answer::Nothing),
            Err(error) => Err(failure(target, error)),
        }
    }

    async fn send(
        self,
        target: &ObjectRef,
        request: Result<http::Request<Vec<u8>>, Error>,
    ) -> Result<Object, Failure> {
        self.respond(request).await.map_err(|error| {
            if matches!(&error, Error::Api(status) if status.code == 404) {
                self.resources.forget(&target.gvk);
            }
            failure(target, error)
        })
    }

    async fn respond(self, request: Result<http::Request<Vec<u8>>, Error>) -> Result<Object, Error> {
        let mut request = request?;
        if let Some(user) = self.impersonate {
            let user = HeaderValue::from_str(user).map_err(|e| Error::Service(e.into()))?;
            request.headers_mut().insert("Impersonate-User", user);
        }
        let slot = self.slots.acquire().await.map_err(|e| Error::Service(e.into()))?;
        // The wait for a slot may have been long. The connection checks the leadership once more before it
        // sends.
        if let Some(Err(not_leading)) = self.leadership.map(Leadership::check) {
            return Err(Error::Service(not_leading.into()));
        }
        debug!(method = %request.method(), uri = %request.uri(), "write");
        let answered = self.resources.client().request(request).await;
        drop(slot);
        if let Err(error) = &answered {
            // The reconciliation ends only when the server wants requests again, which also delays the next
            // reconciliations of the controller.
            sleep(retry_after(error).min(MAX_RETRY_AFTER)).await;
        }
        answered
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

/// Returns the failure of a request, with the name of the object it was about.
pub fn failure(target: &ObjectRef, error: Error) -> Failure {
    match error {
        Error::Api(status) => {
            let causes =
                status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.reason.as_str());
            Failure::refused(target, status.code, causes, &status.message)
        }
        Error::Discovery(
            DiscoveryError::MissingKind(_)
            | DiscoveryError::MissingApiGroup(_)
            | DiscoveryError::MissingResource(_),
        ) => Failure::not_served(&target.gvk),
        error => {
            Failure { kind: FailureKind::Unavailable, message: format!("cannot write {target}: {error}") }
        }
    }
}

/// The message if a kind is not served.
pub(super) const NOT_SERVED: &str = "the API server does not serve it; is its CRD installed?";

/// Returns the answer of an API server, or the reason why there is none, in a line.
pub fn message(error: &Error) -> String {
    match error {
        Error::Api(status) if status.message.is_empty() => format!("{} {}", status.code, status.reason),
        Error::Api(status) => status.message.clone(),
        Error::Discovery(
            DiscoveryError::MissingKind(_)
            | DiscoveryError::MissingApiGroup(_)
            | DiscoveryError::MissingResource(_),
        ) => NOT_SERVED.into(),
        error => error.to_string(),
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
