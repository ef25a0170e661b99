//! The roles that the embedded hub has from the start.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::kube::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn the_default_roles_match_kubernetes() {
    let kubernetes = Cluster::start("roles").await;
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    let theirs = kubernetes.client().await;
    let all = ListParams::default();
    for role in Api::<ClusterRole>::all(server.client()).list(&all).await.unwrap() {
        let name = role.name_any();
        let their = Api::<ClusterRole>::all(theirs.clone()).get(&name).await.unwrap();
        assert_eq!(role.labels(), their.labels(), "{name}");
        assert_eq!(role.annotations(), their.annotations(), "{name}");
        assert_eq!(role.aggregation_rule, their.aggregation_rule, "{name}");
        // kube-controller-manager copies rules into aggregating roles. The hub adds them during authorization.
        if role.aggregation_rule.is_none() {
            assert_eq!(role.rules.unwrap_or_default(), their.rules.unwrap_or_default(), "{name}");
        }
    }
    for binding in Api::<ClusterRoleBinding>::all(server.client()).list(&all).await.unwrap() {
        let name = binding.name_any();
        let their = Api::<ClusterRoleBinding>::all(theirs.clone()).get(&name).await.unwrap();
        assert_eq!(binding.role_ref, their.role_ref, "{name}");
        assert_eq!(binding.subjects, their.subjects, "{name}");
    }
}
