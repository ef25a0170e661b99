//! Reads objects: get and list.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use object::selector::InvalidSelector;
use object::{Key, Object, Selector};

use super::collection::Collection;
use super::field_selector::FieldSelector;
use super::request_scope::RequestScope;
use super::{ApiError, GroupResource, List, ListOptions, ResourcePath, Store, Version};

/// The maximum number of requirements in the selectors of one request. Each is compared with every object of a
/// list.
const REQUIREMENTS: usize = 64;

/// The namespace and selectors of a list or watch.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) namespace: String,
    name: Option<String>,
    labels: Selector,
    fields: FieldSelector,
}

impl Filter {
    pub(super) fn new(
        target: &ResourcePath,
        version: &Version,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let refused = |e: InvalidSelector| ApiError::bad_request(format!("unable to parse requirement: {e}"));
        let labels: Selector = labels.parse().map_err(refused)?;
        let mut fields = FieldSelector::parse(fields).map_err(|e| ApiError::bad_request(e.to_string()))?;
        if labels.requirements.len() + fields.requirements.len() > REQUIREMENTS {
            let message = format!("the selectors have more than {REQUIREMENTS} requirements");
            return Err(ApiError::bad_request(message));
        }
        for (path, ..) in &fields.requirements {
            let known =
                path == "metadata.name" || path == "metadata.namespace" || version.selectable.contains(path);
            if !known {
                let message = if version.selectable.is_empty() {
                    format!(
                        "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                } else {
                    format!("field label not supported: {path}")
                };
                return Err(ApiError::bad_request(message));
            }
        }
        if target.resource == "events" {
            fields.requirements.iter_mut().for_each(|(path, ..)| *path = stored_event_field(path));
        }
        let name = (!target.name.is_empty()).then(|| target.name.clone());
        Ok(Self { namespace: target.namespace.clone(), name, labels, fields })
    }

    /// Returns true if the filter selects a single name.
    fn is_one_name(&self) -> bool {
        let mut names = self.fields.requirements.iter().filter(|(path, ..)| path == "metadata.name");
        self.name.is_some() || names.any(|(_, is_equal, _)| *is_equal)
    }

    pub(super) fn selects(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace)
            && self.name.as_deref().is_none_or(|name| object.name() == name)
            && self.labels.matches_with(|key| object.label(key))
            && self.fields.matches(|path| field_text(object, path))
    }
}

/// Returns the field of a stored event, which is in the core group, for a field in a selector of either group.
fn stored_event_field(path: &str) -> String {
    match path {
        "source" => "source.component".into(),
        "reportingController" => "reportingComponent".into(),
        path => path.replacen("regarding.", "involvedObject.", 1),
    }
}

fn field_text<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    let path: Vec<_> = path.trim_start_matches('.').split('.').collect();
    match object.at(&path) {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}

/// The content of a continue token: the revision of the first page, and the last key on the page before.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    namespace: String,
    name: String,
}

pub(super) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let message = format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        );
        ApiError::bad_request(message)
    })
}

pub(super) fn too_large(wanted: u64, current: u64) -> ApiError {
    ApiError::too_large_version(wanted, current)
}

impl Store {
    /// Returns the collection and version for a path.
    pub(super) fn scope(&self, target: &ResourcePath) -> Result<(&Collection, RequestScope), ApiError> {
        let id = GroupResource::new(target.group.clone(), target.resource.clone());
        let alias = self.aliases.get(&id);
        let storage = alias.map_or(id, |alias| alias.id_of_storage());
        let collection = self.collections.get(&storage).ok_or_else(ApiError::no_such_path)?;
        let served = alias.unwrap_or(&collection.resource).clone();
        let version = served
            .versions
            .iter()
            .position(|v| v.served && v.name == target.version)
            .ok_or_else(ApiError::no_such_path)?;
        if !served.namespaced && !target.namespace.is_empty() {
            return Err(ApiError::no_such_path());
        }
        Ok((collection, RequestScope { resource: served, version }))
    }

    /// Returns the object in the version of the scope; the stored object itself if that is the storage version.
    pub(super) fn through(
        &self,
        scope: &RequestScope,
        object: &Arc<Object>,
    ) -> Result<Arc<Object>, ApiError> {
        let wanted = scope.api_version();
        if object.api_version() == wanted {
            return Ok(object.clone());
        }
        self.convert(Object::clone(object), scope.resource(), &wanted).map(Arc::new)
    }

