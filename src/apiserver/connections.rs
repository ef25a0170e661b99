//! Limits on connections: how many connections unauthenticated clients and each user can open, and how long a
//! client can keep one open without reading.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::places::{Place, Places};
use store::{ApiError, User};

/// The maximum number of connections with unknown peers: half of a process's default file descriptors.
const MAX_UNKNOWN_PEERS: usize = 512;
/// The file descriptors reserved for files and for connections of administrators.
const RESERVED: usize = 128;
/// The maximum number of connections with known peers, regardless of the number of file descriptors.
const MAX_KNOWN_PEERS: u64 = 65_536;

/// The open connections.
///
/// A connection of an unknown peer above the limit closes the oldest such connection. A flood of silent
/// connections therefore cannot lock out a client that sends a request at once. A connection with a valid
/// certificate or token takes a [`Place`] of its user.
#[derive(Debug)]
pub(super) struct Connections {
    /// Connections without a valid certificate or token so far, oldest first.
    unknown: Mutex<Queue>,
    known: Arc<Places>,
}

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    open: BTreeMap<u64, CancellationToken>,
}

/// One connection. Dropping it ends its count.
#[derive(Debug)]
pub(super) struct Connection {
    number: u64,
    of: Arc<Connections>,
    place: OnceLock<Place>,
}

impl Connections {
    /// Returns the limits for a process that may open this many files.
    pub(super) fn new(descriptors: u64) -> Arc<Self> {
        let known = usize::try_from(descriptors.min(MAX_KNOWN_PEERS)).unwrap_or_default();
        let known = Places::new(known.saturating_sub(MAX_UNKNOWN_PEERS + RESERVED));
        Arc::new(Self { unknown: Mutex::default(), known })
    }

    /// Counts a new connection. The token is canceled when the connection must be closed.
    pub(super) fn enter(self: &Arc<Self>) -> (Arc<Connection>, CancellationToken) {
        let mut queue = self.unknown();
        let (number, token) = (queue.next, CancellationToken::new());
        queue.next += 1;
        queue.open.insert(number, token.clone());
        while queue.open.len() > MAX_UNKNOWN_PEERS {
            if let Some((_, oldest)) = queue.open.pop_first() {
                oldest.cancel();
            }
        }
        (Arc::new(Connection { number, of: self.clone(), place: OnceLock::new() }), token)
    }

    fn unknown(&self) -> MutexGuard<'_, Queue> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Counts the connection towards this user from now on. Later users of the same connection do not count.
    ///
    /// # Errors
    /// 429 if the user has too many connections.
    pub(super) fn identify(&self, user: &User) -> Result<(), ApiError> {
        if self.place.get().is_none() {
            let place = self.of.known.take(user).ok_or_else(ApiError::too_many_requests)?;
            // If two first requests race, the second place is released.
            drop(self.place.set(place));
            self.of.unknown().open.remove(&self.number);
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.of.unknown().open.remove(&self.number);
    }
}

/// A stream whose writes fail if the peer does not read for too long.
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

    fn user(name: &str) -> User {
        User { name: name.into(), ..User::default() }
    }

    #[test]
    fn one_unknown_peer_too_many_closes_the_oldest() {
        let connections = Connections::new(1_024);
        let (known, known_token) = connections.enter();
        known.identify(&user("a")).unwrap();
        let entered: Vec<_> = (0..MAX_UNKNOWN_PEERS + 2).map(|_| connections.enter()).collect();
        let closed: Vec<bool> = entered.iter().map(|(_, token)| token.is_cancelled()).collect();
        assert!(closed[..2].iter().all(|closed| *closed) && !closed[2..].iter().any(|closed| *closed));
        assert!(!known_token.is_cancelled());
    }

    #[test]
    fn one_user_leaves_connections_to_others_and_gets_them_back_at_their_end() {
        let connections = Connections::new(1_024);
        let open = |name: &str| {
            let (connection, _) = connections.enter();
            connection.identify(&user(name)).map(|()| connection)
        };
        let of_a: Vec<_> = std::iter::from_fn(|| open("a").ok()).collect();
        assert_eq!(of_a.len(), (1_024 - MAX_UNKNOWN_PEERS - RESERVED) / 2);
        assert_eq!(open("a").unwrap_err().code(), 429);
        // Another request on the same connection does not count again.
        of_a[0].identify(&user("a")).unwrap();
        open("b").unwrap();
        drop(of_a);
        open("a").unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_disconnected() {
        let (near, _far) = tokio::io::duplex(10);
        let mut near = TimeoutStream::new(near, Duration::from_millis(20));
        near.write_all(&[0; 10]).await.unwrap();
        assert_eq!(near.write_all(&[0; 10]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
