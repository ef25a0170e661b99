//! Guides that contain objects to copy.

use super::{ADDON, User};
use crate::docs::blocks;

const PAGES: [&str; 2] = ["docs/canaries.md", "docs/several-hubs.md"];

/// Returns the block that contains some words.
fn objects(words: &str) -> String {
    let mut texts = PAGES.into_iter().flat_map(blocks).map(|block| block.text);
    texts
        .find(|text| text.contains(words))
        .unwrap_or_else(|| panic!("{PAGES:?} have no block with {words:?}"))
}

/// Returns the only block of commands that contains some words, rewritten for another add-on.
fn commands(words: &str, add_on: &str) -> String {
    objects(words).replace("managed-serviceaccount", add_on)
}

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: fleet}\n---\n\
    apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\n\
    metadata: {name: global, namespace: fleet}\nspec: {clusterSet: global}\n";

impl User {
    /// Commits a version of the add-on `logging` with the rollout strategy from the canary section.
    fn releases_to_canaries(&self, version: &str, arguments: &str, soak: &str) {
        let workload = self.workload("logging", version, arguments);
        let template = ADDON.split_once("---\n").unwrap().0.replace("WORKLOAD", &workload);
        let (with_version, on_all) = (
            format!(
                "{{name: logging, annotations: {{addon.open-cluster-management.io/lifecycle: addon-manager}}}}\nspec:\n  supportedConfigs:\n  \
                 - {{group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {{name: logging-{version}}}}}\n"
            ),
            objects("groupName: canary"),
        );
        let strategy = on_all
            .replace("{name: logging}\nspec:\n", &with_version)
            .replace("clusterSets: [aws]", "clusterSets: [global]")
            .replace("minSuccessTime: 10m", &format!("minSuccessTime: {soak}"));
        let template = template.replace("NAME", "logging").replace("VERSION", version);
        self.write("fleet/addon.yaml", &format!("{template}---\n{strategy}"));
        self.write("fleet/namespace.yaml", NAMESPACE);
        self.write("fleet/kustomization.yaml", "resources: [namespace.yaml, addon.yaml]\n");
        self.commit(&format!("version {version}"));
    }

    /// Asserts that both spokes run a version.
    fn have(&self, version: &str) {
        assert_eq!(["c1", "c2"].map(|cluster| self.version_on(cluster, "logging")), [version, version]);
    }

    /// Waits until the canary runs a version.
    fn canary_has(&self, version: &str) {
        self.eventually(
            "kubectl --context c1 -n logging get deployment logging -o yaml",
            &format!("version: \"{version}\""),
        );
    }

    fn both_have(&self, version: &str) {
        self.eventually("wheelwright rollout status logging", &format!("✓ c2 {version}"));
        self.eventually("wheelwright rollout status logging", "2 of 2 clusters done");
        self.have(version);
    }
}

/// Canaries, rollbacks and approvals with the objects from the guide. The canary goes first; if there is none,
/// nothing waits for it. A failing version is rolled back automatically, and a late one when a person undoes it,
/// even during a freeze. Each group waits for an approval.
#[test]
fn canaries_rollbacks_and_approvals_are_as_the_how_to_says_on_real_nodes() {
    let user = User::alone("logging");
    let status = "wheelwright rollout status logging";
    user.run("kubectl label managedcluster c1 canary=true");
    user.releases_to_canaries("1", "serve", "10s");
    user.follow();
    user.both_have("1");

    user.releases_to_canaries("2", "serve", "10m");
    user.canary_has("2");
    user.eventually(status, "1 cluster soaks until ");
    assert_eq!(user.version_on("c2", "logging"), "1");
    user.run("wheelwright taint c1 repair:NoSelect");
    user.eventually(status, "↻ c2 2");
    let nothing_waits =
        "canary: the placement has no cluster in this group, so the rollout does not wait for it";
    user.eventually("wheelwright explain rollout logging", nothing_waits);
    user.run("kubectl --context c1 wait --for=delete namespace/logging --timeout=120s");
    user.run("wheelwright taint c1 repair-");
    user.canary_has("2");

    user.apply(&objects("onBreach: Rollback"));
    user.releases_to_canaries("3", "exit 3", "10s");
    let answer = user.eventually(status, " back on ");
    assert!(answer.contains("it failed on c1: "), "{answer}");
    user.have("2");

    user.releases_to_canaries("4", "unready", "10s");
    user.canary_has("4");
    let answer = user.run(&commands("wheelwright rollout undo", "logging"));
    assert!(answer.contains("is no longer quarantined"), "{answer}");
    user.canary_has("4");
    let rules = objects("name: everything").replace("0 18 * * fri", "0 0 * * *").replace("62h", "25h");
    user.apply(&rules);
    user.run("wheelwright rollout undo logging");
    user.eventually(status, " back on ");
    user.releases_to_canaries("5", "serve", "10s");
    user.eventually(status, "waits for the freeze weekend of RolloutPolicy everything to end");
    user.have("2");

    let rules = rules.split("  freezeWindows").next().unwrap();
    user.apply(rules);
    user.canary_has("5");
    user.eventually(status, "waits for an approval of the start of ");
    assert_eq!(user.version_on("c2", "logging"), "2");
    user.run(&commands("wheelwright rollout approve", "logging"));
    user.both_have("5");
    let answer = user.fails("wheelwright rollout undo logging");
    assert!(answer.contains("is complete, so there is nothing to undo"), "{answer}");

    user.run("kubectl delete rolloutpolicy everything logging; kubectl label managedcluster c1 canary-");
}

