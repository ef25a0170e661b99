//! The view: the input that a plan reads.

use std::any::Any;
use std::sync::Arc;

use super::{
    Access, AccessReview, Cancel, DryRun, Index, Lookup, LookupAnswer, Mapping, Memo, PodsQuery,
    ServerHealth, Site, Unreadable,
};
use api::gitops::v1alpha1::{ConfigRepo, GitRef, Verify};
use api::names::RECONCILE_AT_ANNOTATION;
use api::pod::{PodFacts, Warning};
use object::tree::Checkout;
use object::{Gvk, Key, Kind, Metadata as _, Object, ObjectRef, Seed};

/// Everything a controller may read: typed objects of the hub (and, in the agent, of the spoke), observed
/// objects of kinds known only at run time, fetched repositories.
///
/// Observed objects are those of the cluster the process applies users' objects to: the hub in the operator,
/// the spoke in the agent.
///
/// Objects are shared and never change; lookups by key, namespace and indexed label cost no scan.
pub trait View {
    /// Returns the object at a key; `Ok(None)` only where it is known to be absent.
    ///
    /// # Errors
    /// [`ReadError`] where the kind has not been read completely, so that nothing may be concluded from
    /// absence.
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>>;

    /// Returns the objects that match, in key order.
    ///
    /// # Errors
    /// [`ReadError`] as for [`View::get_on`].
    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>>;

    /// Returns the objects that match and have been read, in key order; [`View::unreadable_on`] names the
    /// ones that may be missing. It is for decisions that must go on for all other objects when one cannot be
    /// read, and that do not treat an unreadable object as absent.
    ///
    /// # Errors
    /// [`ReadError`] where the kind has not been read completely.
    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>>;

    /// Returns the objects that exist, could match and do not fit their type, in key order.
    ///
    /// # Errors
    /// [`ReadError`] as for [`View::list_readable_on`].
    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>>;

    /// Returns whether the API server has listed a kind. Objects that an earlier process kept do not count.
    fn is_listed<K: Kind>(&self, site: Site) -> bool;

    /// Returns an object of the observed cluster. The kind is watched while plans of the key read it, or name
    /// it in [`Plan::observe`](super::Plan::observe).
    ///
    /// # Errors
    /// [`ReadError`] until the kind has been read completely, or where the cluster does not serve it;
    /// [`ReadErrorReason::Failed`] where the API server refuses to list it.
    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>>;

    /// Returns the answer to a question to the observed cluster. The dispatcher answers the question, and
    /// plans the key again when the answer changes.
    ///
    /// # Errors
    /// [`ReadErrorReason::NotListed`] until it is answered, [`ReadErrorReason::Failed`] where the API server
    /// refuses to answer.
    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer>;

