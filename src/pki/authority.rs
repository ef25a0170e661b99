//! A certificate authority: one key, one self-signed certificate, leaves.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use ring::rand::{SecureRandom, SystemRandom};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Error, Request, Subject, der, new_key, pem, pem_blocks};

const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
pub(super) const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x23];

/// How long an authority's own certificate is good: ten years, as kubeadm's.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// A certificate is valid from five minutes before it was made, for clocks that run behind; as kube-controller-manager signs.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    certificate: Vec<u8>,
    subject: Vec<u8>,
    key: KeyPair,
}

/// A certificate with its key, both in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// TLS servers.
    Server,
    /// TLS clients.
    Client,
}

/// What a leaf certificate says beside its key.
#[derive(Clone, Debug)]
pub struct Profile<'a> {
    /// Whom it names.
    pub subject: Subject,
    /// DNS names and IP addresses.
    pub names: &'a [&'a str],
    /// What it is good for.
    pub usage: Usage,
    /// How long it is good.
    pub lifetime: Duration,
}

/// Everything of a certificate but its signature.
struct Body<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    public_key: &'a [u8],
    not_before: Timestamp,
    not_after: Timestamp,
    extensions: &'a [Vec<u8>],
}

impl Authority {
    /// Makes a new authority with a new key.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn create(common_name: &str, now: Timestamp) -> Result<Self, Error> {
        let key = new_key()?;
        let subject = der::name(&Subject::new(common_name, &[]));
        let public_key = key.subject_public_key_info();
        let extensions = [
            der::extension(BASIC_CONSTRAINTS, true, &der::sequence(&[&[0x01, 0x01, 0xff]])),
            // digitalSignature, keyCertSign
            der::extension(KEY_USAGE, true, &der::bits(2, &[0b1000_0100])),
            der::extension(
                SUBJECT_KEY_IDENTIFIER,
                false,
                &der::tlv(der::OCTET_STRING, &[&key_id(&public_key)]),
            ),
        ];
        let body = Body {
            issuer: &subject,
            subject: &subject,
            public_key: &public_key,
            not_before: earlier(now),
            not_after: later(now, AUTHORITY_LIFETIME),
            extensions: &extensions,
        };
        let certificate = body.sign(&key)?;
        Ok(Self { certificate, subject, key })
    }

    /// Reads an authority back from its certificate and key.
    ///
    /// # Errors
    /// Where one of them is not what it should be, or the key is not the certificate's.
    pub fn load(identity: &Identity) -> Result<Self, Error> {
        let attempt = "load a certificate authority";
        let key = KeyPair::from_pem(&identity.key).map_err(|e| Error::new(attempt, e))?;
        let certificate = pem_blocks("CERTIFICATE", &identity.certificate)?.into_iter().next();
        let certificate = certificate.ok_or_else(|| Error::new(attempt, "no certificate in its PEM"))?;
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|e| Error::new(attempt, e))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(Error::new(attempt, "the key is not that of the certificate"));
        }
        let subject = parsed.subject().as_raw().to_vec();
        Ok(Self { certificate, subject, key })
    }

    /// The authority's certificate and key.
    pub fn identity(&self) -> Identity {
        Identity { certificate: self.certificate_pem(), key: self.key.serialize_pem() }
    }

    /// The authority's certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The authority's certificate in DER.
    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate
    }

    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn issue(&self, profile: &Profile<'_>, now: Timestamp) -> Result<Identity, Error> {
        let key = new_key()?;
        let subject = der::name(&profile.subject);
        let names = alternative_names(profile.names.iter().copied());
        let leaf =
            Leaf { subject: &subject, public_key: &key.subject_public_key_info(), names: names.as_deref() };
        let certificate = self.certify(&leaf, &[profile.usage], now, profile.lifetime)?;
        Ok(Identity { certificate, key: key.serialize_pem() })
    }

    /// Signs a request, as kube-controller-manager signs approved ones: subject and names as asked, usages as given here.
    ///
    /// # Errors
    /// Where the key cannot sign.
    pub fn sign(
        &self,
        request: &Request,
        usages: &[Usage],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, Error> {
        let names = request.alternative_names_der.as_deref();
        let leaf = Leaf { subject: &request.subject_der, public_key: &request.public_key_der, names };
        self.certify(&leaf, usages, now, lifetime)
    }

    fn certify(
        &self,
        leaf: &Leaf<'_>,
        usages: &[Usage],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, Error> {
        let usages: Vec<Vec<u8>> = usages.iter().map(|u| der::oid(u.oid())).collect();
        let authority_key =
            der::sequence(&[&der::tlv(0x80, &[&key_id(&self.key.subject_public_key_info())])]);
        let mut extensions = vec![
            der::extension(BASIC_CONSTRAINTS, true, &der::sequence(&[])),
            // digitalSignature, keyEncipherment
            der::extension(KEY_USAGE, true, &der::bits(5, &[0b1010_0000])),
            der::extension(
                EXTENDED_KEY_USAGE,
                false,
                &der::sequence(&usages.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            ),
            der::extension(AUTHORITY_KEY_IDENTIFIER, false, &authority_key),
        ];
        extensions.extend(leaf.names.map(|names| der::extension(SUBJECT_ALTERNATIVE_NAME, false, names)));
        let body = Body {
            issuer: &self.subject,
            subject: leaf.subject,
            public_key: leaf.public_key,
            not_before: earlier(now),
            not_after: later(now, lifetime),
            extensions: &extensions,
        };
        Ok(pem("CERTIFICATE", &body.sign(&self.key)?))
    }
}

/// Whom a certificate is for, in DER.
struct Leaf<'a> {
    subject: &'a [u8],
    public_key: &'a [u8],
    names: Option<&'a [u8]>,
}

impl Usage {
    fn oid(self) -> &'static [u8] {
        match self {
            Self::Server => &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01],
            Self::Client => &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02],
        }
    }
}

