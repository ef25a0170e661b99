//! A hub is lost, and workloads move to another cluster.

use super::User;

impl User {
    /// Returns this journey's pods on the spokes, with their restart counts.
    pub(super) fn pods_on_spokes(&self) -> String {
        let columns = "custom-columns=NAME:.metadata.name,UID:.metadata.uid,RESTARTS:.status.containerStatuses[*].restartCount";
        let on = |cluster| {
            let name = &self.name;
            format!(
                "kubectl --context {cluster} get pods -A -l app={name} --sort-by .metadata.uid -o '{columns}'"
            )
        };
        ["c1", "c2"].map(|cluster| self.run(&on(cluster))).concat()
    }
}

/// The hub is lost, and its etcd is restored from a backup as in the guide. The operator starts and follows the
/// newest commit again while the pods on the spokes keep running, and the next commit reaches them.
#[test]
fn a_hub_comes_back_from_a_backup_on_real_nodes() {
    let user = User::alone("restored");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");
    let backup = user.path("hub.db");
    user.control(&format!("backup hub {}", backup.display()));
    user.release("2", "serve");
    user.arrives("2");
    let pods = user.pods_on_spokes();

    user.run("kubectl scale deployment wheelwright-operator --namespace wheelwright-system --replicas=0");
    user.run("kubectl -n wheelwright-system wait pod --all --for=delete --timeout=120s");
    user.control(&format!("restore hub {}", backup.display()));
    user.run("kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=180s");
    user.arrives("2");
    assert_eq!(user.pods_on_spokes(), pods, "the pods went on");
    user.release("3", "serve");
    user.arrives("3");
}

/// Workloads move off a cluster with `wheelwright migrate` as in the guide: an add-on on one cluster starts on
/// the other one before it leaves the first. `--undo` removes the taint.
#[test]
fn workloads_move_off_a_cluster_on_real_nodes() {
    let user = User::alone("moves");
    user.addon("1", "serve");
    user.run("echo '  numberOfClusters: 1' >>fleet/placement.yaml");
    user.commit("version 1 on one cluster");
    user.follow();
    let shown = user.eventually("wheelwright rollout status moves", "1 of 1 cluster done");
    let (from, to) = if shown.contains("✓ c1 1") { ("c1", "c2") } else { ("c2", "c1") };
    let pods = |cluster: &str| format!("kubectl --context {cluster} get pods -A -l app=moves -o name");

    let preview = user.run(&format!("wheelwright migrate {from}"));
    assert!(preview.contains("moves/all") && preview.contains(to), "{preview}");
    assert_eq!(user.run(&pods(to)), "", "a preview changes nothing");
    let moved = user.run(&format!("wheelwright migrate {from} --yes"));
    assert!(moved.ends_with(&format!("every move off cluster {from} is complete\n")), "{moved}");
    user.run(&format!(
        "kubectl --context {to} -n moves wait deployment/moves --for=condition=Available --timeout=60s"
    ));
    assert_eq!(user.run(&pods(from)), "");
    user.run(&format!("wheelwright migrate {from} --undo"));
    let cluster = user.run(&format!("kubectl get managedcluster {from} -o yaml"));
    assert!(!cluster.contains("gitops.wheelwright.dev/migrate"), "{cluster}");
}
