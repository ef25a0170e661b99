//! Kinds that can be created but are never stored: SelfSubjectReview, access reviews, TokenReview and
//! TokenRequest.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::hub::Hub;
use super::request::ApiRequest;
use super::respond::{self, HandlerResult};
use super::token::{Binding, Bound, Claims, ISSUER};
use super::{authn, resources};
use object::Object;
use store::rbac::Attributes;
use store::{ApiError, FieldError, ResourcePath, User};

/// A kind that can be created but not read.
pub(super) struct ReviewKind {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// All review kinds, which are all in version v1.
pub(super) const KINDS: &[ReviewKind] = &[
    ReviewKind {
        group: AUTHENTICATION,
        resource: "selfsubjectreviews",
        kind: "SelfSubjectReview",
        namespaced: false,
    },
    ReviewKind { group: AUTHENTICATION, resource: "tokenreviews", kind: "TokenReview", namespaced: false },
    ReviewKind {
        group: AUTHORIZATION,
        resource: "localsubjectaccessreviews",
        kind: "LocalSubjectAccessReview",
        namespaced: true,
    },
    ReviewKind {
        group: AUTHORIZATION,
        resource: "selfsubjectaccessreviews",
        kind: "SelfSubjectAccessReview",
        namespaced: false,
    },
    ReviewKind {
        group: AUTHORIZATION,
        resource: "selfsubjectrulesreviews",
        kind: "SelfSubjectRulesReview",
        namespaced: false,
    },
    ReviewKind {
        group: AUTHORIZATION,
        resource: "subjectaccessreviews",
        kind: "SubjectAccessReview",
        namespaced: false,
    },
];

/// The default lifetime of a token. The minimum is ten minutes.
const LIFETIME: Duration = Duration::from_secs(3600);
const SHORTEST: u64 = 600;
/// The maximum lifetime in seconds, as in kube-apiserver.
const LONGEST: u64 = 1 << 32;

/// Returns the review kind of a target.
pub(super) fn kind_of(target: &ResourcePath) -> Option<&'static ReviewKind> {
    let is = |kind: &&ReviewKind| {
        let is_in_scope = kind.namespaced != target.namespace.is_empty();
        kind.group == target.group
            && kind.resource == target.resource
            && target.version == "v1"
            && is_in_scope
    };
    KINDS.iter().find(is).filter(|_| target.name.is_empty())
}

/// Answers a review.
pub(super) fn answer(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    kind: &ReviewKind,
    body: &[u8],
) -> HandlerResult {
    let mut review = resources::read_value(&request.content_type, body)?;
    let given = review.get("kind").and_then(Value::as_str).unwrap_or(kind.kind);
    if given != kind.kind {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized: want kind {}, found {given}",
            kind.kind
        )));
    }
    let user = &request.user;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let status = match kind.resource {
        "selfsubjectreviews" => json!({ "userInfo": user_value(user) }),
        "tokenreviews" => token_status(hub, &spec),
        "selfsubjectaccessreviews" => access_status(hub, user, &spec)?,
        "subjectaccessreviews" => access_status(hub, &subject_of(&spec)?, &spec)?,
        "localsubjectaccessreviews" => {
            let asked =
                spec.pointer("/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
            if asked != target.namespace {
                let error = FieldError::invalid(
                    "spec.resourceAttributes.namespace",
                    &asked.into(),
                    "must match metadata.namespace",
                );
                return Err(ApiError::invalid(kind.group, kind.kind, "", &[error]));
            }
            access_status(hub, &subject_of(&spec)?, &spec)?
        }
        _ => rules_status(hub, user, &spec),
    };
    if let Some(fields) = review.as_object_mut() {
        fields.insert("apiVersion".into(), format!("{}/v1", kind.group).into());
        fields.insert("kind".into(), kind.kind.into());
        fields.entry("metadata").or_insert_with(|| json!({}));
        fields.insert("status".into(), status);
    }
    Ok(respond::json(StatusCode::CREATED, &review))
}

fn user_value(user: &User) -> Value {
    let mut value = json!({ "username": user.name, "groups": user.groups });
    if let Some(fields) = value.as_object_mut() {
        if !user.uid.is_empty() {
            fields.insert("uid".into(), user.uid.clone().into());
        }
        if !user.extra.is_empty() {
            fields.insert("extra".into(), json!(user.extra));
        }
    }
    value
}

fn token_status(hub: &Hub, spec: &Value) -> Value {
    let token = spec.get("token").and_then(Value::as_str).unwrap_or_default();
    match authn::of_token(hub, token, &texts(spec.get("audiences"))) {
        Some(known) => {
            json!({ "authenticated": true, "user": user_value(&known.user), "audiences": known.audiences })
        }
        None => json!({ "authenticated": false, "error": "the token is not valid", "user": {} }),
    }
}

fn subject_of(spec: &Value) -> Result<User, ApiError> {
    let name = spec.get("user").and_then(Value::as_str).unwrap_or_default();
    let groups = texts(spec.get("groups"));
    if name.is_empty() && groups.is_empty() {
        let error =
            FieldError::invalid("spec.user", &"".into(), "at least one of user or group must be specified");
        return Err(ApiError::invalid(AUTHORIZATION, "SubjectAccessReview", "", &[error]));
    }
    Ok(User { name: name.to_owned(), groups, ..User::default() })
}

