use crate::{Reason, RenderError, RenderMemo, render, render_again};
use object::tree::FileTree;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

fn tree(files: &[(&str, &str)]) -> FileTree {
    files.iter().map(|(path, text)| (*path, text.as_bytes())).collect()
}

fn refused(files: &[(&str, &str)]) -> RenderError {
    let error = render(&tree(files), "").unwrap_err();
    assert_eq!(error.reason, Reason::TooLarge, "{error}");
    error
}

#[test]
fn a_json_patch_that_copies_an_object_into_itself_is_refused_before_it_is_copied() {
    let copies: String =
        (0..40).map(|n| format!("- {{op: copy, from: /data, path: /data/c{n}}}\n")).collect();
    let kustomization = "resources: [a.yaml]\npatches:\n- path: p.yaml\n  target: {kind: ConfigMap}\n";
    let files = [
        ("a.yaml", &*format!("{CONFIG_MAP}data: {{k: v}}\n")),
        ("p.yaml", &*copies),
        ("kustomization.yaml", kustomization),
    ];
    let error = refused(&files);
    assert_eq!((error.file.as_str(), error.field.as_deref()), ("kustomization.yaml", Some("patches[0]")));
}

#[test]
fn a_large_patch_for_many_objects_is_refused() {
    let objects: String = (0..1000)
        .map(|n| format!("{CONFIG_MAP}  labels: {{x: n{n}}}\n---\n").replace(": a\n", &format!(": a{n}\n")))
        .collect();
    let text = "x".repeat(256 << 10);
    let strategic = format!("{CONFIG_MAP}data: {{k: {text}}}\n");
    let operations = format!("[{{op: add, path: /data, value: {{k: {text}}}}}]");
    let kustomization = "resources: [a.yaml]\npatches:\n- path: p.yaml\n  target: {kind: ConfigMap}\n";
    for patch in [&strategic, &operations] {
        refused(&[("a.yaml", &objects), ("p.yaml", patch), ("kustomization.yaml", kustomization)]);
    }
    let annotations = format!("resources: [a.yaml]\ncommonAnnotations: {{k: {text}}}\n");
    refused(&[("a.yaml", &objects), ("kustomization.yaml", &annotations)]);
}

#[test]
fn a_replacement_that_doubles_a_text_again_and_again_is_refused() {
    let once = "- source: {kind: ConfigMap, fieldPath: data.k}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.k]\n    options: {delimiter: \"|\", index: 9}\n";
    let kustomization = format!("resources: [a.yaml]\nreplacements:\n{}", once.repeat(40));
    let object = format!("{CONFIG_MAP}data: {{k: \"{}\"}}\n", "x".repeat(1000));
    refused(&[("a.yaml", &object), ("kustomization.yaml", &kustomization)]);
}

#[test]
fn a_chain_of_diamonds_over_a_large_base_is_refused() {
    let object = format!("{CONFIG_MAP}data: {{k: [{}]}}\n", "1,".repeat(10_000));
    let mut files = vec![
        ("base0/a.yaml".to_owned(), object),
        ("base0/kustomization.yaml".to_owned(), "resources: [a.yaml]\n".to_owned()),
    ];
    for level in 1..10 {
        for side in ["l", "r"] {
            let below = format!("resources: [../base{}]\nnamePrefix: {side}-\n", level - 1);
            files.push((format!("{side}{level}/kustomization.yaml"), below));
        }
        let both = format!("resources: [../l{level}, ../r{level}]\n");
        files.push((format!("base{level}/kustomization.yaml"), both));
    }
    let tree: FileTree = files.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
    assert_eq!(render(&tree, "base9").unwrap_err().reason, Reason::TooLarge);
}

#[test]
fn a_cancelled_rendering_stops() {
    let files = [("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", CONFIG_MAP)];
    let cancelled = render_again(&tree(&files), "", &mut RenderMemo::default(), &|| true);
    assert_eq!(cancelled.unwrap_err().reason, Reason::Cancelled);
}
