//! Signs certificates for the custom signers in add-on templates, with the authorities that the templates name.
//!
//! A request is signed once it is approved, by whichever client, and if the template allows it. The certificate
//! is for clients only and has the subject of the registration. It expires when the request says, but at most a
//! day from now, and not after its authority. See docs/hazards.md#any-subject.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::pki::{Authority, CertificateRequest, Identity, Usage};
use crate::shell::{EventRecorder, Handle, WallClockWait, message, now};
use api::addon::v1alpha1::{ManagedClusterAddOn, SigningCa};
use controllers::hub::csr::custom_signer::{Signing, signing};
use object::Metadata as _;
use object::duration::{doubled, later};
use reconcile::{Event, EventType, Query, View as _};

/// The interval between cache reads, which send no request.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The wait after the first attempt, because the authority's secret may be created later. It doubles with each
/// attempt.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait.
const LAST_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// The default and maximum lifetime of a certificate, as in OCM.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// The attempts to sign one request.
#[derive(Default)]
struct Attempts {
    count: u32,
    /// The wait for the next attempt.
    wait: Option<WallClockWait>,
}

impl Attempts {
    fn begin(&mut self, now: Timestamp) {
        self.count = self.count.saturating_add(1);
        let wait = doubled(FIRST_RETRY, LAST_RETRY, self.count);
        self.wait = Some(WallClockWait { since: now, until: later(now, wait) });
    }
}

