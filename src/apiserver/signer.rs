//! The certificate signing of kube-controller-manager: issues client certificates for approved requests, and
//! deletes old requests.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::hub::Hub;
use crate::pki::{Authority, CertificateRequest, Usage};
use api::names::KUBE_CLIENT_SIGNER;
use object::{Key, Object};
use store::rbac::MASTERS;
use store::{DeleteOptions, ListOptions, Patch, ResourcePath, WriteOptions};

/// `--cluster-signing-duration` of kube-controller-manager.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// Decided requests are kept for an hour, pending requests for a day (kube-controller-manager, csrcleaner).
const KEEP_DECIDED: SignedDuration = SignedDuration::from_hours(1);
const KEEP_UNDECIDED: SignedDuration = SignedDuration::from_hours(24);
const PERMITTED: [&str; 3] = ["client auth", "digital signature", "key encipherment"];

fn requests() -> ResourcePath {
    ResourcePath::all::<CertificateSigningRequest>()
}

fn options() -> WriteOptions {
    WriteOptions::manager("certificate-controller")
}

/// Issues the certificates of newly approved requests, and deletes old requests.
pub(super) async fn step(hub: &Arc<Hub>) {
    let now = (hub.clock)();
    let Ok(listed) = hub.read(|store| store.list(&requests(), &ListOptions::default())) else { return };
    for request in &listed.items {
        let target = requests().at(&Key::cluster(request.name()));
        if is_old(request, now) {
            let delete = DeleteOptions {
                user: options().user,
                uid: request.uid().to_owned(),
                ..DeleteOptions::default()
            };
            // If another client has deleted or changed the request, that write wins, and triggers this step
            // again.
            drop(hub.write(move |store, now| store.delete(&target, &delete, now)).await);
        } else if let Some(status) = issue(&hub.authority, request, now) {
            let patch = Patch::Merge(
                json!({ "metadata": { "resourceVersion": request.resource_version() }, "status": status }),
            );
            let target = target.sub("status");
            drop(hub.write(move |store, now| store.patch(&target, &patch, &options(), now)).await);
        }
    }
}

fn has_condition(request: &Object, type_: &str) -> bool {
    let conditions = request.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c.get("type").and_then(Value::as_str) == Some(type_))
}

fn is_old(request: &Object, now: Timestamp) -> bool {
    let created = request
        .at(&["metadata", "creationTimestamp"])
        .and_then(Value::as_str)
        .and_then(|at| at.parse::<Timestamp>().ok());
    let decided = ["Approved", "Denied", "Failed"].iter().any(|type_| has_condition(request, type_));
    let keep = if decided { KEEP_DECIDED } else { KEEP_UNDECIDED };
    created.is_some_and(|created| now.duration_since(created) > keep)
}

/// Returns the new status of an approved request without a certificate: with the certificate, or with the
/// reason for the failure.
fn issue(authority: &Authority, request: &Object, now: Timestamp) -> Option<Value> {
    let spec = |field: &str| request.at(&["spec", field]);
    let is_ours = spec("signerName")?.as_str() == Some(KUBE_CLIENT_SIGNER);
    let is_done = request.at(&["status", "certificate"]).is_some()
        || ["Denied", "Failed"].iter().any(|c| has_condition(request, c));
    if !is_ours || is_done || !has_condition(request, "Approved") {
        return None;
    }
    let asked = spec("expirationSeconds").and_then(Value::as_u64).map_or(LIFETIME, Duration::from_secs);
    match sign(authority, spec("request"), spec("usages"), now, asked.min(LIFETIME)) {
        Ok(certificate) => Some(json!({ "certificate": STANDARD.encode(certificate) })),
        Err(error) => {
            let mut conditions =
                request.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
            let at = now.strftime("%FT%TZ").to_string();
            conditions.push(json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": error,
                "lastUpdateTime": at, "lastTransitionTime": at,
            }));
            Some(json!({ "conditions": conditions }))
        }
    }
}

