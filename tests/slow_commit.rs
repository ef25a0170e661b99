//! A commit that renders slowly, for a test and a bench.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

/// Number of entries in a ConfigMap.
const ENTRIES: usize = 400;
/// Number of patches applied to each ConfigMap.
const PATCHES: usize = 3500;

/// Commits ConfigMaps with many entries, each matched by many patches.
pub(crate) fn commit(repository: &Path, objects: usize) {
    let mut text = String::new();
    for i in 0..objects {
        let header = "apiVersion: v1\nkind: ConfigMap\nmetadata:";
        writeln!(text, "---\n{header} {{name: slow-{i}, namespace: default}}\ndata:").unwrap();
        for entry in 0..ENTRIES {
            writeln!(text, "  entry-{entry}: value").unwrap();
        }
    }
    let patch = |i: usize| {
        let operation = format!("[{{op: add, path: /data/patch, value: v{i}}}]");
        json!({"target": {"kind": "ConfigMap"}, "patch": operation})
    };
    let patches: Vec<_> = (0..PATCHES).map(patch).collect();
    let kustomization = json!({"resources": ["objects.yaml"], "patches": patches}).to_string();
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut builder = git.treebuilder(None).unwrap();
    for (name, content) in [("objects.yaml", text), ("kustomization.yaml", kustomization)] {
        builder.insert(name, git.blob(content.as_bytes()).unwrap(), 0o100_644).unwrap();
    }
    let tree = git.find_tree(builder.write().unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    git.commit(Some("refs/heads/main"), &author, &author, "slow", &tree, &[]).unwrap();
}
