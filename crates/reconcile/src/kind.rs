//! The kinds that a dispatcher wants watched and the events of their watches, with types erased.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Site, Unreadable, large};
use api::names::INDEXED_LABELS;
use object::date_time::clamp_times;
use object::{Gvk, Key, Kind, Object, Stored, version};

/// A kind that a dispatcher wants watched. The process that feeds the dispatcher need not know its type.
#[derive(Clone, Debug)]
pub struct WatchedKind {
    /// The API server that serves it.
    pub site: Site,
    /// The group, version and kind.
    pub gvk: Gvk,
    /// The part of its objects that is read.
    pub representation: Representation,
    from_json: fn(&Gvk, &ObjectText<'_>) -> serde_json::Result<Shared>,
    from_object: fn(&Gvk, &Object) -> Result<Shared, String>,
    to_json: fn(&Shared) -> Option<String>,
}

/// The size limit for keeping all labels of an unreadable object, in bytes of JSON: 60 labels of 140 letters each.
const LABELS_BYTES: usize = 8 << 10;

type Shared = Arc<dyn Any + Send + Sync>;

/// The part of the objects of a kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Representation {
    /// The fields of the type that controllers know.
    Typed,
    /// The whole object, because a plan requested the kind at run time and it has no type here.
    Whole,
    /// Keys and versions only (`PartialObjectMetadata` in the API).
    Metadata,
}

/// The key and version of an object, from a metadata watch. It is small, because a cluster may have many objects.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) key: Key,
    pub(crate) version: u64,
}

/// An object that a watch or a write delivered.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// The object fits the type of its kind.
    Object(Shared),
    /// The object does not fit the type of its kind.
    Unreadable(Unreadable),
}

/// An event of the watch of a kind.
#[derive(Clone, Debug)]
pub enum WatcherEvent {
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
        /// The key of the object.
        key: Key,
        /// The resource version of the deletion.
        resource_version: String,
    },
    /// The kind could not be listed for so long that its cached objects are invalid until the next list.
    Stale,
    /// The API server refuses to list the kind, for this reason.
    Refused(String),
    /// The resource versions of the API server went back, as after a restore. All of its cached objects are
    /// invalid until the next list of their kind.
    Restored,
}

impl WatchedKind {
    pub(crate) fn typed<K: Kind>(site: Site) -> Self {
        Self {
            site,
            gvk: Gvk::of::<K>(),
            representation: Representation::Typed,
            from_json: |gvk, object| {
                let typed: K =
                    read(object).or_else(|error| clamped(serde_json::from_str(object.text)?).ok_or(error))?;
                Ok(Arc::new(large::trim(typed.trim(gvk))))
            },
            from_object: |gvk, object| {
                let typed: Result<K, _> = object.to_typed();
                let typed = typed.or_else(|error| clamped(Value::Object(object.0.clone())).ok_or(error));
                Ok(Arc::new(large::trim(typed.map_err(|error| error.to_string())?.trim(gvk))))
            },
            to_json: |object| serde_json::to_string(object.downcast_ref::<K>()?).ok(),
        }
    }

    pub(crate) fn observed(site: Site, gvk: Gvk) -> Self {
        Self {
            site,
            gvk,
            representation: Representation::Whole,
            from_json: |gvk, object| Ok(Arc::new(object.object()?.trim(gvk))),
            from_object: |gvk, object| Ok(Arc::new(object.clone().trim(gvk))),
            to_json: |object| serde_json::to_string(object.downcast_ref::<Object>()?).ok(),
        }
    }

    pub(crate) fn metadata(site: Site, gvk: Gvk) -> Self {
        Self {
            site,
            gvk,
            representation: Representation::Metadata,
            from_json: |_, object| {
                if object.key.name.is_empty() {
                    return Err(serde_json::Error::custom("the object has no name"));
                }
                Ok(Arc::new(Seen { key: object.key.clone(), version: version(&object.resource_version) }))
            },
            from_object: |_, object| Ok(Arc::new(Seen { key: object.key(), version: object.version() })),
            to_json: |_| Some(String::new()),
        }
    }

    /// Returns true if a plan requested the kind at run time, so that it has no type here.
    pub(crate) fn is_observed(&self) -> bool {
        self.representation == Representation::Whole
    }

    /// Returns the ID of the watch, unique in its process.
    pub fn id(&self) -> (Site, Gvk, Representation) {
        (self.site, self.gvk.clone(), self.representation)
    }

    /// Reads an object of the kind from JSON text.
    pub fn decode(&self, json: &str) -> Decoded {
        self.decode_rest(&ObjectText::new(json))
    }

