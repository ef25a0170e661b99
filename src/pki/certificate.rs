//! Parses certificates.

use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;

use super::{Error, Subject};

/// The subject, the names and the validity of a certificate, without verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The identity of its holder.
    pub subject: Subject,
    /// The DNS names and IP addresses of its holder.
    pub names: Vec<String>,
    /// The start of its validity.
    pub not_before: Timestamp,
    /// The end of its validity.
    pub not_after: Timestamp,
}

impl Certificate {
    /// Parses a certificate in DER.
    ///
    /// # Errors
    /// Fails if the bytes are not a certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let attempt = "read a certificate";
        let parsed = x509_cert::Certificate::from_der(der).map_err(Error::of(attempt))?.tbs_certificate;
        let time = |time: Time| Timestamp::try_from(time.to_system_time()).map_err(Error::of(attempt));
        // Names that cannot be parsed are ignored.
        let names = parsed.get().ok().flatten().map(|(_, SubjectAltName(names))| names).unwrap_or_default();
        Ok(Self {
            names: names.iter().filter_map(text).collect(),
            subject: Subject::from_name(&parsed.subject),
            not_before: time(parsed.validity.not_before)?,
            not_after: time(parsed.validity.not_after)?,
        })
    }

    /// Parses the first certificate in PEM text.
    ///
    /// # Errors
    /// Fails if there is none, or it is invalid.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(Error::of("read a certificate"))?;
        Self::from_der(&der)
    }
}

/// Formats a DNS name or IP address.
fn text(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(bytes.as_bytes()).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(bytes.as_bytes()).map(IpAddr::from));
            ip.ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}
