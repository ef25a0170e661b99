//! The operator, agents and dashboard as pods: installed, upgraded, moved and killed.

use super::User;
use crate::kube::free_port;

/// A commit with an add-on reaches a pod on each spoke, one cluster at a time.
#[test]
fn a_commit_reaches_a_pod_on_each_spoke_on_real_nodes() {
    let user = User::of_a_fleet("greeter");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    user.addon("2", "serve");
    user.commit("version 2");
    user.runs("2");
}

/// The charts install the operator, dashboard and agents, then upgrade them to another image and roll back.
/// Add-ons follow their commits throughout.
#[test]
fn charts_are_installed_upgraded_and_rolled_back_on_real_nodes() {
    let user = User::of_new_clusters("helmed");
    user.run("wheelwright crds | kubectl apply --server-side -f -");
    user.run(
        "helm install wheelwright charts/wheelwright --namespace wheelwright-system --create-namespace \
         --set gitHosts={$GIT} --set dashboard.enabled=true --wait --timeout 3m",
    );
    user.run("wheelwright get token --output kubeconfig > bootstrap.kubeconfig");
    for cluster in ["c1", "c2"] {
        user.run(&format!(
            "kubectl --context {cluster} create namespace open-cluster-management-agent; \
             kubectl --context {cluster} create secret generic bootstrap-hub-kubeconfig \
             -n open-cluster-management-agent --from-file=kubeconfig=bootstrap.kubeconfig; \
             helm --kube-context {cluster} install wheelwright-agent charts/wheelwright-agent \
             --namespace open-cluster-management-agent --set clusterName={cluster} --set networkPolicy.enabled=true"
        ));
    }
    user.run("wheelwright accept --clusters c1,c2 --wait 120");
    user.allow_repositories();
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    user.pods_run("0.1.0");
    user.pods_are_restricted();
    user.dashboard_answers();

    let upgrade = "helm upgrade wheelwright charts/wheelwright --namespace wheelwright-system \
        --reset-then-reuse-values --set image.tag=next --wait --timeout 3m";
    user.run(upgrade);
    for cluster in ["c1", "c2"] {
        user.run(&format!(
            "helm --kube-context {cluster} upgrade wheelwright-agent charts/wheelwright-agent \
             --namespace open-cluster-management-agent --reset-then-reuse-values --set image.tag=next --wait"
        ));
    }
    user.pods_run("next");
    user.addon("2", "serve");
    user.commit("version 2");
    user.runs("2");

    user.run("helm rollback wheelwright 1 --namespace wheelwright-system --wait --timeout 3m");
    for cluster in ["c1", "c2"] {
        user.run(&format!(
            "helm --kube-context {cluster} rollback wheelwright-agent 1 --namespace open-cluster-management-agent --wait"
        ));
    }
    user.pods_run("0.1.0");
    user.addon("3", "serve");
    user.commit("version 3");
    user.runs("3");
}

/// `wheelwright` installs, upgrades and uninstalls the operator. Pods keep running without it, and a new
/// installation takes over the fleet.
#[test]
fn the_command_installs_upgrades_and_uninstalls_on_real_nodes() {
    let user = User::of_new_clusters("commanded");
    user.run("wheelwright install --image wheelwright:0.1.0 --git-hosts $GIT --dashboard");
    user.join();
    user.allow_repositories();
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    user.pods_are_restricted();
    user.dashboard_answers();

    user.run("wheelwright upgrade --image wheelwright:next");
    let images = user.run("kubectl get pods -n wheelwright-system --field-selector status.phase=Running -o 'jsonpath={.items[*].spec.containers[*].image}'");
    assert!(images.contains("wheelwright:next"), "{images}");
    user.addon("2", "serve");
    user.commit("version 2");
    user.runs("2");

    user.run("wheelwright uninstall");
    user.run("kubectl wait --for=delete pod -n wheelwright-system --all --timeout=60s");
    user.addon("3", "serve");
    user.commit("version 3");
    user.run("kubectl --context c1 -n commanded wait --for=condition=Ready pod -l version=2 --timeout=5s");
    user.run("wheelwright install --image wheelwright:0.1.0 --git-hosts $GIT");
    user.runs("3");
}

/// The pod of the leading operator is killed during a rollout: another one takes the lead, and the rollout
/// continues.
#[test]
fn a_rollout_outlives_the_leaders_pod_on_real_nodes() {
    let user = User::alone("leaderless");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    let leader = user.leader();
    user.addon("2", "serve");
    user.commit("version 2");
    user.eventually("kubectl get managedclusteraddons leaderless -n c1 -o yaml", "name: leaderless-2");
    user.run(&format!("kubectl -n wheelwright-system delete pod {leader} --force --grace-period=0"));
    user.runs("2");
    assert_ne!(user.leader(), leader);
    user.run("kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=60s");
}

/// Draining the hub's only node evicts one operator and keeps the other, because of the PodDisruptionBudget. The
/// fleet is served throughout.
#[test]
fn a_drained_node_keeps_an_operator_on_real_nodes() {
    let user = User::alone("drained");
    let refusal = user.fails("kubectl drain hub-node --delete-emptydir-data --timeout=5s");
    assert!(refusal.contains("violate the pod's disruption budget"), "{refusal}");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    user.run("kubectl uncordon hub-node");
    user.run("kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=120s");
}

