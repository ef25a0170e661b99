//! A schema, its draft, and the targets of references.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::fault::Fault;

/// The drafts. Newer drafts have more keywords, and older ones ignore the siblings of `$ref`.
const DRAFTS: &[(&str, u16)] = &[
    ("json-schema.org/draft-04/schema", 4),
    ("json-schema.org/draft-06/schema", 6),
    ("json-schema.org/draft-07/schema", 7),
    ("json-schema.org/draft/2019-09/schema", 2019),
    ("json-schema.org/draft/2020-12/schema", 2020),
    ("json-schema.org/schema", LATEST),
];
const LATEST: u16 = 2020;

/// A schema with an index.
pub(super) struct Document<'a> {
    root: &'a Json,
    pub(super) draft: u16,
    /// Schemas by `$id`, and by `#` and their anchor.
    named: BTreeMap<String, &'a Json>,
    /// True if a schema uses `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) tracks_evaluated: bool,
}

impl<'a> Document<'a> {
    pub(super) fn new(root: &'a Json) -> Result<Self, Fault> {
        let mut document =
            Self { root, draft: draft(root)?, named: BTreeMap::new(), tracks_evaluated: false };
        document.index();
        Ok(document)
    }

    fn index(&mut self) {
        let mut left = vec![self.root];
        while let Some(json) = left.pop() {
            match json {
                Json::Array(items) => left.extend(items),
                Json::Object(fields) => {
                    self.tracks_evaluated |= fields.keys().any(|key| key.starts_with("unevaluated"));
                    let id = if self.draft == 4 { "id" } else { "$id" };
                    if let Some(id) = fields.get(id).and_then(Json::as_str) {
                        self.named.entry(id.trim_end_matches('#').to_owned()).or_insert(json);
                    }
                    for anchor in ["$anchor", "$dynamicAnchor"] {
                        if let Some(anchor) = fields.get(anchor).and_then(Json::as_str) {
                            self.named.entry(format!("#{anchor}")).or_insert(json);
                        }
                    }
                    left.extend(fields.values());
                }
                _ => {}
            }
        }
    }

    /// Returns the schema that a reference names. Returns None for a URN, for which Helm uses a schema that
    /// accepts everything.
    pub(super) fn resolve(&self, reference: &str) -> Result<Option<&'a Json>, Fault> {
        let (url, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let found = match url {
            "" => Some(self.root),
            _ if url.starts_with("urn:") && !self.named.contains_key(url) => return Ok(None),
            _ => self.named.get(url).copied().or_else(|| self.relative(url)),
        };
        let Some(base) = found else {
            return Err(Fault::text(format!(
                "$ref {reference:?} names another document, and nothing is downloaded; copy its definitions into the schema"
            )));
        };
        let fragment = decoded(fragment);
        let target = match fragment.as_str() {
            "" => Some(base),
            pointer if pointer.starts_with('/') => base.pointer(pointer),
            anchor => self.named.get(&format!("#{anchor}")).copied(),
        };
        target.map(Some).ok_or_else(|| Fault::text(format!("$ref {reference:?} names nothing in the schema")))
    }

    /// Looks up a relative URL among the identifiers.
    fn relative(&self, url: &str) -> Option<&'a Json> {
        let ends = |id: &str| id.strip_suffix(url).is_some_and(|rest| rest.ends_with('/'));
        self.named.iter().find(|(id, _)| !url.contains(':') && ends(id)).map(|(_, json)| *json)
    }
}

fn draft(root: &Json) -> Result<u16, Fault> {
    let Some(url) = root.get("$schema").and_then(Json::as_str) else { return Ok(LATEST) };
    let address = url.trim_end_matches('#');
    let address = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    DRAFTS
        .iter()
        .find(|(known, _)| address == Some(known))
        .map(|(_, draft)| *draft)
        .ok_or_else(|| Fault::text(format!("$schema {url:?} is not a draft of JSON Schema that Helm knows")))
}

/// Percent-decodes a fragment.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut left = fragment.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                left = rest.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                left = rest;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
