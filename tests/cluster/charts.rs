//! Helm charts that a repository sends to clusters.

use super::User;

/// Names the directory of a chart. Its values contain a variable.
const TEMPLATE: &str = r#"apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata:
  name: charted-1
  annotations: {gitops.wheelwright.dev/manifests: web}
spec:
  addonName: charted
  agentSpec: {workload: {manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: charted}}]}}
"#;

const OVERLAY: &str = r#"helmCharts:
- name: web
  releaseName: charted
  namespace: charted
  valuesFile: values.yaml
"#;

const VALUES: &str = r#"image: {repository: workload, tag: "1"}
service: {port: 8080}
podLabels: {cluster: "{{CLUSTER_NAME}}"}
"#;

/// A chart of `helm create` is sent to all clusters as an add-on, with a value that differs by cluster. A plan shows what a
/// commit of another value will do; its image does not exist, so it stops at the first cluster and is undone. An upgrade of
/// the chart reaches all clusters.
#[test]
fn a_chart_with_values_per_cluster_is_planned_undone_and_upgraded_on_real_nodes() {
    let user = User::of_a_fleet("charted");
    user.addon("1", "serve");
    let addon = std::fs::read_to_string(user.path("fleet/addon.yaml")).unwrap();
    let (_, addon) = addon.split_once("---\n").unwrap();
    user.write("fleet/addon.yaml", &format!("{TEMPLATE}---\n{addon}"));
    user.run("mkdir -p fleet/web/charts; helm create fleet/web/charts/web");
    user.write("fleet/web/kustomization.yaml", OVERLAY);
    user.write("fleet/web/values.yaml", VALUES);
    user.commit("a chart");
    user.follow();
    let on_all = |column: &str, expected: [&str; 2]| {
        for (cluster, expected) in ["c1", "c2"].iter().zip(expected) {
            let get = format!("kubectl --context {cluster} -n charted get deployment charted-web -o");
            assert_eq!(
                user.run(&format!("{get} jsonpath='{{{column}}}'")),
                expected,
                "{column} on {cluster}"
            );
        }
    };
    let status = "wheelwright rollout status charted";
    let image = ".spec.template.spec.containers[0].image";
    user.eventually(status, "charted  2 of 2 clusters done");
    on_all(image, ["workload:1"; 2]);
    on_all(".spec.template.metadata.labels.cluster", ["c1", "c2"]);

    user.run("cd fleet; git switch --quiet --create change; sed -i 's/tag: \"1\"/tag: missing/' web/values.yaml; git commit --quiet --all --message 'another image'");
    let plan = user.run(
        "cd fleet; wheelwright plan --config-repo wheelwright-system/charted --head change --base main || test $? = 10",
    );
    for words in ["batch 1 at 0s: c1", "batch 2", "image: \"workload:1\" to \"workload:missing\""] {
        assert!(plan.contains(words), "{words}\n{plan}");
    }
    user.run("cd fleet; git push --quiet origin change:main");
    user.eventually(status, "ErrImagePull");
    on_all(image, ["workload:missing", "workload:1"]);
    user.run("wheelwright rollout undo charted");
    user.eventually(status, "2 of 2 clusters are back on ");
    on_all(image, ["workload:1"; 2]);

    user.run("cd fleet; git revert --no-edit HEAD >/dev/null; sed -i 's/^version: .*/version: 0.2.0/' web/charts/web/Chart.yaml");
    user.commit("version 0.2.0 of the chart");
    user.eventually(
        "kubectl --context c2 -n charted get deployment charted-web -o yaml",
        "helm.sh/chart: web-0.2.0",
    );
    user.eventually(status, "charted  2 of 2 clusters done");
    on_all(image, ["workload:1"; 2]);
    on_all(".metadata.labels.helm\\.sh/chart", ["web-0.2.0"; 2]);
}
