//! A commit contains a policy that would allow deletions by another ConfigRepo of the same repository.

use serde_json::{Value, json};

use crate::fixtures::{ADDON, config_repo, merged, put, seconds};
use crate::removals::{addon_file, installed};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1beta1::Placement;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use object::tree::FileTree;
use object::{Key, Metadata as _};
use sim::{Setup, World};

const URL: &str = "https://git.example/fleet";
/// Another address of the same repository.
const SSH: &str = "ssh://git@git.example:22/fleet.git";
const OTHER: &str = "https://git.example/other";

/// The directory and ConfigRepo of the policy.
const POLICIES: &str = "policies";
/// The directory and ConfigRepo of the add-on.
const ADD_ONS: &str = "add-ons";

fn key(name: &str) -> Key {
    Key::namespaced("config", name)
}

fn spec(url: &str, path: &str) -> Value {
    json!({"url": url, "path": path, "takeover": "Always"})
}

/// A fleet with the add-on on three clusters, and the repository that contains it.
struct Fleet {
    world: World,
    add_on: String,
    commits: usize,
}

impl Fleet {
    fn new(url_of_add_ons: &str) -> Self {
        let mut world = installed(Setup::default(), 3);
        let add_on = addon_file(&world);
        config_repo(&mut world, &key(POLICIES), spec(URL, POLICIES));
        config_repo(&mut world, &key(ADD_ONS), spec(url_of_add_ons, ADD_ONS));
        let mut fleet = Self { world, add_on, commits: 0 };
        let first = fleet.tree(&[policy("p", json!({"removalBudget": "2%"}))], true);
        fleet.commit(&first, &[POLICIES, ADD_ONS]);
        assert_eq!(fleet.ready_reason(POLICIES), "Applied");
        assert_eq!(fleet.ready_reason(ADD_ONS), "Applied");
        fleet
    }

    /// Returns files with policies, and optionally the add-on.
    fn tree(&self, policies: &[String], has_add_on: bool) -> FileTree {
        let add_on = if has_add_on { &self.add_on } else { MAP };
        let files = [
            ("policies/p.yaml", policies.join("\n---\n")),
            ("policies/late.yaml", LATE.replace("commit", &(self.commits + 1).to_string())),
            ("add-ons/a.yaml", add_on.to_owned()),
            ("add-ons/m.yaml", MAP.replace("name: m", "name: n")),
        ];
        files.into_iter().map(|(path, content)| (path.to_owned(), content.into_bytes())).collect()
    }

    /// Makes ConfigRepos fetch a commit, one after the other.
    fn commit(&mut self, tree: &FileTree, repos: &[&str]) {
        self.commits += 1;
        self.fetch(self.commits, tree, repos);
    }

    fn fetch(&mut self, commit: usize, tree: &FileTree, repos: &[&str]) {
        for repo in repos {
            self.world.commit(&key(repo), &format!("{commit:040x}"), tree.clone());
            self.world.run_for(seconds(30)).unwrap();
        }
        self.world.run_for(seconds(180)).unwrap();
    }

    fn change(&mut self, repo: &str, more: Value) {
        put(
            &mut self.world,
            merged(
                json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo"}),
                merged(
                    json!({"metadata": {"name": repo, "namespace": "config"}, "spec": spec(URL, repo)}),
                    more,
                ),
            ),
        );
        self.world.run_for(seconds(180)).unwrap();
    }

    fn repo(&self, name: &str) -> ConfigRepo {
        self.world.get(&key(name)).unwrap()
    }

    /// Returns the reason of a ConfigRepo's `Ready` condition.
    fn ready_reason(&self, repo: &str) -> String {
        self.repo(repo).condition("Ready").unwrap().reason.clone()
    }

    fn budget(&self) -> Value {
        let policy: Option<RolloutPolicy> = self.world.get(&Key::cluster("p"));
        policy.map_or(Value::Null, |policy| json!(policy.spec.removal_budget))
    }

    fn have(&self) -> usize {
        self.world.list::<ManagedClusterAddOn>().len()
    }

    fn nothing_is_lost(&self, when: &str) {
        assert_eq!(self.have(), 3, "{when}");
        assert!(self.world.get::<ClusterManagementAddOn>(&Key::cluster(ADDON)).is_some(), "{when}");
    }

