//! The request paths of kinds, from cached discovery.

use std::collections::BTreeMap;
use std::sync::RwLock;

use kube::core::{GroupVersionKind, Request};
use kube::discovery::{self, Scope as KindScope};
use kube::{Client, Error};

use super::freshness::Contact;
use object::{Gvk, Key};

/// An API server and the cached discovery of its kinds.
pub struct Resources {
    client: Client,
    known: RwLock<BTreeMap<Gvk, ServedKind>>,
    pub(super) contact: Contact,
}

/// The resource that serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The path up to the version: `/api/v1`, `/apis/apps/v1`.
    prefix: String,
    /// The plural name of the resource.
    pub plural: String,
    /// True if its objects are namespaced.
    pub namespaced: bool,
}

impl ServedKind {
    /// Returns the path of the collection in a namespace, or in all namespaces if it is empty.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        match (self.namespaced, namespace) {
            (false, _) | (true, "") => format!("{}/{}", self.prefix, self.plural),
            (true, namespace) => format!("{}/namespaces/{namespace}/{}", self.prefix, self.plural),
        }
    }

    /// Returns a request for the collection that contains an object. As in kubectl, a namespaced object without a
    /// namespace goes to `default`.
    pub fn home(&self, key: &Key) -> Request {
        Request::new(self.collection(if key.namespace.is_empty() { "default" } else { &key.namespace }))
    }
}

impl Resources {
    /// Creates an empty cache.
    pub fn new(client: Client) -> Self {
        Self { client, known: RwLock::default(), contact: Contact::default() }
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns how a kind is served. The first call for a kind sends a request.
    ///
    /// # Errors
    /// Returns an error if the kind is not served or the API server is unreachable.
    pub async fn served(&self, gvk: &Gvk) -> Result<ServedKind, Error> {
        if let Some(served) = self.known.read().ok().and_then(|known| known.get(gvk).cloned()) {
            return Ok(served);
        }
        let wanted = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let (resource, capabilities) = discovery::pinned_kind(&self.client, &wanted).await?;
        let root = if gvk.group.is_empty() { "/api" } else { "/apis" };
        let served = ServedKind {
            prefix: format!("{root}/{}", resource.api_version),
            plural: resource.plural,
            namespaced: capabilities.scope == KindScope::Namespaced,
        };
        if let Ok(mut known) = self.known.write() {
            known.insert(gvk.clone(), served.clone());
        }
        Ok(served)
    }

    /// Drops a kind from the cache after a "not found" response, because the server may now serve it differently.
    pub(crate) fn forget(&self, gvk: &Gvk) {
        if let Ok(mut known) = self.known.write() {
            known.remove(gvk);
        }
    }
}
