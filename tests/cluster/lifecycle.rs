//! People remove or move objects of a repository, the repository, or a cluster.

use super::User;

const SETTINGS: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: default}\ndata: {text: hello}\n";

/// A commit that drops an add-on and a set in use waits for an approval, and the pods keep running. After
/// `wheelwright repo approve`, nothing of them is left on the spokes.
#[test]
fn objects_in_use_leave_their_repository_only_after_an_approval_on_real_nodes() {
    let user = User::of_a_fleet("deletions");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");

    user.write("fleet/kustomization.yaml", "resources: [placement.yaml]\n");
    user.commit("drop the add-on and the set");
    user.fails("wheelwright repo reconcile deletions");
    user.eventually("wheelwright status", "DeletionsHeld");
    user.run("kubectl get clustermanagementaddon deletions");
    user.run("kubectl -n deletions get manifestworkreplicaset deletions");
    user.arrives("1");

    user.run("wheelwright repo approve deletions");
    user.run("kubectl wait --for=delete clustermanagementaddon/deletions --timeout=120s");
    user.run("kubectl -n deletions wait --for=delete manifestworkreplicaset/deletions --timeout=120s");
    for context in ["c1", "c2"] {
        user.run(&format!(
            "kubectl --context {context} wait --for=delete namespace/deletions namespace/deletions-set --timeout=120s"
        ));
    }
    user.run("wheelwright repo reconcile deletions");
}

/// A repository moves to another address. The ConfigRepo follows it, the pods of an add-on and a set keep running,
/// and the next commit is rolled out.
#[test]
fn a_repository_moves_without_a_rollout_on_real_nodes() {
    let user = User::of_a_fleet("moving");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");
    let before = user.pods_on_spokes();

    user.run(
        "rm -rf $REPOSITORIES/moved.git; mv $REPOSITORIES/moving.git $REPOSITORIES/moved.git; \
         git -C fleet remote set-url origin https://writer:secret@$GIT/moved.git",
    );
    user.fails("wheelwright repo reconcile moving");
    user.eventually("wheelwright status", "moving.git");
    user.run(
        "kubectl -n wheelwright-system patch configrepo moving --type merge \
         --patch '{\"spec\": {\"url\": \"https://'$GIT'/moved.git\"}}'; wheelwright repo reconcile moving",
    );
    assert_eq!(user.pods_on_spokes(), before);

    user.release("2", "serve");
    user.arrives("2");
}

/// A cluster leaves the fleet: its add-ons and works are removed, `wheelwright unjoin` removes the agent, and the
/// other cluster keeps what it runs. The cluster may join again.
#[test]
fn a_cluster_leaves_the_fleet_and_joins_it_again_on_real_nodes() {
    let user = User::alone("leaving");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    user.write("settings.yaml", &SETTINGS.replace("NAME", "leaving"));
    user.run("wheelwright work create settings -f settings.yaml --placement leaving/all");
    for context in ["c1", "c2"] {
        user.run(&format!(
            "kubectl --context {context} -n default wait --for=create configmap/leaving --timeout=60s"
        ));
    }

    let refusal = user.fails("wheelwright unjoin --cluster-name c2 --context c2");
    assert!(refusal.contains("works"), "{refusal}");
    user.run("kubectl delete managedcluster c2 --timeout=120s");
    user.run("kubectl --context c2 wait --for=delete namespace/leaving --timeout=60s");
    user.run("kubectl --context c2 -n default wait --for=delete configmap/leaving --timeout=60s");
    user.run("wheelwright unjoin --cluster-name c2 --context c2");
    let agent = "kubectl --context c2 -n open-cluster-management-agent";
    user.run(&format!("{agent} wait --for=delete pod --all --timeout=60s"));
    let left = user.run(&format!("{agent} get deployments,secrets -o name"));
    assert_eq!(left, "", "only the namespace is left");
    user.eventually("wheelwright rollout status leaving", "1 of 1 cluster done");
    user.run("kubectl --context c1 -n leaving rollout status deployment/leaving --timeout=10s");
    user.run("kubectl --context c1 -n default get configmap leaving");

    user.join();
    user.runs("1");
    user.run("kubectl --context c2 -n default wait --for=create configmap/leaving --timeout=60s");
    user.run("kubectl -n leaving delete manifestworkreplicaset settings");
}

/// An agent is upgraded by running `wheelwright join` again with another image. The cluster's workloads keep
/// running and follow the next commit.
#[test]
fn an_agent_is_upgraded_by_joining_again_on_real_nodes() {
    let user = User::alone("upgraded");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");
    let pods = user.pods_on_spokes();
    // The last image leaves the fleet unchanged.
    for image in ["wheelwright-agent:next", "wheelwright-agent:0.1.0"] {
        user.run(&format!(
            "join=$(wheelwright get token | sed -n 's/<cluster_name>/c1/p'); ${{join/wheelwright-agent:0.1.0/{image}}} --context c1 --wait 2m"
        ));
        let agent = "kubectl --context c1 -n open-cluster-management-agent";
        user.run(&format!("{agent} rollout status deployment/wheelwright-agent --timeout=120s"));
        user.eventually(
            &format!("{agent} get pods -o 'jsonpath=runs {{.items[*].spec.containers[*].image}}.'"),
            &format!("runs {image}."),
        );
    }
    assert_eq!(user.pods_on_spokes(), pods);
    user.release("2", "serve");
    user.arrives("2");
}
