//! One fetch or push: its server, the credentials, and the limits.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Egress;
use super::advertisement::{Advertisement, IsSha256, PushedReference};
use super::arrivals::{Arrival, Arrivals};
use super::filter::{FILTER, without_large_files};
use super::report_status;
use crate::git::{Credentials, Error, Remote};

/// Limits on the connections of one fetch or push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// The maximum wait for a connection.
    pub connect: Duration,
    /// The maximum wait for the next bytes from a server.
    pub idle: Duration,
    /// The maximum total time. It stops servers that keep sending and never finish.
    pub total: Duration,
    /// The maximum bytes of the list of references.
    pub advertisement_bytes: u64,
    /// The maximum bytes of all responses.
    pub bytes: u64,
}

impl Default for TransportLimits {
    /// Returns limits for 100,000 references of 160 bytes, and a pack of 2 GiB. The configuration of a hub is
    /// far smaller, even with a long history.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(300),
            advertisement_bytes: 16 << 20,
            bytes: 2 << 30,
        }
    }
}

thread_local! {
    /// The session of the operation on this thread.
    static CURRENT: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// The part of an exchange that bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The list of references.
    Advertisement,
    /// The response to a request: a pack, or the result of a push.
    PackReader,
}

/// The limits of a session.
pub(in crate::git) struct SessionLimits<'a> {
    pub(in crate::git) transport: TransportLimits,
    /// The addresses that the session may connect to.
    pub(in crate::git) egress: Egress,
    /// Limits the bytes in flight from all servers.
    pub(in crate::git) arrivals: &'a Arc<Arrivals>,
}

/// One fetch or push.
#[derive(Debug)]
pub(in crate::git) struct Session {
    pub(super) remote: Remote,
    pub(super) credentials: Credentials,
    pub(super) limits: TransportLimits,
    egress: Egress,
    cancel: CancellationToken,
    /// Runs the connections on the operation's thread.
    runtime: Runtime,
    ends: Instant,
    received: [AtomicU64; 2],
    /// The share of `received` in the bytes of all sessions.
    arrival: Arrival,
    failure: Mutex<Option<Error>>,
    /// True if the server can omit large files.
    can_filter: AtomicBool,
    is_filtered: AtomicBool,
    pushed: OnceLock<PushedReference>,
    /// The path after a redirect.
    path: Mutex<Option<String>>,
    /// The start of the response to a push.
    push_answer: Mutex<Vec<u8>>,
}

