//! Certificate signing requests, written and read.

use rcgen::{KeyPair, PublicKeyData, SigningKey};
use x509_parser::prelude::{FromDer, ParsedExtension, X509CertificationRequest};

use super::{Error, Subject, authority, der, pem, pem_blocks};

/// PKCS #9 extensionRequest.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const LABEL: &str = "CERTIFICATE REQUEST";

/// A signing request whose own signature was good.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks to be certified.
    pub subject: Subject,
    /// The DNS names asked for.
    pub dns_names: Vec<String>,
    /// Whether it asks for alternative names that are not DNS names.
    pub has_other_names: bool,
    pub(super) subject_der: Vec<u8>,
    pub(super) public_key_der: Vec<u8>,
    pub(super) alternative_names_der: Option<Vec<u8>>,
}

/// Makes a new key (ECDSA, P-256).
///
/// # Errors
/// Where the system has no randomness.
pub fn new_key() -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(|e| Error::new("make a key", e))
}

/// Writes a request in PEM: what an agent sends in `CertificateSigningRequest.spec.request`.
///
/// # Errors
/// Where the key cannot sign.
pub fn request(key: &KeyPair, subject: &Subject, dns_names: &[&str]) -> Result<String, Error> {
    let attributes = match authority::alternative_names(dns_names.iter().copied()) {
        None => Vec::new(),
        Some(names) => {
            let extensions =
                der::sequence(&[&der::extension(authority::SUBJECT_ALTERNATIVE_NAME, false, &names)]);
            der::sequence(&[&der::oid(EXTENSION_REQUEST), &der::set(&[&extensions])])
        }
    };
    let info = der::sequence(&[
        &der::integer(&[0]),
        &der::name(subject),
        &key.subject_public_key_info(),
        &der::tlv(0xa0, &[&attributes]),
    ]);
    let signature = key.sign(&info).map_err(|e| Error::new("sign a certificate request", e))?;
    Ok(pem(LABEL, &der::sequence(&[&info, der::ECDSA_WITH_SHA256, &der::bits(0, &signature)])))
}

impl Request {
    /// Reads a request and checks that its sender holds the key.
    ///
    /// # Errors
    /// Where the text is no request in PEM, or its signature is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let attempt = "read a certificate request";
        let blocks = pem_blocks(LABEL, text)?;
        let [block] = blocks.as_slice() else {
            return Err(Error::new(
                attempt,
                format!("want one PEM block of type {LABEL}, found {}", blocks.len()),
            ));
        };
        let (_, parsed) = X509CertificationRequest::from_der(block).map_err(|e| Error::new(attempt, e))?;
        parsed.verify_signature().map_err(|e| Error::new(attempt, e))?;
        let info = &parsed.certification_request_info;
        let mut names = Vec::new();
        let mut has_other_names = false;
        for extension in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(found) = extension {
                for name in &found.general_names {
                    match name {
                        x509_parser::extensions::GeneralName::DNSName(dns) => names.push((*dns).to_owned()),
                        _ => has_other_names = true,
                    }
                }
            }
        }
        Ok(Self {
            subject: Subject::of_name(&info.subject),
            alternative_names_der: authority::alternative_names(names.iter().map(String::as_str)),
            dns_names: names,
            has_other_names,
            subject_der: info.subject.as_raw().to_vec(),
            public_key_der: info.subject_pki.raw.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_every_organisation_and_name() {
        let subject =
            Subject::new("system:open-cluster-management:c1:agent", &["group-a", "group-b", "group-c"]);
        let text = request(&new_key().unwrap(), &subject, &["addon.example.io"]).unwrap();
        let read = Request::parse(&text).unwrap();
        assert_eq!(
            (read.subject, read.dns_names.as_slice()),
            (subject, ["addon.example.io".to_owned()].as_slice())
        );
    }

    #[test]
    fn a_request_with_a_foreign_signature_is_refused() {
        let subject = Subject::new("a", &[]);
        let text = request(&new_key().unwrap(), &subject, &[]).unwrap();
        let mut der = pem_blocks(LABEL, &text).unwrap().pop().unwrap();
        let name = der.windows(3).position(|w| w == [0x0c, 0x01, b'a']).unwrap();
        der[name + 2] = b'b';
        let error = Request::parse(&pem(LABEL, &der)).unwrap_err();
        assert!(error.to_string().starts_with("cannot read a certificate request"), "{error}");
    }
}