    /// Returns one object.
    ///
    /// # Errors
    /// Returns 404 for a path that is not served or an object that does not exist.
    pub fn get(&self, target: &ResourcePath) -> Result<Arc<Object>, ApiError> {
        let (collection, scope) = self.scope(target)?;
        let object = collection.objects.get(&target.key()).ok_or_else(|| ApiError::not_found(target))?;
        if target.subresource == "scale" {
            return super::scale::read(scope.version(), object).map(Arc::new);
        }
        super::subresource::known(&scope, target)?;
        if target.subresource == "finalize" {
            return Err(ApiError::method_not_allowed());
        }
        self.through(&scope, object)
    }

    /// Returns the objects of a resource, in one namespace or all.
    ///
    /// # Errors
    /// Returns 404 for a path that is not served, 400 for invalid selectors or revisions, and 410 for a page whose
    /// revision has been dropped.
    pub fn list(&self, target: &ResourcePath, options: &ListOptions) -> Result<List, ApiError> {
        let (collection, scope) = self.scope(target)?;
        let filter = Filter::new(target, scope.version(), &options.labels, &options.fields)?;
        let page = self.page(options)?;
        let now = self.revision();
        let revision = page.as_ref().map_or(now, |(revision, _)| *revision);
        let objects: Box<dyn Iterator<Item = (&Key, &Arc<Object>)>> = if revision == now {
            Box::new(collection.within(&filter.namespace))
        } else {
            let forgotten = || {
                ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
                )
            };
            let is_within = |key: &Key| filter.namespace.is_empty() || key.namespace == filter.namespace;
            let objects = collection.at(revision).ok_or_else(forgotten)?;
            Box::new(objects.into_iter().filter(move |(key, _)| is_within(key)))
        };
        let after = page.and_then(|(_, after)| after);
        let mut later = objects.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let selected = later.by_ref().map(|(_, object)| object).filter(|object| filter.selects(object));
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        let items: Vec<_> = selected.take(limit).cloned().collect();
        // As in etcd, a list continues if any object follows, selected or not. A single name is a complete key.
        let remaining = if filter.is_one_name() { 0 } else { later.count() };
        let continue_token = items
            .last()
            .filter(|_| remaining > 0)
            .map(|last| token(revision, &last.key()))
            .unwrap_or_default();
        Ok(List {
            api_version: scope.api_version(),
            kind: scope.resource().list_kind.clone(),
            resource_version: revision.to_string(),
            continue_token,
            remaining: (remaining > 0 && options.labels.is_empty() && options.fields.is_empty())
                .then_some(remaining),
            items: items.iter().map(|object| self.through(&scope, object)).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the revision of a list, and the key after which it continues; `None` for the first page of a list
    /// at the current revision.
    fn page(&self, options: &ListOptions) -> Result<Option<(u64, Option<Key>)>, ApiError> {
        if !options.continue_token.is_empty() {
            let read = URL_SAFE_NO_PAD
                .decode(&options.continue_token)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Continue>(&bytes).ok());
            let Some(at) = read else {
                return Err(ApiError::bad_request(
                    "invalid continue token: continue key is not valid: unrecognized format",
                ));
            };
            return Ok(Some((at.rv, Some(Key::namespaced(at.namespace, at.name)))));
        }
        check_match(options)?;
        let wanted = parse_revision(&options.resource_version)?;
        if wanted > self.revision() {
            return Err(too_large(wanted, self.revision()));
        }
        Ok((options.resource_version_match == "Exact").then_some((wanted, None)))
    }
}

fn check_match(options: &ListOptions) -> Result<(), ApiError> {
    let (rule, version) = (options.resource_version_match.as_str(), options.resource_version.as_str());
    let field = "resourceVersionMatch";
    let error = match rule {
        "" => return Ok(()),
        "Exact" | "NotOlderThan" if version.is_empty() => super::FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        "Exact" if version == "0" => super::FieldError::forbidden(
            field,
            "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
        ),
        "Exact" | "NotOlderThan" => return Ok(()),
        other => {
            super::FieldError::unsupported(field, &other.into(), ["Exact", "NotOlderThan", ""].into_iter())
        }
    };
    Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &[error]))
}

fn token(revision: u64, last: &Key) -> String {
    let token = Continue {
        v: "meta.k8s.io/v1".into(),
        rv: revision,
        namespace: last.namespace.clone(),
        name: last.name.clone(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a struct of strings and a number serializes"))
}
