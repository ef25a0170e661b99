//! Fuzz targets for the parts of the renderer that read external bytes. No input may panic, take long or use
//! unbounded memory (`tests/fuzz/run`).
#![allow(clippy::panic, clippy::expect_used, reason = "a finding is a panic")]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;

use std::path::Path;

use object::tree::FileTree;
use render::render;
use yaml::{Reading, documents, print};

/// Words with a meaning to the targets.
const WORDS: [&str; 24] = [
    "$patch: replace",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: *a",
    "null",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "\n---\n",
    "../",
    "%",
    "!!str ",
    "0x",
    "\t",
    "\\",
    "[name=",
    "*",
];

/// Runs a target on the files of the golden cases and on its corpus.
fn fuzz(name: &str, run: fn(&[u8])) {
    let mut seeds = Vec::new();
    read_seeds(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/render")), &mut seeds);
    driver::Target { name, run: &run, seeds: &seeds, words: &WORDS }.fuzz();
}

fn read_seeds(dir: &Path, seeds: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_seeds(&path, seeds);
        } else if let Ok(bytes) = std::fs::read(&path) {
            seeds.push(bytes);
        }
    }
}

#[test]
fn any_bytes_are_yaml_or_refused() {
    fuzz("yaml", yaml);
}

#[test]
fn any_bytes_are_a_kustomization_or_refused() {
    fuzz("kustomization", kustomization);
}

#[test]
fn any_bytes_are_a_strategic_merge_patch_or_refused() {
    fuzz("strategic_merge_patch", patch_strategic);
}

#[test]
fn any_bytes_are_a_json_patch_or_refused() {
    fuzz("json_patch", patch_json);
}

#[test]
fn any_bytes_are_replacements_or_refused() {
    fuzz("replacements", replacements);
}

#[test]
fn any_bytes_are_a_template_of_a_chart_or_refused() {
    fuzz("template_of_a_chart", template_of_a_chart);
}

const OBJECTS: &str = include_str!("objects.yaml");

/// Checks that YAML input can be printed, and that the output reads back as the same nodes.
fn yaml(data: &[u8]) {
    let Ok(nodes) = documents(data) else { return };
    for node in nodes {
        let Ok(serde_json::Value::Object(map)) = node.to_json(Reading::Objects) else { continue };
        let text = print(&map);
        let again = documents(text.as_bytes())
            .unwrap_or_else(|e| panic!("cannot read what was printed: {e:?}\n{text}"));
        // An empty map prints as `{}`, and such a document is skipped.
        let Some(again) = again.first() else { continue };
        let again = again
            .to_json(Reading::Objects)
            .unwrap_or_else(|e| panic!("what was printed has no JSON: {e:?}\n{text}"));
        assert_eq!(again, serde_json::Value::Object(map), "the print of a document reads as another\n{text}");
    }
}

/// Reads any bytes as the kustomization of a directory that has a base, a component and other files.
fn kustomization(data: &[u8]) {
    rendered(&[("overlay/kustomization.yaml", data)]);
}

/// Reads any bytes as a patch, applied by the names in it and by a target.
fn patch_strategic(data: &[u8]) {
    let by_name = b"resources: [../base]\npatches: [{path: p.yaml}]\n";
    rendered(&[("overlay/kustomization.yaml", by_name), ("overlay/p.yaml", data)]);
    let by_target =
        b"resources: [../base]\npatches: [{path: p.yaml, target: {kind: .*}, options: {allowNameChange: true, allowKindChange: true}}]\n";
    rendered(&[("overlay/kustomization.yaml", by_target), ("overlay/p.yaml", data)]);
    rendered(&[
        ("overlay/kustomization.yaml", b"resources: [../base]\npatchesStrategicMerge: [p.yaml]\n"),
        ("overlay/p.yaml", data),
    ]);
}

/// Reads any bytes as a JSON patch.
fn patch_json(data: &[u8]) {
    let text = b"resources: [../base]\npatchesJson6902: [{path: p.yaml, target: {kind: Deployment, name: web, version: v1}}]\n";
    rendered(&[("overlay/kustomization.yaml", text), ("overlay/p.yaml", data)]);
}

/// Reads any bytes as the template of a chart, and as its values.
fn template_of_a_chart(data: &[u8]) {
    let chart: &[u8] = b"{apiVersion: v2, name: web, version: 0.1.0}";
    let kustomization: &[u8] =
        b"helmCharts:\n- {name: web, releaseName: web, namespace: shop, valuesInline: {a: {b: [1, null]}}}\n";
    for (file, other) in [("templates/a.yaml", "values.yaml"), ("values.yaml", "templates/a.yaml")] {
        rendered(&[
            ("overlay/kustomization.yaml", kustomization),
            ("overlay/charts/web/Chart.yaml", chart),
            (&format!("overlay/charts/web/{file}"), data),
            (&format!("overlay/charts/web/{other}"), b"a: {{ toJson .Values }}\n"),
        ]);
    }
}

/// Reads any bytes as a file of replacements.
fn replacements(data: &[u8]) {
    rendered(&[
        ("overlay/kustomization.yaml", b"resources: [../base]\nreplacements: [{path: r.yaml}]\n"),
        ("overlay/r.yaml", data),
    ]);
}

fn rendered(files: &[(&str, &[u8])]) {
    let mut tree = FileTree::default();
    tree.insert(
        "base/kustomization.yaml",
        *b"resources: [objects.yaml]\nconfigMapGenerator: [{name: gen, literals: [a=b]}]\n",
    );
    tree.insert("base/objects.yaml", OBJECTS.as_bytes());
    tree.insert("component/kustomization.yaml", *b"kind: Component\nnamePrefix: c-\n");
    tree.insert("overlay/d.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: d}, data: {a: b}}");
    tree.insert("overlay/c.yaml", *b"nameReference: [{kind: ConfigMap, fieldSpecs: [{path: spec/x}]}]\n");
    tree.insert_link("overlay/link", "../base/objects.yaml");
    for (path, bytes) in files {
        tree.insert(*path, *bytes);
    }
    match render(&tree, "overlay") {
        Ok(rendered) => {
            assert!(rendered.closure.holds_in(&tree));
            yaml(rendered.to_yaml().as_bytes());
        }
        Err(error) => assert!(!error.message.is_empty() && !error.file.is_empty(), "{error:?}"),
    }
}
