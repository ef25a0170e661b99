//! A server certificate in a Secret that all replicas share.
//!
//! The authority is valid for ten years, and the certificate for ninety days. A replica that finds one of them
//! close to expiry creates a new one. If two replicas do so at once, one wins, and the other one reads its
//! result.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use crate::pki::{Authority, Certificate, Error, Identity, Profile, Subject, Usage};
use crate::shell::{message, now};
use object::duration::later;

const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// A certificate is renewed when less than this is left. An authority is renewed before it could expire earlier
/// than a certificate that it signs.
const RENEWAL: SignedDuration = SignedDuration::from_hours(30 * 24);
const AUTHORITY_RENEWAL: SignedDuration = SignedDuration::from_hours(180 * 24);

/// The Secret of a server, and the names in its certificate.
#[derive(Clone, Debug)]
pub struct ServerSecret {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret and of the authority.
    pub name: String,
    /// The names under which clients reach the server, at least one.
    pub hosts: Vec<String>,
}

/// The content of the Secret, in PEM.
pub struct StoredCertificate {
    /// The authorities for clients to trust: the current one first, then the previous one.
    pub authorities: String,
    authority_key: String,
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl StoredCertificate {
    fn read(secret: &Secret) -> Option<Self> {
        let text = |name: &str| {
            let bytes = secret.data.as_ref()?.get(name)?.0.clone();
            String::from_utf8(bytes).ok()
        };
        Some(Self {
            authorities: text("ca.crt")?,
            authority_key: text("ca.key")?,
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
        })
    }

    fn write(&self) -> std::collections::BTreeMap<String, ByteString> {
        let Self { authorities, authority_key, certificate, key } = self;
        let entries =
            [("ca.crt", authorities), ("ca.key", authority_key), ("tls.crt", certificate), ("tls.key", key)];
        let bytes = |text: &String| ByteString(text.as_bytes().to_vec());
        entries.into_iter().map(|(name, text)| (name.to_owned(), bytes(text))).collect()
    }

    /// Returns true if the certificate has these hosts and is not due for renewal.
    fn is_fresh(&self, hosts: &[String], now: Timestamp) -> bool {
        let lasts = |pem: &str, left: SignedDuration| {
            let certificate = Certificate::from_pem(pem);
            certificate.is_ok_and(|one| now.saturating_add(left).is_ok_and(|then| one.not_after > then))
        };
        // Normalize IP addresses, which can be written in several ways.
        let spelt = |host: &String| host.parse::<IpAddr>().map_or_else(|_| host.clone(), |ip| ip.to_string());
        let is_for = |pem: &str| {
            let names = Certificate::from_pem(pem).map(|one| one.names);
            names.is_ok_and(|names| hosts.iter().all(|host| names.contains(&spelt(host))))
        };
        is_for(&self.certificate)
            && lasts(&self.certificate, RENEWAL)
            && lasts(&self.authorities, AUTHORITY_RENEWAL)
            && self.authority().is_some()
    }

    fn authority(&self) -> Option<Authority> {
        let identity = Identity { certificate: self.authorities.clone(), key: self.authority_key.clone() };
        Authority::load(&identity).ok()
    }

    /// Returns the successor of `before`: a new certificate, and a new authority if the current one expires too
    /// soon.
    fn renew(before: Option<&Self>, secret: &ServerSecret, now: Timestamp) -> Result<Self, Error> {
        let lasts = |pem: &str| {
            let end = later(now, AUTHORITY_RENEWAL);
            Certificate::from_pem(pem).is_ok_and(|one| one.not_after > end)
        };
        let usable = before.filter(|before| lasts(&before.authorities));
        let (authority, authorities) = match usable.and_then(|usable| Some((usable.authority()?, usable))) {
            Some((authority, usable)) => (authority, usable.authorities.clone()),
            None => {
                let authority = Authority::create(&secret.name, now)?;
                let old = before.map(|before| first(&before.authorities)).unwrap_or_default();
                let authorities = authority.certificate_pem() + old;
                (authority, authorities)
            }
        };
        let hosts: Vec<&str> = secret.hosts.iter().map(String::as_str).collect();
        let profile = Profile {
            subject: Subject::new(hosts.first().copied().unwrap_or_default(), &[]),
            names: &hosts,
            usage: Usage::Server,
            lifetime: LIFETIME,
        };
        let Identity { certificate, key } = authority.issue(&profile, now)?;
        Ok(Self { authorities, authority_key: authority.identity().key, certificate, key })
    }
}

/// Returns the expiry of the certificate in a server's Secret (`tls.crt`); `None` if it cannot be parsed.
pub fn certificate_end(secret: &Secret) -> Option<Timestamp> {
    let pem = std::str::from_utf8(&secret.data.as_ref()?.get("tls.crt")?.0).ok()?;
    Some(Certificate::from_pem(pem).ok()?.not_after)
}

/// Returns the first certificate in PEM text.
fn first(text: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    text.find(END).and_then(|at| text.get(..at + END.len())).unwrap_or_default()
}

/// Returns true if the Secret has another program's certificate, for example from cert-manager. Our own Secrets
/// also contain the authority's key.
fn is_foreign(secret: &Secret) -> bool {
    let has = |name: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(name));
    (has("tls.crt") || has("tls.key")) && !has("ca.key")
}