fn sign(
    authority: &Authority,
    request: Option<&Value>,
    usages: Option<&Value>,
    now: Timestamp,
    lifetime: Duration,
) -> Result<String, String> {
    let usages: Vec<&str> =
        usages.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if !usages.contains(&"client auth") || usages.iter().any(|usage| !PERMITTED.contains(usage)) {
        return Err(
            "the usages must include client auth, and otherwise only digital signature and key encipherment"
                .into(),
        );
    }
    let text = request
        .and_then(Value::as_str)
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or("the request is not PEM in base64")?;
    let parsed = CertificateRequest::parse(&text).map_err(|e| e.to_string())?;
    if parsed.subject.organizations.iter().any(|o| o == MASTERS) {
        return Err(format!("certificates for the group {MASTERS} are not signed"));
    }
    authority.sign(&parsed, &[Usage::Client], now, lifetime).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Certificate, KeyPair, Subject, request};

    fn csr(usages: Value, conditions: Value) -> Object {
        let text = request(&KeyPair::generate().unwrap(), &Subject::new("user", &["a", "b"]), &[]).unwrap();
        let spec = json!({ "request": STANDARD.encode(text), "signerName": KUBE_CLIENT_SIGNER, "usages": usages, "expirationSeconds": 600 });
        Object::from_value(
            json!({ "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" }, "spec": spec, "status": { "conditions": conditions } }),
        )
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn issued(csr: &Object) -> Option<Value> {
        let authority = Authority::create("ca", at("2026-01-01T00:00:00Z")).unwrap();
        issue(&authority, csr, at("2026-01-01T00:00:00Z"))
    }

    #[test]
    fn an_approved_request_gets_a_certificate_for_the_time_it_asked() {
        let status = issued(&csr(json!(["client auth"]), json!([{ "type": "Approved" }]))).unwrap();
        let pem =
            String::from_utf8(STANDARD.decode(status["certificate"].as_str().unwrap()).unwrap()).unwrap();
        assert_eq!(Certificate::from_pem(&pem).unwrap().subject, Subject::new("user", &["a", "b"]));
    }

    #[test]
    fn a_request_that_nobody_approved_or_somebody_denied_gets_nothing() {
        assert_eq!(issued(&csr(json!(["client auth"]), json!([]))), None);
        assert_eq!(
            issued(&csr(json!(["client auth"]), json!([{ "type": "Approved" }, { "type": "Denied" }]))),
            None
        );
    }

    #[test]
    fn only_client_usages_are_signed() {
        for usages in [json!(["server auth", "client auth"]), json!(["digital signature"])] {
            let status = issued(&csr(usages, json!([{ "type": "Approved" }]))).unwrap();
            assert_eq!(status["conditions"][1]["reason"], "SignerValidationFailure");
        }
    }

    #[test]
    fn nobody_is_signed_into_the_group_of_masters() {
        let mut request = csr(json!(["client auth"]), json!([{ "type": "Approved" }]));
        let text = crate::pki::request(&KeyPair::generate().unwrap(), &Subject::new("user", &[MASTERS]), &[]);
        request.field_mut("spec").insert("request".into(), STANDARD.encode(text.unwrap()).into());
        assert_eq!(issued(&request).unwrap()["conditions"][1]["reason"], "SignerValidationFailure");
    }

    #[test]
    fn decided_requests_are_deleted_after_an_hour_and_undecided_ones_after_a_day() {
        let (pending, approved) =
            (csr(json!([]), json!([])), csr(json!([]), json!([{ "type": "Approved" }])));
        let (soon, later, next_day) =
            (at("2026-01-01T00:59:00Z"), at("2026-01-01T01:01:00Z"), at("2026-01-02T00:01:00Z"));
        assert_eq!([soon, later, next_day].map(|t| is_old(&approved, t)), [false, true, true]);
        assert_eq!([soon, later, next_day].map(|t| is_old(&pending, t)), [false, false, true]);
    }
}