    /// Returns an upper bound for the memory of an object, in bytes. If its text weighs at most `below`, the
    /// object is not inspected.
    pub fn weight(&self, object: &ObjectText<'_>, decoded: &Decoded, below: usize) -> usize {
        let of_text = large::weight(object.text);
        match decoded {
            Decoded::Object(decoded) if of_text > below => {
                (self.to_json)(decoded).map_or(of_text, |stored| large::weight(&stored))
            }
            Decoded::Object(_) | Decoded::Unreadable(_) => 0,
        }
    }

    /// Reads only what is needed to report the object as unreadable: its key, and labels of ordinary size.
    pub fn refuse(&self, object: &ObjectText<'_>, reason: String) -> Decoded {
        Decoded::Unreadable(Unreadable { key: object.key.clone(), labels: object.labels(), reason })
    }

    /// Parses an object of the kind whose key and version have been read.
    pub fn decode_rest(&self, object: &ObjectText<'_>) -> Decoded {
        match (self.from_json)(&self.gvk, object) {
            Ok(object) => Decoded::Object(object),
            Err(error) => self.refuse(object, error.to_string()),
        }
    }

    /// Converts an object of the kind from parsed JSON.
    pub fn convert(&self, object: &Object) -> Decoded {
        (self.from_object)(&self.gvk, object).map_or_else(
            |reason| {
                let labels = object
                    .at(&["metadata", "labels"])
                    .map(BTreeMap::deserialize)
                    .unwrap_or_else(|| Ok(BTreeMap::new()))
                    .ok();
                Decoded::Unreadable(Unreadable { key: object.key(), labels, reason })
            },
            Decoded::Object,
        )
    }

    /// Converts the result of our own write, without managed fields if the cache drops them.
    pub(crate) fn convert_written(&self, object: &mut Object) -> Decoded {
        if self.is_observed() {
            return self.convert(object);
        }
        let managed = object.metadata_mut().remove("managedFields");
        let decoded = self.convert(object);
        object.metadata_mut().extend(managed.map(|fields| ("managedFields".to_owned(), fields)));
        decoded
    }
}

/// An object as JSON text, with the fields that are parsed first.
#[derive(Debug)]
pub struct ObjectText<'a> {
    /// Namespace and name; empty if they cannot be read.
    pub key: Key,
    /// `metadata.resourceVersion`; empty if it cannot be read.
    pub resource_version: String,
    labels: Option<&'a RawValue>,
    managed_fields: Option<&'a RawValue>,
    text: &'a str,
}

impl<'a> ObjectText<'a> {
    /// Reads the key and the version of an object.
    pub fn new(text: &'a str) -> Self {
        let Identity { metadata } = serde_json::from_str(text).unwrap_or_default();
        let IdentityMeta { namespace, name, resource_version, labels, managed_fields } = metadata;
        Self { key: Key { namespace, name }, resource_version, labels, managed_fields, text }
    }

