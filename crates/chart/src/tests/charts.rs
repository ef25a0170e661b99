//! Features of charts other than templates: subcharts, values, hooks and the order of documents.

use super::{chart, template};

const PARENT: &str = "name: p\nversion: 0.1.0\napiVersion: v2\ndependencies:\n- {name: sub, version: 0.1.0, condition: sub.enabled, alias: other}\n";
const SUB: &str = "{name: sub, version: 0.1.0, apiVersion: v2}";
const MAP: &str = "kind: ConfigMap\nmetadata: {name: x}\n";

#[test]
fn a_condition_decides_about_a_subchart_under_its_alias() {
    let files = [
        ("Chart.yaml", PARENT),
        ("values.yaml", "global: {g: 1}\nother: {a: 2}\n"),
        ("charts/sub/Chart.yaml", SUB),
        ("charts/sub/values.yaml", "a: 1\nb: 3\n"),
        (
            "charts/sub/templates/t.yaml",
            "x: {{ .Chart.Name }} {{ .Values.a }} {{ .Values.b }} {{ .Values.global.g }}",
        ),
    ];
    let rendered = chart(&files, "").unwrap();
    assert_eq!(rendered.manifests[0].text, "x: other 2 3 1");
    assert_eq!(rendered.manifests[0].source, "p/charts/other/templates/t.yaml");
    assert!(chart(&files, "sub: {enabled: false}").unwrap().manifests.is_empty());
}

#[test]
fn a_missing_subchart_is_named() {
    let error = chart(&[("Chart.yaml", PARENT)], "").unwrap_err();
    assert!(error.message.ends_with("missing in charts/ directory: sub"), "{error}");
    assert!(error.hint.is_some());
}

#[test]
fn a_null_removes_a_default() {
    let files = [
        ("Chart.yaml", SUB),
        ("values.yaml", "m: {a: 1, b: 2}\n"),
        ("templates/t.yaml", "x: {{ toJson .Values }}"),
    ];
    assert_eq!(chart(&files, "m: {a: null}").unwrap().manifests[0].text, r#"x: {"m":{"b":2}}"#);
}

#[test]
fn hooks_come_last_and_kinds_in_the_order_of_installation() {
    let hook = format!("{MAP}  annotations: {{}}\n")
        .replace("metadata: {name: x}", "metadata:\n  name: h\n  labels: {}")
        .replace("annotations: {}", "annotations: {helm.sh/hook: pre-install}");
    let files = [
        ("Chart.yaml", SUB),
        ("crds/c.yaml", "kind: CustomResourceDefinition\n"),
        ("templates/NOTES.txt", "notes"),
        ("templates/a.yaml", "kind: Service\n---\nkind: Namespace\n"),
        ("templates/b.yaml", hook.as_str()),
    ];
    let rendered = chart(&files, "").unwrap();
    let kinds: Vec<_> = rendered.manifests.iter().map(|document| document.kind.as_str()).collect();
    assert_eq!(kinds, ["Namespace", "Service"]);
    assert_eq!(rendered.hooks[0].hooks, ["pre-install"]);
    assert_eq!(rendered.crds.len(), 1);
}

#[test]
fn an_error_names_file_and_line() {
    let error = template("a: 1\nb: {{ required \"need b\" .Values.b }}\n").unwrap_err();
    assert_eq!(error.message, "execution error at (c/templates/t.yaml:2:6): need b");
    assert_eq!((error.file.as_deref(), error.line), (Some("c/templates/t.yaml"), Some(2)));
    let error = template("a: 1\nb: {{ nofunc }}\n").unwrap_err();
    assert_eq!((error.file.as_deref(), error.line), (Some("c/templates/t.yaml"), Some(2)));
}

#[test]
fn random_values_follow_the_seed() {
    let text = "x: a{{ randAlphaNum 20 }}-a{{ randAlphaNum 20 }}";
    let first = template(text).unwrap();
    assert_eq!(first, template(text).unwrap());
    let (a, b) = first.split_once('-').unwrap();
    assert_ne!(a, b);
}
