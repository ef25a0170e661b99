//! On-call cases: one command shows the cause.
//!
//! Versions whose pods do not start are in `reasons.rs` and `matrix.rs`.

use super::User;

/// A set that delivers one ConfigMap to all clusters, one at a time.
const SET: &str = r#"apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: settings, namespace: NAME}
spec:
  placementRefs:
  - name: all
    rolloutStrategy:
      type: Progressive
      progressive: {maxConcurrency: 1, maxFailures: 0, minSuccessTime: "0s", progressDeadline: 20s}
  manifestWorkTemplate:
    workload:
      manifests:
"#;

impl User {
    /// Writes the set `settings` with some manifests.
    fn set(&self, manifests: &str) {
        let name = &self.name;
        self.write("fleet/placement.yaml", &super::PLACEMENT.replace("NAME", name));
        self.write("fleet/set.yaml", &(SET.replace("NAME", name) + manifests));
        self.write("fleet/kustomization.yaml", "resources: [placement.yaml, set.yaml]\n");
    }

    /// Commits a mistake, and waits until `wheelwright status` shows all of `words` for this journey's ConfigRepo.
    fn is_refused(&self, message: &str, words: &[&str]) {
        self.commit(message);
        let repo = format!("wheelwright-system/{}", self.name);
        let shown = self.eventually(&format!("wheelwright status | grep --after-context 8 {repo}"), words[0]);
        for words in words {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}

/// Commits that cannot be applied: broken YAML, a missing file, a misspelled field, a wrong type, an object that
/// the operator may not write, and a plan that waits for approval. `wheelwright status` names the file, the line
/// and what to do.
#[test]
fn status_shows_why_a_commit_is_not_applied_on_real_nodes() {
    let user = User::of_a_fleet("commits");
    user.set("      - {apiVersion: v1, kind: ConfigMap, metadata: {name: commits, namespace: default}}\n");
    user.commit("version 1");
    user.follow();
    user.eventually("wheelwright rollout status commits/settings", "2 of 2 clusters done");

    let good = std::fs::read_to_string(user.path("fleet/set.yaml")).unwrap();
    user.write("fleet/set.yaml", &good.replace("metadata: {name: settings,", "metadata: {name: settings"));
    user.is_refused("broken YAML", &["RenderFailed: set.yaml:3: ", "stays applied"]);
    user.write("fleet/set.yaml", &good);
    user.write("fleet/kustomization.yaml", "resources: [placement.yaml, sets.yaml]\n");
    user.is_refused(
        "a missing file",
        &["no file or directory \"sets.yaml\"", "kustomization.yaml:1", "did you mean \"set.yaml\"?"],
    );
    user.write("fleet/kustomization.yaml", "resources: [placement.yaml, set.yaml]\n");
    user.write("fleet/set.yaml", &good.replace("placementRefs:", "placementRef:"));
    user.is_refused(
        "a misspelled field",
        &[
            ".spec.placementRef: field not declared in schema",
            "did you mean \"placementRefs\"?",
            "set.yaml:5",
            "InvalidObject",
        ],
    );
    user.write("fleet/set.yaml", &good.replace("maxFailures: 0", "maxFailures: []"));
    user.is_refused("a wrong type", &["maxFailures", "set.yaml:9", "InvalidObject"]);
    user.write("fleet/set.yaml", &good);
    user.write(
        "fleet/role.yaml",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: commits}, rules: []}\n",
    );
    user.write("fleet/kustomization.yaml", "resources: [placement.yaml, set.yaml, role.yaml]\n");
    user.is_refused("an object that the operator may not write", &["forbidden", "role.yaml:1", "Forbidden"]);

    user.run(
        "kubectl -n wheelwright-system patch configrepo commits --type merge -p '{\"spec\": {\"planApproval\": \"Required\"}}'",
    );
    user.write("fleet/kustomization.yaml", "resources: [placement.yaml, set.yaml]\n");
    user.write(
        "fleet/set.yaml",
        &(good + "      - {apiVersion: v1, kind: Secret, metadata: {name: commits, namespace: default}}\n"),
    );
    let approve = "wheelwright repo approve wheelwright-system/commits";
    // The previous commit has a plan too, but without the set.
    user.is_refused("version 2 with a plan", &["ManifestWorkReplicaSet commits/settings", approve]);
    let diff = user.run("wheelwright repo diff wheelwright-system/commits");
    assert!(diff.contains("\n  ~ ManifestWorkReplicaSet commits/settings\n      spec."), "{diff}");
    let history = user.run("wheelwright repo history wheelwright-system/commits");
    let at = |reason: &str| history.find(reason).unwrap_or_else(|| panic!("{reason}: {history}"));
    assert!(at("PlanNotApproved") < at("InvalidObject"), "the newest is first: {history}");
    user.run(approve);
    user.run("kubectl --context c2 -n default wait --for=create secret/commits --timeout=120s");
}

