//! Serves routes over TLS with a generated certificate.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::tls::Serving;
use super::{CONNECTIONS, https};
use crate::pki::{Authority, Profile, Subject, Usage};
use crate::shell::now;

/// The lifetime of the certificate. Nobody checks it, so it outlives the process.
const LIFETIME: Duration = Duration::from_hours(24 * 365 * 5);

/// Serves until `stop`.
///
/// # Errors
/// Fails if the certificate cannot be created.
pub(super) async fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) -> io::Result<()> {
    let made = now();
    let profile = Profile {
        subject: Subject::new("wheelwright", &[]),
        names: &["localhost"],
        usage: Usage::Server,
        lifetime: LIFETIME,
    };
    let identity =
        Authority::create("wheelwright", made).and_then(|authority| authority.issue(&profile, made));
    let identity = identity.map_err(io::Error::other)?;
    let serving = Arc::new(Serving::default());
    serving.show(&identity.certificate, &identity.key).map_err(io::Error::other)?;
    https::serve(listener, serving, routes, CONNECTIONS, stop).await.map_err(io::Error::other)
}
