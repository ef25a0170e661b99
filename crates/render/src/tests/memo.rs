use std::collections::BTreeMap;
use std::sync::Arc;

use super::golden::{expected, folder, read_tree};
use crate::{Parameters, Reason, RenderMemo, Rendered, render, render_again};
use object::tree::{FileTree, TreeEntry};
use object::{Random, RenderedObject};

/// Number of commits after the first one for each overlay of the corpus.
const EDITS: u64 = 8;

fn again(tree: &FileTree, root: &str, memo: &mut RenderMemo) -> Rendered {
    render_again(tree, root, &Parameters::default(), memo, &|| false).unwrap()
}

fn tree(files: &[(&str, &str)]) -> FileTree {
    files.iter().map(|(path, text)| (*path, text.as_bytes())).collect()
}

fn shared<'a>(one: &'a Rendered, other: &Rendered) -> Vec<&'a str> {
    let is_shared = |a: &&Arc<RenderedObject>| other.objects.iter().any(|b| Arc::ptr_eq(a, b));
    one.objects.iter().filter(is_shared).map(|rendered| rendered.object.name()).collect()
}

/// Edits a file as people and accidents do: removes, repeats or inserts a line, or deletes, overwrites or empties
/// the file.
fn edit(tree: &FileTree, paths: &[String], random: &mut Random) -> FileTree {
    let draw = |random: &mut Random, of: usize| usize::try_from(random.below(of as u64)).unwrap();
    let text = |path: &String| match tree.entry(path) {
        Some(TreeEntry::File(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(TreeEntry::Link(_) | TreeEntry::Submodule | TreeEntry::Large { .. }) | None => String::new(),
    };
    let (path, other) = (&paths[draw(random, paths.len())], &paths[draw(random, paths.len())]);
    let (old, foreign) = (text(path), text(other));
    let mut lines: Vec<&str> = old.lines().collect();
    let foreign: Vec<&str> = foreign.lines().collect();
    let at = draw(random, lines.len().max(1));
    let line = foreign.get(draw(random, foreign.len())).copied().unwrap_or_default();
    match draw(random, 6) {
        0 if at < lines.len() => drop(lines.remove(at)),
        1 if at < lines.len() => lines.insert(at, lines[at]),
        2 => lines.insert(at.min(lines.len()), line),
        3 => lines = foreign,
        4 => lines.clear(),
        _ => {
            let others = tree.below("").filter(|(other, _)| other != path);
            return collect(others);
        }
    }
    let mut new = tree.clone();
    new.insert(path.clone(), lines.join("\n").into_bytes());
    new
}

fn collect<'a>(entries: impl Iterator<Item = (&'a str, &'a TreeEntry)>) -> FileTree {
    let mut tree = FileTree::default();
    for (path, entry) in entries {
        match entry {
            TreeEntry::File(bytes) => tree.insert(path, Arc::clone(bytes)),
            TreeEntry::Link(target) => tree.insert_link(path, target.as_str()),
            TreeEntry::Submodule => tree.insert_submodule(path),
            TreeEntry::Large { limit } => tree.insert_large(path, *limit),
        }
    }
    tree
}

#[test]
fn random_edits_of_the_corpus_render_as_without_a_memo() {
    let mut corpus = FileTree::default();
    read_tree(&folder("input"), "", &mut corpus);
    let mut cases = BTreeMap::new();
    expected(&folder("expected"), "", &mut cases);
    let (mut rendered, mut refused) = (0, 0);
    for (seed, root) in (0..).zip(cases.keys()) {
        let mut random = Random::new(seed);
        let mut memo = RenderMemo::default();
        let first = again(&corpus, root, &mut memo);
        let paths: Vec<String> = first.closure.files().map(|(path, _)| path.to_owned()).collect();
        let mut commit = corpus.clone();
        for number in 0..EDITS {
            let edited = edit(&commit, &paths, &mut random);
            let fresh = render(&edited, root);
            assert_eq!(
                render_again(&edited, root, &Parameters::default(), &mut memo, &|| false),
                fresh,
                "{root}, edit {number}"
            );
            match fresh {
                Ok(_) => (rendered, commit) = (rendered + 1, edited),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(rendered > 150 && refused > 150, "{rendered} commits were rendered, {refused} refused");
}

const BASE: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n";

fn fleet(overlays: usize) -> FileTree {
    let mut tree = tree(&[("base/kustomization.yaml", "resources: [web.yaml]\n"), ("base/web.yaml", BASE)]);
    let names: Vec<String> = (0..overlays).map(|n| format!("c{n}")).collect();
    for name in &names {
        let kustomization =
            format!("resources: [../base]\nnamespace: {name}\nreplicas: [{{name: web, count: 2}}]\n");
        tree.insert(format!("{name}/kustomization.yaml"), kustomization.into_bytes());
    }
    tree.insert("kustomization.yaml", format!("resources: [{}]\n", names.join(", ")).into_bytes());
    tree
}

#[test]
fn objects_of_overlays_that_did_not_change_are_shared_with_the_last_rendering() {
    let mut memo = RenderMemo::default();
    let mut tree = fleet(3);
    let first = again(&tree, "", &mut memo);
    tree.insert("c1/kustomization.yaml", *b"resources: [../base]\nnamespace: other\n");
    let second = again(&tree, "", &mut memo);
    assert_eq!((first.objects.len(), shared(&first, &second).len()), (3, 2));
    assert_eq!(Ok(second), render(&tree, ""));
}

#[test]
fn parts_of_parts_are_kept_while_the_part_around_them_is_used() {
    let mut memo = RenderMemo::default();
    let mut tree = fleet(3);
    tree.insert("all/kustomization.yaml", *b"resources: [..]\n");
    tree.insert("all/more.yaml", *b"");
    let first = again(&tree, "all", &mut memo);
    tree.insert("all/kustomization.yaml", *b"resources: [.., more.yaml]\n");
    let second = again(&tree, "all", &mut memo);
    tree.insert("c0/kustomization.yaml", *b"resources: [../base]\nnamespace: other\n");
    let third = again(&tree, "all", &mut memo);
    assert_eq!((shared(&first, &second).len(), shared(&second, &third).len()), (3, 2));
}

#[test]
fn a_refused_commit_costs_no_part_of_the_memo() {
    let mut memo = RenderMemo::default();
    let good = fleet(3);
    let first = again(&good, "", &mut memo);
    let mut broken = good.clone();
    broken.insert("c1/kustomization.yaml", *b"resources: [../absent]\n");
    let error = render_again(&broken, "", &Parameters::default(), &mut memo, &|| false).unwrap_err();
    assert_eq!(Err(error), render(&broken, ""));
    assert_eq!(shared(&first, &again(&good, "", &mut memo)).len(), 3);
}

#[test]
fn a_memo_does_not_exceed_the_limits_of_a_rendering() {
    let text = format!("{BASE}# {}\n", "x".repeat(1 << 20));
    let object = text.replace("replicas: 1", &format!("k: \"{}\"", "x".repeat(1 << 20)));
    let mut memo = RenderMemo::default();
    let small = tree(&[
        ("base/kustomization.yaml", "resources: [web.yaml]\n"),
        ("base/web.yaml", &object),
        ("kustomization.yaml", "resources: [base]\n"),
    ]);
    again(&small, "", &mut memo);
    let mut large = small.clone();
    let names: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
    for name in &names {
        let kustomization = format!("resources: [../base]\nnamePrefix: {name}-\n");
        large.insert(format!("{name}/kustomization.yaml"), kustomization.into_bytes());
    }
    large.insert("kustomization.yaml", format!("resources: [{}]\n", names.join(", ")).into_bytes());
    let error = render_again(&large, "", &Parameters::default(), &mut memo, &|| false).unwrap_err();
    assert_eq!(error.reason, Reason::TooLarge);
    assert_eq!(Err(error), render(&large, ""));
}

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}', namespace: '{{ .Release.Namespace }}'}\ndata: {v: '{{ .Values.v }}'}\n";

/// Returns a kustomization with releases of one chart, each with its own values file.
fn releases(count: usize) -> FileTree {
    let charts: String =
        (0..count).map(|n| format!("- {{name: web, releaseName: r{n}, valuesFile: v{n}.yaml}}\n")).collect();
    let mut tree = tree(&[
        ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
        ("charts/web/templates/a.yaml", TEMPLATE),
        ("kustomization.yaml", &format!("helmCharts:\n{charts}")),
    ]);
    for n in 0..count {
        tree.insert(format!("v{n}.yaml"), format!("v: {n}\n").into_bytes());
    }
    tree
}

/// Renders, and returns how often memory was spent, which counts what was read and built.
fn spendings(tree: &FileTree, memo: &mut RenderMemo) -> (Rendered, usize) {
    let count = std::cell::Cell::new(0);
    let count_one = || {
        count.set(count.get() + 1);
        false
    };
    let rendered = render_again(tree, "", &Parameters::default(), memo, &count_one).unwrap();
    (rendered, count.get())
}

#[test]
fn a_changed_values_file_inflates_only_its_chart() {
    let mut memo = RenderMemo::default();
    let mut tree = releases(30);
    let (first, whole) = spendings(&tree, &mut memo);
    tree.insert("v7.yaml", *b"v: changed\n");
    let (second, after_one) = spendings(&tree, &mut memo);
    assert_eq!((first.objects.len(), shared(&first, &second).len()), (30, 29));
    assert_eq!(Ok(second), render(&tree, ""));
    // Reading the kustomization counts 1. A rendered chart counts 3, for its paths, its work and its object. A
    // reused chart counts 1.
    assert_eq!((whole, after_one), (1 + 30 * 3, 1 + 29 + 3));
    tree.insert("charts/web/templates/more/b.yaml", *b"{{ if not .Values }}kind: Fail{{ end }}");
    let (_, after_new_file) = spendings(&tree, &mut memo);
    assert_eq!(after_new_file, whole);
    tree.insert("charts/web/templates/more/b.yaml", *b"{{ fail .Release.Name }}");
    let error = render_again(&tree, "", &Parameters::default(), &mut memo, &|| false).unwrap_err();
    assert_eq!((error.file.as_str(), error.line), ("charts/web/templates/more/b.yaml", Some(1)));
}

#[test]
fn a_chart_without_a_namespace_is_kept_for_each_namespace_around_it() {
    let mut memo = RenderMemo::default();
    let mut tree = releases(1);
    for name in ["a", "b"] {
        let kustomization = format!("namespace: {name}\nnamePrefix: {name}-\nresources: [..]\n");
        tree.insert(format!("{name}/kustomization.yaml"), kustomization.into_bytes());
    }
    tree.insert("all/kustomization.yaml", *b"resources: [../a, ../b]\n");
    let namespaces = |rendered: &Rendered| -> Vec<String> {
        rendered.objects.iter().map(|rendered| rendered.object.namespace().to_owned()).collect()
    };
    let first = again(&tree, "all", &mut memo);
    assert_eq!(namespaces(&first), ["a", "b"]);
    tree.insert("b/kustomization.yaml", *b"namespace: c\nresources: [..]\n");
    let second = again(&tree, "all", &mut memo);
    assert_eq!(namespaces(&second), ["a", "c"]);
    assert_eq!((shared(&first, &second).len(), Ok(second)), (1, render(&tree, "all")));
}