    /// Returns how the observed cluster serves a kind; `None` where it does not.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn mapping(&self, gvk: &Gvk) -> Read<Option<Mapping>> {
        let LookupAnswer::Mapping(mapping) = self.lookup(&Lookup::Mapping(gvk.clone()))? else {
            return Ok(None);
        };
        Ok(mapping)
    }

    /// Returns an object of the observed cluster, and keeps no others, which [`View::observed`] does.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn object(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        let LookupAnswer::Object(object) = self.lookup(&Lookup::Object(object.clone()))? else {
            return Ok(None);
        };
        Ok(object)
    }

    /// Returns whether the observed cluster has an object, when it is asked for the object itself: a list may
    /// wrongly leave it out.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn exists<K: Kind>(&self, key: &Key) -> Read<bool> {
        Ok(self.object(&ObjectRef::of::<K>(key.clone()))?.is_some())
    }

    /// Returns whether the hub has an object, when it is asked for the object itself. In the operator, that
    /// is [`View::exists`].
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn is_on_hub<K: Kind>(&self, key: &Key) -> Read<bool> {
        let answer = self.lookup(&Lookup::OnHub(ObjectRef::of::<K>(key.clone())))?;
        Ok(!matches!(answer, LookupAnswer::OnHub(false)))
    }

    /// Returns whether a subject may do something on the observed cluster.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn access(&self, review: AccessReview) -> Read<Access> {
        let LookupAnswer::Access(access) = self.lookup(&Lookup::Access(review))? else {
            return Ok(Access::Denied);
        };
        Ok(access)
    }

    /// Returns the pods of the observed cluster that a selector selects, as far as they are read.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn pods(&self, query: PodsQuery) -> Read<Arc<Vec<PodFacts>>> {
        let LookupAnswer::Pods(pods) = self.lookup(&Lookup::Pods(query))? else { return Ok(Arc::default()) };
        Ok(pods)
    }

    /// Returns the warnings about an object of the observed cluster, the newest first.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn warnings(&self, namespace: &str, uid: &str) -> Read<Vec<Warning>> {
        let lookup = Lookup::Warnings { namespace: namespace.to_owned(), uid: uid.to_owned() };
        let LookupAnswer::Warnings(warnings) = self.lookup(&lookup)? else { return Ok(Vec::new()) };
        Ok(warnings)
    }

    /// Returns the object that a server-side apply would make of a live one, without its managed fields; `None` if the
    /// answer is about something else, which is a bug.
    ///
    /// # Errors
    /// As for [`View::lookup`].
    fn dry_run(&self, dry_run: DryRun) -> Read<Option<Arc<Object>>> {
        let LookupAnswer::DryRun(object) = self.lookup(&Lookup::DryRun(dry_run))? else { return Ok(None) };
        Ok(Some(object))
    }

    /// Returns whether the API server of the observed cluster is healthy.
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

    /// Returns the state of the repository that a `ConfigRepo` names; `None` before the first fetch ends.
    fn source(&self, repo: &Key) -> Option<Arc<Source>>;

    /// Returns the settings of the process: one value of a type, which never changes while it runs.
    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>>;

    /// Reads the index that the controller keeps ([`Watches::keep`](super::Watches::keep)), as of this view.
    /// A view without an index builds one; `read` must not ask for it again.
    ///
    /// # Errors
    /// [`ReadError`] where the index cannot be built yet.
    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R>
    where
        Self: Sized,
    {
        Ok(read(&mut I::build(self)?))
    }

    /// Returns the result of a computation that is too expensive for a plan. The view of a dispatcher
    /// requests the result and the key is planned again when it is there; any other view computes it at once.
    ///
    /// # Errors
    /// [`ReadErrorReason::Pending`] until the result is there, [`ReadErrorReason::Failed`] where it took too
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
    /// [`ReadError`] as there.
    fn get<K: Kind>(&self, key: &Key) -> Read<Option<Arc<K>>> {
        self.get_on(Site::Hub, key)
    }

    /// Returns the object at a key on the hub; `Ok(None)` also where it does not fit its type.
    ///
    /// # Errors
    /// [`ReadError`] as for [`View::get_on`], but not for an object that does not fit its type.
    fn get_readable<K: Kind>(&self, key: &Key) -> Read<Option<Arc<K>>> {
        match self.get(key) {
            Err(error) if error.is_unreadable() => Ok(None),
            read => read,
        }
    }

    /// Calls [`View::list_on`] for the hub.
    ///
    /// # Errors
    /// [`ReadError`] as there.
    fn list<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.list_on(Site::Hub, query)
    }

    /// Calls [`View::list_readable_on`] for the hub.
    ///
    /// # Errors
    /// [`ReadError`] as there.
    fn list_readable<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.list_readable_on(Site::Hub, query)
    }

    /// Calls [`View::unreadable_on`] for the hub.
    ///
    /// # Errors
    /// [`ReadError`] as there.
    fn unreadable<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.unreadable_on::<K>(Site::Hub, query)
    }

    /// Returns the objects that match and have been read, for mapping functions: an object that cannot be
    /// read must not keep the others from waking their keys. The list is empty before the first list of the
    /// kind, which wakes the keys that it concerns.
    fn readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Vec<Arc<K>> {
        self.list_readable_on(site, query).unwrap_or_default()
    }

    /// Calls [`View::readable_on`] for the hub.
    fn readable<K: Kind>(&self, query: Query<'_>) -> Vec<Arc<K>> {
        self.readable_on(Site::Hub, query)
    }

    /// Returns the keys of the objects that match, to wake them.
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

/// A read that could not be completed: a cache is not filled yet, an object does not fit its type, or a
/// result is pending.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what}: {why}")]
pub struct ReadError {
    /// The kind, the object or the result that was to be read.
    pub what: String,
    /// The cause.
    pub why: String,
    /// The kind of the cause.
    pub reason: ReadErrorReason,
}

