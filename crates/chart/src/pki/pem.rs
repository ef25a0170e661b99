//! PEM (RFC 7468), parsed as leniently as in Go.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use x509_cert::der::pem::{LineEnding, encode_string};

/// Returns the label and bytes of the first block in a text.
pub(super) fn decode(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, text) = text.split_once("-----BEGIN ")?;
    let (label, text) = text.split_once("-----")?;
    let (body, _) = text.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

pub(super) fn encode(label: &str, bytes: &[u8]) -> String {
    encode_string(label, LineEnding::LF, bytes)
        .expect("a key or certificate is shorter than the address space")
}
