//! A bidirectional stream, for ssh and git's own protocol.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Session;
use super::advertisement::Advertisement;
use super::pack::PackReader;
use super::session::Part;
use super::ssh::GitCommand;
use crate::git::Error;

/// The connection of a stream.
pub(super) enum Wire {
    /// git's own protocol.
    Tcp(TcpStream),
    /// A command on an ssh server.
    Ssh(GitCommand),
}

impl Wire {
    /// Reads received bytes; none at the end.
    async fn read(&mut self, buffer: &mut [u8], session: &Session) -> Result<usize, Error> {
        match self {
            Self::Tcp(stream) => stream.read(buffer).await.map_err(|e| session.unreachable(e)),
            Self::Ssh(command) => command.read(buffer, session).await,
        }
    }

    async fn write(&mut self, bytes: &[u8], session: &Session) -> Result<(), Error> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes).await.map_err(|e| session.unreachable(e)),
            Self::Ssh(command) => command.write(bytes, session).await,
        }
    }
}

/// The stream for libgit2.
pub(super) struct Duplex {
    session: Arc<Session>,
    wire: Wire,
    part: Part,
    advertisement: Advertisement,
    /// The bytes of the list or the response that libgit2 has not read yet.
    rest: VecDeque<u8>,
    /// The response to a fetch; `None` for a push, whose response has no pack.
    answer: Option<PackReader>,
}

impl Duplex {
    pub(super) fn new(session: Arc<Session>, wire: Wire, answer: Option<PackReader>) -> Self {
        let (advertisement, rest) = (session.advertisement(), VecDeque::new());
        Self { session, wire, part: Part::Advertisement, advertisement, rest, answer }
    }
}

impl Read for Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { session, wire, part, advertisement, rest, answer } = self;
        while rest.is_empty() {
            let is_push = *part == Part::PackReader && answer.is_none();
            let arrived = session.wait_for_answer(is_push, async {
                let length = wire.read(buffer, session).await?;
                session.count(*part, length)?;
                let bytes = buffer.get(..length).unwrap_or_default();
                match (*part, answer.as_mut()) {
                    (Part::Advertisement, _) => rest.extend(session.pass(advertisement, bytes)?),
                    (Part::PackReader, Some(answer)) => {
                        rest.extend(answer.take(bytes).map_err(|error| session.refuse(&error))?);
                    }
                    (Part::PackReader, None) => {
                        session.keep_push_answer(bytes);
                        return Ok(Some(length));
                    }
                }
                // The received bytes may contain nothing for libgit2 yet.
                Ok((length == 0).then_some(0))
            })?;
            if let Some(length) = arrived {
                return Ok(length);
            }
        }
        rest.read(buffer)
    }
}

impl Write for Duplex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { session, wire, part, .. } = self;
        // The server sends the list of references before it reads a request.
        *part = Part::PackReader;
        let request = session.request(bytes);
        session.wait(wire.write(&request, session))?;
        session.sent(request.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
