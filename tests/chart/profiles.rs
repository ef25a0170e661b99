//! ClusterProfiles with an operator that has the chart's rules.

use serde_json::json;

use crate::kube::Kubectl;
use crate::wait::eventually;

/// Binds the cluster set of `c1` to the namespace `team`, and waits for the cluster's profile there.
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
