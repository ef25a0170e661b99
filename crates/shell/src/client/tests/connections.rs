//! Tests a connection that goes silent, with a paused clock and in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt as _;
use hyper::body::Frame;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::*;

/// An in-memory connection that has negotiated HTTP/2.
struct InMemory(TokioIo<DuplexStream>);

impl Connection for InMemory {
    fn connected(&self) -> Connected {
        Connected::new().negotiated_h2()
    }
}

impl Read for InMemory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for InMemory {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Forwards bytes until the network fails; from then on, bytes are lost without an error.
async fn pass(from: DuplexStream, to: DuplexStream, silent: CancellationToken) {
    let ((mut from_read, mut from_write), (mut to_read, mut to_write)) = (split(from), split(to));
    let mut buffers = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            () = silent.cancelled() => return std::future::pending().await,
            read = from_read.read(&mut buffers.0) => {
                to_write.write_all(&buffers.0[..read.unwrap()]).await.unwrap();
            }
            read = to_read.read(&mut buffers.1) => {
                from_write.write_all(&buffers.1[..read.unwrap()]).await.unwrap();
            }
        }
    }
}

/// Serves a body that begins but never continues, over HTTP/2.
async fn serve(stream: DuplexStream) {
    let answer = tower::service_fn(async |_: Request<Incoming>| {
        let first =
            futures::stream::once(async { Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"{}\n"))) });
        let body = http_body_util::StreamBody::new(first.chain(futures::stream::pending()));
        Ok::<_, std::convert::Infallible>(Response::new(body))
    });
    let service = hyper_util::service::TowerToHyperService::new(answer);
    let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_over_a_dead_connection_ends_within_half_a_minute() {
    let silent = CancellationToken::new();
    let cut = silent.clone();
    let connector = tower::service_fn(move |_: http::Uri| {
        let ((ours, middle), (other, theirs)) = (duplex(4096), duplex(4096));
        tokio::spawn(pass(middle, other, cut.clone()));
        tokio::spawn(serve(theirs));
        Box::pin(async { Ok::<_, io::Error>(InMemory(TokioIo::new(ours))) })
    });
    let connections = Connections::new(connector);
    let request = Request::get("https://hub/api/v1/pods?watch=true").body(Body::empty()).unwrap();
    let response = connections.send(request).await.unwrap();
    let mut body = std::pin::pin!(response.into_body());
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "{}\n");
    let quiet = timeout(Duration::from_secs(600), body.frame()).await;
    assert!(quiet.is_err(), "a connection that lives is kept, however quiet");

    silent.cancel();
    let since = Instant::now();
    let ended = timeout(Duration::from_secs(600), body.frame()).await.expect("it ends");
    assert!(ended.unwrap().is_err());
    assert!(since.elapsed() <= PING_EVERY + PING_WITHIN, "{:?}", since.elapsed());
}
