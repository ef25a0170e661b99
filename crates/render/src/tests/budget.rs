use crate::{Parameters, Reason, RenderError, RenderMemo, render, render_again};
use object::tree::FileTree;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

fn tree(files: &[(&str, &str)]) -> FileTree {
    files.iter().map(|(path, text)| (*path, text.as_bytes())).collect()
}

fn refused(files: &[(&str, &str)]) -> RenderError {
    let error = render(&tree(files), "").unwrap_err();
    assert_eq!(error.reason, Reason::TooLarge, "{error}");
    assert!(!error.file.is_empty() && error.line.is_some(), "it names no line: {error}");
    let names_limit = ["more than ", "limit of "].iter().any(|words| error.message.contains(words));
    assert!(names_limit, "it names no limit: {error}");
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

/// Returns many objects with one text each, which any change multiplies.
fn objects(count: usize) -> String {
    (0..count)
        .map(|n| format!("---\n{}data: {{k: $(V)}}\n", CONFIG_MAP.replace(": a\n", &format!(": a{n}\n"))))
        .collect()
}

#[test]
fn what_multiplies_a_text_is_refused_with_its_line() {
    let text = "x".repeat(256 << 10);
    let adder = "apiVersion: builtin\nkind: ValueAddTransformer\nmetadata: {name: v}\ntargets: [{fieldPath: data/k}]\n";
    let adder = format!("{adder}value: {text}\n");
    let source =
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{k: {text}}}\n");
    let kustomizations = [
        format!("namePrefix: {text}\n"),
        format!("nameSuffix: {text}\n"),
        format!("namespace: {text}\n"),
        format!("commonLabels: {{k: {text}}}\n"),
        format!("commonAnnotations: {{k: {text}}}\n"),
        "transformers: [adder.yaml]\n".to_owned(),
        "vars: [{name: V, objref: {apiVersion: v1, kind: Secret, name: s}, fieldref: {fieldpath: stringData.k}}]\nconfigurations: [c.yaml]\n".to_owned(),
        "replacements:\n- source: {kind: Secret, fieldPath: stringData.k}\n  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k]}]\n".to_owned(),
    ];
    for kustomization in kustomizations {
        refused(&[
            ("a.yaml", &(objects(600) + &source)),
            ("adder.yaml", &adder),
            ("c.yaml", "varReference: [{path: data/k, kind: ConfigMap}]\n"),
            ("kustomization.yaml", &format!("resources: [a.yaml]\n{kustomization}")),
        ]);
    }
}

#[test]
fn files_that_are_too_large_in_total_are_refused_at_the_one_that_exceeds_the_limit() {
    let large = format!("# of many\n{CONFIG_MAP}data: {{k: {}}}\n", "x".repeat(15 << 20));
    let names: Vec<String> = (0..9).map(|n| format!("a{n}.yaml")).collect();
    let kustomization = format!("resources: [{}]\n", names.join(", "));
    let texts: Vec<String> =
        names.iter().map(|name| large.replace("name: a", &format!("name: {}", &name[..2]))).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    files.push(("kustomization.yaml", &kustomization));
    let error = refused(&files);
    assert_eq!((error.file.as_str(), error.line), ("a8.yaml", Some(2)));
}

#[test]
fn too_many_objects_and_kustomizations_are_refused_at_what_names_them() {
    let objects: Vec<String> = (0..11)
        .map(|file| {
            (0..9_999)
                .map(|n| format!("{{apiVersion: v1, kind: A, metadata: {{name: a{file}-{n}}}}}\n---\n"))
                .collect()
        })
        .collect();
    let names: Vec<String> = (0..11).map(|n| format!("a{n}.yaml")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(objects.iter().map(String::as_str)).collect();
    let kustomization = format!("resources:\n- {}\n", names.join("\n- "));
    files.push(("kustomization.yaml", &kustomization));
    let error = refused(&files);
    assert_eq!((error.file.as_str(), error.line), ("kustomization.yaml", Some(12)));
    let nested: Vec<(String, String)> = (0..=100)
        .map(|n| (format!("d{n}/kustomization.yaml"), format!("namePrefix: a\nresources: [../d{}]\n", n + 1)))
        .collect();
    let mut files: Vec<(&str, &str)> =
        nested.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("kustomization.yaml", "resources: [d0]\n"));
    let error = refused(&files);
    assert_eq!((error.file.as_str(), error.line), ("d98/kustomization.yaml", Some(2)));
}

/// Each memory charge checks for cancellation, so the number of checks shows how much is read and built.
#[test]
fn a_base_under_a_diamond_is_read_and_built_once() {
    let patches: String = (0..200)
        .map(|n| {
            format!("- target: {{kind: ConfigMap}}\n  patch: '[{{op: add, path: /data/k{n}, value: v}}]'\n")
        })
        .collect();
    let base = format!("resources: [a.yaml]\npatches:\n{patches}");
    let object = format!("{CONFIG_MAP}data: {{k: v}}\n");
    let mut files = vec![("base/a.yaml".to_owned(), object), ("base/kustomization.yaml".to_owned(), base)];
    for side in 0..20 {
        let text = format!("resources: [../base]\nnamePrefix: s{side}-\n");
        files.push((format!("s{side}/kustomization.yaml"), text));
    }
    let sides = |count: usize| (0..count).map(|side| format!("- s{side}\n")).collect::<String>();
    let spent = |count: usize| {
        let top = format!("resources:\n{}", sides(count));
        let all = files.iter().map(|(path, text)| (path.as_str(), text.as_bytes()));
        let tree: FileTree = all.chain([("kustomization.yaml", top.as_bytes())]).collect();
        let spent = std::cell::Cell::new(0);
        let count_one = || {
            spent.set(spent.get() + 1);
            false
        };
        render_again(&tree, "", &Parameters::default(), &mut RenderMemo::default(), &count_one).unwrap();
        spent.get()
    };
    let (one, twenty) = (spent(1), spent(20));
    assert!(one > 200, "the base costs {one} spendings");
    assert!(twenty < one + 20 * 10, "{twenty} spendings for twenty users of a base, {one} for one");
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
    let cancelled =
        render_again(&tree(&files), "", &Parameters::default(), &mut RenderMemo::default(), &|| true);
    assert_eq!(cancelled.unwrap_err().reason, Reason::Cancelled);
}
