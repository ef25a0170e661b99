//! The state that all requests share: the stores and their locks, the open watches, and the keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journal::{Durable, Journal, Stores};
use super::openapi::Documents;
use super::places::{Place, Places};
use super::signals::Signals;
use super::token::TokenKey;
use crate::pki::Authority;
use store::{ApiError, GroupResource, JournalEntry, Store, User};

/// The state of a server.
#[derive(Debug)]
pub(super) struct Hub {
    stores: Arc<Stores>,
    /// Locked by the next write, so that no thread waits for other writes.
    turn: Turn,
    /// The same lock for reviews.
    reviews: Turn,
    signals: Arc<Signals>,
    journal: Option<Journal>,
    pub(super) clock: fn() -> Timestamp,
    pub(super) authority: Authority,
    /// Verifies the chains of client certificates.
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) tokens: TokenKey,
    /// Static bearer tokens, keyed by their digests.
    pub(super) static_tokens: BTreeMap<[u8; 32], Arc<User>>,
    pub(super) documents: Documents,
    /// Requests in flight, and open watches.
    pub(super) in_flight: InFlight,
    pub(super) stop: CancellationToken,
}

/// Serializes work. A task keeps its turn until it ends, even if the client has disconnected.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// The limits on concurrent requests, bytes and watches.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Arc<Places>,
    bodies: Arc<Places>,
    answers: Arc<Places>,
    watches: Arc<Places>,
}

/// The limit on bytes of request bodies in memory.
const BODIES: usize = 64 << 20;
/// The limit on bytes of long responses in memory.
const ANSWERS: usize = 64 << 20;
/// The number of bytes per place.
const PLACE: usize = 64 << 10;

/// The bytes that one watch uses, in addition to a long event that waits for its client.
pub(super) const WATCH: usize = 32 << 10;
/// Watches may use this fraction of the memory: 1/16.
const WATCHES: usize = 16;

impl InFlight {
    /// Creates the limits for a process that may use this many bytes of memory.
    fn new(memory: usize) -> Self {
        // `--max-requests-inflight` and `--max-mutating-requests-inflight` of kube-apiserver together.
        let requests = Places::new(600);
        let (bodies, answers) = (Places::new(BODIES / PLACE), Places::new(ANSWERS / PLACE));
        let watches = Places::new((memory / WATCHES / WATCH).min(8_192));
        Self { requests, bodies, answers, watches }
    }

    /// Counts a user's request until the place is dropped.
    ///
    /// # Errors
    /// 429 if there are too many requests.
    pub(super) fn request(&self, user: &User) -> Result<Place, ApiError> {
        self.requests.take(user).ok_or_else(ApiError::too_many_requests)
    }

    /// Counts the bytes of a user's body until the place is dropped.
    ///
    /// # Errors
    /// 429 if there are too many bytes.
    pub(super) fn body(&self, user: &User, bytes: usize) -> Result<Place, ApiError> {
        self.bodies.take_many(user, bytes.div_ceil(PLACE)).ok_or_else(ApiError::too_many_requests)
    }

    /// Counts the bytes of a response until the client has read it, up to the user's share.
    ///
    /// # Errors
    /// 429 if the user has too many unread bytes of other responses.
    pub(super) fn answer(&self, user: &User, bytes: usize) -> Result<Place, ApiError> {
        self.answers.take_up_to(user, bytes.div_ceil(PLACE)).ok_or_else(ApiError::too_many_requests)
    }

    /// Counts a user's watch until the place is dropped.
    ///
    /// # Errors
    /// 429 if there are too many watches.
    pub(super) fn watch(&self, user: &User) -> Result<Place, ApiError> {
        self.watches.take(user).ok_or_else(ApiError::too_many_requests)
    }
}

/// The parts of a [`Hub`].
pub(super) struct Parts {
    pub(super) stores: Arc<Stores>,
    pub(super) signals: Arc<Signals>,
    pub(super) journal: Option<Journal>,
    pub(super) clock: fn() -> Timestamp,
    pub(super) authority: Authority,
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) tokens: TokenKey,
    pub(super) static_tokens: BTreeMap<[u8; 32], Arc<User>>,
    /// The bytes of memory that the process may use.
    pub(super) memory: Option<usize>,
}

impl Hub {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { stores, signals, journal, clock, authority, verifier, tokens, static_tokens, memory } =
            parts;
        Self {
            stores,
            turn: Turn::default(),
            reviews: Turn::default(),
            signals,
            journal,
            clock,
            authority,
            verifier,
            tokens,
            static_tokens,
            documents: Documents::default(),
            in_flight: InFlight::new(memory.unwrap_or(usize::MAX)),
            stop: CancellationToken::new(),
        }
    }

    /// Reads the durable state. `look` must be fast, because it blocks every other request.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.stores.shown())
    }

    /// Changes the store, and returns when the change is durable.
    ///
    /// # Errors
    /// Returns the error of `change`, or 500 if the change failed on disk and was undone.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Store, Timestamp) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = self.turn.clone().lock_owned().await;
        let hub = self.clone();
        let work = move || (hub.write_unsettled(change), turn);
        let ((outcome, durable), turn) = apart(work).await;
        let Some(durable) = durable else { return outcome };
        // Small writes wait for the disk together. A large write keeps its turn, so that few are in memory.
        let turn = durable.is_large().then_some(turn);
        durable.wait().await.map_err(ApiError::internal)?;
        drop(turn);
        outcome
    }

    /// Does the work of a review. Parsing its body can take thirty times the memory of its text.
    pub(super) async fn review<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let turn = self.reviews.clone().lock_owned().await;
        let hub = self.clone();
        apart(move || (work(&hub), turn)).await.0
    }

    /// Changes the store. The second result resolves when the change, and the state that it was based on, are
    /// durable.
    pub(super) fn write_unsettled<T>(
        &self,
        change: impl FnOnce(&mut Store, Timestamp) -> T,
    ) -> (T, Option<Durable>) {
        let mut store = self.stores.head();
        let outcome = change(&mut store, (self.clock)());
        let written: Vec<JournalEntry> = store.take_journal();
        match &self.journal {
            // The lock is still held, so that the disk has the writes in the order of their revisions.
            Some(journal) => (outcome, Some(journal.append(written))),
            None => {
                self.signals.notify(written.iter().map(|e| (&e.resource, e.revision)));
                (outcome, None)
            }
        }
    }

    pub(super) fn subscribe(&self, resource: &GroupResource) -> watch::Receiver<u64> {
        self.signals.subscribe(resource)
    }

    /// Returns a channel that changes with every write.
    pub(super) fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.signals.subscribe_all()
    }

    /// Returns the error of the last write, if it failed on disk.
    pub(super) fn failure(&self) -> Option<String> {
        self.journal.as_ref().and_then(Journal::failure)
    }
}

/// Runs slow work on a thread that serves no connections.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and will drop this task.
        Err(Err(_)) => std::future::pending().await,
    }
}
