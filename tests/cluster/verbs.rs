//! The rollout verbs, each for an add-on and for a set: the output of the commands, and what runs on the spokes.

use super::User;

/// A set for all clusters with the same workload as a journey's add-on.
const SET: &str = r#"apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: NAME, namespace: NAME}
spec:
  placementRefs:
  - name: all
    rolloutStrategy:
      type: Progressive
      progressive: {maxConcurrency: 1, maxFailures: 0, minSuccessTime: "1s", progressDeadline: 2m}
  manifestWorkTemplate:
    workload:
      manifests:
WORKLOAD"#;

/// A journey's add-on or set.
struct Subject {
    /// The name to use in commands.
    name: String,
    /// The namespace of the Deployment on the spokes.
    namespace: String,
    /// True for an add-on, whose status shows versions.
    is_add_on: bool,
}

impl User {
    /// Returns this journey's add-on and set.
    fn subjects(&self) -> [Subject; 2] {
        let name = &self.name;
        [
            Subject { name: name.clone(), namespace: name.clone(), is_add_on: true },
            Subject { name: format!("{name}/{name}"), namespace: format!("{name}-set"), is_add_on: false },
        ]
    }

    /// Commits a version of both.
    pub(super) fn release(&self, version: &str, argument: &str) {
        self.addon(version, argument);
        let workload = self.workload(&format!("{}-set", self.name), version, argument);
        self.write("fleet/set.yaml", &SET.replace("WORKLOAD", &workload).replace("NAME", &self.name));
        self.write("fleet/kustomization.yaml", "resources: [placement.yaml, addon.yaml, set.yaml]\n");
        self.commit(&format!("version {version}"));
    }

    /// Applies a RolloutPolicy whose name begins with this journey's name.
    fn policy(&self, name: &str, spec: &str) {
        let spec = spec.replace("NAME", &self.name);
        self.apply(&format!(
            "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {{name: {name}}}\nspec: {spec}"
        ));
    }

    /// Asserts that a spoke has a subject's version, and waits until its pod is ready.
    fn has(&self, subject: &Subject, cluster: &str, version: &str) {
        let (name, namespace) = (&self.name, &subject.namespace);
        assert_eq!(self.version_on(cluster, namespace), version, "{} on {cluster}", subject.name);
        self.run(&format!(
            "kubectl --context {cluster} -n {namespace} rollout status deployment/{name} --timeout=60s"
        ));
    }

    /// Waits until both are done, and asserts that both spokes have a version.
    pub(super) fn arrives(&self, version: &str) {
        for subject in self.subjects() {
            let name = &subject.name;
            let revision = if subject.is_add_on { version } else { "" };
            for cluster in ["c1", "c2"] {
                self.eventually(
                    &format!(
                        "kubectl --context {cluster} -n {} get deployment {} -o yaml",
                        subject.namespace, self.name
                    ),
                    &format!("version: \"{version}\""),
                );
            }
            self.eventually(
                &format!("wheelwright rollout status {name}"),
                &format!("{name}  2 of 2 clusters done"),
            );
            self.eventually(&format!("wheelwright rollout status {name}"), &format!("✓ c1 {revision}"));
            ["c1", "c2"].iter().for_each(|cluster| self.has(&subject, cluster, version));
        }
    }

    /// Waits until the first spoke has a version of both. The second gets it only after the first has succeeded.
    fn begins(&self, version: &str) {
        for Subject { namespace, .. } in self.subjects() {
            self.eventually(
                &format!("kubectl --context c1 -n {namespace} get deployment {} -o yaml", self.name),
                &format!("version: \"{version}\""),
            );
        }
    }

    /// Waits until both have rolled back from a version that the second spoke never had. When a command reports
    /// this, pods of the former version are running and the add-on has completed.
    fn returns(&self, version: &str) {
        for subject in self.subjects() {
            let status = format!("wheelwright rollout status {}", subject.name);
            let answer = self.eventually(&status, "2 of 2 clusters are back on ");
            assert!(!answer.contains("eturning"), "{answer}");
            ["c1", "c2"].iter().for_each(|cluster| self.has(&subject, cluster, version));
        }
        for cluster in ["c1", "c2"] {
            self.run(&format!(
                "kubectl -n {cluster} wait managedclusteraddon/{} --for=condition=Progressing=False --timeout=60s",
                self.name
            ));
        }
    }

    /// Waits until the status of both explains why nothing starts, and asserts that both spokes keep a version.
    fn holds(&self, words: &str, version: &str) {
        for subject in self.subjects() {
            self.eventually(&format!("wheelwright rollout status {}", subject.name), words);
            ["c1", "c2"].iter().for_each(|cluster| self.has(&subject, cluster, version));
        }
    }
}

