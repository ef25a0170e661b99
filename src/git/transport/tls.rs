//! TLS for git servers.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Session;
use crate::git::{Credentials, Error};

/// Opens a TLS connection, and verifies the server's identity.
pub(super) async fn connect(
    session: &Session,
    stream: TcpStream,
    host: &str,
) -> Result<TlsStream<TcpStream>, Error> {
    let name = ServerName::try_from(host.to_owned()).map_err(|e| session.unreachable(e))?;
    let config = config(&session.credentials)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(error)) => {
                Error::HostKey { url: session.remote.to_string(), reason: certificate_problem(error) }
            }
            _ => session.unreachable(error),
        }
    })
}

/// Returns the problem with a server's certificate, with advice.
fn certificate_problem(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "its certificate was issued by an unknown authority; put the \
            certificate of a private authority into the key ca.crt of the Secret for this server"
            .to_owned(),
        _ => format!("its certificate is invalid: {error}"),
    }
}

/// Returns a configuration with the client certificate, and with the authorities in the Secret, or the
/// machine's if it has none.
fn config(credentials: &Credentials) -> Result<ClientConfig, Error> {
    let refuse = |key: &str, reason: &dyn std::fmt::Display| {
        Error::Credentials(format!("key {key} of the Secret cannot be used: {reason}"))
    };
    let roots = match credentials.authorities() {
        None => Arc::clone(machine_authorities()),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|e| refuse("ca.crt", &e))?;
                roots.add(certificate).map_err(|e| refuse("ca.crt", &e))?;
            }
            if roots.is_empty() {
                return Err(refuse("ca.crt", &"it contains no certificate"));
            }
            Arc::new(roots)
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Cache(e.to_string()))?
        .with_root_certificates(roots);
    let Some((certificate, key)) = credentials.client_certificate() else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|e| refuse("tls.crt", &e))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| refuse("tls.key", &e))?;
    builder.with_client_auth_cert(chain, key).map_err(|e| refuse("tls.crt", &e))
}

/// Returns the machine's certificate authorities, which are read once.
fn machine_authorities() -> &'static Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    })
}
