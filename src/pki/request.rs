//! Creates and parses certificate signing requests.

use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::attr::Attributes;
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Encode as _, EncodePem as _, oid::AssociatedOid as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use engine::registration::der::decode;

use super::authority::{alternative_names, extension};
use super::{Error, KeyPair, Subject};

/// A signing request with a verified signature.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The requested subject.
    pub subject: Subject,
    /// The requested DNS names.
    pub dns_names: Vec<String>,
    /// True if it requests alternative names other than DNS names.
    pub has_other_names: bool,
    pub(super) name: x509_cert::name::Name,
    pub(super) public_key: SubjectPublicKeyInfoOwned,
}

/// Creates a request in PEM, for `CertificateSigningRequest.spec.request`.
///
/// # Errors
/// Fails if a name cannot be encoded or the key cannot sign.
pub fn request(key: &KeyPair, subject: &Subject, dns_names: &[&str]) -> Result<String, Error> {
    let attempt = "write a certificate request";
    let mut attributes = Attributes::new();
    if let Some(names) = alternative_names(dns_names)? {
        let extensions = ExtensionReq(vec![extension(&names, false)?]);
        attributes.insert(extensions.try_into().map_err(Error::of(attempt))?).map_err(Error::of(attempt))?;
    }
    let info = CertReqInfo {
        version: Version::V1,
        subject: subject.to_name()?,
        public_key: key.public_key(),
        attributes,
    };
    let signature = key.sign(&info.to_der().map_err(Error::of(attempt))?)?;
    let request = CertReq { info, algorithm: KeyPair::signature_algorithm(), signature };
    request.to_pem(LineEnding::LF).map_err(Error::of(attempt))
}

impl CertificateRequest {
    /// Parses a request, and checks that its sender has the key.
    ///
    /// # Errors
    /// Fails if the text is not exactly one request in PEM, or its signature is invalid.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let attempt = "read a certificate request";
        let blocks = CertificateSigningRequestDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::of(attempt))?;
        let [block] = blocks.as_slice() else {
            let reason = format!("want one PEM block of type CERTIFICATE REQUEST, found {}", blocks.len());
            return Err(Error::new(attempt, reason));
        };
        let request: CertReq = decode(block).map_err(Error::of(attempt))?;
        verify(&request)?;
        let (mut dns_names, mut has_other_names) = (Vec::new(), false);
        for name in requested_names(&request.info).map_err(Error::of(attempt))? {
            match name {
                GeneralName::DnsName(name) => dns_names.push(name.as_str().to_owned()),
                _ => has_other_names = true,
            }
        }
        let CertReqInfo { version: Version::V1, subject: name, public_key, attributes: _ } = request.info;
        Ok(Self { subject: Subject::from_name(&name), dns_names, has_other_names, name, public_key })
    }
}

/// Verifies the signature over the re-encoded request, so that it fails if the request was parsed differently
/// than written.
fn verify(request: &CertReq) -> Result<(), Error> {
    let attempt = "read a certificate request";
    let CertReq { info, algorithm, signature } = request;
    let message = info.to_der().map_err(Error::of(attempt))?;
    let (used, of_key) = (algorithm.to_der(), info.public_key.algorithm.to_der());
    let (used, of_key) = (used.map_err(Error::of(attempt))?, of_key.map_err(Error::of(attempt))?);
    // The TLS library's identifiers are the content of the sequence, without its two header bytes.
    let is = |id: &[u8], der: &[u8]| der.get(2..) == Some(id);
    let mut fitting = rustls::crypto::ring::default_provider()
        .signature_verification_algorithms
        .all
        .iter()
        .filter(|known| is(&known.signature_alg_id(), &used) && is(&known.public_key_alg_id(), &of_key));
    let key = info.public_key.subject_public_key.raw_bytes();
    if fitting.any(|known| known.verify_signature(key, &message, signature.raw_bytes()).is_ok()) {
        return Ok(());
    }
    Err(Error::new(attempt, "its signature does not match its key"))
}

