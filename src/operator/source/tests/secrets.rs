use std::convert::Infallible;

use axum::http::{Request, Response};
use kube::client::Body;
use serde_json::json;

use super::*;

/// Returns the error of a read that the hub answers with a code.
async fn refused(code: u16) -> Error {
    let service = tower::service_fn(move |_: Request<Body>| {
        let reason = if code == 404 { "NotFound" } else { "" };
        let status =
            json!({"kind": "Status", "status": "Failure", "reason": reason, "message": "no", "code": code});
        let answer = Response::builder().status(code).body(Body::from(status.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    read(Client::new(service, "default")).await
}

async fn read(hub: Client) -> Error {
    Secrets::new(hub).read(&Key::namespaced("a", "git")).await.unwrap_err()
}

#[tokio::test]
async fn only_a_secret_that_a_person_has_to_fix_has_invalid_credentials() {
    for (code, reason) in [(404, "it does not exist; create it"), (403, "no")] {
        let error = refused(code).await;
        let expected = format!("cannot read the Secret a/git: {reason}");
        assert_eq!((error.reason(), error.to_string()), ("InvalidCredentials", expected));
    }
    let refused_connection =
        tower::service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>("connection refused") });
    let mut errors = vec![read(Client::new(refused_connection, "default")).await];
    for code in [401, 429, 500, 503, 504] {
        errors.push(refused(code).await);
    }
    for error in errors {
        assert_eq!(error.reason(), "SourceUnreachable", "{error}");
        let text = "cannot reach the API server of the hub: cannot read the Secret a/git: ";
        assert!(error.to_string().starts_with(text), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_does_not_respond_does_not_invalidate_a_secret() {
    let silent =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let error = read(Client::new(silent, "default")).await;
    assert_eq!(error.reason(), "SourceUnreachable", "{error}");
    assert!(error.to_string().contains("it does not respond"), "{error}");
}
