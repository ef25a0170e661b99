//! Decides which certificates of API servers are trusted.
//!
//! A CA bundle may contain the server's own certificate without the CA that signed it. Go accepts such a server;
//! webpki does not.

use std::sync::Arc;

use kube::client::ConfigExt as _;
use kube::{Config, Error};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tower::BoxError;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// Returns the TLS configuration for an API server.
///
/// # Errors
/// Returns an error if a certificate or key does not parse.
pub(super) fn tls_config(config: &Config) -> kube::Result<ClientConfig> {
    let mut tls = config.rustls_client_config()?;
    // kube's own verifier rereads certificate files while the process runs.
    if let (Some(bundle), None, false) =
        (&config.root_cert, &config.root_cert_file, config.accept_invalid_certs)
    {
        let verifier = Bundle::new(bundle).map_err(Error::Service)?;
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    Ok(tls)
}

/// Trusts the certificates in a bundle, and certificates signed by its CAs.
#[derive(Debug)]
struct Bundle {
    signed: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Bundle {
    fn new(bundle: &[Vec<u8>]) -> Result<Self, BoxError> {
        let certificates: Vec<_> = bundle.iter().cloned().map(CertificateDer::from).collect();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self { signed, certificates })
    }
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let signed =
            self.signed.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if signed.is_ok() || !self.certificates.iter().any(|trusted| trusted == end_entity) {
            return signed;
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        verify_time(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

fn verify_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let parsed = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.tbs_certificate.validity;
    let now = now.as_secs();
    if now < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet);
    }
    if now > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired);
    }
    Ok(())
}
