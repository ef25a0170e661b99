//! Certificates with the fields and extensions that Sprig's certificates have from Go's `x509.CreateCertificate`.

use std::net::IpAddr;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::der::asn1::{
    Any, BitString, GeneralizedTime, Ia5String, OctetString, PrintableStringRef, SetOfVec, UtcTime,
    Utf8StringRef,
};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::oid::db::rfc5280::{ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH};
use x509_cert::der::{self, Decode as _, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use x509_cert::time::{Time, Validity};

use super::key::PrivateKey;
use super::pem;
use crate::random::Random;

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// The content of a certificate.
pub(crate) struct Profile<'a> {
    /// The common name of the subject.
    pub(crate) name: &'a str,
    pub(crate) dns_names: Vec<&'a str>,
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) is_authority: bool,
    /// The start of the validity.
    pub(crate) from: jiff::Timestamp,
    pub(crate) days: i64,
}

/// A certificate and key that sign other certificates.
pub(crate) struct Issuer {
    certificate: x509_cert::Certificate,
    key: PrivateKey,
}

impl Certificate {
    /// Validates a certificate and a key, which `buildCustomCert` returns unchanged.
    pub(crate) fn given(cert: String, key: String) -> Result<Self, String> {
        read(&cert, "decodedCert")?;
        PrivateKey::from_pem(&key).map_err(|reason| format!("error parsing private key: {reason}"))?;
        Ok(Self { cert, key })
    }
}

impl Issuer {
    pub(crate) fn read(made: &Certificate) -> Result<Self, String> {
        let certificate = read(&made.cert, "decodedSignerCert")?;
        let key = PrivateKey::from_pem(&made.key)
            .map_err(|reason| format!("error parsing private key: {reason}"))?;
        if key.public_key()? != certificate.tbs_certificate.subject_public_key_info {
            let reason = "x509: provided PrivateKey doesn't match parent's PublicKey";
            return Err(format!("error creating certificate: {reason}"));
        }
        Ok(Self { certificate, key })
    }
}

fn read(text: &str, name: &str) -> Result<x509_cert::Certificate, String> {
    let (_, bytes) = pem::decode(text).ok_or("unable to decode certificate")?;
    x509_cert::Certificate::from_der(&bytes)
        .map_err(|error| format!("error parsing certificate: {name}.Bytes: {error}"))
}

impl Profile<'_> {
    /// Issues a certificate for a key. Without an issuer, it is self-signed.
    pub(crate) fn certify(
        &self,
        key: &PrivateKey,
        issuer: Option<&Issuer>,
        random: &mut Random,
    ) -> Result<Certificate, String> {
        let public_key = key.public_key()?;
        let signer = issuer.map_or(key, |issuer| &issuer.key);
        let body = self.body(public_key, signer, issuer, random);
        let signed = body.and_then(|body| Ok((body.to_der()?, body)));
        let (bytes, tbs_certificate) =
            signed.map_err(|error| format!("error creating certificate: {error}"))?;
        let signature =
            signer.sign(&bytes).map_err(|reason| format!("error creating certificate: {reason}"))?;
        let certificate = BitString::from_bytes(&signature).and_then(|signature| {
            let signature_algorithm = signer.algorithm();
            x509_cert::Certificate { tbs_certificate, signature_algorithm, signature }.to_der()
        });
        let certificate = certificate.map_err(|error| format!("error creating certificate: {error}"))?;
        Ok(Certificate { cert: pem::encode("CERTIFICATE", &certificate), key: key.to_pem()? })
    }

    fn body(
        &self,
        public_key: SubjectPublicKeyInfoOwned,
        signer: &PrivateKey,
        issuer: Option<&Issuer>,
        random: &mut Random,
    ) -> der::Result<TbsCertificate> {
        let subject = name(self.name)?;
        let parent = issuer.map(|issuer| &issuer.certificate.tbs_certificate);
        let parent = parent.filter(|parent| parent.subject != subject);
        let parent_key = parent.and_then(|parent| parent.get::<SubjectKeyIdentifier>().ok()?);
        let extensions = self.extensions(&public_key, parent_key.map(|(_, SubjectKeyIdentifier(id))| id))?;
        let mut serial = [0; 16];
        serial.fill_with(|| random.byte());
        // The serial number is positive and has its full length.
        serial[0] = serial[0] & 0x7f | 0x40;
        Ok(TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::new(&serial)?,
            signature: signer.algorithm(),
            issuer: parent.map_or_else(|| subject.clone(), |parent| parent.subject.clone()),
            validity: self.validity()?,
            subject,
            subject_public_key_info: public_key,
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(extensions),
        })
    }

    fn validity(&self) -> der::Result<Validity> {
        let from = self.from.as_second();
        let until = from.saturating_add(self.days.saturating_mul(24 * 3600));
        Ok(Validity { not_before: time(from)?, not_after: time(until)? })
    }

    fn extensions(
        &self,
        public_key: &SubjectPublicKeyInfoOwned,
        parent_key: Option<OctetString>,
    ) -> der::Result<Vec<Extension>> {
        let mut usages = KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment;
        if self.is_authority {
            usages |= KeyUsages::KeyCertSign;
        }
        let mut extensions = vec![
            extension(&KeyUsage(usages), true)?,
            extension(&ExtendedKeyUsage(vec![ID_KP_SERVER_AUTH, ID_KP_CLIENT_AUTH]), false)?,
            extension(&BasicConstraints { ca: self.is_authority, path_len_constraint: None }, true)?,
        ];
        if self.is_authority {
            let digest = Sha256::digest(public_key.subject_public_key.raw_bytes());
            let id = OctetString::new(digest.get(..20).unwrap_or_default())?;
            extensions.push(extension(&SubjectKeyIdentifier(id), false)?);
        }
        if parent_key.is_some() {
            let id = AuthorityKeyIdentifier { key_identifier: parent_key, ..Default::default() };
            extensions.push(extension(&id, false)?);
        }
        let dns_names = self.dns_names.iter().map(|name| Ia5String::new(*name).map(GeneralName::DnsName));
        let ips = self.ips.iter().map(|ip| Ok(GeneralName::from(ip.to_canonical())));
        let names = dns_names.chain(ips).collect::<der::Result<Vec<_>>>()?;
        if !names.is_empty() {
            extensions.push(extension(&SubjectAltName(names), self.name.is_empty())?);
        }
        Ok(extensions)
    }
}

/// Returns a distinguished name with a common name, or an empty one.
fn name(common: &str) -> der::Result<Name> {
    if common.is_empty() {
        return Ok(Name::default());
    }
    let value = match PrintableStringRef::new(common) {
        Ok(text) => Any::from(text),
        Err(_) => Any::from(Utf8StringRef::new(common)?),
    };
    let attribute = AttributeTypeAndValue { oid: COMMON_NAME, value };
    Ok(RdnSequence(vec![RelativeDistinguishedName(SetOfVec::try_from(vec![attribute])?)]))
}

fn extension<E: AssociatedOid + Encode>(value: &E, critical: bool) -> der::Result<Extension> {
    Ok(Extension { extn_id: E::OID, critical, extn_value: OctetString::new(value.to_der()?)? })
}

/// Encodes a time as in RFC 5280, 4.1.2.5: two-digit years through 2049, four-digit years afterwards.
fn time(second: i64) -> der::Result<Time> {
    let since_epoch = Duration::from_secs(u64::try_from(second).unwrap_or_default());
    let short = UtcTime::from_unix_duration(since_epoch).map(Time::UtcTime);
    short.or_else(|_| GeneralizedTime::from_unix_duration(since_epoch).map(Time::GeneralTime))
}
