//! Golden cases: `tests/golden/render`.
//!
//! `input/CASE` and `expected/CASE/objects.yaml` contain the input and output of `kubectl kustomize` in the layout
//! of a render corpus. `errors/CASE` contains a mistake, with the expected error in `error.txt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{golden, render};
use object::tree::FileTree;

pub(super) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/render").join(name)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn read_tree(dir: &Path, prefix: &str, tree: &mut FileTree) {
    for name in names(dir) {
        let (full, path) = (dir.join(&name), format!("{prefix}{name}"));
        if full.is_symlink() {
            tree.insert_link(path, std::fs::read_link(&full).unwrap().to_str().unwrap());
        } else if full.is_dir() {
            read_tree(&full, &format!("{path}/"), tree);
        } else {
            tree.insert(path, std::fs::read(&full).unwrap());
        }
    }
}

pub(super) fn expected(dir: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for name in names(dir) {
        let full = dir.join(&name);
        if full.is_dir() {
            expected(&full, &format!("{prefix}{name}/"), found);
        } else {
            found.insert(prefix.trim_end_matches('/').to_owned(), std::fs::read_to_string(full).unwrap());
        }
    }
}

#[test]
fn overlays_render_to_the_text_that_kubectl_prints() {
    let mut tree = FileTree::default();
    read_tree(&folder("input"), "", &mut tree);
    let mut cases = BTreeMap::new();
    expected(&folder("expected"), "", &mut cases);
    for (root, text) in cases {
        let rendered = render(&tree, &root).unwrap_or_else(|error| panic!("{root}: {error}"));
        assert_eq!(rendered.to_yaml(), text, "{root}");
        assert!(rendered.closure.holds_in(&tree), "{root}");
    }
}

#[test]
fn mistakes_are_named_with_file_line_field_and_hint() {
    let error_of = |case: &String| {
        let dir = folder("errors").join(case);
        let mut tree = FileTree::default();
        read_tree(&dir, "", &mut tree);
        let root = if tree.is_dir("overlay") { "overlay" } else { "" };
        let Err(error) = render(&tree, root) else { panic!("{case} is rendered") };
        (dir.join("error.txt"), format!("{}\n{error}\n", error.reason.as_str()))
    };
    golden::check(names(&folder("errors")).iter().map(error_of));
}

#[test]
fn an_error_is_json_too() {
    let tree: FileTree = [("kustomization.yaml", "resuorces: [a.yaml]\n")]
        .into_iter()
        .map(|(path, text)| (path, text.as_bytes()))
        .collect();
    let error = render(&tree, "").unwrap_err();
    let expected = serde_json::json!({
        "reason": "UnknownField", "message": "there is no such field", "file": "kustomization.yaml", "line": 1, "field": "resuorces",
        "excerpt": [{"line": 1, "text": "resuorces: [a.yaml]"}], "hint": "did you mean \"resources\"?",
    });
    assert_eq!(serde_json::to_value(&error).unwrap(), expected);
}
