//! Add-ons of others, as they are published.

use super::User;
use crate::kube::built;

/// OCM's managed-serviceaccount is installed as it is published: its manager runs on the hub, its agents on the spokes, and a spoke accepts the
/// token that the hub gets.
#[test]
fn a_published_add_on_runs_with_its_manager_on_real_nodes() {
    let user = User::of_new_clusters("published");
    let program = built("tests/managed-serviceaccount/build");
    let image = "quay.io/open-cluster-management/managed-serviceaccount:v0.10.0";
    user.control(&format!("load msa {} {image}", program.display()));
    user.run(
        "wheelwright install --image wheelwright:0.1.0 --addon-roles managed-serviceaccount-addon-agent",
    );
    user.join();
    user.run("kubectl apply -f examples-repo/bootstrap/managed-serviceaccount.yaml");
    user.run("kubectl create namespace open-cluster-management-addon");
    user.run("kubectl apply -f tests/published/managed-serviceaccount-manager.yaml");
    user.run(
        "kubectl -n open-cluster-management-addon rollout status \
         deployment/managed-serviceaccount-addon-manager --timeout=120s",
    );
    for cluster in ["c1", "c2"] {
        let addon =
            format!("kubectl -n {cluster} wait managedclusteraddon/managed-serviceaccount --timeout=120s");
        user.run(&format!("{addon} --for=create"));
        user.run(&format!("{addon} --for=condition=Available"));
    }
    user.write(
        "robot.yaml",
        "apiVersion: authentication.open-cluster-management.io/v1beta1\nkind: ManagedServiceAccount\n\
         metadata: {name: robot, namespace: c1}\nspec: {rotation: {enabled: true, validity: 1h0m0s}}\n",
    );
    user.run("kubectl apply -f robot.yaml");
    user.run("kubectl -n c1 wait secret/robot --for=create --timeout=60s");
    let name = user.run(
        "token=$(kubectl -n c1 get secret robot -o 'jsonpath={.data.token}' | base64 -d); \
         kubectl --context c1 --token $token auth whoami",
    );
    assert!(name.contains("system:serviceaccount:open-cluster-management-agent-addon:robot"), "{name}");
}
