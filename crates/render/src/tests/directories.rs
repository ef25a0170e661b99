use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::charts::archive;
use crate::limits::MAX_ROOTS;
use crate::{
    Closure, DirectoriesMemo, Parameters, Reason, RenderError, RenderedDirectories, matching_directories,
    render, render_directories,
};
use object::tree::FileTree;

fn tree(files: &[(&str, &str)]) -> FileTree {
    files.iter().map(|(path, text)| (*path, text.as_bytes())).collect()
}

fn map(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: shop}}}}")
}

/// Returns a tree with these directories, each with a ConfigMap of its name.
fn fleet(directories: &[&str]) -> FileTree {
    let files = directories.iter().map(|dir| (format!("{dir}/map.yaml"), map(&dir.replace('/', "-"))));
    files.map(|(path, text)| (path, text.into_bytes())).collect()
}

fn set(directories: &[&str]) -> BTreeSet<String> {
    directories.iter().map(|dir| (*dir).to_owned()).collect()
}

/// Renders directories, and returns how often memory was spent, which counts what was read and built.
fn again(
    tree: &FileTree,
    directories: &[&str],
    memo: &mut DirectoriesMemo,
) -> (Result<RenderedDirectories, RenderError>, usize) {
    let count = Cell::new(0);
    let count_one = || {
        count.set(count.get() + 1);
        false
    };
    let rendered = render_directories(tree, &set(directories), &Parameters::default(), memo, &count_one);
    (rendered, count.get())
}

#[expect(clippy::result_large_err, reason = "the error of the function under test")]
fn once(tree: &FileTree, directories: &[&str]) -> Result<RenderedDirectories, RenderError> {
    again(tree, directories, &mut DirectoriesMemo::default()).0
}

#[test]
fn a_pattern_matches_directories_name_by_name() {
    let mut tree =
        fleet(&["clusters/eu-1", "clusters/eu-2", "clusters/us-1/apps", "clusters/.old", "addons/x"]);
    tree.insert("clusters/README.md", *b"");
    tree.insert_link("clusters/link", "eu-1");
    tree.insert_submodule("clusters/module");
    for (pattern, expected) in [
        ("clusters/*", &["clusters/eu-1", "clusters/eu-2", "clusters/us-1"][..]),
        ("clusters/eu-*", &["clusters/eu-1", "clusters/eu-2"]),
        ("clusters/*-1", &["clusters/eu-1", "clusters/us-1"]),
        ("clusters/*u*2*", &["clusters/eu-2"]),
        ("clusters/e*u*-*-1", &[]),
        ("clusters/eu-1*1", &[]),
        ("clusters/.*", &["clusters/.old"]),
        ("clusters/**", &["clusters/eu-1", "clusters/eu-2", "clusters/us-1"]),
        ("clusters/*/*", &["clusters/us-1/apps"]),
        ("*/x", &["addons/x"]),
        ("./*/", &["addons", "clusters"]),
        ("/addons//x/.", &["addons/x"]),
        (".", &[""]),
        ("clusters", &["clusters"]),
        ("clusters/eu", &[]),
        ("clusters/README.md", &[]),
        ("clusters/../addons", &[]),
        ("*/nowhere", &[]),
    ] {
        let found = matching_directories(&tree, [pattern]);
        let expected = if expected.is_empty() { Err(pattern) } else { Ok(set(expected)) };
        assert_eq!(found, expected, "{pattern}");
    }
    let both = matching_directories(&tree, ["clusters/eu-*", "addons/*", "clusters/eu-1"]).unwrap();
    assert_eq!(both, set(&["addons/x", "clusters/eu-1", "clusters/eu-2"]));
    assert_eq!(matching_directories(&tree, ["addons/*", "a*/y", "z"]), Err("a*/y"));
}