/// Why a read could not be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadErrorReason {
    /// No watch fills the cache.
    NotWatched,
    /// The first list has not been read to its end.
    NotListed,
    /// An object does not fit its type.
    Unreadable,
    /// A [`Memo`] is being computed.
    Pending,
    /// A [`Memo`] could not be computed, or the API server refuses the read.
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
    /// Returns the error that no watch fills the cache of a kind.
    pub(crate) fn not_watched(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: "nothing watches it".into(), reason: ReadErrorReason::NotWatched }
    }

    /// Returns the error that the first list of a kind has not been read to its end.
    pub(crate) fn not_listed(what: impl Into<String>) -> Self {
        let why = "its first list has not been read yet".into();
        Self { what: what.into(), why, reason: ReadErrorReason::NotListed }
    }

    /// Returns the error that the API server has not answered yet.
    pub(crate) fn not_answered(what: String) -> Self {
        let why = "the API server has not answered yet".into();
        Self { what, why, reason: ReadErrorReason::NotListed }
    }

    /// Returns the error that the API server refuses to answer.
    pub(crate) fn refused(what: String, why: String) -> Self {
        Self { what, why, reason: ReadErrorReason::Failed }
    }

    /// Returns whether the failure ends by itself, when a list is read or a result is computed.
    pub fn is_coming(&self) -> bool {
        match self.reason {
            ReadErrorReason::NotListed | ReadErrorReason::Pending => true,
            ReadErrorReason::NotWatched | ReadErrorReason::Unreadable | ReadErrorReason::Failed => false,
        }
    }

    /// Returns whether one object does not fit its type, which concerns the reads of that object only.
    pub fn is_unreadable(&self) -> bool {
        self.reason == ReadErrorReason::Unreadable
    }

    pub(crate) fn unreadable(what: String, why: String) -> Self {
        Self { what, why, reason: ReadErrorReason::Unreadable }
    }

    pub(crate) fn pending(what: &str) -> Self {
        Self { what: what.into(), why: "it is being computed".into(), reason: ReadErrorReason::Pending }
    }

    pub(crate) fn failed(what: &str, why: String) -> Self {
        Self { what: what.into(), why, reason: ReadErrorReason::Failed }
    }
}

/// A selection of the objects of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The namespace of the objects; absent for all.
    pub namespace: Option<&'a str>,
    /// A label and its value; absent for all. The lookup is cheap for the labels in
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

    /// Selects the same objects, of one namespace only.
    #[must_use]
    pub fn within(self, namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }
}

/// The ConfigRepo and the fields of its spec that a source was fetched for.
///
/// A plan takes a source only for the spec that it was fetched for. Otherwise an edit of the URL would apply
/// the tree of the old repository under the new spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// The uid of the ConfigRepo, which a ConfigRepo of the same name that is created later does not have.
    pub uid: String,
    /// `spec.url`.
    pub url: String,
    /// `spec.ref`.
    pub reference: GitRef,
    /// `spec.verify`.
    pub verify: Option<Verify>,
}

impl SourceIdentity {
    /// Returns the identity that a fetch for a ConfigRepo has now.
    pub fn of(repo: &ConfigRepo) -> Self {
        Self {
            uid: repo.metadata.uid.clone().unwrap_or_default(),
            url: repo.spec.url.clone(),
            reference: repo.spec.r#ref.clone(),
            verify: repo.spec.verify.clone(),
        }
    }
}

/// The state of a repository after the last fetch of the source controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The ConfigRepo and the fields of its spec that the fetch was for.
    pub identity: SourceIdentity,
    /// The last tree that was fetched and verified.
    pub checkout: Option<Arc<Checkout>>,
    /// The error of the newest attempt, if that failed. The checkout is then an older one, and stays valid.
    pub failure: Option<SourceFailure>,
    /// The reconcile-at annotation of the ConfigRepo that the fetch answers; empty if it had none.
    pub reconcile_at: String,
    /// The seed of the random values of the repository's charts, or why it cannot be read; `None` if there is none.
    pub seed: Option<Result<Seed, String>>,
    /// Random bytes that decide the seed if there is none.
    pub entropy: Option<Seed>,
}

impl Source {
    /// Returns the result of a fetch for a ConfigRepo as it was when the fetch began.
    pub fn of(repo: &ConfigRepo, checkout: Option<Arc<Checkout>>, failure: Option<SourceFailure>) -> Self {
        let reconcile_at = repo.annotation(RECONCILE_AT_ANNOTATION).unwrap_or_default().to_owned();
        Self {
            identity: SourceIdentity::of(repo),
            checkout,
            failure,
            reconcile_at,
            seed: None,
            entropy: None,
        }
    }
}

/// Why a fetch failed, or why its commit was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// CamelCase word for conditions, events and metrics.
    pub reason: &'static str,
    /// The error and its correction, without credentials.
    pub message: String,
}
