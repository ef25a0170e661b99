//! TLS connections and client certificates.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use tokio_rustls::TlsAcceptor;

use super::authn::{self, Peer};
use super::connections::Connection;
use super::hub::Hub;
use super::start_error::StartError;
use crate::pki::{Authority, Error, Identity};

/// Accepts every certificate whose key the client has. As in kube-apiserver, an invalid certificate leads to a
/// 401, not to a failed handshake.
#[derive(Debug)]
struct DeferredVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DeferredVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns a verifier for the chains of client certificates.
pub(super) fn verifier(authority: &Authority) -> Result<Arc<dyn ClientCertVerifier>, StartError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.certificate_der())).map_err(StartError::Tls)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|e| StartError::Tls(rustls::Error::General(e.to_string())))
}

/// Returns an acceptor with the server's certificate.
pub(super) fn acceptor(authority: &Authority, serving: &Identity) -> Result<TlsAcceptor, StartError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| Error::new("read the server's certificate", e))?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())
        .map_err(|e| Error::new("read the server's key", e))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(StartError::Tls)?
        .with_client_cert_verifier(Arc::new(DeferredVerifier(verifier(authority)?)))
        .with_single_cert(chain, key);
    let mut config = config.map_err(StartError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the peer, identified by its certificate.
pub(super) fn peer(hub: &Hub, session: &ServerConnection, connection: &Arc<Connection>) -> Peer {
    let Some((leaf, intermediates)) = session.peer_certificates().and_then(|chain| chain.split_first())
    else {
        return Peer::Unknown(connection.clone());
    };
    let seconds = u64::try_from((hub.clock)().as_second()).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let good = hub.verifier.verify_client_cert(leaf, intermediates, now).is_ok();
    match authn::of_certificate(leaf).filter(|_| good) {
        Some((user, until)) => {
            Peer::Certified { user: Arc::new(user), until, connection: connection.clone() }
        }
        None => Peer::Refused,
    }
}
