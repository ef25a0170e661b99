//! Sends requests to an API server, and classifies failures by the retry that they need.

use std::time::Duration;

use http::HeaderValue;
use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::error::DiscoveryError;
use kube::{Client, Error};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::debug;

use super::client::retry_after;
use super::{Leadership, Resources};
use object::{Object, ObjectRef};
use reconcile::{Answer, Failure, FailureKind, ObjectText, Outcome, Precondition, Subresource};

/// The longest wait that a server can request with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// An API server, as used by one controller.
#[derive(Clone, Copy)]
pub(super) struct ApiServer<'a> {
    pub(super) resources: &'a Resources,
    pub(super) slots: &'a Semaphore,
    /// The user to impersonate.
    pub(super) impersonate: Option<&'a str>,
    pub(super) leadership: Option<&'a Leadership>,
}

impl<'a> ApiServer<'a> {
    pub(super) fn impersonating(self, impersonate: Option<&'a str>) -> Self {
        Self { impersonate, ..self }
    }

    /// Returns the current object.
    pub(super) async fn get(self, target: &ObjectRef) -> Result<Object, Failure> {
        let request = self.home(target).await?.get(&target.key.name, &Default::default());
        self.send(target, request.map_err(Error::BuildRequest)).await
    }

    /// Returns the collection that contains an object.
    async fn home(self, target: &ObjectRef) -> Result<kube::core::Request, Failure> {
        let served = self.resources.served(&target.gvk).await.map_err(|e| failure(target, e))?;
        Ok(served.home(&target.key))
    }

    pub(super) async fn apply(self, object: &Object, params: &PatchParams) -> Result<Object, Failure> {
        let target = object.reference();
        let request = self.home(&target).await?.patch(&target.key.name, params, &Patch::Apply(object));
        self.send(&target, request.map_err(Error::BuildRequest)).await
    }

    pub(super) async fn create(self, object: &Object, manager: &str) -> Outcome {
        let target = object.reference();
        let home = self.home(&target).await?;
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
        let request = home.create(&params, body).map_err(Error::BuildRequest);
        match self.respond(request).await {
            Ok(created) => Ok(created.into()),
            Err(Error::Api(status)) if status.is_already_exists() => {
                let request = home.get(&target.key.name, &Default::default()).map_err(Error::BuildRequest);
                self.send(&target, request).await.map(Answer::from)
            }
            Err(error) => Err(failure(&target, error)),
        }
    }

    pub(super) async fn patch(
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
        self.send(target, request.map_err(Error::BuildRequest)).await.map(Answer::from)
    }

    pub(super) async fn replace(self, object: &Object) -> Outcome {
        let target = object.reference();
        let home = self.home(&target).await?;
        let body = serde_json::to_vec(object).map_err(|e| failure(&target, Error::SerdeError(e)))?;
        let request =
            home.replace(&target.key.name, &PostParams::default(), body).map_err(Error::BuildRequest);
        self.send(&target, request).await.map(Answer::from)
    }

    pub(super) async fn delete(
        self,
        target: &ObjectRef,
        precondition: &Precondition,
        orphan: bool,
    ) -> Outcome {
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
            // A `Status` means that the object is gone; the object itself means that finalizers block its
            // deletion.
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
        impersonating(&mut request, self.impersonate)?;
        let slot = self.slots.acquire().await.map_err(|e| Error::Service(e.into()))?;
        // The wait for a slot may have been long. The connection checks the leadership again before it sends.
        if let Some(Err(not_leading)) = self.leadership.map(Leadership::check) {
            return Err(Error::Service(not_leading.into()));
        }
        debug!(method = %request.method(), uri = %request.uri(), "write");
        let answered = request_object(self.resources.client(), request).await;
        drop(slot);
        if let Err(error) = &answered {
            // The reconciliation only ends when the server accepts requests again, which also delays the
            // controller's next reconciliations.
            sleep(retry_after(error).min(MAX_RETRY_AFTER)).await;
        }
        answered
    }
}

/// Adds the header that impersonates a user.
pub(super) fn impersonating(request: &mut http::Request<Vec<u8>>, user: Option<&str>) -> Result<(), Error> {
    if let Some(user) = user {
        let user = HeaderValue::from_str(user).map_err(|e| Error::Service(e.into()))?;
        request.headers_mut().insert("Impersonate-User", user);
    }
    Ok(())
}

/// Sends a request whose response is an object.
pub(super) async fn request_object(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> Result<Object, Error> {
    let text = client.request_text(request).await?;
    ObjectText::new(&text).object().map_err(Error::SerdeError)
}

/// Returns the failure of a request for an object.
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
pub(super) const NOT_SERVED: &str = "the API server does not serve this kind; is its CRD installed?";

/// Formats an error with its causes, for people. For an API server's response, only its message is shown.
///
/// Use it for every error that a request may cause, because kube displays a response in its Debug form.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let of_kube = error.downcast_ref::<Error>();
        let words = of_kube.map_or_else(|| error.to_string(), message);
        // Many libraries repeat the cause in their own message.
        if text.is_empty() {
            text = words;
        } else if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = error.source().filter(|_| !matches!(of_kube, Some(Error::Api(_))));
    }
    text
}

/// Returns an API server's message, or the reason why there is none, in one line.
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

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the status")]
    struct Attempt(#[source] Error);

    #[test]
    fn the_error_of_an_api_server_is_only_its_message() {
        let status = kube::core::Status::failure("the object has been modified", "Conflict").with_code(409);
        let error = Attempt(Error::Api(status.boxed()));
        assert_eq!(with_causes(&error), "cannot write the status: the object has been modified");
    }

    #[test]
    fn a_cause_that_its_effect_quotes_is_not_repeated() {
        let broken: Box<dyn std::error::Error + Send + Sync> = "connection refused".into();
        let error = Attempt(Error::Service(broken));
        assert_eq!(with_causes(&error), "cannot write the status: ServiceError: connection refused");
    }
}
