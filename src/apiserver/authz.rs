//! Authorization: RBAC for every request, and the few checks that kube-apiserver's admission adds for
//! certificates and impersonation.

use std::sync::Arc;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::authn;
use super::hub::Hub;
use super::request::{ApiRequest, Verb};
use crate::pki::CertificateRequest;
use api::names::KUBE_CLIENT_SIGNER;
use store::rbac::{Attributes, MASTERS};
use store::{ApiError, ResourcePath, Store, User, WriteOptions, Written};

/// Rejects a request for objects if the user may not make it.
pub(super) fn check(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    verb: Verb,
) -> Result<(), ApiError> {
    let mut on = target.clone();
    if (on.group.as_str(), on.resource.as_str()) == ("", "namespaces") {
        // As in kube-apiserver, a namespace belongs to itself, so roles in it may grant access to it.
        on.namespace.clone_from(&on.name);
    }
    if let (Verb::List | Verb::Watch, Some(name)) = (verb, request.only_name())
        && on.name.is_empty()
    {
        on.name = name;
    }
    hub.read(|store| store.authorize(&request.user, verb.as_str(), &on))
}

/// Rejects a request for a non-resource path if the user may not make it.
pub(super) fn check_path(hub: &Hub, request: &ApiRequest) -> Result<(), ApiError> {
    let verb = request.method.as_str().to_ascii_lowercase();
    let attributes = Attributes::path(verb.as_str(), request.path.as_str());
    if hub.read(|store| store.allows(&request.user, &attributes)) {
        return Ok(());
    }
    Err(ApiError::forbidden_path(&format!(
        "User {:?} cannot {verb} path {:?}",
        request.user.name, request.path
    )))
}

/// Returns the user that a request impersonates, or the sender without impersonation.
///
/// # Errors
/// 403 if the sender may not impersonate that user or one of its groups.
pub(super) fn impersonate(hub: &Hub, sender: Arc<User>, headers: &HeaderMap) -> Result<Arc<User>, ApiError> {
    let Some(wanted) = authn::impersonated(headers)? else { return Ok(sender) };
    let (kind, namespace, name) =
        match wanted.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => ("serviceaccounts", namespace, name),
            None => ("users", "", wanted.name.as_str()),
        };
    let asked: Vec<String> = headers
        .get_all("impersonate-group")
        .iter()
        .filter_map(|v| v.to_str().ok())
        .map(str::to_owned)
        .collect();
    hub.read(|store| {
        store.authorize(
            &sender,
            "impersonate",
            &ResourcePath::resource("", "v1", kind).within(namespace).named(name),
        )?;
        for group in &asked {
            store.authorize(
                &sender,
                "impersonate",
                &ResourcePath::resource("", "v1", "groups").named(group.as_str()),
            )?;
        }
        let extra = |key: &str| ResourcePath::resource("authentication.k8s.io", "v1", "userextras").sub(key);
        for (key, values) in &wanted.extra {
            for value in values {
                store.authorize(&sender, "impersonate", &extra(key).named(value.as_str()))?;
            }
        }
        if !wanted.uid.is_empty() {
            store.authorize(
                &sender,
                "impersonate",
                &ResourcePath::resource("authentication.k8s.io", "v1", "uids").named(wanted.uid.as_str()),
            )?;
        }
        Ok(())
    })?;
    Ok(Arc::new(wanted))
}

/// Checks the permissions beyond RBAC that kube-apiserver's admission plugins require to approve or issue
/// certificates.
pub(super) fn admit_certificate(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    verb: Verb,
) -> Result<(), ApiError> {
    if !is_signing_request(target) {
        return Ok(());
    }
    match (verb, target.subresource.as_str()) {
        (Verb::Update | Verb::Patch, "approval") => {
            hub.read(|store| may_use_signer(store, request, target, "approve"))
        }
        (Verb::Update | Verb::Patch, "status") => {
            hub.read(|store| may_use_signer(store, request, target, "sign"))
        }
        _ => Ok(()),
    }
}

fn is_signing_request(target: &ResourcePath) -> bool {
    (target.group.as_str(), target.resource.as_str()) == ("certificates.k8s.io", "certificatesigningrequests")
}

/// Does a write and checks the result, for every verb (admission plugin CertificateSubjectRestriction).
pub(super) fn admitted(
    store: &mut Store,
    target: &ResourcePath,
    options: &WriteOptions,
    write: impl Fn(&mut Store, &WriteOptions) -> Result<Written, ApiError>,
) -> Result<Written, ApiError> {
    if is_signing_request(target) {
        let outcome = write(store, &options.clone().dry())?;
        let spec = |field: &str| {
            outcome.object.at(&["spec", field]).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        if spec("signerName") == KUBE_CLIENT_SIGNER && names_masters_group(&spec("request")) {
            let detail = format!("use of {KUBE_CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
            return Err(ApiError::forbidden(target, &detail));
        }
    }
    write(store, options)
}

fn names_masters_group(encoded: &str) -> bool {
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let parsed = CertificateRequest::parse(&String::from_utf8_lossy(&bytes));
    parsed.is_ok_and(|parsed| parsed.subject.organizations.iter().any(|o| o == MASTERS))
}

/// Checks the permission to approve or sign for a signer, by its name or by all names of its domain.
fn may_use_signer(
    store: &Store,
    request: &ApiRequest,
    target: &ResourcePath,
    verb: &str,
) -> Result<(), ApiError> {
    let Ok(found) = store.get(&target.clone().sub("")) else { return Ok(()) };
    let signer = found.at(&["spec", "signerName"]).and_then(Value::as_str).unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    let allowed = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
        let signers = ResourcePath::resource("certificates.k8s.io", "v1", "signers").named(name);
        store.allows(&request.user, &Attributes::objects(verb, signers))
    });
    if allowed {
        return Ok(());
    }
    Err(ApiError::forbidden(
        target,
        &format!("user not permitted to {verb} requests with signerName {signer:?}"),
    ))
}
