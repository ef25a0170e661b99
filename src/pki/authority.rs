//! A certificate authority: a key, a self-signed certificate, and the leaf certificates that it issues.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::Digest as _;
use x509_cert::Certificate;
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::der::asn1::{GeneralizedTime, Ia5String, OctetString, UtcTime};
use x509_cert::der::oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH};
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode as _, Encode, EncodePem as _};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use x509_cert::time::{Time, Validity};

use super::signing_key::SigningKey;
use super::{CertificateRequest, Error, KeyPair, Subject, fill_random};

/// The lifetime of an authority's own certificate: ten years, as in kubeadm.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Certificates are valid from five minutes before they are issued, for clocks that are behind, as in
/// kube-controller-manager.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    certificate: Certificate,
    key: SigningKey,
}

/// A certificate with its key, both in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// TLS servers.
    Server,
    /// TLS clients.
    Client,
}

/// The content of a leaf certificate except its key.
#[derive(Clone, Debug)]
pub struct Profile<'a> {
    pub subject: Subject,
    /// DNS names and IP addresses.
    pub names: &'a [&'a str],
    pub usage: Usage,
    pub lifetime: Duration,
}

/// Everything in a certificate except its issuer and signature.
struct Body {
    subject: Name,
    public_key: SubjectPublicKeyInfoOwned,
    from: Timestamp,
    lifetime: Duration,
    extensions: Vec<Extension>,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn create(common_name: &str, now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let subject = Subject::new(common_name, &[]).to_name()?;
        let extensions = vec![
            extension(&BasicConstraints { ca: true, path_len_constraint: None }, true)?,
            extension(&KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyCertSign), true)?,
            extension(&SubjectKeyIdentifier(key_id(&key.public_key())?), false)?,
        ];
        let public_key = key.public_key();
        let body = Body {
            subject: subject.clone(),
            public_key,
            from: now,
            lifetime: AUTHORITY_LIFETIME,
            extensions,
        };
        let key = SigningKey::from_pem(&key.to_pem())?;
        Ok(Self { certificate: body.sign(subject, &key)?, key })
    }

    /// Loads an authority from its certificate and key.
    ///
    /// # Errors
    /// Fails if one of them is invalid, or the key does not belong to the certificate.
    pub fn load(identity: &Identity) -> Result<Self, Error> {
        let attempt = "load a certificate authority";
        let key = SigningKey::from_pem(&identity.key)?;
        let der =
            CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(Error::of(attempt))?;
        let certificate = Certificate::from_der(&der).map_err(Error::of(attempt))?;
        if !key.is_of(&certificate.tbs_certificate.subject_public_key_info) {
            return Err(Error::new(attempt, "the key does not match the certificate"));
        }
        Ok(Self { certificate, key })
    }

    /// Returns the authority's certificate and key.
    pub fn identity(&self) -> Identity {
        Identity { certificate: self.certificate_pem(), key: self.key.pem().to_owned() }
    }

    /// Returns the authority's certificate in PEM.
    pub fn certificate_pem(&self) -> String {
        self.certificate.to_pem(LineEnding::LF).expect("a certificate that was read or made can be written")
    }

    /// Returns the authority's certificate in DER.
    pub fn certificate_der(&self) -> Vec<u8> {
        self.certificate.to_der().expect("a certificate that was read or made can be written")
    }

    /// Generates a key, and issues a certificate for it.
    ///
    /// # Errors
    /// Fails if the system has no randomness, or a name cannot be encoded.
    pub fn issue(&self, profile: &Profile<'_>, now: Timestamp) -> Result<Identity, Error> {
        let key = KeyPair::generate()?;
        let Profile { subject, names, usage, lifetime } = profile;
        let extensions = self.extensions(&[*usage], names)?;
        let (subject, public_key) = (subject.to_name()?, key.public_key());
        let body = Body { subject, public_key, from: now, lifetime: *lifetime, extensions };
        Ok(Identity { certificate: self.certify(body)?, key: key.to_pem() })
    }

    /// Signs a request, as kube-controller-manager signs approved requests: with the requested subject and DNS
    /// names, but with the given usages.
    ///
    /// # Errors
    /// Fails if the key cannot sign.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[Usage],
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<String, Error> {
        let names: Vec<&str> = request.dns_names.iter().map(String::as_str).collect();
        let extensions = self.extensions(usages, &names)?;
        let (subject, public_key) = (request.name.clone(), request.public_key.clone());
        self.certify(Body { subject, public_key, from: now, lifetime, extensions })
    }

    /// Returns the extensions of a leaf certificate.
    fn extensions(&self, usages: &[Usage], names: &[&str]) -> Result<Vec<Extension>, Error> {
        let authority_key = AuthorityKeyIdentifier {
            key_identifier: Some(self.key_id()?),
            authority_cert_issuer: None,
            authority_cert_serial_number: None,
        };
        let mut extensions = vec![
            extension(&BasicConstraints { ca: false, path_len_constraint: None }, true)?,
            extension(&KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment), true)?,
            extension(&ExtendedKeyUsage(usages.iter().map(|usage| usage.oid()).collect()), false)?,
            extension(&authority_key, false)?,
        ];
        if let Some(names) = alternative_names(names)? {
            extensions.push(extension(&names, false)?);
        }
        Ok(extensions)
    }

    /// Returns when the authority's certificate expires. Certificates that it signs should not expire later.
    ///
    /// # Errors
    /// Fails if the certificate contains an invalid time.
    pub fn expires(&self) -> Result<Timestamp, Error> {
        Ok(super::Certificate::from_der(&self.certificate_der())?.not_after)
    }

    /// Returns the identifier of the authority's key as in its certificate, because clients compare the two.
    fn key_id(&self) -> Result<OctetString, Error> {
        let own = &self.certificate.tbs_certificate;
        match own.get::<SubjectKeyIdentifier>().map_err(Error::of("name a key"))? {
            Some((_, SubjectKeyIdentifier(id))) => Ok(id),
            None => key_id(&own.subject_public_key_info),
        }
    }

    fn certify(&self, body: Body) -> Result<String, Error> {
        let issuer = self.certificate.tbs_certificate.subject.clone();
        body.sign(issuer, &self.key)?.to_pem(LineEnding::LF).map_err(Error::of("write a certificate"))
    }
}

