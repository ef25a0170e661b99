//! Shows the reason of a failing pod where people look first.

use super::User;

/// For a version whose image does not exist, and one that crashes, the pod's reason is shown in `status`, in the
/// rollout and in the add-on's condition, before any deadline and within ten seconds of kubelet's report.
#[test]
fn the_reason_of_a_pod_is_named_where_people_look_on_real_nodes() {
    let user = User::of_a_fleet("reasons");
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.runs("1");

    user.addon("2", "serve");
    user.run("sed -i 's/image: workload:1/image: workload:missing/' fleet/addon.yaml");
    user.commit("version 2 has no image");
    self::named(&user, "ErrImagePull");

    user.addon("3", "exit 3");
    user.commit("version 3 crashes");
    self::named(&user, "CrashLoopBackOff");
    user.eventually("wheelwright explain rollout reasons", "exit code 3");
    user.eventually(
        "kubectl get events -A --field-selector reason=ClusterFailing,involvedObject.name=reasons",
        "exit code 3",
    );

    user.addon("4", "serve");
    user.commit("version 4 works");
    user.runs("4");
}

fn named(user: &User, reason: &str) {
    self::follows_kubelet(user, reason);
    user.eventually("kubectl -n c1 get managedclusteraddon reasons -o yaml", reason);
    user.eventually("wheelwright status", reason);
    user.eventually("wheelwright rollout status reasons", reason);
    user.eventually("wheelwright doctor", reason);
    let condition = r#"jsonpath={.items[*].status.resourceStatus.manifests[*].conditions[?(@.type=="PodsReady")].reason}"#;
    user.eventually(&format!("kubectl -n c1 get manifestworks -l open-cluster-management.io/addon-name=reasons -o '{condition}'"), reason);
}

/// Asserts that the hub names the reason at most ten seconds after the status of the pod does.
fn follows_kubelet(user: &User, reason: &str) {
    // A process substitution, because a pipeline would wait for the next event.
    let watch = format!(
        "named() {{ grep --quiet {reason} < <(timeout 200 kubectl \"$@\" --watch --output json 2>/dev/null); date +%s%3N; }}"
    );
    let pod = "named --context c1 -n reasons get pods >pod & pod=$!";
    let addon = "named -n c1 get managedclusteraddon reasons >addon & addon=$!";
    let delay =
        user.run(&format!("{watch}; {pod}; {addon}; wait $pod; wait $addon; echo $(($(<addon) - $(<pod)))"));
    let delay: i64 = delay.trim().parse().unwrap();
    assert!(delay <= 10_000, "the hub names {reason} {delay} ms after the pod");
}