#[test]
fn each_directory_renders_as_on_its_own_and_in_the_order_of_the_paths() {
    let mut tree = fleet(&["b/plain", "base"]);
    tree.insert("base/kustomization.yaml", *b"resources: [map.yaml]\n");
    tree.insert("a/kustomization.yaml", *b"resources: [../base]\nnamePrefix: a-\n");
    tree.insert("c/Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0}");
    tree.insert("c/templates/map.yaml", map("{{ .Release.Name }}").into_bytes());
    let directories = ["a", "b/plain", "c"];
    let all = once(&tree, &directories).unwrap();
    let names: Vec<_> = all.rendered.objects.iter().map(|rendered| rendered.object.name()).collect();
    assert_eq!(names, ["a-base", "b-plain", "web"]);
    let alone = directories.map(|dir| render(&tree, dir).unwrap());
    assert!(alone.iter().flat_map(|rendered| &rendered.objects).eq(&all.rendered.objects));
    let mut closure = Closure::default();
    alone.into_iter().for_each(|rendered| closure.seen.extend(rendered.closure.seen));
    assert_eq!(closure, all.rendered.closure);
    assert_eq!(all.directories, directories.map(|dir| (dir.to_owned(), 1)).into());
}

#[test]
fn only_directories_whose_files_have_changed_are_rendered_again() {
    let mut memo = DirectoriesMemo::default();
    let mut tree = fleet(&["a", "b", "c"]);
    let (first, all) = again(&tree, &["a", "b", "c"], &mut memo);
    let first = first.unwrap();
    assert_eq!(again(&tree, &["a", "b", "c"], &mut memo), (Ok(first.clone()), 0));

    tree.insert("b/map.yaml", map("other").into_bytes());
    let (second, one) = again(&tree, &["a", "b", "c"], &mut memo);
    assert_eq!((one * 3, second.as_ref()), (all, once(&tree, &["a", "b", "c"]).as_ref()));
    let shared = |other: &RenderedDirectories, n: usize| {
        Arc::ptr_eq(&first.rendered.objects[n], &other.rendered.objects[n])
    };
    assert_eq!([0, 1, 2].map(|n| shared(second.as_ref().unwrap(), n)), [true, false, true]);

    // `b` becomes `d`.
    let renamed = fleet(&["a", "c", "d"]);
    let (third, new) = again(&renamed, &["a", "c", "d"], &mut memo);
    assert_eq!((new, third), (one, once(&renamed, &["a", "c", "d"])));
    let (back, again_new) = again(&tree, &["a", "b", "c"], &mut memo);
    assert_eq!((again_new, back), (one, second), "a directory that is gone is forgotten");
}

#[test]
fn a_mistake_in_one_directory_is_the_error_of_all_and_costs_no_other_directory() {
    let mut memo = DirectoriesMemo::default();
    let mut tree = fleet(&["a", "b", "c"]);
    tree.insert("b/kustomization.yaml", *b"resuorces: []\n");
    let (error, _) = again(&tree, &["a", "b", "c"], &mut memo);
    let error = error.unwrap_err();
    assert_eq!((error.file.as_str(), error.line), ("b/kustomization.yaml", Some(1)));
    tree.insert("b/kustomization.yaml", *b"resources: [map.yaml]\n");
    let (_, whole) = again(&tree, &["a", "b", "c"], &mut DirectoriesMemo::default());
    let (_, rest) = again(&tree, &["a", "b", "c"], &mut memo);
    assert_eq!(rest, whole - 1, "only `a` was rendered before the mistake");

    tree.insert("d/README.md", *b"");
    let empty = once(&tree, &["a", "d"]).unwrap_err();
    assert_eq!(
        empty.to_string().lines().next(),
        Some("d: the directory has neither a kustomization nor a manifest")
    );
}