/// Reads the Secret, and creates or renews its content if needed.
///
/// # Errors
/// Fails if the API server rejects a read or write, the Secret belongs to another program, or creating the
/// certificate fails. The text names the attempt.
pub async fn ensure(client: &kube::Client, secret: &ServerSecret) -> Result<StoredCertificate, String> {
    let name = &secret.name;
    let failed = |attempt: &'static str| {
        move |error: kube::Error| format!("cannot {attempt} the Secret {name}: {}", message(&error))
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &secret.namespace);
    let found = secrets.get_opt(name).await.map_err(failed("read"))?;
    let stored = match found.as_ref().and_then(StoredCertificate::read) {
        Some(stored) if stored.is_fresh(&secret.hosts, now()) => return Ok(stored),
        stored => stored,
    };
    if found.as_ref().is_some_and(is_foreign) {
        return Err(format!(
            "the Secret {name} has a certificate without ca.key, so another program manages it, and it is \
             not changed: delete it or rename it"
        ));
    }
    let new = StoredCertificate::renew(stored.as_ref(), secret, now())
        .map_err(|error| format!("cannot create a certificate for the Secret {name}: {error}"))?;
    let params = PostParams::default();
    let data = Some(new.write());
    match found {
        Some(mut secret) => {
            secret.data = data;
            secrets.replace(name, &params, &secret).await
        }
        None => {
            let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
            let type_ = Some("kubernetes.io/tls".to_owned());
            secrets.create(&params, &Secret { metadata, data, type_, ..Secret::default() }).await
        }
    }
    .map_err(failed("write"))?;
    Ok(new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    fn at(days: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(days * 24)
    }

    fn secret(host: &str) -> ServerSecret {
        let hosts = vec![host.to_owned()];
        ServerSecret { namespace: "n".into(), name: "wheelwright-webhook".into(), hosts }
    }

    fn hosts(host: &str) -> Vec<String> {
        secret(host).hosts
    }

    #[test]
    fn a_certificate_is_renewed_in_time_and_its_authority_stays() {
        let first = StoredCertificate::renew(None, &secret("w.ns.svc"), at(10_000)).unwrap();
        assert!(
            first.is_fresh(&hosts("w.ns.svc"), at(10_059)) && !first.is_fresh(&hosts("w.ns.svc"), at(10_061))
        );
        assert!(!first.is_fresh(&hosts("other"), at(10_000)));
        let second = StoredCertificate::renew(Some(&first), &secret("w.ns.svc"), at(10_061)).unwrap();
        assert!(second.is_fresh(&hosts("w.ns.svc"), at(10_061)) && second.certificate != first.certificate);
        assert_eq!(second.authorities, first.authorities);
    }

    #[test]
    fn a_certificate_is_for_all_of_its_hosts() {
        let all = ["svc", "localhost", "10.0.0.1", "2001:DB8:0::1"].map(str::to_owned);
        let with = |hosts: &[String]| ServerSecret { hosts: hosts.to_vec(), ..secret("") };
        let made = StoredCertificate::renew(None, &with(&all), at(10_000)).unwrap();
        assert!(made.is_fresh(&all, at(10_000)) && made.is_fresh(&all[1..], at(10_000)));
        let fewer = StoredCertificate::renew(None, &with(&all[..2]), at(10_000)).unwrap();
        assert!(!fewer.is_fresh(&all, at(10_000)) && !fewer.is_fresh(&all[2..], at(10_000)));
    }

    #[test]
    fn clients_trust_the_authority_before_while_certificates_of_it_are_shown() {
        let first = StoredCertificate::renew(None, &secret("w"), at(10_000)).unwrap();
        let late = at(10_000 + 3650 - 100);
        let second = StoredCertificate::renew(Some(&first), &secret("w"), late).unwrap();
        assert!(second.authorities.ends_with(&first.authorities) && second.authorities != first.authorities);
        assert!(second.is_fresh(&hosts("w"), late));
        let third =
            StoredCertificate::renew(Some(&second), &secret("w"), late + SignedDuration::from_hours(61 * 24))
                .unwrap();
        assert_eq!(third.authorities, second.authorities);
    }

    #[tokio::test]
    async fn a_certificate_of_another_program_is_never_overwritten() {
        let of = |keys: &[&str]| -> Secret {
            let data = keys.iter().map(|key| ((*key).to_owned(), ByteString(b"-".to_vec()))).collect();
            let metadata = ObjectMeta { name: Some("wheelwright-webhook".into()), ..ObjectMeta::default() };
            Secret { metadata, data: Some(data), ..Secret::default() }
        };
        for (keys, is_kept) in [
            (&["ca.crt", "tls.crt", "tls.key"][..], true),
            (&["tls.crt", "tls.key"], true),
            (&["ca.crt", "ca.key", "tls.crt", "tls.key"], false),
            (&[], false),
        ] {
            let stored = serde_json::to_vec(&of(keys)).unwrap();
            let written = Arc::new(AtomicBool::new(false));
            let writes = Arc::clone(&written);
            let hub = tower::service_fn(move |request: Request<Body>| {
                writes.fetch_or(request.method() != "GET", Ordering::Relaxed);
                let answer = Response::new(Body::from(stored.clone()));
                async { Ok::<_, std::io::Error>(answer) }
            });
            let ensured = ensure(&kube::Client::new(hub, "n"), &secret("w")).await;
            assert_eq!((ensured.is_err(), written.load(Ordering::Relaxed)), (is_kept, !is_kept), "{keys:?}");
        }
    }

    #[test]
    fn a_secret_keeps_what_was_written() {
        let certificate = StoredCertificate::renew(None, &secret("w"), at(10_000)).unwrap();
        let secret = Secret { data: Some(certificate.write()), ..Secret::default() };
        assert_eq!(StoredCertificate::read(&secret).unwrap().write(), certificate.write());
        assert!(StoredCertificate::read(&Secret::default()).is_none());
    }
}
