//! Reads certificates.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

use super::{Error, Subject};

/// The subject and the validity of a certificate. Nothing is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The identity that it speaks for.
    pub subject: Subject,
    /// When it becomes valid.
    pub not_before: Timestamp,
    /// When it expires.
    pub not_after: Timestamp,
}

impl Certificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// Fails if the bytes are no certificate.
    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let attempt = "read a certificate";
        let parsed = x509_cert::Certificate::from_der(der).map_err(Error::of(attempt))?.tbs_certificate;
        let time = |time: Time| Timestamp::try_from(time.to_system_time()).map_err(Error::of(attempt));
        Ok(Self {
            subject: Subject::of_name(&parsed.subject),
            not_before: time(parsed.validity.not_before)?,
            not_after: time(parsed.validity.not_after)?,
        })
    }

    /// Reads the first certificate of a text in PEM.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(Error::of("read a certificate"))?;
        Self::from_der(&der)
    }
}