    /// Parses the whole object. The fields of each manager stay text, as in caches ([`Stored::trim`]), because
    /// parsing them is half the cost.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object.
    pub fn object(&self) -> serde_json::Result<Object> {
        let entries = |managed: &'a RawValue| {
            serde_json::from_str::<Vec<BTreeMap<String, &'a RawValue>>>(managed.get()).ok()
        };
        let entries = self.managed_fields.and_then(entries);
        let (Some(entries), Some(text)) = (entries, self.without_managed_fields()) else {
            return serde_json::from_str(self.text);
        };
        let mut packed = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut fields = Map::new();
            for (name, value) in entry {
                let is_map = name == "fieldsV1" && value.get().starts_with('{');
                let value = if is_map { value.get().into() } else { serde_json::from_str(value.get())? };
                fields.insert(name, value);
            }
            packed.push(Value::Object(fields));
        }
        let mut object: Object = serde_json::from_str(&text)?;
        object.metadata_mut().insert("managedFields".into(), Value::Array(packed));
        Ok(object)
    }

    /// Returns the labels; `None` if they are unreadable. If they are too large, returns only the indexed labels.
    fn labels(&self) -> Option<BTreeMap<String, String>> {
        let Some(labels) = self.labels else { return Some(BTreeMap::new()) };
        let mut read: BTreeMap<String, String> = serde_json::from_str(labels.get()).ok()?;
        if labels.get().len() > LABELS_BYTES {
            read.retain(|key, value| INDEXED_LABELS.contains(&key.as_str()) && value.len() <= LABELS_BYTES);
        }
        Some(read)
    }

    fn without_managed_fields(&self) -> Option<String> {
        let (text, managed) = (self.text, self.managed_fields?.get());
        let start = managed.as_ptr().addr() - text.as_ptr().addr();
        Some([text.get(..start)?, "null", text.get(start + managed.len()..)?].concat())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity<'a> {
    #[serde(borrow)]
    metadata: IdentityMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentityMeta<'a> {
    namespace: String,
    name: String,
    resource_version: String,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// Parses an object that does not fit its type because our library cannot parse a time. The types of custom
/// resources accept such a time; the types of built-in kinds do not.
fn clamped<T: DeserializeOwned>(mut object: Value) -> Option<T> {
    // Parsing text needs no further code for each type.
    clamp_times(&mut object).then(|| serde_json::from_str(&object.to_string()).ok()).flatten()
}

/// Parses a typed object without its managed fields, which the cache drops: they are a third of the object and
/// half the cost.
fn read<K: Kind>(object: &ObjectText<'_>) -> serde_json::Result<K> {
    match object.without_managed_fields() {
        Some(text) => serde_json::from_str(&text),
        None => serde_json::from_str(object.text),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_are_left_out_everywhere_and_nothing_else_is() {
        for metadata in [
            r#"{"managedFields": [{"manager": "m", "fieldsV1": {"f:data": {"f:a": {}}}}], "name": "n"}"#,
            r#"{"name": "n", "managedFields": []}"#,
            r#"{"name": "n"}"#,
        ] {
            let text = format!(r#"{{"data": {{"managedFields": "[]"}}, "metadata": {metadata}}}"#);
            let read = read::<ConfigMap>(&ObjectText::new(&text)).unwrap();
            assert_eq!((read.metadata.name.as_deref(), read.metadata.managed_fields), (Some("n"), None));
            assert_eq!(read.data.unwrap()["managedFields"], "[]");
        }
        assert!(read::<ConfigMap>(&ObjectText::new(r#"{"metadata": 1}"#)).is_err());
    }

    /// kube-apiserver parses the time of a lease as Go does, which accepts later times than our library.
    #[test]
    fn a_lease_with_an_unreadable_time_is_read_with_the_last_time() {
        let kind = WatchedKind::typed::<Lease>(Site::Hub);
        for (text, want) in [
            ("9999-12-31T23:59:59.000000Z", Timestamp::MAX.as_second()),
            ("10000-01-01T22:59:59.000000Z", Timestamp::MAX.as_second()),
            ("2026-01-02T03:04:05.000000Z", 1_767_323_045),
        ] {
            let json = json!({"metadata": {"name": "l", "managedFields": [{"time": text}]}, "spec": {"renewTime": text}});
            let object = Object::from_value(json.clone()).unwrap();
            for decoded in [kind.decode(&json.to_string()), kind.convert(&object)] {
                let Decoded::Object(lease) = decoded else { panic!("{text}: {decoded:?}") };
                let lease = lease.downcast::<Lease>().unwrap();
                assert_eq!(lease.spec.as_ref().unwrap().renew_time.as_ref().unwrap().0.as_second(), want);
            }
        }
    }

    #[test]
    fn an_object_from_text_is_that_from_its_json_with_packed_fields() {
        let fields = json!({"manager": "m", "fieldsV1": {"f:data": {"f:a": {}}}});
        let text = json!({"manager": "n", "fieldsV1": "{}"});
        for managed in [json!([fields, text]), json!([]), json!([1]), json!({"a": 1}), json!(null)] {
            let metadata = json!({"name": "n", "managedFields": managed, "uid": "u"});
            let json = json!({"apiVersion": "v1", "kind": "A", "spec": {"a": "b"}, "metadata": metadata});
            let object = ObjectText::new(&json.to_string()).object().unwrap();
            let whole = Object::from_value(json).unwrap();
            assert_eq!(object.clone().trim(&object.gvk()), whole.clone().trim(&whole.gvk()));
        }
        assert!(ObjectText::new(r#"{"metadata": "#).object().is_err());
        assert!(ObjectText::new("[]").object().is_err());
    }

    #[test]
    fn an_own_write_keeps_its_managed_fields_if_the_cache_keeps_them() {
        let json = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": "n", "managedFields": [{"manager": "m", "operation": "Apply"}]}});
        let written = Object::from_value(json).unwrap();
        let mut object = written.clone();
        let typed = WatchedKind::typed::<ConfigMap>(Site::Hub).convert_written(&mut object);
        let Decoded::Object(typed) = typed else { panic!("{typed:?}") };
        let typed = typed.downcast::<ConfigMap>().unwrap();
        assert_eq!((typed.metadata.name.as_deref(), &typed.metadata.managed_fields), (Some("n"), &None));
        assert_eq!(object, written);
        let whole = WatchedKind::observed(Site::Hub, object.gvk()).convert_written(&mut object);
        let Decoded::Object(whole) = whole else { panic!("{whole:?}") };
        assert_eq!(*whole.downcast::<Object>().unwrap(), written);
    }

    #[test]
    fn an_object_that_does_not_fit_is_named_with_its_labels() {
        let kind = WatchedKind::typed::<ConfigMap>(Site::Hub);
        let labeled = |labels: &str| {
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
        assert_eq!(labeled(r#"{"a": "b"}"#), [(key.clone(), Some(some.clone())), (key.clone(), Some(some))]);
        assert_eq!(labeled("7"), [(key.clone(), None), (key, None)]);
    }
}