fn access_status(hub: &Hub, user: &User, spec: &Value) -> Result<Value, ApiError> {
    let attributes = match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(asked), None) => {
            let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let target = ResourcePath::resource(&text("group"), &text("version"), &text("resource"));
            Attributes::objects(
                text("verb"),
                target.within(text("namespace")).named(text("name")).sub(text("subresource")),
            )
        }
        (None, Some(asked)) => {
            let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default();
            Attributes::path(text("verb"), text("path"))
        }
        _ => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let error = FieldError::invalid("spec.resourceAttributes", &Value::Null, detail);
            return Err(ApiError::invalid(AUTHORIZATION, "SubjectAccessReview", "", &[error]));
        }
    };
    let allowed = hub.read(|store| store.allows(user, &attributes));
    Ok(json!({ "allowed": allowed }))
}

fn rules_status(hub: &Hub, user: &User, spec: &Value) -> Value {
    let namespace = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let rules = hub.read(|store| store.rules(user, namespace));
    let (paths, objects): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| rule.non_resource_urls.is_some());
    json!({ "resourceRules": objects, "nonResourceRules": paths, "incomplete": false })
}

/// Answers `serviceaccounts/<name>/token`.
pub(super) fn token_request(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    body: &[u8],
) -> HandlerResult {
    let mut review = resources::read_value(&request.content_type, body)?;
    let spec = review.get("spec").cloned().unwrap_or_default();
    let mut audiences = texts(spec.get("audiences"));
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let seconds = spec.get("expirationSeconds").and_then(Value::as_i64);
    let account = hub.read(|store| store.get(&target.clone().sub("")))?;
    let lifetime = lifetime(seconds)?;
    let secret = bound_secret(hub, &target.namespace, spec.get("boundObjectRef"))?;
    let now = (hub.clock)();
    let binding = Binding { namespace: target.namespace.clone(), serviceaccount: bound(&account), secret };
    let id = super::random_hex().map_err(ApiError::internal)?;
    let claims = Claims::new(binding, audiences.clone(), id, now, lifetime);
    let token = hub.tokens.sign(&claims).map_err(ApiError::internal)?;
    let expires = jiff::Timestamp::from_second(claims.exp).map_err(ApiError::internal)?;
    if let Some(fields) = review.as_object_mut() {
        fields.insert("apiVersion".into(), "authentication.k8s.io/v1".into());
        fields.insert("kind".into(), "TokenRequest".into());
        fields.insert(
            "metadata".into(),
            json!({ "name": target.name, "namespace": target.namespace, "creationTimestamp": now.strftime("%FT%TZ").to_string() }),
        );
        let bound_to = spec.get("boundObjectRef").cloned().unwrap_or_default();
        fields
            .insert("spec".into(), json!({ "audiences": audiences, "expirationSeconds": lifetime.as_secs(), "boundObjectRef": bound_to }));
        fields.insert(
            "status".into(),
            json!({ "token": token, "expirationTimestamp": expires.strftime("%FT%TZ").to_string() }),
        );
    }
    Ok(respond::json(StatusCode::CREATED, &review))
}

fn lifetime(seconds: Option<i64>) -> Result<Duration, ApiError> {
    let Some(given) = seconds else { return Ok(LIFETIME) };
    let refuse = |detail: &str| {
        let error = FieldError::invalid("spec.expirationSeconds", &given.into(), detail);
        Err(ApiError::invalid(AUTHENTICATION, "TokenRequest", "", &[error]))
    };
    match u64::try_from(given) {
        Ok(SHORTEST..=LONGEST) => Ok(Duration::from_secs(given.unsigned_abs())),
        Ok(0..SHORTEST) | Err(_) => refuse("may not specify a duration less than 10 minutes"),
        Ok(_) => refuse("may not specify a duration larger than 2^32 seconds"),
    }
}

/// Returns the secret to bind the token to.
fn bound_secret(hub: &Hub, namespace: &str, asked: Option<&Value>) -> Result<Option<Bound>, ApiError> {
    let Some(asked) = asked.filter(|v| !v.is_null()) else { return Ok(None) };
    let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default();
    if (text("kind"), text("apiVersion")) != ("Secret", "v1") {
        return Err(ApiError::bad_request(format!(
            "cannot bind token to object of type {}, {}",
            text("apiVersion"),
            text("kind")
        )));
    }
    let target = ResourcePath::resource("", "v1", "secrets").within(namespace).named(text("name"));
    let secret = hub.read(|store| store.get(&target))?;
    if !text("uid").is_empty() && text("uid") != secret.uid() {
        return Err(ApiError::conflict(
            &target,
            "the UID in the bound object reference does not match the UID in record",
        ));
    }
    Ok(Some(bound(&secret)))
}

fn bound(object: &Object) -> Bound {
    Bound { name: object.name().to_owned(), uid: object.uid().to_owned() }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
