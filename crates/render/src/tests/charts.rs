//! Charts that the golden cases cannot cover: kustomize cannot render them, or its output does not show the
//! difference.

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

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

/// Returns the archive of a chart with one ConfigMap.
pub(super) fn archive(version: &str) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let chart = format!("{{apiVersion: v2, name: web, version: {version}}}");
    let map = TEMPLATE.replace("{{ include \"common\" . }}", version);
    for (path, text) in
        [("Chart.yaml", chart.as_str()), ("values.yaml", "v: one"), ("templates/a.yaml", &map)]
    {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, format!("web/{path}"), text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

const REPOSITORY: &str = "https://charts.example.com";

fn remote(charts: &[&str]) -> Vec<u8> {
    let entry = |chart: &&str| {
        format!("- {{name: web, repo: '{REPOSITORY}', releaseName: a{}, {chart}}}\n", chart.len())
    };
    format!("helmCharts:\n{}", charts.iter().map(entry).collect::<String>()).into_bytes()
}

#[test]
fn remote_charts_that_the_tree_lacks_are_all_named() {
    let mut tree = FileTree::default();
    tree.insert("kustomization.yaml", *b"resources: [a, b]\n");
    tree.insert("a/kustomization.yaml", remote(&["version: 1.2.3"]));
    tree.insert("b/kustomization.yaml", remote(&["version: 1.10.0", "version: 1.2.3, skipHooks: true"]));
    let [first, second] = ["1.10.0", "1.2.3"].map(|version| format!("{REPOSITORY}/web:{version}"));
    let error = render(&tree, "").unwrap_err();
    assert_eq!(
        (error.reason, error.file.as_str(), error.line),
        (Reason::Remote, "a/kustomization.yaml", Some(2))
    );
    assert_eq!(error.charts, [first.clone(), second.clone()]);
    tree.insert_chart(&second, archive("1.2.3"));
    let error = render(&tree, "").unwrap_err();
    assert_eq!(
        (error.file.as_str(), &error.charts[..]),
        ("b/kustomization.yaml", &[first.clone(), second][..])
    );
    tree.insert_chart(&first, archive("1.10.0"));
    let rendered = render(&tree, "").unwrap();
    assert_eq!(
        data(&rendered),
        [r#""default" "one" "1.2.3""#, r#""default" "one" "1.10.0""#, r#""default" "one" "1.2.3""#]
    );
    assert_eq!(rendered.objects[0].origin.file, "a/kustomization.yaml");
}

#[test]
fn a_new_remote_chart_is_named_together_with_those_of_unchanged_directories() {
    let mut tree = FileTree::default();
    tree.insert("kustomization.yaml", *b"resources: [a, b]\n");
    tree.insert("a/kustomization.yaml", remote(&["version: 1.2.3"]));
    tree.insert("b/kustomization.yaml", *b"namespace: b\n");
    let [first, second] = ["1.10.0", "1.2.3"].map(|version| format!("{REPOSITORY}/web:{version}"));
    tree.insert_chart(&second, archive("1.2.3"));
    let mut memo = RenderMemo::default();
    let mut again = |tree: &FileTree| {
        render_again(tree, "", &Parameters::default(), &mut memo, &|| false).map_err(Box::new)
    };
    let rendered = again(&tree).unwrap();
    assert_eq!(rendered.closure.charts(), std::slice::from_ref(&second));
    tree.insert("b/kustomization.yaml", remote(&["version: 1.10.0"]));
    assert_eq!(again(&tree).unwrap_err().charts, [first.clone(), second.clone()]);
    tree.insert_chart(&first, archive("1.10.0"));
    let next = again(&tree).unwrap();
    assert!(std::sync::Arc::ptr_eq(&rendered.objects[0], &next.objects[0]), "the directory is reused");
    tree.insert_chart(&second, archive("other content"));
    assert!(!next.closure.holds_in(&tree), "the content of a chart belongs to the closure");
}

#[test]
fn remote_charts_need_an_exact_version_and_a_repository_to_fetch_from() {
    let check = |entry: &str, field: &str, message: &str| {
        let mut tree = FileTree::default();
        tree.insert("kustomization.yaml", format!("helmCharts:\n- {{{entry}}}\n").into_bytes());
        let error = render(&tree, "").unwrap_err();
        assert_eq!(
            (error.reason, error.line, error.field.as_deref()),
            (Reason::Remote, Some(2), Some(field)),
            "{error}"
        );
        assert!(error.message.contains(message) && error.charts.is_empty(), "{error}");
    };
    for version in ["", "1.2", "^1.2.3", ">=1.2.3", "1.2.x", "latest", "1.2.3 || 2.0.0", "1.2.3@sha256:0"] {
        let entry = format!("name: web, repo: '{REPOSITORY}', version: '{version}'");
        check(&entry, "helmCharts[0].version", "must be exact");
    }
    for repo in ["http://charts.example.com", "file:///srv/charts", "git://charts.example.com", "bitnami"] {
        let entry = format!("name: web, version: 1.2.3, repo: '{repo}'");
        check(&entry, "helmCharts[0].repo", "only over https:// and oci://");
    }
    for repo in ["https://me:hunter22@charts.example.com/a", "oci://me@charts.example.com"] {
        let entry = format!("name: web, version: '1.2', repo: '{repo}'");
        check(&entry, "helmCharts[0].repo", "may not contain a user name or password");
    }
    check(
        &format!("name: a/b, version: 1.2.3, repo: '{REPOSITORY}'"),
        "helmCharts[0].name",
        "is not the name of a chart",
    );
}

#[test]
fn a_chart_in_the_repository_is_used_instead_of_the_remote_one() {
    let mut tree = FileTree::default();
    tree.insert("kustomization.yaml", remote(&["version: v1.2.3-rc.1+b"]));
    tree.insert_chart(format!("{REPOSITORY}/web:v1.2.3-rc.1+b"), archive("1.0.0"));
    assert_eq!(data(&render(&tree, "").unwrap()), [r#""default" "one" "1.0.0""#]);
    tree.insert("charts/web-v1.2.3-rc.1+b.tgz", archive("2.0.0"));
    assert_eq!(data(&render(&tree, "").unwrap()), [r#""default" "one" "2.0.0""#]);
    tree.insert("charts/web-v1.2.3-rc.1+b/web/Chart.yaml", *b"{apiVersion: v2, name: web, version: 3.0.0}");
    assert!(render(&tree, "").unwrap().objects.is_empty(), "kustomize's own directory goes first");
}

#[test]
fn a_damaged_archive_of_a_chart_is_named() {
    let mut tree = tree();
    tree.insert(
        "kustomization.yaml",
        *b"helmCharts:\n- {name: web, repo: 'https://charts.example.com', version: 1.2.3}\n",
    );
    let error = render(&tree, "").unwrap_err();
    let hint = "commit the output of `helm pull --repo https://charts.example.com web --version 1.2.3 --destination charts`";
    assert_eq!((error.reason, error.hint.as_deref()), (Reason::Remote, Some(hint)));
    tree.insert("charts/web-1.2.3.tgz", *b"not an archive");
    let error = render(&tree, "").unwrap_err();
    assert_eq!((error.reason, error.file.as_str()), (Reason::Chart, "charts/web-1.2.3.tgz"), "{error}");
    assert_eq!(error.related[0].to_string(), "kustomization.yaml:2");
}
