//! Reads objects from a file or from a hub.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::{CommandError, writer};
use crate::shell::page;
use engine::report::{FLEET_SNAPSHOT, SnapshotReader};
use object::{Gvk, Object};

/// The largest file that is read at once: 64 MiB hold about 20,000 clusters.
pub(super) const MAX_FILE: u64 = 64 << 20;

/// Reads YAML documents or JSON. Expands Lists to their items, and files of a report's snapshot to their objects.
///
/// # Errors
/// Fails if the file cannot be read, or contains something that is not an object.
pub(crate) fn of_file(file: &Path) -> Result<Vec<Object>, CommandError> {
    let name = file.display();
    let size = std::fs::metadata(file).with_context(|| format!("cannot read {name}"))?.len();
    if size > MAX_FILE {
        return Err(anyhow!("{name} has {size} bytes, at most {MAX_FILE} are read").into());
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    of_text(&text).with_context(|| format!("cannot read {name}")).map_err(CommandError::from)
}

/// Parses objects in the same formats as [`of_file`].
///
/// # Errors
/// Fails if the text contains something that is not an object.
pub(crate) fn of_text(text: &str) -> anyhow::Result<Vec<Object>> {
    let documents: Vec<Value> = if text.trim_start().starts_with('{') {
        serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>()?
    } else {
        // These budgets allow a file of the maximum size. The depth limit is the default.
        let options = serde_saphyr::options! {
            strict_booleans: false,
            budget: serde_saphyr::budget! {
                max_documents: 50_000, max_nodes: 10_000_000, max_events: 40_000_000
            },
        };
        serde_saphyr::from_multiple_with_options(text, options)
            .map_err(|error| anyhow!("{}", error.without_snippet()))?
    };
    let (mut objects, mut reader) = (Vec::new(), SnapshotReader::default());
    for (i, document) in documents.into_iter().enumerate() {
        let mut object = Object::from_value(document).with_context(|| format!("document {}", i + 1))?;
        let is_list = object.kind().ends_with("List");
        if is_list && let Some(Value::Array(items)) = object.0.get_mut("items") {
            let items =
                std::mem::take(items).into_iter().map(Object::from_value).collect::<Result<Vec<_>, _>>();
            objects.extend(items.with_context(|| format!("items of document {}", i + 1))?);
        } else if object.kind() == FLEET_SNAPSHOT {
            let read = reader.read(&object.into_value().to_string());
            objects.extend(read.with_context(|| format!("document {}", i + 1))?);
        } else {
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Lists the objects of a kind that match a label selector, and keeps those for which `takes` returns true.
///
/// # Errors
/// The inner error is the hub's answer; the outer error is about an invalid object.
pub(crate) async fn of_api(
    api: &Api<DynamicObject>,
    gvk: &Gvk,
    labels: &str,
    mut takes: impl FnMut(&Object) -> bool,
) -> Result<kube::Result<Vec<Object>>, CommandError> {
    let mut params = ListParams::default().labels(labels);
    let mut objects = Vec::new();
    loop {
        let (listed, is_more) = match page(api, &mut params).await {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        for object in listed {
            let mut object = writer::untyped(&object)?;
            object.0.insert("apiVersion".into(), gvk.api_version().into());
            object.0.insert("kind".into(), gvk.kind.as_str().into());
            if takes(&object) {
                objects.push(object);
            }
        }
        if !is_more {
            return Ok(Ok(objects));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_is_one_line_with_its_place() {
        assert_eq!(
            format!("{:#}", of_text("kind: [").unwrap_err()),
            "unclosed bracket '[' at line 1, column 7"
        );
    }

    #[test]
    fn lists_and_documents_are_read_alike() {
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}"#;
        let documents = "kind: A\n---\nkind: B\n";
        let of_report =
            r#"{"kind": "FleetSnapshot", "alike": [{"object": {"kind": "A"}, "others": [[["B", [0]]]]}]}"#;
        for text in [list, documents, of_report] {
            let kinds: Vec<_> =
                of_text(text).unwrap().iter().map(|object| object.kind().to_owned()).collect();
            assert_eq!(kinds, ["A", "B"]);
        }
    }
}
