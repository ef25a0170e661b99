//! Object files, and name patterns.

use crate::{Reason, render};
use object::tree::FileTree;

fn tree(objects: &str, kustomization: &str) -> FileTree {
    [("a.yaml", objects), ("kustomization.yaml", kustomization)]
        .into_iter()
        .map(|(path, text)| (path, text.as_bytes()))
        .collect()
}

const ALONE: &str = "resources: [a.yaml]\n";

/// Returns a ConfigMap within nested lists, in JSON.
fn listed(levels: usize) -> String {
    let open = r#"{"apiVersion": "v1", "kind": "List", "items": ["#.repeat(levels);
    let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}"#;
    format!("{open}{map}{}", "]}".repeat(levels))
}

#[test]
fn lists_in_lists_are_taken_apart_up_to_a_limit() {
    let rendered = render(&tree(&listed(50), ALONE), "").unwrap();
    assert_eq!(rendered.objects.len(), 1);
    assert_eq!(rendered.objects[0].object.kind(), "ConfigMap");
    let error = render(&tree(&listed(51), ALONE), "").unwrap_err();
    let place = (error.reason, error.file.as_str(), error.line);
    assert_eq!(place, (Reason::TooLarge, "a.yaml", Some(1)), "{error}");
}

#[test]
fn the_objects_of_a_list_keep_their_namespaces() {
    let item = |namespace: &str| {
        format!("- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: {namespace}}}}}\n")
    };
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}{}", item("one"), item("two"));
    let rendered = render(&tree(&list, ALONE), "").unwrap();
    let namespaces: Vec<_> = rendered.objects.iter().map(|one| one.object.namespace().to_owned()).collect();
    assert_eq!(namespaces, ["one", "two"]);
    let twice = list.replace("two", "one");
    assert_eq!(render(&tree(&twice, ALONE), "").unwrap_err().reason, Reason::DuplicateObject);
}

#[test]
fn an_expression_that_backtracking_never_finishes_is_matched_at_once() {
    let name = "a".repeat(253);
    let object = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-b}}\n");
    let patch = "patches:\n- target: {name: (a+)+$}\n  patch: '[{op: add, path: /data, value: {k: v}}]'\n";
    let rendered = render(&tree(&object, &format!("{ALONE}{patch}")), "").unwrap();
    assert_eq!(rendered.objects[0].object.at(&["data"]), None);
    let matched = render(&tree(&object.replace("-b", ""), &format!("{ALONE}{patch}")), "").unwrap();
    assert!(matched.objects[0].object.at(&["data", "k"]).is_some());
}

#[test]
fn a_long_prefix_is_not_an_error_of_the_kustomization() {
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let prefix = "p".repeat(300);
    let rendered = render(&tree(object, &format!("{ALONE}namePrefix: {prefix}\n")), "").unwrap();
    assert_eq!(rendered.objects[0].object.name(), format!("{prefix}a"), "as in kustomize");
}
