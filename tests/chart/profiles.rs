//! ClusterProfiles of an operator with the rules of the chart.

use serde_json::json;

use crate::kube::Kubectl;
use crate::wait::eventually;

/// Binds the set of the cluster `c1` in the namespace `team`, and waits for its profile there.
pub(super) async fn assert_published(kubectl: &Kubectl) {
    let binding = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "default", "namespace": "team"}, "spec": {"clusterSet": "default"},
    });
    kubectl.run_with(&["apply", "-f", "-"], &binding.to_string());
    let version = json!({"status": {"version": {"kubernetes": "v1.36.0"}}}).to_string();
    kubectl.run(&["patch", "managedcluster", "c1", "--subresource=status", "--type=merge", "-p", &version]);
    let path = "jsonpath={.spec.clusterManager.name} {.status.version.kubernetes}";
    let profile = ["get", "clusterprofiles.multicluster.x-k8s.io", "c1", "-n", "team", "-o", path];
    eventually("the cluster has a profile with a status", async || {
        kubectl.command(&profile).output().unwrap().stdout == b"open-cluster-management v1.36.0"
    })
    .await;
}