/// Signs until `stop`. `namespace` is the default namespace for authorities.
pub(super) async fn run(client: kube::Client, shell: Handle, namespace: String, stop: CancellationToken) {
    let mut attempts: BTreeMap<String, Attempts> = BTreeMap::new();
    let events = EventRecorder::new(client.clone(), "addon-signer");
    while !stop.is_cancelled() {
        let caches = shell.caches();
        let requests = caches.list_readable::<CertificateSigningRequest>(Query::ALL).unwrap_or_default();
        attempts.retain(|uid, _| requests.iter().any(|request| request.uid() == uid));
        for request in requests.iter().filter(|request| waits(request)) {
            let wait = attempts.get(request.uid()).and_then(|attempts| attempts.wait);
            if wait.is_some_and(|wait| !wait.is_over(now())) {
                continue;
            }
            let Ok(Some(signing)) = signing(request, &caches) else { continue };
            attempts.entry(request.uid().to_owned()).or_default().begin(now());
            match sign(&client, request, &signing, &namespace).await {
                Ok(()) => info!(request = request.name(), "signed the certificate of an add-on"),
                Err(error) => {
                    warn!(request = request.name(), error, "cannot sign the certificate of an add-on");
                    events.record(vec![failed(request, &signing.addon, &error)]).await;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
    }
}

/// Returns the event for the add-on whose agent waits for a certificate.
fn failed(request: &CertificateSigningRequest, addon: &ManagedClusterAddOn, error: &str) -> Event {
    let (name, signer) = (request.name(), &request.spec.signer_name);
    let message = format!("cannot sign the certificate request {name} for {signer}: {error}");
    Event::new(addon, EventType::Warning, "SigningFailed", "Sign", message)
}

/// Returns true if a request is approved, but has neither a certificate nor a failure.
fn waits(request: &CertificateSigningRequest) -> bool {
    let status = request.status.as_ref();
    let has = |type_: &str| {
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        conditions.into_iter().any(|condition| condition.type_ == type_)
    };
    let has_certificate = status.is_some_and(|status| status.certificate.is_some());
    has("Approved") && !has("Denied") && !has("Failed") && !has_certificate
}

async fn sign(
    client: &kube::Client,
    request: &CertificateSigningRequest,
    signing: &Signing,
    namespace: &str,
) -> Result<(), String> {
    let SigningCa { namespace: named, name, unknown: _ } = &signing.authority;
    let namespace = if named.is_empty() { namespace } else { named };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret =
        secrets.get(name).await.map_err(|error| format!("cannot read the authority: {}", message(&error)))?;
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let (Some(certificate), Some(key)) = (text("tls.crt"), text("tls.key")) else {
        return Err("the Secret of the certificate authority lacks tls.crt or tls.key".into());
    };
    let authority = Authority::load(&Identity { certificate, key }).map_err(|error| error.to_string())?;
    let certificate = certify(&authority, request, &signing.dns_name, now())?;
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let patch = json!({
        "metadata": {"resourceVersion": request.metadata.resource_version},
        "status": {"certificate": ByteString(certificate.into_bytes())},
    });
    let signed = requests.patch_status(request.name(), &PatchParams::default(), &Patch::Merge(patch)).await;
    signed.map(drop).map_err(|error| message(&error))
}

/// Returns the certificate for a request, if it may be signed.
fn certify(
    authority: &Authority,
    request: &CertificateSigningRequest,
    dns_name: &str,
    now: Timestamp,
) -> Result<String, String> {
    let text = std::str::from_utf8(&request.spec.request.0).map_err(|error| error.to_string())?;
    let parsed = CertificateRequest::parse(text).map_err(|error| error.to_string())?;
    if parsed.has_other_names || parsed.dns_names.iter().any(|name| name != dns_name) {
        return Err(format!("the request contains names other than {dns_name}"));
    }
    let expires = authority.expires().map_err(|error| error.to_string())?;
    let left = u64::try_from(expires.as_second() - now.as_second()).unwrap_or_default();
    if left == 0 {
        return Err("the certificate of the authority has expired".into());
    }
    let asked = request.spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let lifetime = asked.map_or(LIFETIME, Duration::from_secs).min(LIFETIME).min(Duration::from_secs(left));
    authority.sign(&parsed, &[Usage::Client], now, lifetime).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Certificate, KeyPair, Subject, request};
    use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;

    const NAME: &str = "a.addon.open-cluster-management.io";

    fn csr(names: &[&str], seconds: Option<i32>) -> CertificateSigningRequest {
        let text = request(&KeyPair::generate().unwrap(), &Subject::new("u", &["g"]), names).unwrap();
        let spec = CertificateSigningRequestSpec {
            request: ByteString(text.into_bytes()),
            expiration_seconds: seconds,
            ..CertificateSigningRequestSpec::default()
        };
        CertificateSigningRequest { spec, ..CertificateSigningRequest::default() }
    }

    #[test]
    fn a_certificate_ends_when_asked_and_never_later_than_a_day_or_its_authority() {
        let made: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let authority = Authority::create("ca", made).unwrap();
        let last_hour = authority.expires().unwrap() - SignedDuration::from_hours(1);
        for (seconds, at, want) in [
            (None, made, 24 * 3600),
            (Some(600), made, 600),
            (Some(90_000), made, 24 * 3600),
            (None, last_hour, 3600),
        ] {
            let pem = certify(&authority, &csr(&[NAME], seconds), NAME, at).unwrap();
            let life = Certificate::from_pem(&pem).unwrap().not_after.as_second() - at.as_second();
            assert_eq!(life, want, "{seconds:?} at {at}");
        }
        let after = last_hour + SignedDuration::from_hours(2);
        let refused = certify(&authority, &csr(&[NAME], None), NAME, after).unwrap_err();
        assert_eq!(refused, "the certificate of the authority has expired");
    }

    #[test]
    fn the_wait_for_another_attempt_doubles_up_to_ten_minutes() {
        let now = Timestamp::UNIX_EPOCH;
        let mut attempts = Attempts::default();
        let waits = std::iter::repeat_with(|| {
            attempts.begin(now);
            attempts.wait.unwrap().until.as_second()
        });
        assert_eq!(waits.take(8).collect::<Vec<_>>(), [10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn names_other_than_the_addons_own_are_refused() {
        let made: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let authority = Authority::create("ca", made).unwrap();
        for names in [&["evil.example.com"][..], &[NAME, "127.0.0.1"]] {
            let refused = certify(&authority, &csr(names, None), NAME, made).unwrap_err();
            assert!(refused.starts_with("the request contains names other"), "{refused}");
        }
    }
}
