//! Charts that the golden cases cannot cover: kustomize cannot render them, or its output does not show the
//! difference.

use crate::{Parameters, Reason, RenderMemo, Rendered, render, render_again};
use object::tree::FileTree;

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata:\n  namespace: '{{ .Release.Namespace }}'\n  v: '{{ .Values.v }}'\n  common: '{{ include \"common\" . }}'\n";

/// A chart at `apps/web` with a subchart, which it includes through a link.
fn tree() -> FileTree {
    let mut tree: FileTree = [
        ("apps/web/Chart.yaml", "{apiVersion: v2, name: site, version: 0.1.0}"),
        ("apps/web/values.yaml", "v: one"),
        ("apps/web/templates/a.yaml", TEMPLATE),
        ("shared/common/Chart.yaml", "{apiVersion: v2, name: common, version: 0.1.0, type: library}"),
        ("shared/common/templates/_a.tpl", "{{ define \"common\" }}shared{{ end }}"),
        (
            "kustomization.yaml",
            "namespace: shop\nhelmGlobals: {chartHome: apps}\nhelmCharts:\n- {name: web, releaseName: a}\n",
        ),
    ]
    .into_iter()
    .map(|(path, text)| (path, text.as_bytes()))
    .collect();
    tree.insert_link("apps/web/charts/common", "../../../shared/common");
    tree
}

fn data(rendered: &Rendered) -> Vec<String> {
    let objects = rendered.objects.iter().map(|rendered| &rendered.object.0["data"]);
    objects.map(|data| format!("{} {} {}", data["namespace"], data["v"], data["common"])).collect()
}

#[test]
fn a_directory_that_is_a_chart_is_a_release_of_its_name() {
    let rendered = render(&tree(), "apps/web").unwrap();
    assert_eq!(data(&rendered), [r#""default" "one" "shared""#]);
    assert_eq!(rendered.objects[0].object.name(), "site");
    assert_eq!(rendered.objects[0].release_namespace.as_deref(), Some("default"));
    assert_eq!(rendered.objects[0].origin.file, "apps/web/templates/a.yaml");
    let parameters = Parameters { namespace: "shop".into(), ..Parameters::default() };
    let elsewhere =
        render_again(&tree(), "apps/web", &parameters, &mut RenderMemo::default(), &|| false).unwrap();
    assert_eq!(data(&elsewhere), [r#""shop" "one" "shared""#]);
    assert_eq!(elsewhere.objects[0].release_namespace.as_deref(), Some("shop"));
    let mut changed = tree();
    assert!(rendered.closure.holds_in(&changed));
    changed.insert("shared/common/templates/_b.tpl", *b"");
    assert!(!rendered.closure.holds_in(&changed), "a file below a link is new");
}

#[test]
fn objects_of_a_chart_know_the_namespace_of_their_release() {
    let rendered = render(&tree(), "").unwrap();
    assert_eq!(data(&rendered), [r#""shop" "one" "shared""#]);
    assert_eq!(rendered.objects[0].object.namespace(), "", "as in kustomize");
    assert_eq!(rendered.objects[0].release_namespace.as_deref(), Some("shop"));
}

#[test]
fn links_of_a_chart_stay_in_the_repository_and_end() {
    for (target, reason) in [
        ("../../../../etc", Reason::OutsideRepository),
        ("/etc/passwd", Reason::OutsideRepository),
        ("nowhere", Reason::NotFound),
        ("..", Reason::Cycle),
    ] {
        let mut tree = tree();
        tree.insert_link("apps/web/files/link", target);
        let error = render(&tree, "").unwrap_err();
        assert_eq!(
            (error.reason, error.file.as_str(), error.line),
            (reason, "kustomization.yaml", Some(4)),
            "{target}"
        );
        assert_eq!(render(&tree, "apps/web").unwrap_err().reason, reason, "{target}");
    }
}

#[test]
fn links_that_multiply_the_files_of_a_chart_are_refused() {
    let mut tree = tree();
    tree.insert_link("apps/web/files/all", "../../../level0");
    for level in 0..12 {
        for link in 0..10 {
            tree.insert_link(format!("level{level}/l{link}"), format!("../level{}", level + 1));
        }
    }
    tree.insert("level12/file", *b"");
    let error = render(&tree, "").unwrap_err();
    assert_eq!((error.reason, error.line), (Reason::TooLarge, Some(4)), "{error}");
}

#[test]
fn a_damaged_archive_of_a_chart_is_named() {
    let mut tree = tree();
    tree.insert(
        "kustomization.yaml",
        *b"helmCharts:\n- {name: web, repo: 'https://charts.example.com', version: 1.2.3}\n",
    );
    let error = render(&tree, "").unwrap_err();
    let hint = "charts are not downloaded; commit the output of `helm pull --repo https://charts.example.com web --version 1.2.3 --destination charts`";
    assert_eq!((error.reason, error.hint.as_deref()), (Reason::Remote, Some(hint)));
    tree.insert("charts/web-1.2.3.tgz", *b"not an archive");
    let error = render(&tree, "").unwrap_err();
    assert_eq!((error.reason, error.file.as_str()), (Reason::Chart, "charts/web-1.2.3.tgz"), "{error}");
    assert_eq!(error.related[0].to_string(), "kustomization.yaml:2");
}
