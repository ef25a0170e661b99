//! One HTTP request on a separate connection, to a git server or the API of a git service.

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Proxy, Session, tls};
use crate::git::{Error, Remote};

/// The name of this client for servers.
pub(super) const AGENT: &str = concat!("git/wheelwright-", env!("CARGO_PKG_VERSION"));

/// Opens a connection and sends a request.
pub(super) async fn exchange(
    session: &Session,
    remote: &Remote,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, Error> {
    let mut sender = session.limit_connect(connect(session, remote)).await?;
    sender.send_request(request).await.map_err(|e| session.unreachable(e))
}

async fn connect(session: &Session, remote: &Remote) -> Result<SendRequest<Full<Bytes>>, Error> {
    let is_https = remote.url().starts_with("https:");
    let default = if is_https { 443 } else { 80 };
    let address = remote.address(default).ok_or_else(|| session.unreachable("it has no address"))?;
    if !is_https {
        return over(session, session.connect(address.host, address.port).await?).await;
    }
    // The administrator controls the proxy in the environment. A Secret is trusted no more than the URL.
    let of_secret = session.credentials.proxy();
    let stream = match of_secret {
        Some(proxy) => proxy.connect(session, proxy.reach_as_repository(session).await?, address).await?,
        None => match Proxy::from_env(address.host).map_err(|error| session.unreachable(error))? {
            Some(proxy) => proxy.connect(session, proxy.reach(session).await?, address).await?,
            None => session.connect(address.host, address.port).await?,
        },
    };
    over(session, tls::connect(session, stream, address.host).await?).await
}

async fn over(
    session: &Session,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Error> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| session.unreachable(e))?;
    // The task ends with the response or the session's runtime. If the task fails, so does the response.
    tokio::spawn(connection);
    Ok(sender)
}
