//! Serves routes to browsers over HTTPS.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::accept::{ConnectionLimits, HANDSHAKE_TIMEOUT, accept};
use super::tls::{self, Serving};

/// The maximum number of connections. A browser has one for each open page, and a few more while it loads one.
/// All may come from one address, a proxy's.
pub(crate) const BROWSERS: ConnectionLimits = ConnectionLimits { most: 256, of_one: 256 };
/// The maximum time for the head of a request to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The buffer of a connection in bytes: a head with a token of 16 KiB. All connections use at most 16 MiB.
const BUFFER: usize = 64 << 10;

/// Serves routes until `stop`, with one request per connection. Routes limit the time for reading bodies.
///
/// # Errors
/// Fails if TLS cannot be set up.
pub(crate) async fn serve(
    listener: TcpListener,
    serving: Arc<Serving>,
    routes: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let acceptor = tls::acceptor(serving)?;
    accept(listener, limits, stop, move |stream, _| connection(stream, acceptor.clone(), routes.clone()))
        .await;
    Ok(())
}

/// Answers the request on a TLS connection.
async fn connection(stream: TcpStream, acceptor: TlsAcceptor, routes: Router) {
    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        answer(stream, routes).await;
    }
}

/// Answers the request on a connection. Closes a connection that breaks.
pub(super) async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, routes: Router) {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.max_buf_size(BUFFER).keep_alive(false);
    let service = TowerToHyperService::new(routes);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
