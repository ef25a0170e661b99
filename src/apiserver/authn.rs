//! Authentication: client certificates, service account tokens, bootstrap tokens, static tokens, and
//! impersonation.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::connections::Connection;
use super::hub::Hub;
use super::token::{Claims, ISSUER};
use crate::pki::Certificate;
use object::Object;
use store::{ApiError, ResourcePath, Store, User};

const AUTHENTICATED: &str = "system:authenticated";

/// The identity of a connection's peer.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// A peer in the same process.
    Trusted(Arc<User>),
    /// A peer without a certificate; its requests may carry tokens.
    Unknown(Arc<Connection>),
    /// A peer with a certificate that this server issued.
    Certified { user: Arc<User>, until: Timestamp, connection: Arc<Connection> },
    /// A peer with an invalid certificate.
    Refused,
}

/// Returns the user of a request without credentials.
pub(super) fn anonymous() -> User {
    User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
}

/// Returns the user of a client certificate, and its expiry.
pub(super) fn of_certificate(der: &[u8]) -> Option<(User, Timestamp)> {
    let Certificate { subject, names: _, not_before: _, not_after: until } =
        Certificate::from_der(der).ok()?;
    let groups = subject.organizations.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
    Some((User { name: subject.common_name, groups, ..User::default() }, until))
        .filter(|(user, _)| !user.name.is_empty())
}

/// Returns the user of a request: from the connection's certificate if there is one, otherwise from a bearer
/// token. Rejects invalid credentials.
///
/// # Errors
/// 401 for an invalid certificate or token, 429 if the user has too many connections.
pub(super) fn authenticate(hub: &Hub, peer: &Peer, headers: &HeaderMap) -> Result<Arc<User>, ApiError> {
    let connection = match peer {
        Peer::Trusted(user) => return Ok(user.clone()),
        Peer::Certified { user, until, connection } if (hub.clock)() < *until => {
            connection.identify(user)?;
            return Ok(user.clone());
        }
        Peer::Certified { .. } | Peer::Refused => return Err(ApiError::unauthorized()),
        Peer::Unknown(connection) => connection,
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match given.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            let known = of_token(hub, token.trim(), &[]).ok_or_else(ApiError::unauthorized)?;
            connection.identify(&known.user)?;
            Ok(known.user)
        }
        _ => Ok(Arc::new(anonymous())),
    }
}

/// A valid token.
pub(super) struct Known {
    pub(super) user: Arc<User>,
    /// The requested audiences that the token is for.
    pub(super) audiences: Vec<String>,
}

/// Returns the user of a bearer token for any of these audiences, or for the server itself if there are none.
/// Static and bootstrap tokens are for the server only.
pub(super) fn of_token(hub: &Hub, token: &str, audiences: &[String]) -> Option<Known> {
    let ours = [ISSUER.to_owned()];
    let wanted = if audiences.is_empty() { &ours } else { audiences };
    let now = (hub.clock)();
    let of_server = || {
        let matching: Vec<String> = wanted.iter().filter(|a| *a == ISSUER).cloned().collect();
        (!matching.is_empty()).then_some(matching)
    };
    // Look up by digest, so that the timing reveals nothing about the token.
    if let Some(user) = hub.static_tokens.get(&digest(token)) {
        return Some(Known { user: user.clone(), audiences: of_server()? });
    }
    if let Some(claims) = hub.tokens.verify(token, now) {
        let matching: Vec<String> = wanted.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
        let user = hub.read(|store| of_claims(store, &claims))?;
        return (!matching.is_empty()).then_some(Known { user: Arc::new(user), audiences: matching });
    }
    let user = hub.read(|store| of_bootstrap_token(store, token, now))?;
    Some(Known { user: Arc::new(user), audiences: of_server()? })
}

