//! git's own protocol (gitprotocol-pack(5), "Git Transport"). It has no authentication, so it is only allowed
//! on loopback.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Session;
use crate::git::Error;

/// Asks a daemon to run a command.
pub(super) async fn connect(session: &Session, command: &str) -> Result<TcpStream, Error> {
    let address = session.remote.address(9418).ok_or_else(|| session.unreachable("it has no address"))?;
    let mut stream = session.connect(address.host, address.port).await?;
    let line = format!("{command} {}\0host={}:{}\0", session.remote.path(), address.host, address.port);
    let request = format!("{:04x}{line}", line.len() + 4);
    stream.write_all(request.as_bytes()).await.map_err(|e| session.unreachable(e))?;
    Ok(stream)
}
