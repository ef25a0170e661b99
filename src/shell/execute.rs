//! Executes plans: one request per action, with a time limit, and what a failure calls for.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Error;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::error::DiscoveryError;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::driver::PushFn;
use super::{REQUEST_TIMEOUT, Resources};
use object::{Object, ObjectRef};
use reconcile::{
    Action, Executed, Failure, FailureKind, Outcome, Plan, Precondition, Push, Site, Subresource,
};

/// Requests in flight at one time; each holds a connection, because the client speaks HTTP/1.1.
const REQUESTS_IN_FLIGHT: usize = 32;
/// How long a CRD may take to be established before what uses it is planned again.
const CRD_PATIENCE: Duration = Duration::from_secs(10);
const CRD_POLL: Duration = Duration::from_millis(100);

/// What actions are executed against.
pub(super) struct Executor {
    pub hub: Arc<Resources>,
    pub spoke: Option<Arc<Resources>>,
    pub push: Option<PushFn>,
    slots: Semaphore,
}

impl Executor {
    pub(super) fn new(hub: Arc<Resources>, spoke: Option<Arc<Resources>>, push: Option<PushFn>) -> Self {
        Self { hub, spoke, push, slots: Semaphore::new(REQUESTS_IN_FLIGHT) }
    }

    /// Executes the steps of a plan until one of them fails; `wrote` hears of every object as the server returned it.
    pub(super) async fn run(&self, manager: &str, plan: Plan, wrote: impl Fn(&Action, &Outcome)) -> Executed {
        let mut outcomes = Vec::new();
        for step in &plan.steps {
            let mut attempts = Vec::with_capacity(step.len());
            for action in step {
                attempts.push(async {
                    let outcome = self.act(manager, action).await;
                    wrote(action, &outcome);
                    outcome
                });
            }
            let done: Vec<Outcome> = join_all(attempts).await;
            let failed = done.iter().any(Result::is_err);
            outcomes.push(done);
            if failed {
                break;
            }
        }
        Executed { plan, outcomes }
    }

