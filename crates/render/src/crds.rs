//! `crds`: OpenAPI definitions that mark which fields of a custom resource are labels, annotations or names of
//! other objects.

use serde_json::Value as Json;

use super::config::{Config, NameReference};
use super::decode::Result;
use super::kustomization::FieldSpec;
use object::Gvk;
use yaml::limits::MAX_DEPTH;

/// Returns the fields that a file of definitions marks.
///
/// # Errors
/// Fails if two definitions conflict. The error has no file yet.
pub(super) fn config_of(definitions: &Json) -> Result<Config> {
    let mut config = Config::default();
    for (name, definition) in definitions.as_object().into_iter().flatten() {
        let properties = properties_of(definition);
        if !["kind", "apiVersion", "metadata"]
            .iter()
            .all(|field| properties.is_some_and(|fields| fields.contains_key(*field)))
        {
            continue;
        }
        let gvk = Gvk { kind: name.rsplit('.').next().unwrap_or_default().to_owned(), ..Gvk::default() };
        add(&mut config, &gvk, definitions, name, &mut Vec::new())?;
    }
    Ok(config)
}

fn properties_of(definition: &Json) -> Option<&serde_json::Map<String, Json>> {
    let schema = definition.get("Schema").or_else(|| definition.get("schema"))?;
    schema.get("properties")?.as_object()
}

fn add(config: &mut Config, gvk: &Gvk, definitions: &Json, name: &str, path: &mut Vec<String>) -> Result<()> {
    if path.len() >= MAX_DEPTH {
        return Ok(());
    }
    for (field, property) in definitions.get(name).and_then(properties_of).into_iter().flatten() {
        path.push(field.clone());
        let spec = |more: Option<&str>| {
            let parts = path.iter().map(String::as_str).chain(more);
            FieldSpec { gvk: gvk.clone(), path: parts.collect::<Vec<_>>().join("/"), create: false }
        };
        let text = |word: &str| property.get(word).and_then(Json::as_str);
        if text("x-kubernetes-annotation").is_some() {
            config.common_annotations.push(spec(None));
        }
        if text("x-kubernetes-label-selector").is_some() {
            config.common_labels.push(spec(None));
        }
        if text("x-kubernetes-identity").is_some() {
            config.name_prefix.push(spec(None));
        }
        if let (Some(version), Some(kind)) =
            (text("x-kubernetes-object-ref-api-version"), text("x-kubernetes-object-ref-kind"))
        {
            let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
            let target = Gvk { group: String::new(), version: version.into(), kind: kind.into() };
            config.add_reference(&NameReference { gvk: target, referrers: vec![spec(Some(key))] })?;
        }
        // Do not follow a type that directly contains itself.
        if let Some(reference) = text("$ref").filter(|reference| *reference != name) {
            add(config, gvk, definitions, reference, path)?;
        }
        path.pop();
    }
    Ok(())
}
