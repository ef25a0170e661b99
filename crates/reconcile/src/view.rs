//! What is read.

use std::sync::Arc;

use super::{Index, Site};
use object::tree::Checkout;
use object::{Key, Kind, Object, ObjectRef};

/// Everything a controller may read: typed objects of the hub (and, in the agent, of the spoke), observed objects of kinds known
/// only at run time, fetched repositories.
///
/// Observed objects are those of the cluster the process applies users' objects to: the hub in the operator, the spoke in the agent.
///
/// Objects are shared and never change; lookups by key, namespace and indexed label cost no scan.
pub trait View {
    /// The object at a key; `Ok(None)` only where it is known to be absent.
    ///
    /// # Errors
    /// [`Unread`] where the kind has not been read completely, so that nothing may be concluded from absence.
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>>;

    /// The objects that match, in key order.
    ///
    /// # Errors
    /// [`Unread`] as for [`View::get_on`].
    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>>;

    /// An object of the observed cluster, of a kind that an earlier [`Plan::observe`](super::Plan::observe) asked for.
    ///
    /// # Errors
    /// [`Unread`] until the kind has been read completely, or where the cluster does not serve it.
    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>>;

    /// What is known of the repository a `ConfigRepo` names; `None` before the first fetch has ended.
    fn source(&self, repo: &Key) -> Option<Arc<Source>>;

    /// Reads an index. It is kept from then on, where the view can; it must not be asked for again from within `read`.
    ///
    /// # Errors
    /// [`Unread`] where it cannot be built yet.
    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R>
    where
        Self: Sized,
    {
        Ok(read(&mut I::build(self)?))
    }

    /// [`View::get_on`] for the hub.
    ///
    /// # Errors
    /// [`Unread`] as there.
    fn get<K: Kind>(&self, key: &Key) -> Read<Option<Arc<K>>> {
        self.get_on(Site::Hub, key)
    }

    /// [`View::list_on`] for the hub.
    ///
    /// # Errors
    /// [`Unread`] as there.
    fn list<K: Kind>(&self, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.list_on(Site::Hub, query)
    }

    /// The keys of the objects on the hub that match, to wake them; none before the kind has been read, whose first list wakes all.
    fn keys<K: Kind>(&self, query: Query<'_>) -> Vec<Key> {
        let objects = self.list::<K>(query).unwrap_or_default();
        objects.iter().map(|object| Key::of(object.as_ref())).collect()
    }
}

/// The result of a read.
pub type Read<T> = Result<T, Unread>;

/// A read that could not be completed: a cache not filled yet, a kind not served, a connection lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what}: {why}")]
pub struct Unread {
    /// The kind, or the object, that was to be read.
    pub what: String,
    /// Why it could not be.
    pub why: String,
}

/// Which objects of a kind to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// Only those of this namespace.
    pub namespace: Option<&'a str>,
    /// Only those with this label and value. Cheap for the labels in [`names::INDEXED_LABELS`](api::names::INDEXED_LABELS).
    pub label: Option<(&'a str, &'a str)>,
}

impl<'a> Query<'a> {
    /// Every object of the kind.
    pub const ALL: Query<'static> = Query { namespace: None, label: None };

    /// Those of one namespace.
    pub fn namespace(namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), label: None }
    }

    /// Those with one label.
    pub fn label(key: &'a str, value: &'a str) -> Self {
        Self { namespace: None, label: Some((key, value)) }
    }

    /// The same, of one namespace.
    #[must_use]
    pub fn within(self, namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }
}

/// A repository as the source controller saw it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The last tree that was fetched and verified.
    pub checkout: Option<Arc<Checkout>>,
    /// Why the newest attempt failed, if it did; the checkout is then an older one, and stays good.
    pub failure: Option<SourceFailure>,
}

/// Why a repository could not be fetched, or its commit not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// CamelCase word for conditions, events and metrics.
    pub reason: &'static str,
    /// What went wrong and what to do, without credentials.
    pub message: String,
}