/// The nodes of the hub and of a spoke lose power and come back: the operator, agent and add-on run again, and the
/// next commit is rolled out.
#[test]
fn nodes_that_lost_their_power_come_back_on_real_nodes() {
    let user = User::alone("powerless");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");
    for cluster in ["hub", "c1"] {
        user.control(&format!("crash {cluster}"));
    }
    user.addon("2", "serve");
    user.commit("version 2");
    for cluster in ["hub", "c1"] {
        user.control(&format!("start {cluster}"));
    }
    user.runs("2");
    user.run("kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=120s");
    user.run("kubectl --context c1 -n open-cluster-management-agent rollout status deployment/wheelwright-agent --timeout=120s");
    user.eventually("wheelwright status", "clusters  2 of 2 available");
}

impl User {
    /// Waits until both spokes run a version of this journey's add-on.
    pub(super) fn runs(&self, version: &str) {
        let name = &self.name;
        self.eventually(
            &format!("wheelwright rollout status {name}"),
            &format!("✓ c1 {version}  ✓ c2 {version}"),
        );
        for cluster in ["c1", "c2"] {
            self.run(&format!(
                "kubectl --context {cluster} -n {name} wait --for=condition=Ready pod -l version={version} --timeout=30s"
            ));
        }
    }

    /// Returns the name of the leader's pod.
    fn leader(&self) -> String {
        let lease = "kubectl -n wheelwright-system get lease wheelwright-operator -o 'jsonpath={.spec.holderIdentity}'";
        self.run(lease).rsplit_once('_').unwrap().0.to_owned()
    }

    /// Asserts that all our pods run a version of their image without restarts, except an operator that exited
    /// because it could not renew its lease.
    fn pods_run(&self, version: &str) {
        let columns = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image,\
            READY:.status.containerStatuses[*].ready,RESTARTS:.status.containerStatuses[*].restartCount";
        let mut count = 0;
        for (context, namespace, program) in [
            ("hub", "wheelwright-system", "wheelwright"),
            ("c1", "open-cluster-management-agent", "wheelwright-agent"),
            ("c2", "open-cluster-management-agent", "wheelwright-agent"),
        ] {
            let image = format!("{program}:{version}");
            let kubectl = format!("kubectl --context {context} -n {namespace}");
            self.run(&format!("{kubectl} wait pod --all --for=condition=Ready --timeout=60s"));
            let pods = self.run(&format!(
                "{kubectl} get pods --no-headers --field-selector status.phase=Running -o '{columns}'"
            ));
            for pod in pods.lines() {
                let [name, rest @ ..] = &*pod.split_whitespace().collect::<Vec<_>>() else { continue };
                if rest != [&image, "true", "0"] {
                    assert_eq!(rest, [&image, "true", "1"], "{name}");
                    let log = self.run(&format!("{kubectl} logs {name} --previous --tail 30"));
                    assert!(log.contains("no longer the leader"), "{name} was restarted:\n{log}");
                }
                count += 1;
            }
        }
        assert_eq!(count, 5, "two operators, a dashboard and two agents");
    }

    /// Asserts that the hub's pods meet the strictest Pod Security Standard and have limits, probes and
    /// NetworkPolicies.
    fn pods_are_restricted(&self) {
        let warnings = self.run(
            "kubectl label --dry-run=server --overwrite namespace wheelwright-system pod-security.kubernetes.io/enforce=restricted; \
             kubectl --context c1 label --dry-run=server --overwrite namespace open-cluster-management-agent \
             pod-security.kubernetes.io/enforce=restricted",
        );
        assert!(!warnings.contains("Warning"), "{warnings}");
        let columns = "custom-columns=MEMORY:.spec.containers[*].resources.limits.memory,\
            LIVE:.spec.containers[*].livenessProbe.httpGet.path,READY:.spec.containers[*].readinessProbe.httpGet.path,\
            ROOT:.spec.containers[*].securityContext.readOnlyRootFilesystem";
        for (context, namespace) in [("hub", "wheelwright-system"), ("c1", "open-cluster-management-agent")] {
            let pods = self.run(&format!(
                "kubectl --context {context} -n {namespace} get pods --no-headers -o '{columns}'"
            ));
            assert!(!pods.contains("<none>") && pods.lines().all(|line| line.ends_with("true")), "{pods}");
        }
        let policies = self.run("kubectl -n wheelwright-system get networkpolicies -o name");
        assert!(
            policies.contains("/wheelwright-operator") && policies.contains("/wheelwright-dashboard"),
            "{policies}"
        );
    }

    /// Asserts that the dashboard responds through its Service, given a visitor's token.
    fn dashboard_answers(&self) {
        self.run(
            "kubectl -n wheelwright-system rollout status deployment/wheelwright-dashboard --timeout=60s",
        );
        self.run(
            "kubectl create serviceaccount on-call --namespace wheelwright-system; \
             kubectl create clusterrolebinding on-call --clusterrole wheelwright-dashboard-operate \
             --serviceaccount wheelwright-system:on-call",
        );
        let (name, port) = (&self.name, free_port());
        self.run(&format!(
            "kubectl port-forward --namespace wheelwright-system service/wheelwright-dashboard {port}:443 >forwarded & \
             trap 'kill $!' EXIT; token=$(kubectl create token on-call --namespace wheelwright-system --duration 8h); \
             curl --silent --insecure --fail --retry 60 --retry-delay 1 --retry-all-errors \
             --header \"Authorization: Bearer $token\" https://localhost:{port}/ | grep {name}"
        ));
    }
}
