//! The state that all requests share: the stores with their locks, the open watches, and the keys.

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
    signals: Arc<Signals>,
    journal: Option<Journal>,
    pub(super) clock: fn() -> Timestamp,
    pub(super) authority: Authority,
    /// Verifies the chains of client certificates.
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) tokens: TokenKey,
    /// Static bearer tokens, by their digests.
    pub(super) static_tokens: BTreeMap<[u8; 32], Arc<User>>,
    pub(super) documents: Documents,
    /// Requests that are being answered, and open watches.
    pub(super) in_flight: InFlight,
    pub(super) stop: CancellationToken,
}

/// Limits of what is answered at once.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Arc<Places>,
    watches: Arc<Places>,
}

impl Default for InFlight {
    fn default() -> Self {
        // `--max-requests-inflight` and `--max-mutating-requests-inflight` of kube-apiserver together; a body
        // takes 3 MiB.
        let requests = Places::new(600);
        // A watch takes a connection and 64 KiB.
        Self { requests, watches: Places::new(8_192) }
    }
}

impl InFlight {
    /// Counts a request of a user, until the place is dropped.
    ///
    /// # Errors
    /// 429 if there are too many.
    pub(super) fn request(&self, user: &User) -> Result<Place, ApiError> {
        self.requests.take(user).ok_or_else(ApiError::too_many_requests)
    }

    /// Counts a watch of a user, until the place is dropped.
    ///
    /// # Errors
    /// 429 if there are too many.
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
}

impl Hub {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { stores, signals, journal, clock, authority, verifier, tokens, static_tokens } = parts;
        Self {
            stores,
            signals,
            journal,
            clock,
            authority,
            verifier,
            tokens,
            static_tokens,
            documents: Documents::default(),
            in_flight: InFlight::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Reads the durable state. `look` must be short, because every request waits meanwhile.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.stores.shown())
    }

    /// Changes the store, and returns when the change is durable.
    ///
    /// # Errors
    /// Returns the result of `change`, or 500 if the disk refused the change, which is undone then.
    pub(super) async fn write<T>(
        &self,
        change: impl FnOnce(&mut Store, Timestamp) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (outcome, durable) = self.write_unsettled(change);
        if let Some(durable) = durable {
            durable.wait().await.map_err(ApiError::internal)?;
        }
        outcome
    }

    /// Changes the store. The second result resolves when the change, and the state that it was decided on,
    /// are durable.
    pub(super) fn write_unsettled<T>(
        &self,
        change: impl FnOnce(&mut Store, Timestamp) -> T,
    ) -> (T, Option<Durable>) {
        let mut store = self.stores.head();
        let outcome = change(&mut store, (self.clock)());
        let written: Vec<JournalEntry> = store.take_journal();
        match &self.journal {
            // The lock is held here, so that the order on disk is that of the revisions.
            Some(journal) => (outcome, Some(journal.append(written))),
            None => {
                self.signals.notify(written.iter().map(|e| (&e.resource, e.revision)));
                (outcome, None)
            }
        }
    }

    /// Calls [`Signals::subscribe`].
    pub(super) fn subscribe(&self, resource: &GroupResource) -> watch::Receiver<u64> {
        self.signals.subscribe(resource)
    }

    /// Wakes at every change.
    pub(super) fn subscribe_all(&self) -> watch::Receiver<u64> {
        self.signals.subscribe_all()
    }

    /// Returns why the last write was refused, if the disk refused it.
    pub(super) fn failure(&self) -> Option<String> {
        self.journal.as_ref().and_then(Journal::failure)
    }
}