impl Usage {
    fn oid(self) -> ObjectIdentifier {
        match self {
            Self::Server => ID_KP_SERVER_AUTH,
            Self::Client => ID_KP_CLIENT_AUTH,
        }
    }
}

impl Body {
    fn sign(self, issuer: Name, key: &SigningKey) -> Result<Certificate, Error> {
        let attempt = "write a certificate";
        let mut serial = [0u8; 16];
        fill_random(&mut serial)?;
        // The number must be positive, and always has full length.
        serial[0] = (serial[0] & 0x7f) | 0x40;
        let until = self.from.checked_add(self.lifetime).unwrap_or(Timestamp::MAX);
        let from = self.from.checked_sub(BACKDATE).unwrap_or(Timestamp::UNIX_EPOCH);
        let tbs_certificate = TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::new(&serial).map_err(Error::of(attempt))?,
            signature: key.algorithm()?,
            issuer,
            validity: Validity { not_before: time(from)?, not_after: time(until)? },
            subject: self.subject,
            subject_public_key_info: self.public_key,
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(self.extensions),
        };
        let signature = key.sign(&tbs_certificate.to_der().map_err(Error::of(attempt))?)?;
        Ok(Certificate { tbs_certificate, signature_algorithm: key.algorithm()?, signature })
    }
}

/// Encodes a time as in RFC 5280, 4.1.2.5: two-digit years through 2049, four digits after that.
fn time(at: Timestamp) -> Result<Time, Error> {
    let since_epoch = Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
    let short = UtcTime::from_unix_duration(since_epoch).map(Time::UtcTime);
    let long = |_| GeneralizedTime::from_unix_duration(since_epoch).map(Time::GeneralTime);
    short.or_else(long).map_err(Error::of("write a time"))
}

pub(super) fn extension<E: AssociatedOid + Encode>(value: &E, critical: bool) -> Result<Extension, Error> {
    let attempt = "write an extension";
    let der = value.to_der().map_err(Error::of(attempt))?;
    let extn_value = OctetString::new(der).map_err(Error::of(attempt))?;
    Ok(Extension { extn_id: E::OID, critical, extn_value })
}

