//! The view: the input of a plan.

use std::any::Any;
use std::sync::Arc;

use super::{
    Access, AccessReview, Cancel, DryRun, Index, Lookup, LookupAnswer, Mapping, Memo, PodsQuery,
    ServerHealth, Site, Unreadable,
};
use api::gitops::v1alpha1::{ConfigRepo, Decryption, GitRef, Verify};
use api::names::RECONCILE_AT_ANNOTATION;
use api::pod::{PodFacts, Warning};
use object::tree::Checkout;
use object::{Gvk, Key, KeyFiles, Kind, Metadata as _, Object, ObjectRef, Seed};

/// Everything a controller may read: typed objects of the hub (and, in the agent, of the spoke), observed objects
/// of kinds known only at run time, and fetched repositories.
///
/// Observed objects are on the cluster to which the process applies users' objects: the hub in the operator, the
/// spoke in the agent.
///
/// Objects are shared and never change. Reads by key, namespace and indexed label do not scan.
pub trait View {
    /// Returns the object at a key; `Ok(None)` only if it is known to be absent.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the kind has not been read completely, so that absence means nothing.
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>>;

    /// Returns the matching objects, in key order.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::get_on`].
    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>>;

    /// Returns the matching objects that have been readable, in key order; [`View::unreadable_on`] returns those
    /// that may be missing. It is for decisions that must continue for all other objects if one is unreadable, and
    /// that do not treat an unreadable object as absent.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the kind has not been read completely.
    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>>;

    /// Returns the objects that could match but do not fit their type, in key order.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::list_readable_on`].
    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>>;

    /// Returns true if the API server has listed a kind. Objects that an earlier process kept do not count.
    fn is_listed<K: Kind>(&self, site: Site) -> bool;

    /// Returns an object of the observed cluster. The kind is watched while plans of the key read it, or include
    /// it in [`Plan::observe`](super::Plan::observe).
    ///
    /// # Errors
    /// Returns [`ReadError`] until the kind has been read completely, or if the cluster does not serve it;
    /// [`ReadErrorReason::Failed`] if the API server refuses to list it.
    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>>;

    /// Returns the answer of the observed cluster to a lookup. The dispatcher sends the request, and plans the key
    /// again when the answer changes.
    ///
    /// # Errors
    /// Returns [`ReadErrorReason::NotListed`] until the answer arrives, [`ReadErrorReason::Failed`] if the API
    /// server refuses to answer.
    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer>;

