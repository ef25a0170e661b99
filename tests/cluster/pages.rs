//! Follows pages of the docs from their first command to their last.

use super::{ROOT, User};
use crate::docs::{Block, PLANS_OF_CHANGES_SUCCEED, blocks};
use crate::kube::built;

const ADDON_IMAGE: &str = "quay.io/open-cluster-management/managed-serviceaccount";

const PLACEMENT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: one}\nspec: {numberOfClusters: COUNT}\n";
const BINDING: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\nmetadata: {name: global}\nspec: {clusterSet: global}\n";

/// A reader of a page who runs every block of commands, in page order.
pub(super) struct Reader<'u> {
    user: &'u User,
    page: &'static str,
    blocks: std::vec::IntoIter<Block>,
    /// Placeholders on the page, with this user's values.
    replacements: &'static [(&'static str, &'static str)],
}

impl<'u> Reader<'u> {
    pub(super) fn new(
        user: &'u User,
        page: &'static str,
        replacements: &'static [(&'static str, &'static str)],
    ) -> Self {
        let commands: Vec<_> = blocks(page).into_iter().filter(Block::is_commands).collect();
        Self { user, page, blocks: commands.into_iter(), replacements }
    }

    /// Returns the next block, which must begin with `start`.
    fn next(&mut self, start: &str) -> String {
        let text = self.blocks.next().map(|block| block.text).unwrap_or_default();
        assert!(
            text.starts_with(start),
            "{}: the next block does not begin with {start:?}:\n{text}",
            self.page
        );
        text
    }

    /// Runs the next block and returns its output.
    pub(super) fn types(&mut self, start: &str) -> String {
        let text = self.next(start);
        let text = self.replacements.iter().fold(text, |text, (from, to)| text.replace(from, to));
        self.user.run(&format!("{PLANS_OF_CHANGES_SUCCEED}\n{text}"))
    }

    /// Skips to the section whose first block begins with `start`.
    pub(super) fn opens(&mut self, start: &str) {
        let is_before = |block: &Block| !block.text.starts_with(start);
        let section: Vec<_> = self.blocks.by_ref().skip_while(is_before).collect();
        self.blocks = section.into_iter();
    }

    /// Skips the next block. The reason is for readers of the test.
    fn skips(&mut self, start: &str, _reason: &str) {
        self.next(start);
    }

    /// Checks that no block is left.
    fn ends(mut self) {
        let left = self.blocks.next().map(|block| block.text);
        assert_eq!(left, None, "{} goes on", self.page);
    }
}

/// The tutorial, from `wheelwright install` to a change that has reached both clusters, with OCM's
/// managed-serviceaccount as the add-on.
#[test]
fn the_tutorial_ends_with_clusters_that_follow_a_repository_on_real_nodes() {
    let user = User::of_new_clusters("tutorial");
    let program = built("tests/managed-serviceaccount/build").join("msa");
    for version in ["v0.9.0", "v0.10.0"] {
        user.load(&format!("{ADDON_IMAGE}:{version}"), &[("msa", &program)]);
    }
    user.run(&format!(
        "rm -r fleet examples-repo; cp -r {ROOT}/examples-repo .; cp kubeconfig hub.kubeconfig"
    ));
    let mut page = Reader::new(
        &user,
        "docs/tutorial.md",
        &[
            ("registry.example.com/wheelwright:0.1.0", "wheelwright:0.1.0 --git-hosts $GIT"),
            (
                "url: https://git.example.com/platform/fleet.git",
                "url: https://$GIT/tutorial.git\n  secretRef: {name: authority}",
            ),
        ],
    );
    page.skips("make demo", "a step of .ci/run");
    page.skips("cargo install", "the tests have built the program");
    let missing = page.types("wheelwright install");
    assert!(missing.contains("! repositories  there is no ConfigRepo"), "{missing}");

    let names = page.types("cp -r examples-repo fleet");
    assert!(names.contains("ManagedClusterSet.cluster.open-cluster-management.io aws\n"), "{names}");
    user.run("git -C fleet push --quiet https://writer:secret@$GIT/tutorial.git main");
    user.run("kubectl -n wheelwright-system create secret generic authority --from-file ca.crt=$REPOSITORIES/ca.crt");
    let repositories = page.types("kubectl apply -f fleet/bootstrap/managed-serviceaccount.yaml");
    assert!(repositories.contains("overlays/prod"), "{repositories}");

    let join = page.types("wheelwright get token");
    let join = join.lines().find(|line| line.starts_with("wheelwright join ")).unwrap();
    for (cluster, context) in [("aws-1", "c1"), ("aws-2", "c2")] {
        user.run(&format!("{} --context {context}", join.replace("<cluster_name>", cluster)));
    }
    let sets = page.types("wheelwright accept --clusters aws-1,aws-2");
    assert!(sets.contains("set hubAcceptsClient to true for managed cluster aws-2"), "{sets}");
    user.sees_addon("0.9.0");

    let plan = page.types("git -C fleet switch");
    assert!(plan.contains("(canary): aws-1") && plan.contains(": aws-2"), "{plan}");
    user.run("git -C fleet push --quiet https://writer:secret@$GIT/tutorial.git my-change:main");
    page.types("wheelwright repo reconcile fleet");
    user.sees_addon("0.10.0");
    let watched = page.types("wheelwright status");
    assert!(watched.contains("2 of 2 clusters done") && watched.contains("RolloutCompleted"), "{watched}");
    page.ends();
}