    fn approve(&mut self) {
        let approval = self.repo(ADD_ONS).status.unwrap().held_deletions.unwrap().approval;
        let annotations = json!({"gitops.wheelwright.dev/approve-deletions": approval});
        self.change(ADD_ONS, json!({"metadata": {"annotations": annotations}}));
    }
}

/// An object in a later stage than policies, different in each commit.
const LATE: &str = "{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: late, \
                    annotations: {of: c-commit}}, spec: {}}";
const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}";

fn policy(name: &str, spec: Value) -> String {
    let kind = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy"});
    merged(kind, json!({"metadata": {"name": name}, "spec": spec})).to_string()
}

fn loose() -> String {
    policy("p", json!({"removalBudget": "100%"}))
}

#[test]
fn a_policy_of_one_repository_and_the_addon_of_another_in_one_commit_wait_for_an_approval() {
    for url in [URL, SSH] {
        for order in [[POLICIES, ADD_ONS], [ADD_ONS, POLICIES]] {
            let mut fleet = Fleet::new(url);
            let second = fleet.tree(&[loose()], false);
            fleet.commit(&second, &order);
            fleet.nothing_is_lost(&format!("{url} {order:?}"));
            assert_eq!(fleet.ready_reason(POLICIES), "PolicyHeld", "{url} {order:?}");
            let message = fleet.repo(POLICIES).condition("Stalled").unwrap().message.clone();
            assert!(message.contains("of ConfigRepo config/add-ons"), "{message}");
            assert_eq!(
                (fleet.ready_reason(ADD_ONS).as_str(), fleet.budget()),
                ("DeletionsHeld", json!("2%"))
            );
            if url == URL {
                fleet.approve();
                assert_eq!((fleet.have(), fleet.budget()), (0, json!("100%")), "it follows the approval");
                assert_eq!(
                    (fleet.ready_reason(POLICIES), fleet.ready_reason(ADD_ONS)),
                    ("Applied".into(), "Applied".into())
                );
            }
        }
    }
}

#[test]
fn the_rest_of_a_commit_is_applied_while_a_policy_of_it_waits() {
    for order in [[POLICIES, ADD_ONS], [ADD_ONS, POLICIES]] {
        let mut fleet = Fleet::new(URL);
        fleet.change(ADD_ONS, json!({"spec": {"dependsOn": [{"name": POLICIES}]}}));
        let second = fleet.tree(&[loose()], false);
        fleet.commit(&second, &order);
        fleet.nothing_is_lost(&format!("{order:?}"));
        let late: Placement = fleet.world.get(&Key::namespaced("config", "late")).unwrap();
        assert_eq!(late.annotation("of"), Some("c-2"), "{order:?}");
        let reasons = [fleet.ready_reason(POLICIES), fleet.ready_reason(ADD_ONS)];
        assert_eq!(
            reasons,
            ["PolicyHeld", "DeletionsHeld"],
            "it depends on the other, and shows its approval"
        );
        fleet.approve();
        assert_eq!((fleet.have(), fleet.budget()), (0, json!("100%")), "{order:?}");
        assert_eq!([fleet.ready_reason(POLICIES), fleet.ready_reason(ADD_ONS)], ["Applied", "Applied"]);
    }
}

#[test]
fn a_person_who_changes_the_policy_on_the_hub_ends_its_wait() {
    let mut fleet = Fleet::new(URL);
    fleet.change(ADD_ONS, json!({"spec": {"suspend": true}}));
    let second = fleet.tree(&[loose()], false);
    fleet.commit(&second, &[POLICIES]);
    assert_eq!(fleet.ready_reason(POLICIES), "PolicyHeld");
    put(&mut fleet.world, serde_json::from_str(&loose()).unwrap());
    fleet.world.run_for(seconds(180)).unwrap();
    assert_eq!(fleet.ready_reason(POLICIES), "Applied");
    fleet.nothing_is_lost("the other is suspended");
}

