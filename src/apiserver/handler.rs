//! Handles one request: authenticates and authorizes it, resolves its scope, and dispatches it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{self, StatusCode, header};
use axum::response::Response;
use serde_json::json;

use super::authn::Peer;
use super::hub::{Hub, apart};
use super::request::{ApiRequest, Verb};
use super::respond::{self, HandlerResult};
use super::{authn, authz, discovery, openapi, resources, review};
use store::{ApiError, ResourcePath};

/// The maximum size of a body, as in kube-apiserver.
const BODY_LIMIT: usize = 3 << 20;

/// The maximum time for a body to arrive (`--request-timeout` of kube-apiserver).
const BODY_TIME: Duration = Duration::from_secs(60);

/// Answers a request. Errors become responses, too.
pub(super) async fn handle(
    hub: Arc<Hub>,
    peer: Peer,
    request: http::Request<Body>,
) -> Result<Response, Infallible> {
    respond::finish(answer(&hub, &peer, request).await)
}

async fn answer(hub: &Arc<Hub>, peer: &Peer, request: http::Request<Body>) -> HandlerResult {
    let (head, body) = request.into_parts();
    let sender = authn::authenticate(hub, peer, &head.headers)?;
    let user = authz::impersonate(hub, sender, &head.headers)?;
    let request = ApiRequest::read(user, head.method, &head.uri, &head.headers);
    if let Some(target) = request.target() {
        let verb = request.verb(&target)?;
        authz::check(hub, &request, &target, verb)?;
        let announced = head
            .headers
            .get(header::CONTENT_LENGTH)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.parse::<usize>().ok());
        if announced.is_some_and(|length| length > BODY_LIMIT) {
            return Err(too_large());
        }
        let place = if verb == Verb::Watch { None } else { Some(hub.in_flight.request(&request.user)?) };
        let most = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let _memory = hub.in_flight.body(&request.user, most.unwrap_or(BODY_LIMIT).min(BODY_LIMIT))?;
        let body = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, BODY_LIMIT))
            .await
            .map_err(|_| ApiError::request_timeout())?
            .map_err(|_| too_large())?;
        let request = Arc::new(request);
        let response = objects(hub, request.clone(), &target, verb, body).await?;
        let Some(place) = place else { return Ok(response) };
        // A list counts its own objects.
        let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
        let large = bytes.filter(|bytes| *bytes > respond::CHUNK);
        let memory = large.map(|bytes| hub.in_flight.answer(&request.user, bytes)).transpose()?;
        return Ok(respond::until_read(response, (place, memory)));
    }
    authz::check_path(hub, &request)?;
    if is_health(&request.path) {
        return Ok(health(hub, &request));
    }
    let hub = hub.clone();
    apart(move || paths(&hub, &request)).await
}

async fn objects(
    hub: &Arc<Hub>,
    request: Arc<ApiRequest>,
    target: &ResourcePath,
    verb: Verb,
    body: Bytes,
) -> HandlerResult {
    if let Some(kind) = review::kind_of(target) {
        return if verb == Verb::Create {
            let target = target.clone();
            hub.review(move |hub| review::answer(hub, &request, &target, kind, &body)).await
        } else {
            Err(ApiError::method_not_allowed())
        };
    }
    if (target.group.as_str(), target.resource.as_str(), target.subresource.as_str())
        == ("", "serviceaccounts", "token")
    {
        return if verb == Verb::Create {
            let target = target.clone();
            hub.review(move |hub| review::token_request(hub, &request, &target, &body)).await
        } else {
            Err(ApiError::method_not_allowed())
        };
    }
    authz::admit_certificate(hub, &request, target, verb)?;
    resources::answer(hub, request, target, verb, body).await
}

/// Answers requests for non-resource paths.
fn paths(hub: &Hub, request: &ApiRequest) -> HandlerResult {
    match request.path.trim_end_matches('/') {
        "/version" => Ok(respond::json(StatusCode::OK, &super::version())),
        "/openid/v1/jwks" => Ok(respond::json(StatusCode::OK, &hub.tokens.key_set())),
        "" => Ok(respond::json(
            StatusCode::OK,
            &json!({ "paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] }),
        )),
        "/openapi/v2" => Ok(openapi::answer_v2(request.accept, &hub.read(openapi::by_path))),
        path => discovery::answer(hub, request)
            .map(Ok)
            .or_else(|| hub.documents.answer(path, || hub.read(openapi::by_path)))
            .unwrap_or_else(|| Err(ApiError::no_such_path())),
    }
}

fn is_health(path: &str) -> bool {
    let first = path.trim_matches('/').split('/').next();
    matches!(first, Some("livez" | "readyz" | "healthz"))
}

fn health(hub: &Hub, request: &ApiRequest) -> Response {
    match hub.failure() {
        Some(reason) => {
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, format!("[-]journal failed: {reason}\n"))
        }
        None if request.query.get("verbose").is_some() => {
            respond::text(StatusCode::OK, "[+]ping ok\n[+]journal ok\ncheck passed\n")
        }
        None => respond::text(StatusCode::OK, "ok"),
    }
}

fn too_large() -> ApiError {
    ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"))
}