/// A tenant as in the guide: a team's ConfigRepo applies what its service account may write, and a commit with
/// anything else is rejected as a whole.
#[test]
fn a_tenant_applies_what_its_service_account_may_write_on_real_nodes() {
    let user = User::of_new_clusters("tenant");
    user.run("wheelwright install --image wheelwright:0.1.0 --git-hosts $GIT");
    let mut page = Reader::new(
        &user,
        "docs/tenants.md",
        &[(
            "url: https://git.example.com/team-a/fleet.git",
            "url: https://$GIT/tenant.git, secretRef: {name: authority}",
        )],
    );
    user.write("fleet/kustomization.yaml", "namespace: team-a\nresources: [placement.yaml]\n");
    user.write("fleet/placement.yaml", &PLACEMENT.replace("COUNT", "1"));
    user.commit("one cluster");
    page.opens("kubectl create namespace team-a");
    page.types("kubectl create namespace team-a");
    user.run("kubectl -n team-a create secret generic authority --from-file ca.crt=$REPOSITORIES/ca.crt");
    user.eventually("wheelwright status", "team-a/authority");
    // The operator's role for the tenant can coexist with the role from the page.
    user.run("wheelwright upgrade --config-namespaces team-a --service-accounts team-a/deployer");
    user.run("kubectl -n team-a wait configrepo/team-a --for=condition=Ready --timeout=120s");
    let count = "kubectl -n team-a get placement one -o 'jsonpath={.spec.numberOfClusters}'";
    assert_eq!(user.run(count), "1");

    user.write("fleet/placement.yaml", &PLACEMENT.replace("COUNT", "2"));
    user.write("fleet/binding.yaml", BINDING);
    user.write("fleet/kustomization.yaml", "namespace: team-a\nresources: [placement.yaml, binding.yaml]\n");
    user.commit("a binding");
    let refusal = user.fails("wheelwright repo reconcile team-a");
    assert!(
        refusal.contains("ManagedClusterSetBinding")
            && refusal.contains("system:serviceaccount:team-a:deployer"),
        "{refusal}"
    );
    assert_eq!(user.run(count), "1");
}

impl User {
    /// Waits until both clusters run a version of the tutorial's add-on.
    fn sees_addon(&self, version: &str) {
        let (status, image) =
            ("wheelwright rollout status managed-serviceaccount", format!("{ADDON_IMAGE}:v{version}"));
        self.eventually(status, &format!("✓ aws-1 {version}"));
        self.eventually(status, &format!("✓ aws-2 {version}"));
        for context in ["c1", "c2"] {
            self.eventually(
                &format!(
                    "kubectl --context {context} get pods -A --field-selector status.phase=Running -o yaml"
                ),
                &image,
            );
        }
    }
}
