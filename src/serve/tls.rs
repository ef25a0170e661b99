//! TLS for servers whose certificate changes at run time.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// The current certificate of a server. It is initially empty, and can be replaced without closing connections.
#[derive(Debug, Default)]
pub struct Serving(RwLock<Option<Arc<CertifiedKey>>>);

impl Serving {
    /// Presents a certificate and its key, both in PEM, from now on.
    ///
    /// # Errors
    /// Fails if the certificate or the key is invalid, or they do not belong together.
    pub fn show(&self, certificate: &str, key: &str) -> Result<(), rustls::Error> {
        let general = |error: rustls::pki_types::pem::Error| rustls::Error::General(error.to_string());
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(general)?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain.map_err(general)?, key, &provider)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns a TLS acceptor with the current certificate. Without one, handshakes fail.
///
/// # Errors
/// Fails if TLS cannot be set up.
pub(super) fn acceptor(serving: Arc<Serving>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_cert_resolver(serving))))
}
