//! Limits on connections: how many unauthenticated clients can hold, and how long a client can hold one
//! without reading.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// Limit of the connections with an unknown peer: half of the file descriptors that a process has by default.
const MAX_UNKNOWN_PEERS: usize = 512;
/// The connections without a valid certificate or token so far, oldest first.
///
/// A connection above the limit closes the oldest one, so that a flood of silent connections cannot keep out
/// a client that sends a request at once.
#[derive(Debug, Default)]
pub(super) struct UnknownPeers(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

/// One connection of an unknown peer, until it ends or its peer is known.
#[derive(Clone, Debug)]
pub(super) struct UnknownPeer {
    number: u64,
    of: Arc<UnknownPeers>,
}

impl UnknownPeers {
    /// Counts a new connection; the token is cancelled when the connection has to be closed.
    pub(super) fn enter(self: &Arc<Self>) -> (UnknownPeer, CancellationToken) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, token) = (queue.next, CancellationToken::new());
        queue.next += 1;
        queue.open.insert(number, token.clone());
        while queue.open.len() > MAX_UNKNOWN_PEERS {
            if let Some((_, oldest)) = queue.open.pop_first() {
                oldest.cancel();
            }
        }
        (UnknownPeer { number, of: self.clone() }, token)
    }
}

impl UnknownPeer {
    /// Stops counting the connection, because its peer is known or it has ended.
    pub(super) fn leave(&self) {
        self.of.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.number);
    }
}

/// A stream whose writes fail when the peer reads nothing for too long.
#[derive(Debug)]
pub(super) struct TimeoutStream<S> {
    stream: S,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, stalled: None }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let timeout = self.timeout;
        let sleep = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn one_unknown_peer_too_many_closes_the_oldest() {
        let unknown_peers = Arc::new(UnknownPeers::default());
        let (known, known_token) = unknown_peers.enter();
        known.leave();
        let entered: Vec<_> = (0..MAX_UNKNOWN_PEERS + 2).map(|_| unknown_peers.enter()).collect();
        let closed: Vec<bool> = entered.iter().map(|(_, token)| token.is_cancelled()).collect();
        assert!(closed[..2].iter().all(|closed| *closed) && !closed[2..].iter().any(|closed| *closed));
        assert!(!known_token.is_cancelled());
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_given_up() {
        let (near, _far) = tokio::io::duplex(10);
        let mut near = TimeoutStream::new(near, Duration::from_millis(20));
        near.write_all(&[0; 10]).await.unwrap();
        assert_eq!(near.write_all(&[0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
