//! Objects whose manifests are the rendering of another directory.

use serde_json::{Value, json};

use crate::{Parameters, Reason, RenderError, RenderMemo, Rendered, render, render_again};
use object::tree::FileTree;

const TEMPLATE: &str = "apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata:
  name: web
  annotations: {gitops.wheelwright.dev/manifests: ../web}
spec:
  addonName: web
  agentSpec: {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}]}}
";

/// An overlay with a template, whose manifests are a chart with values and a name prefix.
fn tree() -> FileTree {
    [
        ("hub/kustomization.yaml", "resources: [web.yaml]\nnamePrefix: hub-\nnamespace: fleet\n"),
        ("hub/web.yaml", TEMPLATE),
        (
            "web/kustomization.yaml",
            "namePrefix: my-\nhelmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: web, releaseName: a, namespace: shop, valuesInline: {v: '{{REGION}}'}}]\nresources: [more.yaml]\n",
        ),
        ("web/more.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {n: '010'}}"),
        ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
        ("charts/web/values.yaml", "v: one"),
        ("charts/web/crds/b.yaml", ""),
        (
            "charts/web/templates/a.yaml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {v: '{{ .Values.v }}'}}\n---\n{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}\n---\n{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: wide.example.com}, spec: {group: example.com, scope: Cluster, names: {kind: Wide}}}\n---\n{apiVersion: example.com/v1, kind: Wide, metadata: {name: a}}\n---\n{apiVersion: example.com/v1, kind: Narrow, metadata: {name: a}}\n",
        ),
    ]
    .into_iter()
    .map(|(path, text)| (path, text.as_bytes()))
    .collect()
}

fn with(path: &str, text: &str) -> FileTree {
    let mut tree = tree();
    tree.insert(path, text.as_bytes().to_vec());
    tree
}

fn manifests(rendered: &Rendered) -> Vec<&Value> {
    let list = &rendered.objects[0].object.0["spec"]["agentSpec"]["workload"]["manifests"];
    list.as_array().unwrap().iter().collect()
}

