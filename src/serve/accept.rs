//! Accepts a limited number of concurrent connections.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The timeout of a TLS handshake, so that silent clients soon make room.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// The wait if a connection cannot be accepted. File descriptors are released when other connections end.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The maximum number of open connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// In total. Further connections wait.
    pub(super) most: usize,
    /// From one address. Further connections are closed, so that one client cannot lock out others.
    pub(super) of_one: usize,
}

/// Runs `connection` for each connection until `stop`, which also ends the open connections.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limits: ConnectionLimits,
    stop: CancellationToken,
    connection: impl Fn(TcpStream, SocketAddr) -> F,
) {
    let connections = Arc::new(Semaphore::new(limits.most));
    let sources = OpenConnections::default();
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = sources.place(peer.ip(), limits.of_one) else { continue };
                let (connection, stop) = (connection(stream, peer), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection => {}
                        () = stop.cancelled() => {}
                    }
                    drop((permit, place));
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// The number of open connections by address.
#[derive(Clone, Default)]
struct OpenConnections(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

impl OpenConnections {
    /// Returns a place for an address; `None` if the address has reached its limit.
    fn place(&self, address: IpAddr, most: usize) -> Option<OpenConnection> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        (*count < most).then(|| {
            *count += 1;
            OpenConnection { sources: self.clone(), address }
        })
    }
}

/// The place of an open connection, released on drop.
struct OpenConnection {
    sources: OpenConnections,
    address: IpAddr,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.sources.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_stop_waits_for_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, (opened, mut open)) = (CancellationToken::new(), mpsc::unbounded_channel());
        let limits = ConnectionLimits { most: 1, of_one: 1 };
        let accepting = tokio::spawn(accept(listener, limits, stop.clone(), move |stream, _| {
            let opened = opened.clone();
            async move {
                opened.send(()).unwrap();
                std::future::pending::<()>().await;
                drop(stream);
            }
        }));
        let _silent = TcpStream::connect(address).await.unwrap();
        open.recv().await.unwrap();
        stop.cancel();
        accepting.await.unwrap();
        assert_eq!(open.recv().await, None, "the connection has ended");
    }

    #[tokio::test]
    async fn one_client_with_silent_connections_blocks_no_other() {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, (opened, mut open)) = (CancellationToken::new(), mpsc::unbounded_channel());
        let limits = ConnectionLimits { most: 4, of_one: 2 };
        tokio::spawn(accept(listener, limits, stop.clone(), move |stream, peer| {
            let opened = opened.clone();
            async move {
                opened.send(peer.ip()).unwrap();
                std::future::pending::<()>().await;
                drop(stream);
            }
        }));
        let connect = async |from: [u8; 4]| {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from((from, 0))).unwrap();
            socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap()
        };
        let (greedy, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
        let mut silent = Vec::new();
        for _ in 0..6 {
            silent.push(connect(greedy).await);
        }
        let _late = connect(other).await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(open.recv().await.unwrap());
        }
        assert_eq!(seen, [greedy, greedy, other].map(IpAddr::from));
        stop.cancel();
    }
}
