//! The visitors of the page: the hub authenticates their tokens by TokenReviews.

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

/// How long an answer about a token counts, at most as long as in a kubelet
/// (`--authentication-token-webhook-cache-ttl`): a revoked token opens the page for this long at most.
const TOKEN_TTL: Duration = Duration::from_secs(10);
/// How long the answers about the rights of a visitor count. They decide only what is shown; the hub
/// authorizes each change itself.
const RIGHTS_TTL: Duration = Duration::from_secs(60);
/// Tokens that the hub is asked about at once.
const REVIEWS: usize = 8;
/// Limit of the tokens whose answers are kept.
const KNOWN: usize = 1024;
/// Pages that one visitor may keep open.
pub(super) const STREAMS: usize = 16;

/// The SHA-256 of a token.
type TokenDigest = [u8; 32];

/// A user with an accepted token.
pub(super) struct Visitor {
    user: UserInfo,
    /// The pages that may still be opened.
    pub(super) streams: Arc<Semaphore>,
    rights: tokio::sync::Mutex<Option<(Instant, Arc<Rights>)>>,
}

impl Visitor {
    /// Returns the name of the user.
    pub(super) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// Returns the rights of the visitor, at most a minute old.
    ///
    /// # Errors
    /// The hub does not answer.
    pub(super) async fn rights(
        &self,
        hub: &kube::Client,
        overview: &Overview,
    ) -> Result<Arc<Rights>, String> {
        // The lock makes the pages of one visitor share one review.
        let mut kept = self.rights.lock().await;
        if let Some((read, rights)) = kept.as_ref()
            && read.elapsed() < RIGHTS_TTL
        {
            return Ok(Arc::clone(rights));
        }
        let rights = Arc::new(Rights::read(hub, &self.user, overview).await?);
        *kept = Some((Instant::now(), Arc::clone(&rights)));
        Ok(rights)
    }

    /// Returns the rights of the visitor with those to a cluster and in its namespace, which are not kept.
    ///
    /// # Errors
    /// The hub does not answer.
    pub(super) async fn rights_to_cluster(
        &self,
        hub: &kube::Client,
        overview: &Overview,
        cluster: &str,
    ) -> Result<Rights, String> {
        let rights = self.rights(hub, overview).await?;
        // The hub is asked for one page of a visitor at a time.
        let _turn = self.rights.lock().await;
        rights.with_cluster(hub, &self.user, cluster).await
    }
}

/// The visitors whose tokens the hub has accepted.
pub(super) struct Visitors {
    hub: kube::Client,
    reviews: Semaphore,
    known: Mutex<BTreeMap<TokenDigest, (Instant, Arc<Visitor>)>>,
    /// The pages that each user may still open.
    streams: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

impl Visitors {
    pub(super) fn new(hub: kube::Client) -> Self {
        Self { hub, reviews: Semaphore::new(REVIEWS), known: Mutex::default(), streams: Mutex::default() }
    }

    /// Returns the visitor of a token; `None` if the hub does not accept it.
    ///
    /// # Errors
    /// The hub does not answer.
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
        // A user keeps the count of open pages and the rights, whatever the token.
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

    /// Returns the pages that a user may still open. They are counted as long as one of them, or a token of the user,
    /// is known.
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

    /// Returns the user of a token, if the hub accepts it.
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

/// Returns what decides about the rights of a user: all but the attributes that name the token and the pod it was
/// made for. Those that restrict a token count.
fn who(user: &UserInfo) -> UserInfo {
    let mut user = user.clone();
    if let Some(extra) = &mut user.extra {
        extra.retain(|key, _| !key.starts_with("authentication.kubernetes.io/"));
    }
    user.extra = user.extra.filter(|extra| !extra.is_empty());
    user
}
