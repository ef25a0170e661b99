//! Accepts connections, a limited number at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// A TLS handshake that takes longer is given up, so that silent clients soon make room.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time to wait when no connection can be accepted: file descriptors come back when others end.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Runs `connection` for each connection until `stop`, which ends the open ones too; `most` at once.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    most: usize,
    stop: CancellationToken,
    connection: impl Fn(TcpStream, SocketAddr) -> F,
) {
    let connections = Arc::new(Semaphore::new(most));
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
                let (connection, stop) = (connection(stream, peer), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = connection => {}
                        () = stop.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(RETRY_DELAY).await;
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
        let accepting = tokio::spawn(accept(listener, 1, stop.clone(), move |stream, _| {
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
}
