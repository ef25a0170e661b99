//! Webhooks as a git server sends them.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wheelwright::pki::{Authority, Profile, Subject, Usage};
use wheelwright::shell::now;

/// Sends a webhook over TLS and returns the first line of the response.
pub(crate) async fn deliver(
    port: u16,
    authority: &Path,
    path: &str,
    signature: &str,
    body: &str,
) -> Option<String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256={signature}\r\n");
    let length = body.len();
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    // The server closes the connection without a TLS shutdown.
    let _ = stream.read_to_string(&mut answer).await;
    answer.lines().next().map(str::to_owned)
}

/// Writes the key and certificate of a server, and its authority's certificate.
pub(crate) fn write_certificates(dir: &Path) {
    let authority = Authority::create("test", now()).unwrap();
    let profile = Profile {
        // OpenSSL takes a certificate with the name of its authority for a self-signed one.
        subject: Subject::new("server", &[]),
        names: &["127.0.0.1", "localhost"],
        usage: Usage::Server,
        lifetime: Duration::from_secs(3600),
    };
    let identity = authority.issue(&profile, now()).unwrap();
    std::fs::write(dir.join("ca.crt"), authority.certificate_pem()).unwrap();
    std::fs::write(dir.join("tls.crt"), &identity.certificate).unwrap();
    std::fs::write(dir.join("tls.key"), &identity.key).unwrap();
}

pub(crate) fn hmac(secret: &str, body: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    object::hex(ring::hmac::sign(&key, body.as_bytes()))
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
