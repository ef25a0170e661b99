//! Generates objects from files and texts.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::kustomization::{Generator, GeneratorOptions};
use crate::resource::Resource;
use yaml::{Map, Node, Scalar, Style, Tag, Value};

/// The kind of a generated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeneratedKind {
    ConfigMap,
    Secret,
}

impl GeneratedKind {
    /// All kinds, in the order in which a kustomization generates them.
    pub(super) const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// Returns the kind of the generator's configuration objects, which is also its name in annotations.
    pub(super) fn generator(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMapGenerator",
            Self::Secret => "SecretGenerator",
        }
    }
}

/// Generates an object from keys and values.
pub(super) fn make(
    kind: GeneratedKind,
    generator: &Generator,
    options: GeneratorOptions,
    pairs: BTreeMap<String, Vec<u8>>,
) -> Resource {
    let mut node = Node::empty_map();
    node.set("apiVersion", Node::string("v1"));
    node.set("kind", Node::string(if kind == GeneratedKind::Secret { "Secret" } else { "ConfigMap" }));
    let mut resource = Resource::new(node, generator.location.clone());
    resource.set_name(&generator.name);
    resource.set_namespace(&generator.namespace);
    match kind {
        GeneratedKind::ConfigMap => load_data(&mut resource.node, pairs),
        GeneratedKind::Secret => {
            let secret_type =
                if generator.secret_type.is_empty() { "Opaque" } else { &generator.secret_type };
            resource.node.set("type", Node::string(secret_type));
            let data = pairs.into_iter().map(|(key, bytes)| (key, Node::string(base64_lines(&bytes)).into()));
            resource.node.set("data", Value::Map(data.collect()));
        }
    }
    for (field, map) in [("labels", options.labels), ("annotations", options.annotations)] {
        if !map.is_empty() {
            resource.set_string_map(field, map);
        }
    }
    if options.immutable {
        resource.node.set("immutable", Scalar { text: "true".into(), tag: Tag::Bool, style: Style::Plain });
    }
    resource.needs_hash = !options.disable_name_suffix_hash;
    resource
}

/// Stores texts in `data` and bytes in `binaryData`.
fn load_data(node: &mut Node, pairs: BTreeMap<String, Vec<u8>>) {
    let (mut data, mut binary) = (Map::new(), Map::new());
    for (key, bytes) in pairs {
        match String::from_utf8(bytes) {
            Ok(text) => data.insert(key, Node::string(text).into()),
            Err(e) => binary.insert(key, Node::string(base64_lines(e.as_bytes())).into()),
        };
    }
    for (field, map) in [("data", data), ("binaryData", binary)] {
        if !map.is_empty() {
            node.set(field, Value::Map(map));
        }
    }
}

/// Encodes bytes as Base64, split into lines of 70 characters.
fn base64_lines(bytes: &[u8]) -> String {
    const LINE: usize = 70;
    let text = STANDARD.encode(bytes);
    if text.len() < LINE {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / LINE + 1);
    for (index, c) in text.char_indices() {
        if index > 0 && index % LINE == 0 {
            lines.push('\n');
        }
        lines.push(c);
    }
    lines.push('\n');
    lines
}
