//! The reference page of our own kinds, generated from their schemas.

use std::fmt::Write as _;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};

use crate::{crds, golden};

/// Writes a row for each field, sorted by path.
fn rows(schema: &JSONSchemaProps, path: &str, page: &mut String) {
    for (name, field) in schema.properties.iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let (mark, inner) = match &field.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => ("[]", items.as_ref()),
            _ => ("", field),
        };
        let is_required = schema.required.iter().flatten().any(|required| required == name);
        let default =
            field.default.as_ref().map(|default| default.0.to_string()).filter(|text| text != "null");
        let default = match (is_required, default) {
            (true, _) => "required".into(),
            (false, Some(default)) => format!("`{default}`"),
            (false, None) => String::new(),
        };
        let values =
            inner.enum_.iter().flatten().map(|value| format!("`{}`", value.0.as_str().unwrap_or_default()));
        let values = values.collect::<Vec<_>>().join(", ");
        let values = if values.is_empty() { values } else { format!(" One of {values}.") };
        let kind = field.type_.as_deref().unwrap_or("integer or string");
        let meaning = field.description.as_deref().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(page, "| `{path}{mark}` | {kind} | {default} | {meaning}{values} |");
        rows(inner, &format!("{path}{mark}"), page);
    }
}

#[test]
fn the_reference_of_our_kinds_matches_their_schemas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages = [("ConfigRepo", "config-repo.md"), ("RolloutPolicy", "rollout-policy.md")].map(|(kind, file)| {
        let definition = crds::hub().into_iter().find(|one| one.spec.names.kind == kind).unwrap();
        let version = &definition.spec.versions[0];
        let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        let (group, scope) = (&definition.spec.group, definition.spec.scope.to_lowercase());
        let about = schema.description.as_deref().unwrap_or_default();
        let mut page = format!("# {kind}\n\n`{group}/{}`, {scope}. {about}\n\nA test writes this page from the type (`make bless`).\n", version.name);
        for part in ["spec", "status"] {
            let _ = write!(page, "\n## {part}\n\n| field | type | default | meaning |\n|---|---|---|---|\n");
            rows(&schema.properties.as_ref().unwrap()[part], "", &mut page);
        }
        (root.join(file), page)
    });
    golden::check(pages);
}