/// Returns the extension for DNS names and IP addresses; `None` without any.
pub(super) fn alternative_names(names: &[&str]) -> Result<Option<SubjectAltName>, Error> {
    let name = |name: &&str| match name.parse::<IpAddr>() {
        Ok(ip) => Ok(GeneralName::from(ip)),
        Err(_) => Ia5String::new(*name).map(GeneralName::DnsName).map_err(Error::of("write a DNS name")),
    };
    let names: Vec<_> = names.iter().map(name).collect::<Result<_, _>>()?;
    Ok((!names.is_empty()).then_some(SubjectAltName(names)))
}

/// Returns the identifier of a key by RFC 7093, method 1: the leftmost 160 bits of the SHA-256 of the public
/// key info.
fn key_id(key: &SubjectPublicKeyInfoOwned) -> Result<OctetString, Error> {
    let attempt = "name a key";
    let digest = sha2::Sha256::digest(key.to_der().map_err(Error::of(attempt))?);
    OctetString::new(digest.get(..20).unwrap_or_default()).map_err(Error::of(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::WebPkiClientVerifier;
    use std::sync::Arc;

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
    fn a_leaf_carries_every_organization() {
        let identity = client(&["a", "b", "c"], Duration::from_secs(3600));
        let read = crate::pki::Certificate::from_pem(&identity.certificate).unwrap();
        assert_eq!(read.subject, Subject::new("user", &["a", "b", "c"]));
    }

    #[test]
    fn a_leaf_expires_when_requested_even_beyond_2049() {
        for years in [1_u64, 40] {
            let identity = client(&[], Duration::from_secs(years * 365 * 24 * 3600));
            let read = crate::pki::Certificate::from_pem(&identity.certificate).unwrap();
            let seconds = read.not_after.as_second() - now().as_second();
            assert_eq!(seconds, i64::try_from(years * 365 * 24 * 3600).unwrap());
        }
    }

    #[test]
    fn a_signed_request_verifies_under_the_authority() {
        let authority = Authority::load(&Authority::create("ca", now()).unwrap().identity()).unwrap();
        let key = KeyPair::generate().unwrap();
        let text = crate::pki::request(&key, &Subject::new("u", &["g", "h"]), &["x.io"]).unwrap();
        let request = CertificateRequest::parse(&text).unwrap();
        let signed = authority.sign(&request, &[Usage::Client], now(), Duration::from_secs(60)).unwrap();
        verified(&authority, &signed);
        let subject = crate::pki::Certificate::from_pem(&signed).unwrap().subject;
        assert_eq!(subject, Subject::new("u", &["g", "h"]));
    }

    fn verified(authority: &Authority, signed: &str) {
        let leaf = CertificateDer::from_pem_slice(signed.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate_der())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let at = rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(now().as_second() as u64));
        verifier.verify_client_cert(&leaf, &[], at).unwrap();
    }

    /// Created with `openssl req -x509 -days 36500 -nodes -subj /CN=ca`, with `-newkey rsa:2048`,
    /// `-newkey ec -pkeyopt ec_paramgen_curve:P-384` and `-newkey ed25519`. The second RSA key is the first one
    /// in PKCS #1.
    #[test]
    fn authorities_of_others_sign_with_keys_of_any_type() {
        let certificate = include_str!("tests/rsa-ca.crt");
        for (certificate, key) in [
            (certificate, include_str!("tests/rsa-ca.key")),
            (certificate, include_str!("tests/rsa-ca-pkcs1.key")),
            (include_str!("tests/p384-ca.crt"), include_str!("tests/p384-ca.key")),
            (include_str!("tests/ed25519-ca.crt"), include_str!("tests/ed25519-ca.key")),
        ] {
            let identity = Identity { certificate: certificate.to_owned(), key: key.to_owned() };
            let authority = Authority::load(&identity).unwrap();
            let text = crate::pki::request(&KeyPair::generate().unwrap(), &Subject::new("u", &["g"]), &[]);
            let request = CertificateRequest::parse(&text.unwrap()).unwrap();
            let signed = authority.sign(&request, &[Usage::Client], now(), Duration::from_secs(60)).unwrap();
            verified(&authority, &signed);
        }
    }

    #[test]
    fn a_foreign_key_is_refused() {
        let one = Authority::create("ca", now()).unwrap().identity();
        let other = Authority::create("ca", now()).unwrap().identity();
        let error = Authority::load(&Identity { certificate: one.certificate, key: other.key }).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot load a certificate authority: the key does not match the certificate"
        );
    }
}