/// Returns the lookup digest of a token.
pub(super) fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Returns the service account of a token, if the account and the object that the token is bound to still have
/// the same uids.
fn of_claims(store: &Store, claims: &Claims) -> Option<User> {
    let binding = &claims.kubernetes;
    let lookup = |resource: &str, bound: &super::token::Bound| {
        let target = ResourcePath::resource("", "v1", resource).within(&binding.namespace).named(&bound.name);
        store.get(&target).ok().filter(|object| object.uid() == bound.uid)
    };
    lookup("serviceaccounts", &binding.serviceaccount)?;
    if let Some(secret) = &binding.secret {
        lookup("secrets", secret)?;
    }
    let extra = BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![format!("JTI={}", claims.jti)],
    )]);
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", binding.namespace),
        AUTHENTICATED.into(),
    ];
    Some(User {
        name: claims.sub.clone(),
        uid: binding.serviceaccount.uid.clone(),
        groups: groups.into(),
        extra,
    })
}

/// Returns the user of a bootstrap token: `<id>.<secret>` of the Secret `kube-system/bootstrap-token-<id>`.
fn of_bootstrap_token(store: &Store, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = token.split_once('.').filter(|(id, secret)| id.len() == 6 && secret.len() == 16)?;
    let target = ResourcePath::resource("", "v1", "secrets")
        .within("kube-system")
        .named(format!("bootstrap-token-{id}"));
    let object = store.get(&target).ok().filter(|o| !o.is_terminating())?;
    let is_token = object.at(&["type"]).and_then(|t| t.as_str()) == Some("bootstrap.kubernetes.io/token");
    let expires = secret_text(&object, "expiration");
    let is_valid = is_token
        // Compare digests, so that the timing reveals nothing about the secret.
        && Sha256::digest(secret_text(&object, "token-secret")?) == Sha256::digest(secret)
        && secret_text(&object, "token-id").as_deref() == Some(id)
        && secret_text(&object, "usage-bootstrap-authentication").as_deref() == Some("true")
        && expires.is_none_or(|at| at.parse::<Timestamp>().is_ok_and(|at| now < at));
    let more = secret_text(&object, "auth-extra-groups").unwrap_or_default();
    let more = more
        .split(',')
        .map(str::trim)
        .filter(|group| group.starts_with("system:bootstrappers:"))
        .map(str::to_owned);
    let groups = ["system:bootstrappers".to_owned()]
        .into_iter()
        .chain(more)
        .chain([AUTHENTICATED.to_owned()])
        .collect();
    is_valid.then(|| User { name: format!("system:bootstrap:{id}"), groups, ..User::default() })
}

fn secret_text(secret: &Object, key: &str) -> Option<String> {
    let encoded = secret.at(&["data", key])?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// Returns the user, group, uid and extra in the `Impersonate-…` headers; `None` without them.
///
/// # Errors
/// 400 for headers without a user.
pub(super) fn impersonated(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let all = |name: &str| {
        headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).map(str::to_owned).collect::<Vec<_>>()
    };
    let one = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let (name, uid, mut groups) = (one("impersonate-user"), one("impersonate-uid"), all("impersonate-group"));
    const EXTRA: &str = "impersonate-extra-";
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        if let (Some(key), Ok(value)) = (header.as_str().strip_prefix(EXTRA), value.to_str()) {
            extra.entry(key.replace("%2f", "/").replace("%2F", "/")).or_default().push(value.to_owned());
        }
    }
    if name.is_empty() {
        let nothing = uid.is_empty() && groups.is_empty() && extra.is_empty();
        let message = "requested groups or extra without impersonating a user";
        return if nothing { Ok(None) } else { Err(ApiError::bad_request(message)) };
    }
    if let Some((namespace, _)) =
        name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        && groups.is_empty()
    {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let base = if name == "system:anonymous" { "system:unauthenticated" } else { AUTHENTICATED };
    if !groups.iter().any(|g| g == base) {
        groups.push(base.into());
    }
    Ok(Some(User { name, uid, groups, extra }))
}
