//! The kinds that a dispatcher wants watched, and what their watches tell it, with types erased.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Site, Unreadable};
use object::{Gvk, Key, Kind, Object, Stored};

/// A kind that a dispatcher wants watched. The process that feeds the dispatcher needs to know none of its types.
#[derive(Clone, Debug)]
pub struct WatchedKind {
    /// The API server that serves it.
    pub site: Site,
    /// The kind.
    pub gvk: Gvk,
    /// `None` for an observed kind, whose objects have no type of their own.
    pub(crate) type_id: Option<TypeId>,
    from_json: fn(&Gvk, &str) -> serde_json::Result<Shared>,
    from_object: fn(&Gvk, &Object) -> Result<Shared, String>,
}

type Shared = Arc<dyn Any + Send + Sync>;

/// An object that a watch or a write delivered.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// It fits the type of its kind.
    Object(Shared),
    /// It does not.
    Unreadable(Unreadable),
}

/// What a watch tells about its kind.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// A complete list, read at a resource version.
    Listed {
        /// Every object.
        objects: Vec<Decoded>,
        /// The resource version of the list.
        resource_version: String,
    },
    /// An object was created or changed.
    Applied(Decoded),
    /// An object was deleted.
    Deleted {
        /// Which object.
        key: Key,
        /// The resource version of the deletion.
        resource_version: String,
    },
}

impl WatchedKind {
    pub(crate) fn typed<K: Kind>(site: Site) -> Self {
        Self {
            site,
            gvk: Gvk::of::<K>(),
            type_id: Some(TypeId::of::<K>()),
            from_json: |gvk, text| Ok(Arc::new(read::<K>(text)?.trim(gvk))),
            from_object: |gvk, object| {
                let typed: K = object.to_typed().map_err(|error| error.to_string())?;
                Ok(Arc::new(typed.trim(gvk)))
            },
        }
    }

    pub(crate) fn observed(site: Site, gvk: Gvk) -> Self {
        Self {
            site,
            gvk,
            type_id: None,
            from_json: |gvk, text| Ok(Arc::new(read::<Object>(text)?.trim(gvk))),
            from_object: |gvk, object| Ok(Arc::new(object.clone().trim(gvk))),
        }
    }

    /// Whether a plan asked for the kind, so that nothing is known of it but its objects.
    pub fn is_observed(&self) -> bool {
        self.type_id.is_none()
    }

    /// Reads an object of the kind from JSON.
    pub fn decode(&self, json: &str) -> Decoded {
        match (self.from_json)(&self.gvk, json) {
            Ok(object) => Decoded::Object(object),
            Err(error) => {
                let identity = serde_json::from_str::<Identity<'_>>(json).unwrap_or_default().metadata;
                let labels = match identity.labels {
                    Some(labels) => serde_json::from_str(labels.get()).ok(),
                    None => Some(BTreeMap::new()),
                };
                let key = Key::namespaced(identity.namespace, identity.name);
                Decoded::Unreadable(Unreadable { key, labels, why: error.to_string() })
            }
        }
    }

    /// Reads an object of the kind that is JSON already.
    pub fn convert(&self, object: &Object) -> Decoded {
        (self.from_object)(&self.gvk, object).map_or_else(
            |why| {
                let labels = object.at(&["metadata", "labels"]).map(BTreeMap::deserialize);
                let labels = labels.unwrap_or_else(|| Ok(BTreeMap::new())).ok();
                Decoded::Unreadable(Unreadable { key: object.key(), labels, why })
            },
            Decoded::Object,
        )
    }
}

/// The part of an object that says which one it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity<'a> {
    #[serde(borrow)]
    metadata: IdentityMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IdentityMeta<'a> {
    namespace: String,
    name: String,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

/// The part of an object that says who manages which of its fields.
#[derive(Deserialize)]
struct Managed<'a> {
    #[serde(borrow, default)]
    metadata: ManagedMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedMeta<'a> {
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// Reads an object, without its managed fields where the cache drops them: they are a third of the object and half the cost.
fn read<T: Stored>(text: &str) -> serde_json::Result<T> {
    if T::KEEPS_APPLIED_FIELDS {
        return serde_json::from_str(text);
    }
    let managed =
        serde_json::from_str::<Managed<'_>>(text).ok().and_then(|managed| managed.metadata.managed_fields);
    let split = managed.and_then(|managed| {
        let start = managed.get().as_ptr().addr() - text.as_ptr().addr();
        Some((text.get(..start)?, text.get(start + managed.get().len()..)?))
    });
    match split {
        Some((before, after)) => serde_json::from_str(&[before, "null", after].concat()),
        None => serde_json::from_str(text),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn managed_fields_are_left_out_wherever_they_stand_and_nothing_else_is() {
        for metadata in [
            r#"{"managedFields": [{"manager": "m", "fieldsV1": {"f:data": {"f:a": {}}}}], "name": "n"}"#,
            r#"{"name": "n", "managedFields": []}"#,
            r#"{"name": "n"}"#,
        ] {
            let text = format!(r#"{{"data": {{"managedFields": "[]"}}, "metadata": {metadata}}}"#);
            let read = read::<ConfigMap>(&text).unwrap();
            assert_eq!((read.metadata.name.as_deref(), read.metadata.managed_fields), (Some("n"), None));
            assert_eq!(read.data.unwrap()["managedFields"], "[]");
        }
        assert!(read::<ConfigMap>(r#"{"metadata": 1}"#).is_err());
    }

    #[test]
    fn an_object_that_does_not_fit_is_named_with_its_labels() {
        let kind = WatchedKind::typed::<ConfigMap>(Site::Hub);
        let labelled = |labels: &str| {
            let json = format!(
                r#"{{"data": 1, "metadata": {{"namespace": "ns", "name": "n", "labels": {labels}}}}}"#
            );
            let text = kind.decode(&json);
            let object = kind.convert(&serde_json::from_str(&json).unwrap());
            [text, object].map(|decoded| match decoded {
                Decoded::Unreadable(unreadable) => (unreadable.key, unreadable.labels),
                Decoded::Object(_) => panic!("data is a number"),
            })
        };
        let key = Key::namespaced("ns", "n");
        let some = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(labelled(r#"{"a": "b"}"#), [(key.clone(), Some(some.clone())), (key.clone(), Some(some))]);
        assert_eq!(labelled("7"), [(key.clone(), None), (key, None)]);
    }
}