impl Body<'_> {
    fn sign(&self, key: &KeyPair) -> Result<Vec<u8>, Error> {
        let mut serial = [0u8; 16];
        SystemRandom::new()
            .fill(&mut serial)
            .map_err(|_| Error::new("make a serial number", "no randomness"))?;
        // Positive, and of full length whatever was drawn.
        serial[0] = (serial[0] & 0x7f) | 0x40;
        let to_be_signed = der::sequence(&[
            &der::tlv(0xa0, &[&der::integer(&[2])]),
            &der::integer(&serial),
            der::ECDSA_WITH_SHA256,
            self.issuer,
            &der::sequence(&[&der::time(self.not_before), &der::time(self.not_after)]),
            self.subject,
            self.public_key,
            &der::tlv(
                0xa3,
                &[&der::sequence(&self.extensions.iter().map(Vec::as_slice).collect::<Vec<_>>())],
            ),
        ]);
        let signature = key.sign(&to_be_signed).map_err(|e| Error::new("sign a certificate", e))?;
        Ok(der::sequence(&[&to_be_signed, der::ECDSA_WITH_SHA256, &der::bits(0, &signature)]))
    }
}

/// The content of the alternative-name extension; `None` without names.
pub(super) fn alternative_names<'a>(names: impl Iterator<Item = &'a str>) -> Option<Vec<u8>> {
    let entries: Vec<Vec<u8>> = names
        .map(|name| match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => der::tlv(0x87, &[&ip.octets()]),
            Ok(IpAddr::V6(ip)) => der::tlv(0x87, &[&ip.octets()]),
            Err(_) => der::tlv(0x82, &[name.as_bytes()]),
        })
        .collect();
    (!entries.is_empty()).then(|| der::sequence(&entries.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// RFC 7093 method 1: the leftmost 160 bits of the SHA-256 of the public key.
fn key_id(public_key: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(public_key).iter().take(20).copied().collect()
}

fn earlier(now: Timestamp) -> Timestamp {
    now.checked_sub(BACKDATE).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T00:00:00Z".parse().unwrap()
    }

    fn client(groups: &[&str], lifetime: Duration) -> Identity {
        let authority = Authority::create("ca", now()).unwrap();
        let profile =
            Profile { subject: Subject::new("user", groups), names: &[], usage: Usage::Client, lifetime };
        authority.issue(&profile, now()).unwrap()
    }

    #[test]
    fn a_leaf_carries_every_organisation() {
        let identity = client(&["a", "b", "c"], Duration::from_secs(3600));
        let der = pem_blocks("CERTIFICATE", &identity.certificate).unwrap().pop().unwrap();
        assert_eq!(Subject::of_certificate(&der).unwrap(), Subject::new("user", &["a", "b", "c"]));
    }

    #[test]
    fn a_leaf_ends_when_asked_even_beyond_2049() {
        for years in [1_u64, 40] {
            let identity = client(&[], Duration::from_secs(years * 365 * 24 * 3600));
            let der = pem_blocks("CERTIFICATE", &identity.certificate).unwrap().pop().unwrap();
            let (_, parsed) = X509Certificate::from_der(&der).unwrap();
            let seconds = parsed.validity().not_after.timestamp() - now().as_second();
            assert_eq!(seconds, i64::try_from(years * 365 * 24 * 3600).unwrap());
        }
    }

    #[test]
    fn a_signed_request_verifies_under_the_authority() {
        let authority = Authority::load(&Authority::create("ca", now()).unwrap().identity()).unwrap();
        let text =
            crate::pki::request(&new_key().unwrap(), &Subject::new("u", &["g", "h"]), &["x.io"]).unwrap();
        let signed = authority
            .sign(&Request::parse(&text).unwrap(), &[Usage::Client], now(), Duration::from_secs(60))
            .unwrap();
        let der = pem_blocks("CERTIFICATE", &signed).unwrap().pop().unwrap();
        let (_, leaf) = X509Certificate::from_der(&der).unwrap();
        let (_, root) = X509Certificate::from_der(authority.certificate_der()).unwrap();
        leaf.verify_signature(Some(root.public_key())).unwrap();
        assert_eq!(Subject::of_certificate(&der).unwrap(), Subject::new("u", &["g", "h"]));
    }

    #[test]
    fn a_foreign_key_is_refused() {
        let one = Authority::create("ca", now()).unwrap().identity();
        let other = Authority::create("ca", now()).unwrap().identity();
        let error = Authority::load(&Identity { certificate: one.certificate, key: other.key }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load a certificate authority: the key is not that of the certificate"
        );
    }
}
