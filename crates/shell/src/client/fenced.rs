//! Connections that send nothing after this process has lost its leadership.
//!
//! A request passes through queues, HTTP/2 framing and TLS before the operating system gets its bytes, and the
//! process may be suspended at any point. So the leadership is checked last, right before the bytes go to the
//! system.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

use crate::election::Leadership;

/// A connection to a server or a proxy.
pub(super) trait Stream: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> Stream for T {}

/// A connection that sends only while this process leads, or always if there is no leadership.
pub(super) struct Fenced {
    pub(super) inner: Box<dyn Stream>,
    pub(super) leadership: Option<Leadership>,
}

impl Fenced {
    fn check(&self) -> io::Result<()> {
        match self.leadership.as_ref().map(Leadership::check) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(not_leading)) => Err(io::Error::other(not_leading)),
        }
    }
}

impl Write for Fenced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }
}

impl Read for Fenced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl Connection for Fenced {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}