    /// Executes one action.
    pub(super) async fn act(&self, manager: &str, action: &Action) -> Outcome {
        let _slot = self.slots.acquire().await.map_err(|e| unavailable(&e))?;
        match action {
            Action::Apply { site, object, force, manager: other } => {
                let params =
                    PatchParams { force: *force, ..PatchParams::apply(other.as_deref().unwrap_or(manager)) };
                self.apply(*site, object, &params).await
            }
            Action::Create { site, object } => self.create(*site, object).await,
            Action::Patch { site, target, subresource, patch, precondition } => {
                let mut body = Value::Object(patch.clone());
                guard(&mut body, precondition);
                self.patch(
                    *site,
                    target,
                    *subresource,
                    (&PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() }, &body),
                )
                .await
            }
            Action::Replace { site, object } => self.replace(*site, object).await,
            Action::Delete { site, target, precondition, orphan } => {
                self.delete(*site, target, precondition, *orphan).await
            }
            Action::Push(push) => self.push(push).await,
        }
    }

    fn site(&self, site: Site) -> Result<&Resources, Failure> {
        match site {
            Site::Hub => Ok(&self.hub),
            Site::Spoke => self.spoke.as_deref().ok_or_else(|| Failure {
                kind: FailureKind::Invalid,
                message: "this process has no spoke to write to; only the agent has".into(),
            }),
        }
    }

    async fn apply(&self, site: Site, object: &Object, params: &PatchParams) -> Outcome {
        let target = object.reference();
        let resources = self.site(site)?;
        let home = resources.served(&target.gvk).await.map_err(|e| failure(&target, e))?.home(&target.key);
        let request =
            home.patch(&target.key.name, params, &Patch::Apply(object)).map_err(Error::BuildRequest);
        let applied = send(resources, &target, request).await?;
        if target.gvk.kind == "CustomResourceDefinition" {
            return established(resources, &target, applied).await;
        }
        Ok(Some(applied))
    }

    async fn create(&self, site: Site, object: &Object) -> Outcome {
        let target = object.reference();
        let resources = self.site(site)?;
        let home = resources.served(&target.gvk).await.map_err(|e| failure(&target, e))?.home(&target.key);
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let request = home.create(&PostParams::default(), body).map_err(Error::BuildRequest);
        match respond(resources, request).await {
            Ok(created) => Ok(Some(created)),
            Err(Error::Api(status)) if status.is_already_exists() => {
                let request = home.get(&target.key.name, &Default::default()).map_err(Error::BuildRequest);
                send(resources, &target, request).await.map(Some)
            }
            Err(error) => Err(failure(&target, error)),
        }
    }

    async fn patch(
        &self,
        site: Site,
        target: &ObjectRef,
        part: Subresource,
        (params, body): (&PatchParams, &Value),
    ) -> Outcome {
        let resources = self.site(site)?;
        let home = resources.served(&target.gvk).await.map_err(|e| failure(target, e))?.home(&target.key);
        let (name, patch) = (&target.key.name, Patch::Merge(body));
        let request = match part {
            Subresource::None => home.patch(name, params, &patch),
            Subresource::Status => home.patch_subresource("status", name, params, &patch),
            Subresource::Approval => home.patch_subresource("approval", name, params, &patch),
        };
        send(resources, target, request.map_err(Error::BuildRequest)).await.map(Some)
    }

    async fn replace(&self, site: Site, object: &Object) -> Outcome {
        let target = object.reference();
        let resources = self.site(site)?;
        let home = resources.served(&target.gvk).await.map_err(|e| failure(&target, e))?.home(&target.key);
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let request =
            home.replace(&target.key.name, &PostParams::default(), body).map_err(Error::BuildRequest);
        send(resources, &target, request).await.map(Some)
    }

    async fn delete(
        &self,
        site: Site,
        target: &ObjectRef,
        precondition: &Precondition,
        orphan: bool,
    ) -> Outcome {
        let resources = self.site(site)?;
        let home = resources.served(&target.gvk).await.map_err(|e| failure(target, e))?.home(&target.key);
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
        match respond(resources, home.delete(&target.key.name, &params).map_err(Error::BuildRequest)).await {
            // A `Status` says it is gone; the object itself says that finalizers hold it.
            Ok(answer) => Ok((answer.is_terminating()).then_some(answer)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(failure(target, error)),
        }
    }

    async fn push(&self, push: &Push) -> Outcome {
        match &self.push {
            Some(to_remote) => to_remote(push.clone()).await.map(|()| None),
            None => Err(Failure {
                kind: FailureKind::Invalid,
                message: "this process has no git remote to push to".into(),
            }),
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

/// Waits until a CRD is served, so that the next step can use it.
async fn established(resources: &Resources, target: &ObjectRef, mut crd: Object) -> Outcome {
    let condition = |crd: &Object, condition_type: &str| {
        let conditions = crd.at(&["status", "conditions"]).and_then(Value::as_array);
        conditions.into_iter().flatten().find(|c| c.get("type").is_some_and(|t| t == condition_type)).cloned()
    };
    let waited = timeout(CRD_PATIENCE, async {
        while condition(&crd, "Established")
            .is_none_or(|c| c.get("status").is_none_or(|status| status != "True"))
        {
            if let Some(refused) =
                condition(&crd, "NamesAccepted").filter(|c| c.get("status").is_some_and(|s| s == "False"))
            {
                let message = format!(
                    "{target} is not accepted: {}",
                    refused.get("message").and_then(Value::as_str).unwrap_or_default()
                );
                return Err(Failure { kind: FailureKind::Invalid, message });
            }
            sleep(CRD_POLL).await;
            let home = resources.served(&target.gvk).await.map_err(|e| failure(target, e))?.home(&target.key);
            let request = home.get(&target.key.name, &Default::default()).map_err(Error::BuildRequest);
            crd = send(resources, target, request).await?;
        }
        Ok(Some(crd))
    });
    let slow = |_| Failure {
        kind: FailureKind::Unavailable,
        message: format!("{target} is not established after {CRD_PATIENCE:?}"),
    };
    waited.await.map_err(slow)?
}

async fn send(
    resources: &Resources,
    target: &ObjectRef,
    request: Result<http::Request<Vec<u8>>, Error>,
) -> Result<Object, Failure> {
    respond(resources, request).await.map_err(|error| {
        if matches!(&error, Error::Api(status) if status.code == 404) {
            resources.forget(&target.gvk);
        }
        failure(target, error)
    })
}

async fn respond(
    resources: &Resources,
    request: Result<http::Request<Vec<u8>>, Error>,
) -> Result<Object, Error> {
    let request = request?;
    debug!(method = %request.method(), uri = %request.uri(), "write");
    timeout(REQUEST_TIMEOUT, resources.client().request(request))
        .await
        .map_err(|e| Error::Service(e.into()))?
}

/// What a failed request calls for, with the name of the object it was about.
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

/// What is wrong where a kind is not served.
pub(super) const NOT_SERVED: &str = "the API server does not serve it; is its CRD installed?";

/// What an API server said, or what kept it from saying anything, in a line.
pub fn said(error: &Error) -> String {
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

fn unavailable(error: &impl std::fmt::Display) -> Failure {
    Failure { kind: FailureKind::Unavailable, message: error.to_string() }
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