    /// Returns how the observed cluster serves a kind; `None` if it does not.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn mapping(&self, gvk: &Gvk) -> Read<Option<Mapping>> {
        let LookupAnswer::Mapping(mapping) = self.lookup(&Lookup::Mapping(gvk.clone()))? else {
            return Ok(None);
        };
        Ok(mapping)
    }

    /// Returns an object of the observed cluster without caching others, as [`View::observed`] would.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn object(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        let LookupAnswer::Object(object) = self.lookup(&Lookup::Object(object.clone()))? else {
            return Ok(None);
        };
        Ok(object)
    }

    /// Returns true if the observed cluster has an object, by requesting the object itself, because a list may
    /// wrongly omit it.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn exists<K: Kind>(&self, key: &Key) -> Read<bool> {
        Ok(self.object(&ObjectRef::of::<K>(key.clone()))?.is_some())
    }

    /// Returns true if the hub has an object, by requesting the object itself. In the operator, this is
    /// [`View::exists`].
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn is_on_hub<K: Kind>(&self, key: &Key) -> Read<bool> {
        let answer = self.lookup(&Lookup::OnHub(ObjectRef::of::<K>(key.clone())))?;
        Ok(!matches!(answer, LookupAnswer::OnHub(false)))
    }

    /// Returns true if a subject may do something on the observed cluster.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn access(&self, review: AccessReview) -> Read<Access> {
        let LookupAnswer::Access(access) = self.lookup(&Lookup::Access(review))? else {
            return Ok(Access::Denied);
        };
        Ok(access)
    }

    /// Returns the pods of the observed cluster that match a selector, up to a limit.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn pods(&self, query: PodsQuery) -> Read<Arc<Vec<PodFacts>>> {
        let LookupAnswer::Pods(pods) = self.lookup(&Lookup::Pods(query))? else { return Ok(Arc::default()) };
        Ok(pods)
    }

    /// Returns the warnings about an object of the observed cluster, newest first.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn warnings(&self, namespace: &str, uid: &str) -> Read<Vec<Warning>> {
        let lookup = Lookup::Warnings { namespace: namespace.to_owned(), uid: uid.to_owned() };
        let LookupAnswer::Warnings(warnings) = self.lookup(&lookup)? else { return Ok(Vec::new()) };
        Ok(warnings)
    }

    /// Returns the result of a server-side apply to a live object, without its managed fields; `None` if the
    /// answer is of another type, which is a bug.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn dry_run(&self, dry_run: DryRun) -> Read<Option<Arc<Object>>> {
        let LookupAnswer::DryRun(object) = self.lookup(&Lookup::DryRun(dry_run))? else { return Ok(None) };
        Ok(Some(object))
    }

    /// Returns true if the API server of the observed cluster is healthy.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn health(&self) -> Read<ServerHealth> {
        match self.lookup(&Lookup::Health)? {
            LookupAnswer::Health(health) => Ok(health),
            LookupAnswer::Mapping(_)
            | LookupAnswer::Object(_)
            | LookupAnswer::OnHub(_)
            | LookupAnswer::Access(_)
            | LookupAnswer::Pods(_)
            | LookupAnswer::Warnings(_)
            | LookupAnswer::DryRun(_) => Ok(ServerHealth::Healthy { version: String::new() }),
        }
    }

    /// Returns the state of the repository of a `ConfigRepo`; `None` before the first fetch ends.
    fn source(&self, repo: &Key) -> Option<Arc<Source>>;

    /// Returns the settings of the process: one value of a type, which never changes while the process runs.
    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>>;

    /// Reads the index that the controller keeps ([`Watches::keep`](super::Watches::keep)), as of this view. A
    /// view without the index builds one. `read` must not request the index again.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the index cannot be built yet.
    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R>
    where
        Self: Sized,
    {
        Ok(read(&mut I::build(self)?))
    }

    /// Returns the result of a computation that is too expensive for a plan. The view of a dispatcher requests the
    /// result, and the key is planned again when it is ready; any other view computes it at once.
    ///
    /// # Errors
    /// Returns [`ReadErrorReason::Pending`] until the result is ready, [`ReadErrorReason::Failed`] if it took too
    /// long.
    fn memo<M: Memo>(&self, memo: M) -> Read<Arc<M::Output>>
    where
        Self: Sized,
    {
        Ok(Arc::new(memo.compute(None, &Cancel::default())))
    }

    /// Calls [`View::get_on`] for the hub.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::get_on`].
    fn get<K: Kind>(&self, key: &Key) -> Read<Option<Arc<K>>> {
        self.get_on(Site::Hub, key)
    }

    /// Returns the object at a key on the hub; also returns `Ok(None)` if the object does not fit its type.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::get_on`], except for an object that does not fit its type.
    fn get_readable<K: Kind>(&self, key: &Key) -> Read<Option<Arc<K>>> {
        match self.get(key) {
            Err(error) if error.is_unreadable() => Ok(None),
            read => read,
        }
    }

    /// Calls [`View::list_on`] for the hub.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::list_on`].
    fn list<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.list_on(Site::Hub, query)
    }

    /// Calls [`View::list_readable_on`] for the hub.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::list_readable_on`].
    fn list_readable<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.list_readable_on(Site::Hub, query)
    }

    /// Calls [`View::unreadable_on`] for the hub.
    ///
    /// # Errors
    /// Returns [`ReadError`] as for [`View::unreadable_on`].
    fn unreadable<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.unreadable_on::<K>(Site::Hub, query)
    }

    /// Returns the matching objects that have been readable, for mapping functions: an unreadable object must not
    /// prevent the others from waking their keys. The list is empty before the first list of the kind, which wakes
    /// the keys that it concerns.
    fn readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Vec<Arc<K>> {
        self.list_readable_on(site, query).unwrap_or_default()
    }

    /// Calls [`View::readable_on`] for the hub.
    fn readable<K: Kind>(&self, query: Query<'_>) -> Vec<Arc<K>> {
        self.readable_on(Site::Hub, query)
    }

    /// Returns the keys of the matching objects, to wake them.
    fn keys_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Vec<Key> {
        let objects = self.readable_on::<K>(site, query);
        objects.iter().map(|object| Key::of(object.as_ref())).collect()
    }

    /// Calls [`View::keys_on`] for the hub.
    fn keys<K: Kind>(&self, query: Query<'_>) -> Vec<Key> {
        self.keys_on::<K>(Site::Hub, query)
    }
}

/// The result of a read.
pub type Read<T> = Result<T, ReadError>;

/// A read that could not be completed, because a cache is not filled yet, an object does not fit its type, or a
/// result is pending.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what}: {cause}")]
pub struct ReadError {
    /// The kind, object or result to read.
    pub what: String,
    /// The cause, which completes the sentence "cannot read {what}".
    pub cause: String,
    /// The kind of the cause.
    pub reason: ReadErrorReason,
}

/// The reason why a read could not be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadErrorReason {
    /// No watch fills the cache.
    NotWatched,
    /// The first list is incomplete.
    NotListed,
    /// An object does not fit its type.
    Unreadable,
    /// A [`Memo`] is being computed.
    Pending,
    /// A [`Memo`] could not be computed, or the API server refused the read.
    Failed,
}

impl ReadErrorReason {
    /// Returns the label value for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotWatched => "not_watched",
            Self::NotListed => "not_listed",
            Self::Unreadable => "unreadable",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

impl ReadError {
    /// Returns the error for a kind whose cache no watch fills.
    pub(crate) fn not_watched(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: "no watch fills its cache".into(),
            reason: ReadErrorReason::NotWatched,
        }
    }