/// A cluster rejects an object of a set, and another object waits for its namespace beyond the deadline. Before
/// and after the deadline, `wheelwright status` names the cluster and shows its API server's message, and so do
/// `rollout status`, `doctor`, the set and an event.
#[test]
fn status_shows_what_a_cluster_rejects_on_real_nodes() {
    let user = User::of_a_fleet("rejected");
    user.set("      - {apiVersion: v1, kind: ConfigMap, metadata: {name: rejected, namespace: default}}\n");
    user.commit("version 1");
    user.follow();
    user.eventually("wheelwright rollout status rejected/settings", "2 of 2 clusters done");

    user.set("      - {apiVersion: v1, kind: ConfigMap, metadata: {name: Greeting_X, namespace: default}}\n");
    user.commit("a name that no API server accepts");
    let words = "ConfigMap \"Greeting_X\" is invalid: metadata.name: Invalid value: \"Greeting_X\"";
    user.eventually("wheelwright status", words);
    user.eventually("wheelwright rollout status rejected/settings", words);
    user.eventually("wheelwright doctor", words);
    let messages = "kubectl -n rejected get manifestworkreplicaset settings -o 'jsonpath={.status.conditions[*].message}'";
    user.eventually(messages, words);
    user.eventually("kubectl -n rejected get events", words);

    user.run("kubectl --context c1 create namespace rejected");
    user.run("kubectl --context c1 create quota rejected -n rejected --hard count/configmaps=0");
    user.set("      - {apiVersion: v1, kind: ConfigMap, metadata: {name: rejected, namespace: rejected}}\n");
    user.commit("more than the quota allows");
    user.eventually("wheelwright status", "exceeded quota: rejected");

    user.set(
        "      - {apiVersion: v1, kind: ConfigMap, metadata: {name: rejected, namespace: rejected-later}}\n",
    );
    user.commit("a namespace that is not there yet");
    let words = "namespaces \"rejected-later\" not found";
    user.eventually("wheelwright status", words);
    let late = user.eventually("wheelwright rollout status rejected/settings", "TimedOut");
    assert!(late.contains(words), "{late}");
    user.eventually("wheelwright doctor", words);
    user.eventually(messages, words);
    user.eventually("kubectl -n rejected get events", words);
    user.run("kubectl --context c1 create namespace rejected-later");
    user.run("kubectl --context c2 create namespace rejected-later");
    user.eventually("wheelwright rollout status rejected/settings", "2 of 2 clusters done");
}

/// A cluster's agent stops, then all operators stop. `wheelwright status` shows which cluster has been silent
/// since when, and that no operator leads.
#[test]
fn status_shows_a_silent_cluster_and_a_stopped_operator_on_real_nodes() {
    let user = User::alone("silent");
    let agent = "kubectl --context c1 -n open-cluster-management-agent scale deployment wheelwright-agent";
    let lease = "kubectl patch managedcluster c1 --type merge -p";
    user.eventually("wheelwright logs agent --context c1", " INFO ");
    user.eventually("wheelwright logs", "wheelwright-operator-");
    user.run("{ timeout 15 wheelwright logs --follow || true; } | grep --max-count 1 INFO");
    user.run(&format!("{lease} '{{\"spec\": {{\"leaseDurationSeconds\": 5}}}}'"));
    user.run(&format!("{agent} --replicas=0"));
    let silent = user.eventually("wheelwright status", "1 of 2 available");
    assert!(silent.contains("✗ c1: Registration agent stopped updating its lease (since 20"), "{silent}");
    user.eventually("wheelwright events", "AvailableUnknown        ManagedCluster c1");

    user.run("kubectl -n wheelwright-system scale deployment wheelwright-operator --replicas=0");
    let stopped =
        user.eventually("wheelwright status | head -n 2", "nothing is reconciled until an operator leads");
    assert!(stopped.contains("no operator has renewed its lease since 20"), "{stopped}");

    user.run("kubectl -n wheelwright-system scale deployment wheelwright-operator --replicas=2");
    user.run(&format!("{agent} --replicas=1"));
    user.run(&format!("{lease} '{{\"spec\": {{\"leaseDurationSeconds\": 60}}}}'"));
    user.run("kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=120s");
    user.eventually("wheelwright status", "2 of 2 available");
}

/// A hub that does not respond, listens on another port, or rejects the token or the list: `wheelwright status`
/// shows which of these it is and what to do.
#[test]
fn status_shows_why_a_hub_cannot_be_read_on_real_nodes() {
    let user = User::of_a_fleet("unread");
    user.write(
        "hang",
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\ninput()\n",
    );
    let hang = "mkfifo port end; sleep infinity >end & python3 hang <end >port 2>&1 & read -r port <port; trap 'kill $(jobs -p)' EXIT";
    let cases = [
        (":", "set-cluster hub --server=https://127.0.0.1:1", "Connection refused"),
        (hang, "set-cluster hub --server=https://127.0.0.1:$port", "it does not respond"),
        (":", "set-credentials hub --token=wrong", "Unauthorized"),
        (
            ":",
            "set-credentials hub --token=$(kubectl -n default create token default)",
            "cannot list resource",
        ),
    ];
    for (first, change, words) in cases {
        let shown = user.fails(&format!(
            "{first}; cp kubeconfig other; kubectl --kubeconfig other config {change}; wheelwright status --kubeconfig other"
        ));
        assert!(shown.contains(words) && shown.contains("hint: "), "{words}: {shown}");
    }
}