fn names(rendered: &Rendered) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let name = |manifest: &&Value| {
        let metadata = &manifest["metadata"];
        format!("{} {}/{}", text(&manifest["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
    };
    manifests(rendered).iter().map(name).collect()
}

#[test]
fn a_template_contains_the_rendering_of_the_directory_that_it_names() {
    let rendered = render(&tree(), "hub").unwrap();
    assert_eq!(rendered.objects.len(), 1);
    let template = &rendered.objects[0].object;
    assert_eq!(template.name(), "hub-web");
    assert_eq!(template.0["spec"]["addonName"], "web");
    let expected = [
        "Namespace -/shop",
        "CustomResourceDefinition -/wide.example.com",
        "ClusterRole -/my-a",
        "ConfigMap -/my-more",
        "ConfigMap shop/my-a",
        "Narrow shop/my-a",
        "Wide -/my-a",
    ];
    let mut sorted = (names(&rendered), expected.map(String::from).to_vec());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1, "the chart's objects are in the namespace of their release");
    assert_eq!(names(&rendered)[0], expected[0], "the manifests of the file come first");
    let of_the_directory = render(&tree(), "web").unwrap();
    let alone: Vec<&str> = of_the_directory.objects.iter().map(|one| one.object.kind()).collect();
    let wrapped: Vec<&Value> = manifests(&rendered).into_iter().skip(1).map(|one| &one["kind"]).collect();
    assert_eq!(json!(alone), json!(wrapped), "the others keep the order of their directory");
    let data: Vec<&Value> = manifests(&rendered).into_iter().map(|one| &one["data"]).collect();
    assert!(data.contains(&&json!({"v": "{{REGION}}"})), "variables of templates stay: {data:?}");
    assert!(data.contains(&&json!({"n": "010"})), "{data:?}");
}

#[test]
fn sets_and_works_take_manifests_too_and_an_absent_list_is_created() {
    let object = |kind: &str| {
        format!(
            "apiVersion: work.open-cluster-management.io/v1\nkind: {kind}\nmetadata: {{name: web, annotations: {{gitops.wheelwright.dev/manifests: ../web}}}}\n"
        )
    };
    for (kind, spec, pointer) in [
        ("ManifestWork", "spec: {workload: {manifests: }}", "/spec/workload/manifests"),
        ("ManifestWorkReplicaSet", "", "/spec/manifestWorkTemplate/workload/manifests"),
    ] {
        let rendered = render(&with("hub/web.yaml", &(object(kind) + spec)), "hub").unwrap();
        let list =
            rendered.objects[0].object.0.get("spec").and_then(|spec| {
                json!({"spec": spec}).pointer(pointer).and_then(Value::as_array).map(Vec::len)
            });
        assert_eq!(list, Some(6), "{kind}");
    }
}

fn error(tree: &FileTree) -> RenderError {
    render(tree, "hub").unwrap_err()
}

#[test]
fn mistakes_are_located() {
    let template = |path: &str| TEMPLATE.replace("../web", path);
    for (text, reason, message) in [
        (template("../nowhere"), Reason::NotFound, "there is no file or directory \"../nowhere\""),
        (template("../../x"), Reason::OutsideRepository, "../../x"),
        (template("../web/more.yaml"), Reason::InvalidValue, "is a file; name its directory"),
        (template("../hub"), Reason::Cycle, "contain themselves"),
        (template("https://example.com/x"), Reason::Remote, "is not in this repository"),
        (TEMPLATE.replace("AddOnTemplate", "AddOn"), Reason::InvalidValue, "cannot take manifests"),
        (
            TEMPLATE.replace("manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}]", "manifests: {}"),
            Reason::InvalidValue,
            "spec.agentSpec.workload.manifests is not a list",
        ),
        (
            TEMPLATE.replace("agentSpec: {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}]}}", "agentSpec: [1]"),
            Reason::InvalidValue,
            "spec.agentSpec.workload.manifests is not a list",
        ),
    ] {
        let error = error(&with("hub/web.yaml", &text));
        assert_eq!((error.reason, error.file.as_str(), error.line), (reason, "hub/web.yaml", Some(1)), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let error = error(&with("web/more.yaml", "kind: [\n"));
    assert_eq!((error.reason, error.file.as_str()), (Reason::Malformed, "web/more.yaml"));
    assert_eq!(error.through, ["hub/web.yaml"]);
}

#[test]
fn a_chart_cannot_read_other_directories() {
    let text = "{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: AddOnTemplate, metadata: {name: a, annotations: {gitops.wheelwright.dev/manifests: ../../../secret}}}";
    let mut tree = with("charts/web/templates/a.yaml", text);
    tree.insert("secret/a.yaml", b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}".to_vec());
    let error = render(&tree, "charts/web").unwrap_err();
    assert!(error.message.contains("cannot take manifests from a directory"), "{error}");
    assert_eq!(
        error.hint.as_deref(),
        Some("use one of the kinds AddOnTemplate, ManifestWorkReplicaSet, ManifestWork, outside of a chart")
    );
}

#[test]
fn an_add_on_refuses_expressions_that_it_would_remove_and_a_set_keeps_them() {
    let rule = "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: r, namespace: n}, spec: {groups: [{rules: [{alert: '{{CLUSTER_NAME}}: {{ $labels.pod }}'}]}]}}";
    let tree = with("web/more.yaml", rule);
    let error = error(&tree);
    assert_eq!((error.reason, error.file.as_str()), (Reason::Unsupported, "hub/web.yaml"));
    assert_eq!(
        error.message,
        r#"PrometheusRule.monitoring.coreos.com n/my-r contains "{{ $labels.pod }}", which an add-on would replace with nothing"#
    );
    let mut of_a_set = tree;
    let set = TEMPLATE.replace("addon.open-cluster-management.io", "work.open-cluster-management.io");
    of_a_set.insert("hub/web.yaml", set.replace("AddOnTemplate", "ManifestWorkReplicaSet").into_bytes());
    assert!(render(&of_a_set, "hub").unwrap().to_yaml().contains("{{CLUSTER_NAME}}: {{ $labels.pod }}"));
}

#[test]
fn manifests_that_refer_to_each_other_in_a_circle_are_refused() {
    let work = |path: &str| {
        format!(
            "{{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {{name: w, annotations: {{gitops.wheelwright.dev/manifests: {path}}}}}}}"
        )
    };
    let mut tree = with("hub/web.yaml", &TEMPLATE.replace("../web", "../one"));
    tree.insert("one/a.yaml", work("../two").into_bytes());
    tree.insert("two/a.yaml", work("../one").into_bytes());
    let error = error(&tree);
    assert_eq!((error.reason, error.file.as_str()), (Reason::Cycle, "two/a.yaml"), "{error}");
    tree.insert("two/a.yaml", b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}".to_vec());
    assert_eq!(names(&render(&tree, "hub").unwrap()), ["Namespace -/shop", "ManifestWork -/w"]);
}

#[test]
fn a_change_renders_only_what_it_touches_and_equals_a_rendering_without_a_memo() {
    let mut memo = RenderMemo::default();
    let mut again =
        |tree: &FileTree| render_again(tree, "hub", &Parameters::default(), &mut memo, &|| false).unwrap();
    let first = again(&tree());
    let files: Vec<&str> = first.closure.files().map(|(path, _)| path).collect();
    assert!(files.contains(&"web/more.yaml") && files.contains(&"charts/web/templates/a.yaml"), "{files:?}");
    for (path, text) in [
        ("README.md", "unrelated"),
        ("charts/web/templates/b.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"),
        ("web/more.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {n: '011'}}"),
        ("hub/web.yaml", &TEMPLATE.replace("addonName: web", "addonName: other")),
    ] {
        let tree = with(path, text);
        let rendered = again(&tree);
        assert_eq!(rendered, render(&tree, "hub").unwrap(), "{path}");
        let is_shared = std::sync::Arc::ptr_eq(&rendered.objects[0], &first.objects[0]);
        assert_eq!(is_shared, path == "README.md", "{path}");
    }
}
