//! The visitors of the dashboard. The hub authenticates their tokens with TokenReviews.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::{Api, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::rights::Rights;
use crate::shell::message;
use controllers::hub::overview::Overview;

/// The time for which a token review is cached, and thus the longest time that a revoked token still works. It
/// does not exceed the default of a kubelet (`--authentication-token-webhook-cache-ttl`).
const TOKEN_TTL: Duration = Duration::from_secs(10);
/// The time for which the rights of a visitor are cached. They only determine the displayed content; the hub
/// authorizes each change.
const RIGHTS_TTL: Duration = Duration::from_secs(60);
/// The maximum number of concurrent token reviews.
const REVIEWS: usize = 8;
/// The maximum number of cached tokens.
const KNOWN: usize = 1024;
/// The maximum number of open pages per visitor.
pub(super) const STREAMS: usize = 16;

/// The SHA-256 digest of a token.
type TokenDigest = [u8; 32];

/// A user with a valid token.
pub(super) struct Visitor {
    user: UserInfo,
    /// A permit for each page that the visitor may still open.
    pub(super) streams: Arc<Semaphore>,
    rights: tokio::sync::Mutex<Option<(Instant, Arc<Rights>)>>,
}

impl Visitor {
    /// Returns the name of the user.
    pub(super) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// Returns the rights of the visitor, which are at most a minute old.
    ///
    /// # Errors
    /// Fails if the hub does not respond.
    pub(super) async fn rights(
        &self,
        hub: &kube::Client,
        overview: &Overview,
    ) -> Result<Arc<Rights>, String> {
        // The lock lets the pages of a visitor share one review.
        let mut cached = self.rights.lock().await;
        if let Some((read, rights)) = cached.as_ref()
            && read.elapsed() < RIGHTS_TTL
        {
            return Ok(Arc::clone(rights));
        }
        let rights = Arc::new(Rights::read(hub, &self.user, overview).await?);
        *cached = Some((Instant::now(), Arc::clone(&rights)));
        Ok(rights)
    }

    /// Returns the rights of the visitor, with the rights for a cluster and its namespace, which are not cached.
    ///
    /// # Errors
    /// Fails if the hub does not respond.
    pub(super) async fn rights_to_cluster(
        &self,
        hub: &kube::Client,
        overview: &Overview,
        cluster: &str,
    ) -> Result<Rights, String> {
        let rights = self.rights(hub, overview).await?;
        // Review for one page of a visitor at a time.
        let _turn = self.rights.lock().await;
        rights.with_cluster(hub, &self.user, cluster).await
    }
}

/// The visitors whose tokens the hub has accepted.
pub(super) struct Visitors {
    hub: kube::Client,
    reviews: Semaphore,
    known: Mutex<BTreeMap<TokenDigest, (Instant, Arc<Visitor>)>>,
    /// The permits for open pages of each user.
    streams: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

impl Visitors {
    pub(super) fn new(hub: kube::Client) -> Self {
        Self { hub, reviews: Semaphore::new(REVIEWS), known: Mutex::default(), streams: Mutex::default() }
    }

    /// Returns the visitor of a token; `None` if the hub does not accept it.
    ///
    /// # Errors
    /// Fails if the hub does not respond.
    pub(super) async fn authenticate(&self, token: &str) -> Result<Option<Arc<Visitor>>, String> {
        let digest: TokenDigest = Sha256::digest(token).into();
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned();
        if let Some((reviewed, visitor)) = &before
            && reviewed.elapsed() < TOKEN_TTL
        {
            return Ok(Some(Arc::clone(visitor)));
        }
        let user = self.review(token).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(user) = user else {
            known.remove(&digest);
            return Ok(None);
        };
        if known.len() >= KNOWN {
            known.retain(|_, (reviewed, _)| reviewed.elapsed() < TOKEN_TTL);
        }
        if known.len() >= KNOWN {
            known.clear();
        }
        // A user with a new token keeps the count of open pages and the rights.
        let same =
            known.values().map(|(_, visitor)| visitor).chain(before.as_ref().map(|(_, visitor)| visitor));
        let same = same.into_iter().find(|visitor| who(&visitor.user) == who(&user)).cloned();
        let visitor = same.unwrap_or_else(|| {
            let streams = self.streams_of(user.username.as_deref().unwrap_or_default());
            Arc::new(Visitor { user, streams, rights: tokio::sync::Mutex::default() })
        });
        known.insert(digest, (Instant::now(), Arc::clone(&visitor)));
        Ok(Some(visitor))
    }

    /// Returns the permits for open pages of a user. They are shared while the user has an open page or a cached
    /// token.
    fn streams_of(&self, user: &str) -> Arc<Semaphore> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, streams| streams.strong_count() > 0);
        let known = streams.get(user).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(STREAMS));
            streams.insert(user.to_owned(), Arc::downgrade(&new));
            new
        })
    }

    /// Returns the user of a token; `None` if the hub does not accept it.
    async fn review(&self, token: &str) -> Result<Option<UserInfo>, String> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let _permit = self.reviews.acquire().await.map_err(|error| error.to_string())?;
        let reviewed = Api::all(self.hub.clone()).create(&PostParams::default(), &review).await;
        let reviewed = reviewed
            .map_err(|error| format!("it does not say to whom the token belongs: {}", message(&error)))?;
        let status = reviewed.status.unwrap_or_default();
        let is_good = status.authenticated.unwrap_or_default() && status.error.unwrap_or_default().is_empty();
        Ok(status.user.filter(|user| is_good && user.username.as_ref().is_some_and(|name| !name.is_empty())))
    }
}

/// Returns the user without the attributes that identify the token and its pod, for comparison. Attributes that
/// restrict a token are kept.
fn who(user: &UserInfo) -> UserInfo {
    let mut user = user.clone();
    if let Some(extra) = &mut user.extra {
        extra.retain(|key, _| !key.starts_with("authentication.kubernetes.io/"));
    }
    user.extra = user.extra.filter(|extra| !extra.is_empty());
    user
}
