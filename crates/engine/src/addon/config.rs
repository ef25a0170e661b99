//! Chooses the configurations of a cluster's add-on, and computes the address of a set of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use object::Key;
use object::hex;

/// A kind of configuration, by the plural name of its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigKind {
    /// API group.
    pub group: String,
    /// Plural name.
    pub resource: String,
}

/// A configuration and its content, by hash; the hash is empty where the content is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Config {
    /// The kind of the configuration.
    pub kind: ConfigKind,
    /// Namespace and name.
    pub key: Key,
    /// [`spec_hash`](super::spec_hash::spec_hash) of its content.
    pub hash: String,
}

impl Config {
    /// Returns whether both name the same object; their contents may differ.
    pub fn is_same_object(&self, other: &Self) -> bool {
        self.kind == other.kind && self.key == other.key
    }
}

/// Returns the configurations in force. A later level replaces the configurations of earlier levels kind by
/// kind; within a level, configurations of one kind do not replace each other.
///
/// The levels are the add-on's defaults, the last placement that selects the cluster, and the cluster's own.
/// The result is sorted by kind; within a kind the order is kept and a repeated object is dropped.
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

/// Returns the hashes of configurations, as works carry them in an annotation; `None` where there are no
/// configurations.
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

/// Returns the address of a set of configurations: two clusters with equal addresses should run the same.
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
    fn the_annotation_is_that_of_ocm() {
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
