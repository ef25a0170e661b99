//! Tests connections that go silent or are closed by the server, in memory and with a paused clock.

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

/// Receives a request, and closes the connection without processing it: SETTINGS, then GOAWAY without an error and
/// with 0 as the last stream (RFC 9113, 6.8).
async fn go_away(mut stream: DuplexStream) {
    const HEADERS: u8 = 1;
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    stream.read_exact(&mut [0; 24]).await.unwrap();
    let mut head = [0; 9];
    while head[3] != HEADERS {
        stream.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).await.unwrap();
    }
    stream.write_all(&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_read_is_sent_once_more_after_the_server_closes_the_connection() {
    for (method, closed, opened, succeeds) in
        [(Method::GET, 1, 2, true), (Method::GET, 2, 2, false), (Method::POST, 1, 1, false)]
    {
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        let connector = tower::service_fn(move |_: http::Uri| {
            let (ours, theirs) = duplex(4096);
            let mut count = counted.lock().unwrap();
            *count += 1;
            match *count <= closed {
                true => drop(tokio::spawn(go_away(theirs))),
                false => drop(tokio::spawn(serve(theirs))),
            }
            Box::pin(async { Ok::<_, io::Error>(InMemory(TokioIo::new(ours))) })
        });
        let request =
            Request::builder().method(&method).uri("https://hub/version").body(Body::empty()).unwrap();
        let answered = Connections::new(connector).send(request).await.is_ok();
        assert_eq!((answered, *count.lock().unwrap()), (succeeds, opened), "{method}, {closed} closed");
    }
}
