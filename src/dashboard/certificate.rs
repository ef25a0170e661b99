//! The serving certificate: one that the dashboard creates, or one that the administrator provides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::serve::certificate::{self, ServerSecret};
use crate::serve::tls::Serving;

/// The interval at which a generated certificate is checked.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(3600);
/// The interval at which certificate files are checked. A kubelet updates a mounted Secret within about a minute.
const FILE_CHECK: Duration = Duration::from_secs(60);
/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// The source of the dashboard's certificate.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// The dashboard creates the certificate and stores it in a Secret.
    Made(ServerSecret),
    /// Two PEM files that somebody else maintains, for example in a mounted Secret.
    Files {
        /// The certificate and the intermediate CA certificates.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
}

impl CertificateSource {
    /// Returns the certificate and its key.
    async fn read(&self, client: &kube::Client) -> Result<(String, String), String> {
        let file = async |path: &Path| {
            let text = tokio::fs::read_to_string(path).await;
            text.map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        match self {
            Self::Made(secret) => {
                let stored = certificate::ensure(client, secret).await?;
                Ok((stored.certificate, stored.key))
            }
            Self::Files { certificate, key } => Ok((file(certificate).await?, file(key).await?)),
        }
    }

    /// Returns the interval at which the certificate is checked.
    fn check(&self) -> Duration {
        match self {
            Self::Made(_) => CERTIFICATE_CHECK,
            Self::Files { .. } => FILE_CHECK,
        }
    }
}

/// Keeps the certificate current until `stop`.
pub(super) async fn keep(
    client: &kube::Client,
    source: &CertificateSource,
    serving: &Serving,
    stop: &CancellationToken,
) {
    let show = async || {
        let (certificate, key) = source.read(client).await?;
        serving.show(&certificate, &key).map_err(|error| format!("the certificate cannot be used: {error}"))
    };
    loop {
        let pause = match show().await {
            Ok(()) => source.check(),
            Err(error) => {
                warn!(error, "cannot get a certificate for the dashboard; retrying");
                RETRY
            }
        };
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_in_files_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let source = CertificateSource::Files { certificate: path("tls.crt"), key: path("tls.key") };
        let nobody = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("the hub is not asked"))
        });
        let client = kube::Client::new(nobody, "default");
        let missing = source.read(&client).await.unwrap_err();
        assert!(missing.contains("tls.crt"), "{missing}");
        for text in ["first", "second"] {
            std::fs::write(path("tls.crt"), text).unwrap();
            std::fs::write(path("tls.key"), text).unwrap();
            assert_eq!(source.read(&client).await.unwrap(), (text.to_owned(), text.to_owned()));
        }
    }
}
