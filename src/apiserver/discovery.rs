//! Discovery: the served groups, versions and resources, in the old and the aggregated format.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::hub::Hub;
use super::request::{Accept, ApiRequest};
use super::respond;
use super::review;
use store::{ApiResource, Store, Version};

const OBJECT_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The served resources, by group and then by version in order of preference.
type Catalogue = BTreeMap<String, Vec<(String, Vec<ServedResource>)>>;

/// One resource of one version.
struct ServedResource {
    plural: String,
    singular: String,
    kind: String,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: Vec<String>,
    categories: Vec<String>,
    subresources: Vec<Sub>,
}

/// A subresource, and the kind of its bodies.
struct Sub {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

/// Answers `/api`, `/apis` and the paths below them up to a group version; `None` for every other path.
pub(super) fn answer(hub: &Hub, request: &ApiRequest) -> Option<Response> {
    let catalogue = || hub.read(catalogue);
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    match (parts.as_slice(), request.accept) {
        (["api"], Accept::Discovery) => Some(aggregated(&catalogue(), true)),
        (["apis"], Accept::Discovery) => Some(aggregated(&catalogue(), false)),
        (["api"], _) => {
            Some(ok(&json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })))
        }
        (["apis"], _) => {
            let groups: Vec<Value> = catalogue()
                .iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(g, v)| group_value(g, v))
                .collect();
            Some(ok(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })))
        }
        (["apis", group], _) if !group.is_empty() => {
            let found = catalogue();
            let versions = found.get(*group)?;
            let mut value = group_value(group, versions);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("kind".into(), "APIGroup".into());
                fields.insert("apiVersion".into(), "v1".into());
            }
            Some(ok(&value))
        }
        (["api", version], _) => resource_list(&catalogue(), "", version),
        (["apis", group, version], _) => resource_list(&catalogue(), group, version),
        _ => None,
    }
}

fn ok(value: &Value) -> Response {
    respond::json(StatusCode::OK, value)
}

/// Returns the served kinds of a store, and the review kinds, which are never stored.
fn catalogue(store: &Store) -> Catalogue {
    let mut catalogue = Catalogue::new();
    let mut add = |group: &str, version: &str, served: ServedResource| {
        let versions = catalogue.entry(group.to_owned()).or_default();
        match versions.iter_mut().find(|(name, _)| name == version) {
            Some((_, resources)) => resources.push(served),
            None => versions.push((version.to_owned(), vec![served])),
        }
    };
    for resource in store.resources() {
        for version in resource.versions.iter().filter(|v| v.served) {
            add(&resource.group, &version.name, served(resource, version));
        }
    }
    for review in review::KINDS {
        add(
            review.group,
            "v1",
            ServedResource {
                plural: review.resource.into(),
                singular: review.kind.to_lowercase(),
                kind: review.kind.into(),
                namespaced: review.namespaced,
                verbs: &["create"],
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: Vec::new(),
            },
        );
    }
    catalogue
}

fn served(resource: &ApiResource, version: &Version) -> ServedResource {
    let own = |name, verbs| Sub {
        name,
        group: resource.group.clone(),
        version: version.name.clone(),
        kind: resource.kind.clone(),
        verbs,
    };
    let of = |name, group: &str, kind: &str, verbs| Sub {
        name,
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        verbs,
    };
    const READ_WRITE: &[&str] = &["get", "patch", "update"];
    let special = resource.subresources().iter().map(|sub| match sub.other_kind {
        Some((group, kind)) => of(sub.name, group, kind, sub.verbs),
        None => own(sub.name, sub.verbs),
    });
    let mut subresources: Vec<_> = special.collect();
    subresources.extend(version.scale.as_ref().map(|_| of("scale", "autoscaling", "Scale", READ_WRITE)));
    subresources.extend(version.status.then(|| own("status", READ_WRITE)));
    ServedResource {
        plural: resource.plural.clone(),
        singular: resource.singular.clone(),
        kind: resource.kind.clone(),
        namespaced: resource.namespaced,
        verbs: if resource.has_collection_delete() {
            OBJECT_VERBS
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        },
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
        subresources,
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn group_value(group: &str, versions: &[(String, Vec<ServedResource>)]) -> Value {
    let named = |version: &str| json!({ "groupVersion": api_version(group, version), "version": version });
    let all: Vec<Value> = versions.iter().map(|(version, _)| named(version)).collect();
    json!({ "name": group, "preferredVersion": all.first(), "versions": all })
}

fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Option<Response> {
    let (_, resources) = catalogue.get(group)?.iter().find(|(name, _)| name == version)?;
    let mut entries = Vec::new();
    for served in resources {
        let mut entry = json!({
            "name": served.plural,
            "singularName": served.singular,
            "namespaced": served.namespaced,
            "kind": served.kind,
            "verbs": served.verbs,
        });
        set_names(&mut entry, served);
        entries.push(entry);
        for sub in &served.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", served.plural, sub.name),
                "singularName": "",
                "namespaced": served.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if let (true, Some(fields)) = (sub.group != group, entry.as_object_mut()) {
                fields.insert("group".into(), sub.group.clone().into());
                fields.insert("version".into(), sub.version.clone().into());
            }
            entries.push(entry);
        }
    }
    let group_version = api_version(group, version);
    Some(ok(
        &json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries }),
    ))
}

fn set_names(entry: &mut Value, served: &ServedResource) {
    let Some(fields) = entry.as_object_mut() else { return };
    for (field, names) in [("shortNames", &served.short_names), ("categories", &served.categories)] {
        if !names.is_empty() {
            fields.insert(field.into(), names.clone().into());
        }
    }
}

/// Returns `apidiscovery.k8s.io/v2`: everything in one answer.
fn aggregated(catalogue: &Catalogue, core: bool) -> Response {
    let groups = catalogue.iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(version, resources)| aggregated_version(group, version, resources))
                .collect();
            let metadata = if core {
                json!({ "creationTimestamp": null })
            } else {
                json!({ "name": group, "creationTimestamp": null })
            };
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    let body = json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items });
    let mut response = ok(&body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn aggregated_version(group: &str, version: &str, resources: &[ServedResource]) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let resources: Vec<Value> = resources
        .iter()
        .map(|served| {
            let subresources: Vec<Value> = served
                .subresources
                .iter()
                .map(
                    |sub| json!({ "subresource": sub.name, "responseKind": kind(&sub.group, &sub.version, &sub.kind), "verbs": sub.verbs }),
                )
                .collect();
            let mut entry = json!({
                "resource": served.plural,
                "responseKind": kind(group, version, &served.kind),
                "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": served.singular,
                "verbs": served.verbs,
            });
            set_names(&mut entry, served);
            if let (false, Some(fields)) = (subresources.is_empty(), entry.as_object_mut()) {
                fields.insert("subresources".into(), subresources.into());
            }
            entry
        })
        .collect();
    json!({ "version": version, "resources": resources, "freshness": "Current" })
}