/// Returns the requested alternative names.
fn requested_names(info: &CertReqInfo) -> Result<Vec<GeneralName>, x509_cert::der::Error> {
    let mut names = Vec::new();
    for attribute in info.attributes.iter().filter(|attribute| attribute.oid == ExtensionReq::OID) {
        for value in attribute.values.iter() {
            let extensions = value.decode_as::<Vec<x509_cert::ext::Extension>>()?;
            for extension in extensions.iter().filter(|extension| extension.extn_id == SubjectAltName::OID) {
                names.extend(decode::<SubjectAltName>(extension.extn_value.as_bytes())?.0);
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_cert::der::pem::encode_string;

    #[test]
    fn a_request_keeps_every_organization_and_name() {
        let subject =
            Subject::new("system:open-cluster-management:c1:agent", &["group-a", "group-b", "group-c"]);
        let text = request(&KeyPair::generate().unwrap(), &subject, &["addon.example.io"]).unwrap();
        let read = CertificateRequest::parse(&text).unwrap();
        assert_eq!(
            (read.subject, read.dns_names.as_slice()),
            (subject, ["addon.example.io".to_owned()].as_slice())
        );
    }

    /// Created with `openssl req -newkey rsa:2048 -subj /O=one/O=two/CN=someone -addext
    /// subjectAltName=DNS:x.example.io,IP:10.0.0.1`.
    #[test]
    fn a_request_of_another_tool_with_an_rsa_key_is_read() {
        let read = CertificateRequest::parse(include_str!("tests/rsa.csr")).unwrap();
        assert_eq!((read.subject, read.has_other_names), (Subject::new("someone", &["one", "two"]), true));
        assert_eq!(read.dns_names, ["x.example.io"]);
    }

    #[test]
    fn a_request_with_a_foreign_signature_is_refused() {
        let subject = Subject::new("a", &[]);
        let text = request(&KeyPair::generate().unwrap(), &subject, &[]).unwrap();
        let mut der = CertificateSigningRequestDer::from_pem_slice(text.as_bytes()).unwrap().to_vec();
        let name = der.windows(3).position(|w| w == [0x0c, 0x01, b'a']).unwrap();
        der[name + 2] = b'b';
        let error =
            CertificateRequest::parse(&encode_string("CERTIFICATE REQUEST", LineEnding::LF, &der).unwrap())
                .unwrap_err();
        assert!(error.to_string().starts_with("cannot read a certificate request"), "{error}");
    }

    #[test]
    fn any_bytes_are_a_signing_request_or_refused() {
        let subject = Subject::new("system:open-cluster-management:c1:agent", &["group-a"]);
        let ours = request(&KeyPair::generate().unwrap(), &subject, &["addon.example.io"]).unwrap();
        let seeds = [ours.as_str(), include_str!("tests/rsa.csr")]
            .map(|text| CertificateSigningRequestDer::from_pem_slice(text.as_bytes()).unwrap().to_vec());
        let run = |bytes: &[u8]| {
            let text = encode_string("CERTIFICATE REQUEST", LineEnding::LF, bytes).unwrap();
            for text in [text.as_str(), &String::from_utf8_lossy(bytes)] {
                if let Ok(request) = CertificateRequest::parse(text) {
                    assert_eq!(
                        seeds.iter().filter(|seed| seed.as_slice() == bytes).count(),
                        1,
                        "{request:?}"
                    );
                }
            }
            // Changed requests have no valid signature, so parse the parts directly.
            if let Ok(request) = decode::<CertReq>(bytes) {
                let _ = (requested_names(&request.info), Subject::from_name(&request.info.subject));
            }
        };
        let words = ["\u{0}", "0", "1", "\u{6}\u{3}U\u{4}\u{3}", "\u{c}", "\u{13}", "-----BEGIN"];
        crate::fuzz::Target { name: "signing_request", run: &run, seeds: &seeds, words: &words }.fuzz();
    }
}
