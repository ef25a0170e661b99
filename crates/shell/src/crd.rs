//! Waits for CustomResourceDefinitions: an applied definition succeeds only when its kind is served.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::api_server::ApiServer;
use object::Object;
use reconcile::{Failure, FailureKind};

/// The time limit for a CRD to be established. After that, the objects that need it are planned again.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);

/// Waits until the kind of a CRD is served, so that the next step can use it. Returns any other object at once.
///
/// # Errors
/// Returns an error if the server does not accept the names of the kind, or takes longer than ten seconds.
pub(super) async fn established(server: ApiServer<'_>, applied: Object) -> Result<Object, Failure> {
    let target = applied.reference();
    if (target.gvk.group.as_str(), target.gvk.kind.as_str())
        != ("apiextensions.k8s.io", "CustomResourceDefinition")
    {
        return Ok(applied);
    }
    let mut crd = applied;
    let waited = timeout(ESTABLISH_TIMEOUT, async {
        while status(&crd, "Established") != Some("True") {
            if status(&crd, "NamesAccepted") == Some("False") {
                let reason = field(&crd, "NamesAccepted", "message").unwrap_or_default();
                let message = format!("{target} is not accepted: {reason}");
                return Err(Failure { kind: FailureKind::Invalid, message });
            }
            sleep(POLL).await;
            crd = server.get(&target).await?;
        }
        Ok(crd)
    });
    let slow = |_| {
        let message = format!("{target} was not established within {ESTABLISH_TIMEOUT:?}");
        Failure { kind: FailureKind::Unavailable, message }
    };
    waited.await.map_err(slow)?
}

fn status<'a>(crd: &'a Object, condition: &str) -> Option<&'a str> {
    field(crd, condition, "status")
}

fn field<'a>(crd: &'a Object, condition: &str, field: &str) -> Option<&'a str> {
    crd.condition(condition)?.get(field)?.as_str()
}
