//! Pages of the docs, followed from their first command to their last.

use super::{ROOT, User, control};
use crate::docs::{Block, PLANS_OF_CHANGES_SUCCEED, blocks};
use crate::kube::built;

const ADDON_IMAGE: &str = "quay.io/open-cluster-management/managed-serviceaccount";

/// Somebody who follows a page: every block of commands, in the order of the page.
struct Reader<'u> {
    user: &'u User,
    page: &'static str,
    blocks: std::vec::IntoIter<Block>,
    /// Placeholders of the page, and what this user types instead.
    replacements: &'static [(&'static str, &'static str)],
}

impl<'u> Reader<'u> {
    fn new(
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

    /// Runs the next block, and returns its output.
    fn types(&mut self, start: &str) -> String {
        let text = self.next(start);
        let text = self.replacements.iter().fold(text, |text, (from, to)| text.replace(from, to));
        self.user.run(&format!("{PLANS_OF_CHANGES_SUCCEED}\n{text}"))
    }

    /// Passes over the next block. The reason is for people.
    fn skips(&mut self, start: &str, _reason: &str) {
        self.next(start);
    }

    /// Checks that no block is left.
    fn ends(mut self) {
        let left = self.blocks.next().map(|block| block.text);
        assert_eq!(left, None, "{} goes on", self.page);
    }
}

/// The tutorial, from `wheelwright install` to a change that has reached both clusters, with OCM's managed-serviceaccount as the add-on.
#[test]
fn the_tutorial_ends_with_clusters_that_follow_a_repository_on_real_nodes() {
    let user = User::of_new_clusters("tutorial");
    let program = built("tests/managed-serviceaccount/build");
    for version in ["v0.9.0", "v0.10.0"] {
        control(&format!("load msa {} {ADDON_IMAGE}:{version}", program.display()));
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
    user.sees_addon("0.10.0");
    let watched = page.types("wheelwright status");
    assert!(watched.contains("2 of 2 clusters done") && watched.contains("RolloutCompleted"), "{watched}");
    page.ends();
}

impl User {
    /// Waits until both clusters run a version of the add-on of the tutorial.
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