impl Session {
    /// Starts a session.
    ///
    /// # Errors
    /// Returns [`Error::Cache`] if the system is out of resources.
    pub(in crate::git) fn new(
        remote: Remote,
        credentials: Credentials,
        limits: SessionLimits<'_>,
        cancel: CancellationToken,
    ) -> Result<Arc<Self>, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::Cache(format!("cannot start a runtime: {e}")))?;
        let received = [AtomicU64::new(0), AtomicU64::new(0)];
        let SessionLimits { transport: limits, egress, arrivals } = limits;
        let ends = Instant::now() + limits.total;
        let (arrival, failure) = (Arrivals::begin(arrivals), Mutex::new(None));
        Ok(Arc::new(Self {
            remote,
            credentials,
            limits,
            egress,
            cancel,
            runtime,
            ends,
            received,
            arrival,
            failure,
            can_filter: AtomicBool::default(),
            is_filtered: AtomicBool::default(),
            pushed: OnceLock::new(),
            path: Mutex::default(),
            push_answer: Mutex::default(),
        }))
    }

    /// Runs an operation of libgit2 whose connections use this session. [`Session::explain`] returns the reason
    /// for a failure.
    pub(in crate::git) fn scope<T>(self: &Arc<Self>, operation: impl FnOnce() -> T) -> T {
        /// Ends the scope even if the operation panics.
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(None);
            }
        }
        CURRENT.set(Some(Arc::clone(self)));
        let _leave = Leave;
        operation()
    }

    /// Returns the session of this thread.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the error of an operation: the connection's failure if there is one.
    pub(in crate::git) fn explain(&self, error: &git2::Error) -> Error {
        let failure = self.failure.lock().expect("no thread panics while it holds the failure").clone();
        match failure {
            Some(failure) => failure,
            None if self.cancel.is_cancelled() => self.cancelled(),
            None => {
                let shown = git2::Error::new(error.code(), error.class(), self.hide(error.message()));
                Error::remote(self.remote.url(), &shown)
            }
        }
    }

    /// Returns true if a connection failed, rather than libgit2.
    pub(in crate::git) fn has_failed(&self) -> bool {
        self.failure.lock().expect("no thread panics while it holds the failure").is_some()
    }

    /// Asks the server to omit large files from now on, if it can and its pack was rejected. Returns true if
    /// the operation must be repeated.
    pub(in crate::git) fn leaves_out_large_files(&self, error: &git2::Error) -> bool {
        let mut failure = self.failure.lock().expect("no thread panics while it holds the failure");
        let is_refused = failure
            .as_ref()
            .map_or(Error::is_refused_pack(error), |failure| matches!(failure, Error::Content(_)));
        let can_filter = self.can_filter.load(Ordering::Relaxed);
        let begins = is_refused && can_filter && !self.is_filtered.swap(true, Ordering::Relaxed);
        if begins {
            *failure = None;
        }
        begins
    }

    /// Returns the request for the server.
    pub(super) fn request<'r>(&self, bytes: &'r [u8]) -> Cow<'r, [u8]> {
        match self.is_filtered.load(Ordering::Relaxed) {
            true => without_large_files(bytes),
            false => Cow::Borrowed(bytes),
        }
    }

    /// Redacts the credentials in a server's text.
    pub(in crate::git) fn hide(&self, text: &str) -> String {
        self.credentials.hide(text)
    }

    fn cancelled(&self) -> Error {
        let bytes: u64 = self.received.iter().map(|received| received.load(Ordering::Relaxed)).sum();
        Error::Cancelled { url: self.remote.to_string(), received: bytes >> 20 }
    }

    /// Checks the name of a host that is only reached through a proxy.
    pub(super) fn check_host(&self, host: &str) -> Result<(), Error> {
        self.egress.check_host(host)
    }

    /// Connects to a host that repositories may be on.
    pub(super) async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        self.check_host(host)?;
        let addresses = lookup_host((host, port)).await.map_err(|e| self.unreachable(e))?;
        self.connect_to(host, addresses).await
    }

    /// Connects to the first allowed address of a host that answers.
    async fn connect_to(
        &self,
        host: &str,
        addresses: impl Iterator<Item = SocketAddr>,
    ) -> Result<TcpStream, Error> {
        let mut failure = self.unreachable("its host has no address");
        for address in addresses {
            if let Err(refused) = self.egress.check_address(host, address.ip()) {
                failure = refused;
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = self.unreachable(error),
            }
        }
        Err(failure)
    }

    /// Returns an error for a server that is unreachable or responds incorrectly.
    pub(super) fn unreachable(&self, reason: impl std::fmt::Display) -> Error {
        Error::unreachable(self.remote.url(), &self.hide(&reason.to_string()))
    }

    /// Waits for one step of a connection, within the limits.
    ///
    /// # Errors
    /// Returns the failure, which [`Session::explain`] repeats.
    pub(super) fn wait<T>(&self, step: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        self.wait_within(self.limits.idle, step)
    }

    /// Waits for the next bytes of a response. The response to a push may take as long as the session, because
    /// the server's hooks run first.
    ///
    /// # Errors
    /// See [`Session::wait`].
    pub(super) fn wait_for_answer<T>(
        &self,
        is_push: bool,
        step: impl Future<Output = Result<T, Error>>,
    ) -> io::Result<T> {
        self.wait_within(if is_push { self.limits.total } else { self.limits.idle }, step)
    }

    fn wait_within<T>(&self, idle: Duration, step: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        let result = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => Err(self.cancelled()),
                () = tokio::time::sleep_until(self.ends) => Err(self.cancelled()),
                result = timeout(idle, step) => result
                    .unwrap_or_else(|_| Err(self.unreachable(format!("it has sent nothing for {} s", idle.as_secs_f32())))),
            }
        });
        result.map_err(|failure| self.fail(failure))
    }

    /// Stores a failure for [`Session::explain`].
    pub(super) fn fail(&self, failure: Error) -> io::Error {
        let text = failure.to_string();
        let mut first = self.failure.lock().expect("no thread panics while it holds the failure");
        first.get_or_insert(failure);
        io::Error::other(text)
    }

    /// Waits for a connection and the response to its first request, within both limits.
    ///
    /// # Errors
    /// See [`Session::wait`].
    pub(super) fn wait_to_connect<T>(&self, step: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        self.wait(self.limit_connect(step))
    }

    /// Applies the connection's time limit to a step.
    pub(super) async fn limit_connect<T>(
        &self,
        step: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.limit(self.limits.connect, step).await
    }

    async fn limit<T>(
        &self,
        longest: Duration,
        step: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Err(self.unreachable(format!("no response within {} s", longest.as_secs_f32())));
        timeout(longest, step).await.unwrap_or_else(late)
    }

    /// Returns the path of the repository on the server.
    pub(super) fn path(&self) -> String {
        let path = self.path.lock().expect("no thread panics while it holds the path");
        path.as_deref().unwrap_or(self.remote.path()).trim_end_matches('/').to_owned()
    }

    /// Sends further requests to the path of a redirect.
    pub(super) fn follow(&self, path: String) {
        *self.path.lock().expect("no thread panics while it holds the path") = Some(path);
    }

    /// Stores a part of the response to a push.
    pub(super) fn keep_push_answer(&self, bytes: &[u8]) {
        let mut answer = self.push_answer.lock().expect("no thread panics while it holds the answer");
        let room = report_status::MAX_ANSWER - answer.len();
        answer.extend(bytes.iter().take(room));
    }

    /// Returns the reason if the server could not unpack the push.
    pub(in crate::git) fn unpack_failure(&self) -> Option<String> {
        let answer = self.push_answer.lock().expect("no thread panics while it holds the answer");
        report_status::unpack_failure(&answer).map(|reason| self.hide(&reason))
    }

    /// Runs a request until its response, within the limits.
    ///
    /// # Errors
    /// Returns the failure of the request.
    pub(super) fn run<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.wait(self.limit(self.limits.idle, request))
            .map_err(|error| self.explain(&git2::Error::from_str(&error.to_string())))
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if a limit is exceeded.
    pub(super) fn count(&self, part: Part, bytes: usize) -> Result<(), Error> {
        let [advertisement, answer] = &self.received;
        let (counter, limit, what) = match part {
            Part::Advertisement => {
                (advertisement, self.limits.advertisement_bytes, "a list of references of")
            }
            Part::PackReader => (answer, self.limits.bytes, "an answer of"),
        };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if counter.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= limit {
            return self.arrival.add(bytes).map_err(|limit| {
                Error::Cache(format!(
                    "concurrent responses from all repositories exceed {} MiB, and the response from {} is one of the larger ones",
                    limit >> 20,
                    self.remote
                ))
            });
        }
        Err(Error::Content(format!(
            "{} sends {what} more than {} MiB; keep the configuration in a separate repository",
            self.remote,
            limit >> 20
        )))
    }

    /// Counts sent bytes.
    pub(super) fn sent(&self, bytes: usize) {
        self.arrival.sent(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Returns an error for an invalid response.
    pub(super) fn refuse(&self, reason: &str) -> Error {
        Error::Content(format!("{} sends a pack that is refused: {reason}", self.remote))
    }

    /// Limits the references that libgit2 sees before a push.
    pub(in crate::git) fn pushes(&self, reference: PushedReference) {
        self.pushed.get_or_init(|| reference);
    }

    /// Returns a parser for the list of references of a connection.
    pub(super) fn advertisement(&self) -> Advertisement {
        Advertisement::new(self.pushed.get().cloned())
    }

    /// Takes the next bytes of a list of references, and returns the bytes for libgit2.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if libgit2 does not support the repository's object format.
    pub(super) fn pass(&self, advertisement: &mut Advertisement, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let passed = advertisement.take(bytes).map_err(|IsSha256| Error::sha256(self.remote.url()))?;
        self.can_filter.fetch_or(advertisement.has(FILTER), Ordering::Relaxed);
        Ok(passed)
    }
}

#[cfg(test)]
#[path = "tests/session.rs"]
mod tests;