    /// Returns the error for a kind whose first list is incomplete.
    pub(crate) fn not_listed(what: impl Into<String>) -> Self {
        let cause = "its objects have not been listed yet".into();
        Self { what: what.into(), cause, reason: ReadErrorReason::NotListed }
    }

    /// Returns the error for a lookup to which the API server has not responded yet.
    pub(crate) fn not_answered(what: String) -> Self {
        let cause = "the API server has not responded yet".into();
        Self { what, cause, reason: ReadErrorReason::NotListed }
    }

    /// Returns the error for a read that the API server refuses.
    pub(crate) fn refused(what: String, cause: String) -> Self {
        Self { what, cause, reason: ReadErrorReason::Failed }
    }

    /// Returns true if the failure resolves when a list is complete or a result is computed.
    pub fn is_coming(&self) -> bool {
        match self.reason {
            ReadErrorReason::NotListed | ReadErrorReason::Pending => true,
            ReadErrorReason::NotWatched | ReadErrorReason::Unreadable | ReadErrorReason::Failed => false,
        }
    }

    /// Returns true if a single object does not fit its type, which only affects reads of that object.
    pub fn is_unreadable(&self) -> bool {
        self.reason == ReadErrorReason::Unreadable
    }

    pub(crate) fn unreadable(what: String, cause: String) -> Self {
        Self { what, cause, reason: ReadErrorReason::Unreadable }
    }

    pub(crate) fn pending(what: &str) -> Self {
        Self { what: what.into(), cause: "it is being computed".into(), reason: ReadErrorReason::Pending }
    }

    pub(crate) fn failed(what: &str, cause: String) -> Self {
        Self { what: what.into(), cause, reason: ReadErrorReason::Failed }
    }
}

/// A selection of the objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The namespace; `None` for all.
    pub namespace: Option<&'a str>,
    /// A label and its value; `None` for all. Reads are cheap for the labels in
    /// [`names::INDEXED_LABELS`](api::names::INDEXED_LABELS).
    pub label: Option<(&'a str, &'a str)>,
}

impl<'a> Query<'a> {
    /// Every object of the kind.
    pub const ALL: Query<'static> = Query { namespace: None, label: None };

    /// Selects the objects of one namespace.
    pub fn namespace(namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), label: None }
    }

    /// Selects the objects with one label.
    pub const fn label(key: &'a str, value: &'a str) -> Self {
        Self { namespace: None, label: Some((key, value)) }
    }

    /// Restricts the selection to one namespace.
    #[must_use]
    pub fn within(self, namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }
}

/// The ConfigRepo, and the fields of its spec that a source was fetched for.
///
/// A plan only uses a source that was fetched for the current spec. Otherwise, after an edit of the URL, the tree
/// of the old repository would be applied under the new spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// The uid, which differs for a ConfigRepo of the same name that is created later.
    pub uid: String,
    /// `spec.url`.
    pub url: String,
    /// `spec.ref`.
    pub reference: GitRef,
    /// `spec.verify`.
    pub verify: Option<Verify>,
    /// `spec.decryption`, because a fetch also reads the keys.
    pub decryption: Option<Decryption>,
}

impl SourceIdentity {
    /// Returns the identity of a fetch for the current ConfigRepo.
    pub fn of(repo: &ConfigRepo) -> Self {
        Self {
            uid: repo.metadata.uid.clone().unwrap_or_default(),
            url: repo.spec.url.clone(),
            reference: repo.spec.r#ref.clone(),
            verify: repo.spec.verify.clone(),
            decryption: repo.spec.decryption.clone(),
        }
    }
}

/// The state of a repository after its last fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The ConfigRepo and the fields of its spec that the fetch was for.
    pub identity: SourceIdentity,
    /// The last tree that was fetched and verified.
    pub checkout: Option<Arc<Checkout>>,
    /// The error of the newest attempt, if it failed. The checkout is then an older one, and stays valid.
    pub failure: Option<SourceFailure>,
    /// The reconcile-at annotation that the fetch answers; empty if there was none.
    pub reconcile_at: String,
    /// The seed for random values in the repository's charts, or the reason why it is unreadable; `None` if there
    /// is none.
    pub seed: Option<Result<Seed, String>>,
    /// Random bytes for a new seed, if there is none.
    pub entropy: Option<Seed>,
    /// The keys that decrypt the repository's files, or the reason why they are unreadable; `None` without
    /// `spec.decryption`.
    pub keys: Option<Result<KeyFiles, String>>,
}

impl Source {
    /// Returns the result of a fetch for a ConfigRepo, in its state when the fetch began.
    pub fn of(repo: &ConfigRepo, checkout: Option<Arc<Checkout>>, failure: Option<SourceFailure>) -> Self {
        let reconcile_at = repo.annotation(RECONCILE_AT_ANNOTATION).unwrap_or_default().to_owned();
        Self {
            identity: SourceIdentity::of(repo),
            checkout,
            failure,
            reconcile_at,
            seed: None,
            entropy: None,
            keys: None,
        }
    }
}

/// The reason why a fetch failed, or why its commit was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// A CamelCase word for conditions, events and metrics.
    pub reason: &'static str,
    /// The error and how to fix it, without credentials.
    pub message: String,
}