#[test]
fn an_object_in_two_directories_is_an_error_that_names_both_files() {
    let mut tree = fleet(&["a", "b"]);
    tree.insert("b/map.yaml", format!("# Second\n{}", map("a")).into_bytes());
    let error = once(&tree, &["a", "b"]).unwrap_err();
    assert_eq!(error.reason, Reason::DuplicateObject);
    let expected = "b/map.yaml:2: the directories \"a\" and \"b\" both contain ConfigMap shop/a\n   see a/map.yaml:1\n   \
                    hint: only one directory may contain an object";
    assert_eq!(error.to_string(), expected);

    // The version of an object is not part of its identity.
    let role = |version: &str| {
        format!("{{apiVersion: rbac.authorization.k8s.io/{version}, kind: Role, metadata: {{name: r}}}}")
    };
    let versions = [("map.yaml", role("v1")), ("b/map.yaml", role("v1beta1"))];
    let versions: FileTree = versions.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let error = once(&versions, &["", "b"]).unwrap_err();
    assert!(error.message.starts_with("the directories \".\" and \"b\" both contain Role"), "{error}");

    for dir in ["a", "b"] {
        tree.insert(format!("{dir}/kustomization.yaml"), *b"resources: [../base]\n");
    }
    tree.insert("base/kustomization.yaml", *b"resources: [map.yaml]\n");
    tree.insert("base/map.yaml", map("base").into_bytes());
    let shared = once(&tree, &["a", "b"]).unwrap_err();
    assert!(shared.message.starts_with("the directories \"a\" and \"b\" both contain"), "{shared}");
    assert_eq!((shared.file.as_str(), shared.related[0].file.as_str()), ("base/map.yaml", "base/map.yaml"));
}

#[test]
fn all_directories_together_have_the_limits_of_one_rendering() {
    let large = map("web").replace("}}", &format!("}}, data: {{k: \"{}\"}}}}", "x".repeat(4 << 20)));
    let mut tree = tree(&[("base/kustomization.yaml", "resources: [map.yaml]\n"), ("base/map.yaml", &large)]);
    let names: Vec<String> = (10..50).map(|n| format!("c{n}")).collect();
    for name in &names {
        let kustomization = format!("resources: [../base]\nnamePrefix: {name}-\n");
        tree.insert(format!("{name}/kustomization.yaml"), kustomization.into_bytes());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut memo = DirectoriesMemo::default();
    assert_eq!(once(&tree, &names).unwrap_err().reason, Reason::TooLarge);
    // The first directories that do not fit together. The last ones are reused.
    let count = (1..).find(|count| once(&tree, &names[..*count]).is_err()).unwrap();
    again(&tree, &names[count / 2..count], &mut memo).0.unwrap();
    let (reused, _) = again(&tree, &names[..count], &mut memo);
    assert_eq!(reused, once(&tree, &names[..count]), "a reused directory counts too");

    let many: Vec<String> = (0..=MAX_ROOTS).map(|n| format!("d{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = once(&fleet(&many), &many).unwrap_err();
    assert!(
        error.message.starts_with("this is one of 1001 directories to render, and at most 1000"),
        "{error}"
    );
}

#[test]
fn an_error_about_missing_charts_lists_those_of_all_directories() {
    let chart = |dir: &str, version: &str| {
        let entry = format!("{{name: web, repo: 'https://charts.example.com', version: {version}}}");
        (format!("{dir}/kustomization.yaml"), format!("helmCharts: [{entry}]\n").into_bytes())
    };
    let reference = |version: &str| format!("https://charts.example.com/web:{version}");
    let mut tree: FileTree =
        [chart("a", "1.0.0"), chart("b", "2.0.0"), chart("c", "1.0.0")].into_iter().collect();
    tree.insert("d/map.yaml", map("d").into_bytes());
    let missing = |tree: &FileTree| once(tree, &["a", "b", "c", "d"]).unwrap_err().charts;
    assert_eq!(missing(&tree), [reference("1.0.0"), reference("2.0.0")]);
    tree.insert_chart(reference("1.0.0"), archive("1.0.0"));
    assert_eq!(
        missing(&tree),
        [reference("1.0.0"), reference("2.0.0")],
        "a chart that is there stays listed"
    );
}
