//! The schemas of the values of the charts.

use crate::kube::helm;

#[test]
fn values_that_the_schema_does_not_know_are_refused() {
    for (value, why) in [
        ("replicas=-1", "replicas"),
        ("replica=2", "replica"),
        ("log.format=\"xml\"", "format"),
        ("listen=\"8080\"", "listen"),
        ("serviceAccounts=[{\"namespace\":\"a\"}]", "names"),
        ("tracing.endpoint=\"otel:4317\"", "tracing"),
        ("image.pullPolicy=\"Sometimes\"", "pullPolicy"),
        ("customSigners=[\"kubernetes.io/kubelet-serving\"]", "customSigners"),
    ] {
        let refused = helm::render("wheelwright", &[value]).unwrap_err();
        assert!(refused.contains(why), "{value}: {refused}");
    }
    for (chart, value, why) in [
        ("wheelwright-agent", "clustername=\"c1\"", "clustername"),
        ("wheelwright-agent", "clusterName=\"C_1\"", "clusterName"),
        ("wheelwright-agent", "rules=[{\"resources\":[\"pods\"]}]", "verbs"),
        ("wheelwright-registration-operator", "component=\"agent\"", "component"),
        ("wheelwright-registration-operator", "image={\"tag\":\"1\",\"repository\":\"\"}", "repository"),
    ] {
        let refused = helm::render(chart, &[value]).unwrap_err();
        assert!(refused.contains(why), "{chart} {value}: {refused}");
    }
}