/// Without a hand-written policy: a failing version stops at the first spoke, `undo` rolls it back at once, and
/// `resume --release` allows it again. A pause also holds the rollback.
#[test]
fn rollouts_are_undone_and_paused_without_a_policy_on_real_nodes() {
    let user = User::of_a_fleet("verbs");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");

    user.release("2", "unready");
    user.begins("2");
    for subject in user.subjects() {
        let name = &subject.name;
        let answer = user.run(&format!("wheelwright rollout status {name} --watch || test $? = 1"));
        assert!(answer.contains(&format!("\n  wheelwright rollout undo {name}\n")), "{answer}");
        user.has(&subject, "c2", "1");
        let answer = user.run(&format!("wheelwright rollout undo {name}"));
        assert!(answer.contains(": 1 cluster: c1\n  1 cluster never received it\n"), "{answer}");
    }
    user.returns("1");
    for Subject { name, .. } in user.subjects() {
        let answer = user.fails(&format!("wheelwright rollout undo {name}"));
        assert!(answer.contains("has no rollout to undo"), "{answer}");
        let answer = user.run(&format!("wheelwright rollout resume {name} --release"));
        assert!(answer.contains("is no longer quarantined"), "{answer}");
    }
    user.begins("2");

    // A pause holds a rollback too, so both can be observed in progress.
    for Subject { name, .. } in user.subjects() {
        let answer = user.run(&format!("wheelwright pause {name}"));
        assert!(answer.contains(&format!("{name} is paused.")), "{answer}");
        let answer = user.run(&format!("wheelwright rollout undo {name}"));
        assert!(answer.contains("no cluster returns until the pause ends"), "{answer}");
    }
    for Subject { name, .. } in user.subjects() {
        let answer =
            user.eventually(&format!("wheelwright rollout status {name}"), "1 returning, 1 returned");
        assert!(answer.contains("waits for the pause by RolloutPolicy"), "{answer}");
    }
    user.begins("2");
    for Subject { name, .. } in user.subjects() {
        let answer = user.run(&format!("wheelwright resume {name}"));
        assert!(answer.contains(&format!("{name} resumed.")), "{answer}");
    }
    user.returns("1");
    user.release("3", "serve");
    user.arrives("3");
}

/// With a hand-written policy: each version waits for an approval, and a failing version is rolled back
/// automatically. So is a version that is undone after the policy changed while a cluster was updating. A second
/// policy freezes the next version, and both policies report their contribution.
#[test]
fn rollouts_are_approved_rolled_back_and_frozen_by_policies_on_real_nodes() {
    let user = User::of_a_fleet("ruled");
    let spec = "{addOns: [NAME], replicaSets: [NAME/NAME], onBreach: Rollback, approval: {mode: Groups, groups: [rest]}}";
    user.policy("ruled", spec);
    user.release("1", "serve");
    user.follow();
    for Subject { name, .. } in user.subjects() {
        user.eventually(
            &format!("wheelwright rollout status {name}"),
            "waits for an approval of the start of rest",
        );
        let answer = user.run(&format!("wheelwright rollout approve {name}"));
        assert!(answer.contains("approved: the start of rest"), "{answer}");
    }
    user.arrives("1");

    let spec = spec.replace(", approval: {mode: Groups, groups: [rest]}", "");
    user.policy("ruled", &spec);
    user.release("2", "exit 3");
    user.returns("1");
    for Subject { name, .. } in user.subjects() {
        user.eventually(&format!("wheelwright rollout status {name}"), "it failed on c1: ");
    }

    user.release("3", "unready");
    user.begins("3");
    // The policy changes while a cluster is updating.
    user.policy("ruled", &spec.replace("onBreach", "paused: true, onBreach"));
    for Subject { name, .. } in user.subjects() {
        user.eventually(
            &format!("wheelwright rollout status {name}"),
            "waits for the pause by RolloutPolicy ruled",
        );
        let answer = user.run(&format!("wheelwright rollout undo {name}"));
        assert!(answer.contains("no cluster returns until the pause ends"), "{answer}");
    }
    user.begins("3");
    user.policy("ruled", &spec);
    user.returns("1");

    let freeze = "{name: always, schedule: '0 0 * * *', duration: 25h}";
    user.policy(
        "ruled-freeze",
        &format!("{{addOns: [NAME], replicaSets: [NAME/NAME], freezeWindows: [{freeze}]}}"),
    );
    user.release("4", "serve");
    user.holds("waits for the freeze always of RolloutPolicy ruled-freeze to end", "1");
    for policy in ["ruled", "ruled-freeze"] {
        user.eventually(
            &format!("kubectl get rolloutpolicy {policy} -o 'jsonpath={{.status.conditions[?(@.type==\"InForce\")].message}}'"),
            "ruled, ruled/ruled: onBreach of ruled, freezeWindows of ruled-freeze",
        );
    }
    for Subject { name, .. } in user.subjects() {
        user.run(&format!("wheelwright rollout pause {name}"));
    }
    user.run("kubectl delete rolloutpolicy ruled-freeze");
    user.holds("waits for the pause by RolloutPolicy ruled to end", "1");
    let [add_on, set] = user.subjects().map(|subject| subject.name);
    let answer = user.run(&format!("wheelwright rollout resume {add_on}"));
    assert!(
        answer.contains("updated RolloutPolicy ruled\nnote: it applies to all of ruled, ruled/ruled\n"),
        "{answer}"
    );
    let answer = user.fails(&format!("wheelwright rollout resume {set}"));
    assert!(answer.contains("is not paused"), "{answer}");
    user.arrives("4");
}

/// `pause --all` holds the whole fleet, both an add-on with a hand-written policy and a set without a policy,
/// until `resume --all`.
#[test]
fn the_whole_fleet_is_paused_and_resumed_on_real_nodes() {
    let user = User::alone("stopped");
    user.policy("stopped", "{addOns: [NAME], onBreach: Rollback}");
    user.release("1", "serve");
    user.follow();
    user.arrives("1");
    let answer = user.run("wheelwright pause --all");
    assert!(
        answer.contains("Every add-on and set is paused. Resume them with: wheelwright resume --all"),
        "{answer}"
    );
    user.release("2", "serve");
    user.holds("waits for the pause by RolloutPolicy wheelwright-default to end", "1");
    for Subject { name, .. } in user.subjects() {
        user.eventually(&format!("wheelwright rollout status {name}"), "wheelwright rollout resume --all");
        let answer = user.fails(&format!("wheelwright resume {name}"));
        assert!(answer.contains("resume everything: wheelwright resume --all"), "{answer}");
    }
    let answer = user.run("wheelwright resume --all");
    assert!(answer.contains("Every add-on and set is resumed."), "{answer}");
    user.arrives("2");
}
