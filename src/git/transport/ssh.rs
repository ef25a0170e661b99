//! git commands on an ssh server (RFC 4254, section 6.5).

use std::borrow::Cow;
use std::sync::Arc;

use russh::client::{self, AuthResult, Config, Handle, Handler, Msg};
use russh::keys::{
    Algorithm, Error as KeyError, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate,
    decode_secret_key,
};
use russh::{Channel, ChannelMsg, Preferred, SshId};

use super::Session;
use crate::git::Error;
use crate::git::known_hosts::{HostKeyMatch, KnownHosts};
use crate::git::remote::Transport;
use object::text;

/// The maximum length of the stored error output of a server.
const MAX_STDERR: usize = 4096;

/// The maximum length of quoted server text, in characters.
const QUOTED: usize = 300;

/// Exit statuses of a shell that cannot find or run a command.
const NO_COMMAND: [u32; 2] = [126, 127];

/// An authenticated connection.
type Connection = Handle<HostKey>;

/// Checks the server's key against `known_hosts`. There is no trust on first use.
struct HostKey {
    known_hosts: KnownHosts,
    host: String,
    port: u16,
}

/// The reason for a failed connection.
#[derive(Debug)]
enum SshError {
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
            return Err(SshError::HostKey("it uses a host certificate, which is not supported"));
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

/// A running git command on the server.
pub(super) struct GitCommand {
    channel: Channel<Msg>,
    /// Received bytes that are not read yet.
    rest: Vec<u8>,
    /// The server's standard error output.
    stderr: String,
    /// True once the command has sent output.
    has_answered: bool,
    /// Keeps the connection open.
    _connection: Connection,
}

impl GitCommand {
    /// Reads received bytes; none at the end.
    pub(super) async fn read(&mut self, buffer: &mut [u8], session: &Session) -> Result<usize, Error> {
        let Self { channel, rest, stderr, has_answered, .. } = self;
        while rest.is_empty() {
            match channel.wait().await {
                Some(ChannelMsg::Data { data }) => {
                    // gitea prints an empty line before it rejects access.
                    *has_answered |= !data.trim_ascii().is_empty();
                    rest.extend_from_slice(&data);
                }
                Some(ChannelMsg::ExtendedData { data, .. }) if stderr.len() < MAX_STDERR => {
                    stderr.push_str(&String::from_utf8_lossy(&data));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) if exit_status != 0 => {
                    // Other messages from the server may follow the status.
                    while let Some(message) = channel.wait().await {
                        if let ChannelMsg::ExtendedData { data, .. } = message
                            && stderr.len() < MAX_STDERR
                        {
                            stderr.push_str(&String::from_utf8_lossy(&data));
                        }
                    }
                    return Err(failed(session, exit_status, stderr, *has_answered));
                }
                Some(ChannelMsg::Failure) => {
                    return Err(session.unreachable("it runs no git command"));
                }
                Some(ChannelMsg::Close) | None => return Ok(0),
                Some(_) => {}
            }
        }
        let length = rest.len().min(buffer.len());
        let taken: Vec<u8> = rest.drain(..length).collect();
        for (to, from) in buffer.iter_mut().zip(taken) {
            *to = from;
        }
        Ok(length)
    }

    pub(super) async fn write(&mut self, bytes: &[u8], session: &Session) -> Result<(), Error> {
        self.channel.data_bytes(bytes.to_vec()).await.map_err(|e| session.unreachable(e))
    }
}

/// Returns the error of a command that has ended. Hosting services accept any registered key, and only reject
/// access to the repository in the command, before it sends output.
fn failed(session: &Session, status: u32, stderr: &str, has_answered: bool) -> Error {
    let words = stderr.trim();
    let reason = if words.is_empty() { "it gives no reason" } else { words };
    let reason = format!("exit status {}: {reason}", status.cast_signed());
    if has_answered || NO_COMMAND.contains(&status) {
        return session.unreachable(reason);
    }
    Error::Auth { url: session.remote.to_string(), reason: text::plain(&session.hide(&reason), QUOTED) }
}

/// Reads the private key in the Secret. Decrypting it takes time, which does not count towards the connection's
/// limit.
pub(super) fn private_key(session: &Session) -> Result<PrivateKey, Error> {
    let (key, passphrase) = session.credentials.ssh_key();
    decode_secret_key(key, passphrase).map_err(|error| {
        let reason = match (error, passphrase) {
            (KeyError::KeyIsEncrypted, _) => "is locked; add its passphrase as the key password".into(),
            (error, Some(_)) => {
                format!("cannot be read with the passphrase in the key password: {error}")
            }
            (error, None) => format!("cannot be read: {error}"),
        };
        Error::Credentials(format!("key ssh-privatekey of the Secret {reason}"))
    })
}

pub(super) async fn connect(session: &Session, command: &str, key: PrivateKey) -> Result<GitCommand, Error> {
    let Transport::Ssh { host, port, user } = session.remote.transport() else {
        return Err(session.unreachable("it is not an ssh address"));
    };
    let failed = |error: SshError| match error {
        SshError::HostKey(reason) => {
            Error::HostKey { url: session.remote.to_string(), reason: reason.into() }
        }
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
    authenticate(session, &mut connection, user, key).await?;
    let failed = |error: russh::Error| session.unreachable(error);
    let channel = connection.channel_open_session().await.map_err(failed)?;
    // git itself quotes the path in single quotes.
    let path = session.remote.path().replace('\'', "'\\''");
    channel.exec(true, format!("{command} '{path}'")).await.map_err(failed)?;
    let (rest, stderr, has_answered) = (Vec::new(), String::new(), false);
    Ok(GitCommand { channel, rest, stderr, has_answered, _connection: connection })
}

async fn authenticate(
    session: &Session,
    connection: &mut Connection,
    user: &str,
    key: PrivateKey,
) -> Result<(), Error> {
    let failed = |error: russh::Error| session.unreachable(error);
    let hash = connection.best_supported_rsa_hash().await.map_err(failed)?.flatten();
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    match connection.authenticate_publickey(user, key).await.map_err(failed)? {
        AuthResult::Success => Ok(()),
        AuthResult::Failure { .. } => Err(Error::Auth {
            url: session.remote.to_string(),
            reason: format!("it does not accept the ssh key for user {user}"),
        }),
    }
}

/// Requests host keys of known types, so that a server with several keys uses a known one. SHA-1 is never
/// accepted.
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
