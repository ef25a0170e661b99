//! Keys and X.509 certificates: an authority that issues them, requests for them, the identity they carry.
//!
//! The module exists because a Kubernetes identity may carry several organisations (its groups), which the certificate library's
//! own subject type collapses into one. It verifies no chains; that is the TLS library's work.

mod authority;
mod der;
mod request;

pub use authority::{Authority, Identity, Profile, Usage};
pub use rcgen::KeyPair;
pub use request::{Request, new_key, request};

use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// Who a certificate speaks for: the common name is the user, the organisations are the groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// CN: the user name.
    pub common_name: String,
    /// O: the groups.
    pub organizations: Vec<String>,
    /// OU: carried, but without meaning to an API server.
    pub organizational_units: Vec<String>,
}

/// A certificate, key or request that cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {why}")]
pub struct Error {
    attempt: &'static str,
    why: String,
}

impl Error {
    pub(crate) fn new(attempt: &'static str, why: impl std::fmt::Display) -> Self {
        Self { attempt, why: why.to_string() }
    }
}

impl Subject {
    /// A user and its groups.
    pub fn new(common_name: impl Into<String>, organizations: &[&str]) -> Self {
        let organizations = organizations.iter().map(|o| (*o).to_owned()).collect();
        Self { common_name: common_name.into(), organizations, organizational_units: Vec::new() }
    }

    /// Reads the subject of a certificate in DER.
    ///
    /// # Errors
    /// Where the bytes are no certificate.
    pub fn of_certificate(der: &[u8]) -> Result<Self, Error> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|e| Error::new("read a certificate", e))?;
        Ok(Self::of_name(certificate.subject()))
    }

    fn of_name(name: &X509Name<'_>) -> Self {
        let text = |values: Vec<&x509_parser::x509::AttributeTypeAndValue<'_>>| -> Vec<String> {
            values.iter().filter_map(|v| v.as_str().ok()).map(str::to_owned).collect()
        };
        Self {
            common_name: text(name.iter_common_name().collect()).pop().unwrap_or_default(),
            organizations: text(name.iter_organization().collect()),
            organizational_units: text(name.iter_organizational_unit().collect()),
        }
    }
}

/// The bytes of every PEM block with a label, in order.
///
/// # Errors
/// Where a block is damaged.
pub fn pem_blocks(label: &str, text: &str) -> Result<Vec<Vec<u8>>, Error> {
    let blocks = x509_parser::pem::Pem::iter_from_buffer(text.as_bytes());
    let blocks = blocks.collect::<Result<Vec<_>, _>>().map_err(|e| Error::new("read PEM", e))?;
    Ok(blocks.into_iter().filter(|b| b.label == label).map(|b| b.contents).collect())
}

/// One PEM block.
fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = tail;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
