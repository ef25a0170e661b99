//! Chooses the configurations of an add-on on a cluster, and hashes a set of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use object::Key;
use object::hex;

/// A kind of configuration, by the plural name of its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigKind {
    /// The API group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
}

/// A configuration and the hash of its content. The hash is empty if the content is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Config {
    /// The kind of the configuration.
    pub kind: ConfigKind,
    /// The namespace and name of the object.
    pub key: Key,
    /// The [`spec_hash`](super::spec_hash::spec_hash) of its content.
    pub hash: String,
}

impl Config {
    /// Returns true if both name the same object, even with different contents.
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.kind == other.kind && self.key == other.key
    }
}

/// Returns the configurations in force. A later level replaces all configurations of the same kind from earlier
/// levels. Within a level, configurations of one kind do not replace each other.
///
/// The levels are the add-on's defaults, the last placement that selects the cluster, and the cluster's own
/// configurations. The result is sorted by kind. Within a kind, the order is preserved and repeated objects are
/// dropped.
pub fn resolve<'a>(levels: impl IntoIterator<Item = &'a [Config]>) -> Vec<Config> {
    let mut resolved: BTreeMap<&ConfigKind, Vec<&Config>> = BTreeMap::new();
    for level in levels {
        let mut kinds: BTreeMap<&ConfigKind, Vec<&Config>> = BTreeMap::new();
        for config in level {
            let of_kind = kinds.entry(&config.kind).or_default();
            if !of_kind.iter().any(|other| other.is_same_object(config)) {
                of_kind.push(config);
            }
        }
        resolved.extend(kinds);
    }
    resolved.into_values().flatten().cloned().collect()
}

/// Returns the hashes of configurations as a work annotation; `None` if there are no configurations.
pub fn annotation(configs: &[Config]) -> Option<String> {
    let hashes = configs.iter().map(|config| {
        let Config { kind, key, hash } = config;
        let dot = if kind.group.is_empty() { "" } else { "." };
        (
            format!("{}{dot}{}/{}/{}", kind.resource, kind.group, key.namespace, key.name),
            Value::String(hash.clone()),
        )
    });
    let hashes: Map<String, Value> = hashes.collect();
    (!hashes.is_empty()).then(|| Value::Object(hashes).to_string())
}

/// Returns the hash of a set of configurations. Clusters with equal hashes should run the same content.
pub fn address(configs: &[Config]) -> String {
    hex(Sha256::digest(annotation(configs).unwrap_or_default().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(resource: &str, name: &str) -> Config {
        let kind = ConfigKind { group: "g".into(), resource: resource.into() };
        Config { kind, key: Key::namespaced("ns", name), hash: format!("hash-{name}") }
    }

    fn check(levels: &[&[Config]], want: &[&str]) {
        let names: Vec<String> = resolve(levels.iter().copied())
            .iter()
            .map(|c| format!("{}/{}", c.kind.resource, c.key.name))
            .collect();
        assert_eq!(names, want);
    }

    #[test]
    fn the_most_specific_level_replaces_a_kind_whole() {
        let defaults = [config("templates", "t"), config("configs", "a")];
        let placement = [config("configs", "c"), config("configs", "b"), config("configs", "c")];
        check(&[&defaults], &["configs/a", "templates/t"]);
        check(&[&defaults, &placement], &["configs/c", "configs/b", "templates/t"]);
        check(
            &[&defaults, &placement, &[config("templates", "own")]],
            &["configs/c", "configs/b", "templates/own"],
        );
        check(&[], &[]);
    }

    #[test]
    fn the_annotation_matches_ocm() {
        let template = ConfigKind {
            group: "addon.open-cluster-management.io".into(),
            resource: "addontemplates".into(),
        };
        let hello = Config { kind: template, key: Key::cluster("hello"), hash: "h1".into() };
        let core = Config {
            kind: ConfigKind { group: String::new(), resource: "configmaps".into() },
            key: Key::namespaced("n", "m"),
            hash: "h2".into(),
        };
        let want = r#"{"addontemplates.addon.open-cluster-management.io//hello":"h1","configmaps/n/m":"h2"}"#;
        assert_eq!(annotation(&[hello.clone(), core.clone()]).as_deref(), Some(want));
        assert_eq!(
            address(&[hello.clone(), core.clone()]),
            address(&[core, hello]),
            "the order has no meaning"
        );
        assert_eq!(annotation(&[]), None);
    }
}