#[test]
fn a_repository_that_is_suspended_or_cannot_be_rendered_lets_no_policy_of_the_commit_pass() {
    let mut fleet = Fleet::new(URL);
    fleet.change(ADD_ONS, json!({"spec": {"suspend": true}}));
    let second = fleet.tree(&[loose()], false);
    fleet.commit(&second, &[POLICIES, ADD_ONS]);
    assert_eq!(
        (fleet.ready_reason(POLICIES).as_str(), fleet.budget()),
        ("PolicyHeld", json!("2%")),
        "suspended"
    );
    fleet.change(ADD_ONS, json!({"spec": {"suspend": false}}));
    fleet.nothing_is_lost("it goes on");

    let mut fleet = Fleet::new(URL);
    let mut broken = fleet.tree(&[loose()], false);
    broken.insert("add-ons/b.yaml", b"{".to_vec());
    fleet.commit(&broken, &[POLICIES, ADD_ONS]);
    assert_eq!(
        (fleet.ready_reason(POLICIES).as_str(), fleet.budget()),
        ("PolicyHeld", json!("2%")),
        "broken"
    );
    let mended = fleet.tree(&[loose()], false);
    fleet.commit(&mended, &[POLICIES, ADD_ONS]);
    fleet.nothing_is_lost("it is mended");
}

#[test]
fn a_repository_that_is_behind_lets_no_policy_pass_that_would_allow_what_it_holds() {
    let mut fleet = Fleet::new(URL);
    let second = fleet.tree(&[loose()], false);
    fleet.commit(&second, &[ADD_ONS]);
    fleet.nothing_is_lost("the policy is not seen yet");
    // The third commit contains the add-on again, but the ConfigRepo that deletes it has not seen that commit.
    let third = fleet.tree(&[loose()], true);
    fleet.commit(&third, &[POLICIES]);
    fleet.nothing_is_lost("the add-on is behind");
    assert_eq!(fleet.ready_reason(POLICIES), "PolicyHeld");
    let commit = fleet.commits;
    fleet.fetch(commit, &third, &[ADD_ONS]);
    assert_eq!(
        (fleet.ready_reason(POLICIES), fleet.ready_reason(ADD_ONS)),
        ("Applied".into(), "Applied".into())
    );
    assert_eq!((fleet.have(), fleet.budget()), (3, json!("100%")));
}

#[test]
fn a_strict_policy_that_a_commit_drops_stays_while_the_addon_of_another_repository_waits() {
    let mut fleet = Fleet::new(URL);
    let strict = policy("p", json!({"addOns": [ADDON], "removalBudget": "2%"}));
    let all = policy("all", json!({"removalBudget": "100%"}));
    let second = fleet.tree(&[strict, all.clone()], true);
    fleet.commit(&second, &[POLICIES, ADD_ONS]);
    let third = fleet.tree(&[all], false);
    fleet.commit(&third, &[POLICIES, ADD_ONS]);
    fleet.nothing_is_lost("the policy for all allows it");
    assert_eq!(
        (fleet.ready_reason(POLICIES), fleet.ready_reason(ADD_ONS)),
        ("DeletionsHeld".into(), "DeletionsHeld".into())
    );
    assert_eq!(fleet.budget(), json!("2%"));
}

#[test]
fn a_policy_passes_where_the_addon_stays_or_moves_and_where_another_repository_decides() {
    let mut fleet = Fleet::new(URL);
    let mut moved = fleet.tree(&[loose()], false);
    moved.insert("policies/a.yaml", fleet.add_on.clone().into_bytes());
    fleet.commit(&moved, &[POLICIES, ADD_ONS]);
    assert_eq!((fleet.have(), fleet.budget()), (3, json!("100%")), "{}", fleet.ready_reason(POLICIES));

    let mut fleet = Fleet::new(URL);
    let stays = fleet.tree(&[loose()], true);
    fleet.commit(&stays, &[POLICIES, ADD_ONS]);
    assert_eq!((fleet.ready_reason(POLICIES).as_str(), fleet.budget()), ("Applied", json!("100%")));

    // A separate repository for the policies decides independently.
    let mut fleet = Fleet::new(OTHER);
    let second = fleet.tree(&[loose()], false);
    fleet.fetch(2, &second, &[POLICIES]);
    fleet.fetch(3, &second, &[ADD_ONS]);
    assert_eq!((fleet.have(), fleet.budget()), (0, json!("100%")));
}