/// Two hubs follow one repository as in the guide, each with its own overlay: a commit reaches one of them, and
/// both report on one branch. A namespace gets profiles of the clusters whose set it binds.
#[test]
fn two_hubs_share_a_repository_on_real_nodes() {
    let user = User::of_new_clusters("fleet");
    user.write("fleet/base/kustomization.yaml", "resources: [../placement.yaml]\n");
    user.write(
        "fleet/placement.yaml",
        &format!(
            "{NAMESPACE}---\napiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n\
             metadata: {{name: all, namespace: fleet}}\nspec: {{clusterSets: [global]}}\n"
        ),
    );
    for hub in ["europe", "asia"] {
        user.write(&format!("fleet/hubs/{hub}/kustomization.yaml"), "resources: [../../base]\n");
    }
    user.commit("two hubs");
    let repository = objects("path: hubs/europe").replace(
        "url: https://git.example/fleet",
        "url: https://$GIT/fleet.git\n  interval: 5s\n  secretRef: {name: fleet-read}",
    );
    for (context, hub) in [("hub", "europe"), ("c1", "asia")] {
        user.run(&format!(
            "kubectl --context {context} create namespace fleet; \
             kubectl --context {context} label namespace fleet gitops.wheelwright.dev/operator-identity=allowed; \
             wheelwright install --context {context} --image wheelwright:0.1.0 --git-hosts $GIT --config-namespaces fleet --cluster-profiles; \
             kubectl --context {context} -n fleet create secret generic fleet-read --from-file ca.crt=$REPOSITORIES/ca.crt; \
             kubectl --context {context} -n fleet create secret generic fleet-write --from-file ca.crt=$REPOSITORIES/ca.crt \
               --from-literal username=writer --from-literal password=secret"
        ));
        let repository = repository.replace("europe", hub);
        user.run(&format!("kubectl --context {context} apply -f - <<END\n{repository}\nEND"));
        user.run(&format!(
            "kubectl --context {context} -n fleet wait configrepo/fleet --for=condition=Ready --timeout=180s"
        ));
    }

    user.write(
        "fleet/hubs/europe/kustomization.yaml",
        "resources: [../../base]\npatches:\n- target: {kind: Placement}\n  patch: |-\n    \
         [{op: add, path: /spec/numberOfClusters, value: 1}]\n",
    );
    user.commit("one cluster in Europe");
    let count = |context: &str| {
        format!(
            "kubectl --context {context} -n fleet get placement all -o 'jsonpath={{.spec.numberOfClusters}}'"
        )
    };
    user.eventually(&count("hub"), "1");
    user.run("wheelwright repo reconcile fleet/fleet --context c1");
    assert_eq!(user.run(&count("c1")), "");
    for context in ["hub", "c1"] {
        user.run(&format!(
            "kubectl --context {context} -n fleet wait configrepo/fleet --for=condition=Reported --timeout=120s"
        ));
    }
    let reports =
        user.run("git -C fleet fetch --quiet; git -C fleet ls-tree --name-only origin/wheelwright/status");
    assert_eq!(reports, "asia\neurope\n");

    user.join_as(&["c2"]);
    let profiles = "kubectl get clusterprofiles.multicluster.x-k8s.io -A -o yaml";
    let profile = user.eventually(profiles, "type: ControlPlaneHealthy");
    assert!(profile.contains("namespace: fleet") && profile.contains("kubernetes: v1."), "{profile}");
    user.run("wheelwright unjoin --cluster-name c2 --context c2; kubectl delete managedcluster c2");
    user.eventually(profiles, "items: []");
}
