//! The certificate of the page: one that the dashboard makes, or one of the people who run it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::serve::certificate::{self, ServerSecret};
use crate::serve::tls::Serving;

/// Time between two checks of the certificate.
const CERTIFICATE_CHECK: Duration = Duration::from_secs(3600);
/// The same for files. A kubelet brings changes of a Secret within about a minute.
const FILE_CHECK: Duration = Duration::from_secs(60);
/// Time to wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// Where the certificate of a dashboard comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// The dashboard makes it and keeps it in a Secret.
    Made(ServerSecret),
    /// Somebody else keeps it in two files, in PEM, such as those of a mounted Secret.
    Files {
        /// The certificate, and those of the authorities between it and the root.
        certificate: PathBuf,
        /// Its key.
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
                let kept = certificate::ensure(client, secret).await?;
                Ok((kept.certificate, kept.key))
            }
            Self::Files { certificate, key } => Ok((file(certificate).await?, file(key).await?)),
        }
    }

    /// Returns the time between two checks.
    fn check(&self) -> Duration {
        match self {
            Self::Made(_) => CERTIFICATE_CHECK,
            Self::Files { .. } => FILE_CHECK,
        }
    }
}

/// Keeps the certificate until `stop`.
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
                warn!(error, "the dashboard has no new certificate; it is tried again");
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
    async fn a_certificate_of_files_is_read_again() {
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
