//! git commands on an ssh server (RFC 4254, section 6.5).

use std::borrow::Cow;
use std::sync::Arc;

use russh::client::{self, AuthResult, Config, Handle, Handler};
use russh::keys::{Algorithm, PrivateKeyWithHashAlg, PublicKeyOrCertificate, decode_secret_key};
use russh::{Preferred, SshId};

use super::Session;
use super::duplex::Wire;
use crate::git::Error;
use crate::git::known_hosts::{HostKeyMatch, KnownHosts};
use crate::git::remote::Transport;

/// An authenticated connection.
pub(super) type Connection = Handle<HostKey>;

/// Compares the key of the server with `known_hosts`. There is no trust on first use.
pub(super) struct HostKey {
    known_hosts: KnownHosts,
    host: String,
    port: u16,
}

/// Why a connection failed.
#[derive(Debug)]
pub(super) enum SshError {
    HostKey(&'static str),
    Protocol(russh::Error),
}

impl From<russh::Error> for SshError {
    fn from(error: russh::Error) -> Self {
        Self::Protocol(error)
    }
}

impl Handler for HostKey {
    type Error = SshError;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, SshError> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Err(SshError::HostKey("it proves itself by a certificate, which is not supported"));
        };
        let bytes = key.to_bytes().unwrap_or_default();
        match self.known_hosts.check(&self.host, self.port, &bytes) {
            HostKeyMatch::Match => Ok(true),
            HostKeyMatch::Mismatch => Err(SshError::HostKey(
                "its host key is not the one in known_hosts; if the host changed it on purpose, update the Secret",
            )),
            HostKeyMatch::Unknown => Err(SshError::HostKey("known_hosts has no line for this host and port")),
        }
    }
}

/// Runs a command on the server.
pub(super) async fn connect(session: &Session, command: &str) -> Result<Wire, Error> {
    let Transport::Ssh { host, port, user } = session.remote.transport() else {
        return Err(session.unreachable("it is not an ssh address"));
    };
    let failed = |error: SshError| match error {
        SshError::HostKey(why) => Error::HostKey { url: session.remote.to_string(), why: why.into() },
        SshError::Protocol(error) => session.unreachable(error),
    };
    let known_hosts = session.credentials.known_hosts().clone();
    let config = Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-wheelwright_", env!("CARGO_PKG_VERSION")))),
        preferred: preferred(&known_hosts, host, *port),
        nodelay: true,
        ..Config::default()
    };
    let stream = session.connect(host, *port).await?;
    let handler = HostKey { known_hosts, host: host.clone(), port: *port };
    let mut connection = client::connect_stream(Arc::new(config), stream, handler).await.map_err(failed)?;
    authenticate(session, &mut connection, user).await?;
    let failed = |error: russh::Error| session.unreachable(error);
    let channel = connection.channel_open_session().await.map_err(failed)?;
    // git itself quotes the path in single quotes.
    let path = session.remote.path().replace('\'', "'\\''");
    channel.exec(true, format!("{command} '{path}'")).await.map_err(failed)?;
    Ok(Wire::Ssh { channel, rest: Vec::new(), stderr: String::new(), _connection: connection })
}

async fn authenticate(session: &Session, connection: &mut Connection, user: &str) -> Result<(), Error> {
    let (key, passphrase) = session.credentials.ssh_key();
    let key = decode_secret_key(key, passphrase).map_err(|error| {
        Error::Credentials(format!("key ssh-privatekey of the Secret cannot be read: {error}"))
    })?;
    let failed = |error: russh::Error| session.unreachable(error);
    let hash = connection.best_supported_rsa_hash().await.map_err(failed)?.flatten();
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    match connection.authenticate_publickey(user, key).await.map_err(failed)? {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { .. } => Err(Error::Auth {
            url: session.remote.to_string(),
            why: format!("it does not accept the ssh key for user {user}"),
        }),
    }
}

/// Asks for host keys of the types on record, so that a server with several keys uses a known one. SHA-1 is
/// never accepted.
fn preferred(known_hosts: &KnownHosts, host: &str, port: u16) -> Preferred {
    let types = known_hosts.key_types(host, port);
    let is_known = |algorithm: &&Algorithm| match algorithm {
        Algorithm::Rsa { hash } => hash.is_some() && types.iter().any(|known| known == "ssh-rsa"),
        other => types.iter().any(|known| known == other.as_str()),
    };
    let mut preferred = Preferred::DEFAULT;
    let keys: Vec<Algorithm> = preferred.key.iter().filter(is_known).cloned().collect();
    if !keys.is_empty() {
        preferred.key = Cow::Owned(keys);
    }
    preferred
}
