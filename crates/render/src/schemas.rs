//! The schemas that determine how lists merge: the built-in ones, and additions from kustomizations.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use object::builtin_lists::{Position, Table};

/// The rules for built-in kinds that kustomize knows, from an older version of Kubernetes than ours.
///
/// A strategic merge patch replaces a list of a newer kind, as in kustomize, although the API server would merge
/// it.
pub(super) static BUILTIN: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("schema.txt")));

/// The schemas that apply to one overlay.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    /// The schemas of `openapi.path`, which replace the built-in ones.
    document: Option<Document>,
    /// Schemas of CRDs, by `apiVersion` and kind.
    crds: BTreeMap<(String, String), Json>,
}

#[derive(Debug)]
struct Document {
    definitions: Json,
    roots: BTreeMap<(String, String), String>,
}

impl Schemas {
    /// Returns true if no kustomization added a schema.
    pub(super) fn are_builtin(&self) -> bool {
        self.document.is_none() && self.crds.is_empty()
    }

    /// Returns the schemas of an object's root.
    pub(super) fn root(&self, api_version: &str, kind: &str) -> Position<'_> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(schema) = self.crds.get(&key) {
            return Position::schema(schema);
        }
        match &self.document {
            None => BUILTIN.root(api_version, kind),
            Some(Document { definitions, roots }) => {
                let schema = roots.get(&key).and_then(|name| definitions.get(name));
                schema.map_or(Position::Unknown, |schema| Position::Schema {
                    schema,
                    definitions: Some(definitions),
                })
            }
        }
    }

    /// Sets the OpenAPI document, unless one is already set: the first one wins.
    pub(super) fn set_document(&mut self, mut document: Json) {
        if self.document.is_some() {
            return;
        }
        let definitions = document.get_mut("definitions").map(Json::take).unwrap_or_default();
        let mut roots = BTreeMap::new();
        for (name, schema) in definitions.as_object().into_iter().flatten() {
            let gvks = schema.get("x-kubernetes-group-version-kind").and_then(Json::as_array);
            for gvk in gvks.into_iter().flatten() {
                let part = |part| gvk.get(part).and_then(Json::as_str).unwrap_or_default();
                let api_version = match part("group") {
                    "" => part("version").to_owned(),
                    group => format!("{group}/{}", part("version")),
                };
                roots.insert((api_version, part("kind").to_owned()), name.clone());
            }
        }
        self.document = Some(Document { definitions, roots });
    }

    /// Adds the schemas of a CustomResourceDefinition. Its lists merge by the keys that it declares.
    pub(super) fn add_crd(&mut self, crd: &Json) {
        let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
        let spec = crd.get("spec");
        let group = text(spec.and_then(|spec| spec.get("group")));
        let kind = text(spec.and_then(|spec| spec.get("names")?.get("kind")));
        let versions = spec.and_then(|spec| spec.get("versions")?.as_array()).into_iter().flatten();
        for version in versions {
            if let Some(schema) = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema")) {
                let api_version = format!("{group}/{}", text(version.get("name")));
                self.crds.insert((api_version, kind.clone()), with_strategies(schema.clone()));
            }
        }
    }
}

/// Adds merge strategies to the schema of a CRD: a patch merges a list by the keys of server-side apply.
fn with_strategies(schema: Json) -> Json {
    match schema {
        Json::Object(fields) => {
            let merges = fields
                .get("x-kubernetes-list-type")
                .and_then(Json::as_str)
                .is_some_and(|ty| ty == "map" || ty == "set");
            let mut fields: Map<String, Json> =
                fields.into_iter().map(|(key, value)| (key, with_strategies(value))).collect();
            if merges {
                fields.entry("x-kubernetes-patch-strategy").or_insert_with(|| "merge".into());
            }
            Json::Object(fields)
        }
        Json::Array(items) => Json::Array(items.into_iter().map(with_strategies).collect()),
        other => other,
    }
}
