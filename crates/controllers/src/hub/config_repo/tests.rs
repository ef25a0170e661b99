use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use api::gitops::v1alpha1::{self as gitops, ConfigRepoStatus};
use api::{Condition, names};
use object::Object;
use object::tree::FileTree;
use reconcile::{Action, Caches, Failure, FailureKind, Query, SourceFailure};
use sim::World;

mod account;
mod approval;
mod approval_of_addons;
mod argo;
mod charts;
mod deletion;
mod depends;
mod drift;
mod fence;
mod fields;
mod freeze;
mod health;
mod held_changes;
mod history;
mod inventory;
mod loosening;
mod moves;
mod moves_awaited;
mod observe;
mod partial;
mod paths;
mod permission;
mod random_values;
mod rendering;
mod restart;
mod rules;
mod whole;
mod window;

/// A hub with one repository and the operator that follows it.
struct Hub {
    world: World,
    commits: usize,
}

fn key() -> Key {
    Key::namespaced("config", "fleet")
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

impl Hub {
    fn new(spec: Value) -> Self {
        Self::with(sim::Setup::default(), spec)
    }

    fn with(setup: sim::Setup, spec: Value) -> Self {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut hub = Self { world: World::with(setup, 7, start), commits: 0 };
        hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}));
        hub.repo(spec, json!({}));
        hub
    }

    fn apply(&mut self, value: Value) {
        self.world.apply(object(value)).unwrap();
    }

    fn repo(&mut self, mut spec: Value, annotations: Value) {
        spec["url"] = "https://git.example/fleet".into();
        let metadata = json!({"namespace": "config", "name": "fleet", "annotations": annotations});
        self.apply(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}));
    }

    /// Commits files, runs until there are no more writes, and returns a summary of the conditions.
    fn commit(&mut self, files: &[(&str, &str)]) -> String {
        self.commits += 1;
        let tree: FileTree =
            files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes())).collect();
        self.world.commit(&key(), &format!("{:040x}", self.commits), tree);
        self.run()
    }

    fn run(&mut self) -> String {
        self.world.run_for(SignedDuration::from_secs(5)).unwrap();
        self.message()
    }

    fn status(&self) -> ConfigRepoStatus {
        self.world.get::<ConfigRepo>(&key()).unwrap().status.unwrap_or_default()
    }

    /// Returns the most important condition: `Ready: message`, `Stalled reason: message`,
    /// `Reconciling reason: message`.
    fn message(&self) -> String {
        let status = self.status();
        let holds = |condition: &&Condition| condition.is_true();
        let Some(condition) = status.conditions.iter().find(holds) else { return "nothing".into() };
        assert_eq!(status.conditions.iter().filter(holds).count(), 1, "{:?}", status.conditions);
        match condition.type_.as_str() {
            "Ready" => format!("Ready: {}", condition.message),
            other => format!("{other} {}: {}", condition.reason, condition.message),
        }
    }

    /// Returns the names of the objects in the inventories.
    fn owned(&self) -> Vec<String> {
        let repo = self.world.get::<ConfigRepo>(&key()).unwrap();
        let owned = engine::sync::recorded(&repo, &self.world.list::<ConfigRepoInventory>());
        owned.into_keys().map(|id| id.key.name).collect()
    }

    fn data(&self, name: &str) -> Option<String> {
        let map = self.world.get::<ConfigMap>(&Key::namespaced("config", name))?;
        Some(map.data?.get("k")?.clone())
    }

    fn names(&self) -> Vec<String> {
        let maps = self.world.list::<ConfigMap>().into_iter();
        let maps = maps.filter(|map| map.metadata.namespace.as_deref() == Some("config"));
        maps.map(|map| map.metadata.name.unwrap()).filter(|name| name != "kube-root-ca.crt").collect()
    }

    fn versions(&self) -> Vec<String> {
        self.world.list::<ConfigMap>().into_iter().filter_map(|map| map.metadata.resource_version).collect()
    }
}

fn map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: \"{data}\"\n")
}

const SET: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata:\n  name: blue\n";

#[test]
fn a_commit_is_applied_and_the_next_one_too() {
    let mut hub = Hub::new(json!({}));
    assert_eq!(hub.run(), "Reconciling Fetching: the repository has not been fetched yet");
    assert_eq!(
        hub.commit(&[("a.yaml", &map("a", "1")), ("set.yaml", SET)]),
        "Ready: 2 objects of 000000000000"
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    let status = hub.status();
    assert_eq!((hub.owned().len(), status.applied.unwrap().commit), (2, format!("{:040x}", 1)));
    assert_eq!(
        hub.commit(&[("a.yaml", &map("a", "2")), ("b.yaml", &map("b", "1"))]),
        "Ready: 2 objects of 000000000000"
    );
    assert_eq!((hub.data("a").as_deref(), hub.data("b").as_deref()), (Some("2"), Some("1")));
    assert_eq!(hub.owned().len(), 2, "the set left the repository and the hub");
}

#[test]
fn a_steady_hub_is_not_written_to() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1")), ("set.yaml", SET)]);
    let before = (hub.versions(), hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version);
    hub.world.run_for(SignedDuration::from_hours(24)).unwrap();
    hub.world.restart_operator();
    hub.run();
    assert_eq!(
        (hub.versions(), hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version),
        before
    );
}

#[test]
fn a_missing_path_names_the_field_and_leaves_what_is_applied() {
    let mut hub = Hub::new(json!({"path": "prod"}));
    hub.commit(&[("prod/a.yaml", &map("a", "1"))]);
    let message = hub.commit(&[("staging/a.yaml", &map("a", "2"))]);
    assert_eq!(
        message,
        "Stalled RenderFailed: spec.path: there is no directory \"prod\" in the repository; commit it, or correct spec.path; 000000000000 stays applied"
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn the_root_of_a_repository_and_a_directory_below_it_have_several_spellings() {
    for (path, name) in
        [(".", "root"), ("./", "root"), ("/", "root"), ("./prod", "prod"), ("prod/./", "prod")]
    {
        let mut hub = Hub::new(json!({"path": path}));
        let files = [
            ("kustomization.yaml", "resources: [root.yaml]\n"),
            ("root.yaml", &map("root", "1")),
            ("prod/prod.yaml", &map("prod", "1")),
        ];
        assert!(hub.commit(&files).starts_with("Ready"), "{path}");
        assert_eq!(hub.names(), [name], "{path}");
    }
}

#[test]
fn an_overlay_is_rendered_and_a_bad_one_names_file_line_and_field() {
    let mut hub = Hub::new(json!({"path": "prod"}));
    let overlay = "resources: [../base]\nnamePrefix: prod-\n";
    let files = [
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("base/a.yaml", &map("a", "1")),
        ("prod/kustomization.yaml", overlay),
    ];
    assert!(hub.commit(&files).starts_with("Ready"));
    assert_eq!(hub.names(), ["prod-a"]);
    let message = hub.commit(&[
        files[0],
        files[1],
        ("prod/kustomization.yaml", "resuorces: [../base]\nnamePrefix: prod-\n"),
    ]);
    assert!(message.starts_with("Stalled RenderFailed: prod/kustomization.yaml:1: resuorces: "), "{message}");
    assert!(
        message.contains("hint: did you mean \"resources\"?")
            && message.ends_with("; 000000000000 stays applied"),
        "{message}"
    );
    assert_eq!(hub.names(), ["prod-a"]);
}

#[test]
fn a_bad_field_names_object_and_file_and_leaves_what_is_applied() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("set.yaml", SET)]);
    let bad = format!("{SET}spec:\n  clusterSelector:\n    selectorType: Nonsense\n");
    let message = hub.commit(&[("sets.yaml", &bad)]);
    assert!(message.starts_with("Stalled InvalidObject: cannot apply 000000000000: "), "{message}");
    assert!(
        message.contains("ManagedClusterSet.cluster.open-cluster-management.io blue")
            && message.contains("selectorType"),
        "{message}"
    );
    assert!(message.contains("(sets.yaml:7)") && message.ends_with("stays applied"), "{message}");
    assert_eq!(hub.status().applied.unwrap().commit, format!("{:040x}", 1));
    assert_eq!(hub.commit(&[("set.yaml", SET)]), "Ready: 1 object of 000000000000", "and mends itself");
}

#[test]
fn annotations_that_are_too_large_are_refused_with_object_and_file() {
    let mut hub = Hub::new(json!({}));
    let text = map("a", "1")
        .replace("metadata:", &format!("metadata:\n  annotations: {{k: {}}}", "x".repeat(256 << 10)));
    let message = hub.commit(&[("maps.yaml", &text)]);
    let refused = "metadata.annotations: Too long: may not be more than 262144 bytes";
    assert!(message.starts_with("Stalled InvalidObject: cannot apply 000000000000: "), "{message}");
    assert!(message.contains(refused) && message.contains("(maps.yaml:4)"), "{message}");
}

#[test]
fn a_failed_fetch_is_reported_and_the_applied_commit_stays() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let fail = |reason, message: &str| SourceFailure { reason, message: message.into() };
    hub.world.fail_fetching(&key(), fail("SourceUnreachable", "cannot reach it"));
    assert_eq!(hub.run(), "Reconciling SourceUnreachable: cannot reach it; 000000000000 stays applied");
    hub.world.fail_fetching(&key(), fail("SourceRewound", "it moved"));
    assert_eq!(hub.run(), "Stalled SourceRewound: it moved; 000000000000 stays applied");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"));
}

#[test]
fn the_time_since_which_fetches_fail_stays_until_the_source_responds() {
    let mut hub = Hub::new(json!({}));
    let fail = |hub: &mut Hub, reason| {
        hub.world.fail_fetching(&key(), SourceFailure { reason, message: "down".into() });
        hub.run();
        hub.status().unreachable_since
    };
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert_eq!(hub.status().unreachable_since, None);
    let since = fail(&mut hub, "SourceUnreachable");
    assert!(since.is_some());
    hub.world.restart_operator();
    assert_eq!(fail(&mut hub, "SourceTimeout"), since);
    assert_eq!(fail(&mut hub, "SourceRewound"), None, "it responds");
    assert!(fail(&mut hub, "SourceUnreachable") > since);
    hub.repo(json!({"suspend": true}), json!({}));
    hub.run();
    assert_eq!(hub.status().unreachable_since, None);
    hub.repo(json!({"suspend": false}), json!({}));
    assert!(fail(&mut hub, "SourceUnreachable").is_some());
    hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert_eq!(hub.status().unreachable_since, None);
}

#[test]
fn a_failed_fetch_is_reported_next_to_a_refused_commit() {
    let fail = |reason, message: &str| SourceFailure { reason, message: message.into() };
    let rejected = map("a", "1").replace("kind: ConfigMap", "kind: ConfigMap\nunknown: x");
    for (commit, refusal) in [("{", "Stalled RenderFailed: "), (rejected.as_str(), "Stalled InvalidObject: ")]
    {
        let mut hub = Hub::new(json!({}));
        hub.commit(&[("a.yaml", &map("a", "1"))]);
        let refused = hub.commit(&[("a.yaml", commit)]);
        let refused = refused.strip_prefix(refusal).unwrap_or_else(|| panic!("{refused}")).to_owned();
        hub.world.fail_fetching(&key(), fail("SourceUnreachable", "cannot reach it"));
        let transient = format!("{refusal}{refused}; the last fetch failed: cannot reach it");
        assert_eq!(hub.run(), transient);
        hub.world.fail_fetching(&key(), fail("SourceRewound", "it moved"));
        assert_eq!(hub.run(), format!("Stalled SourceRewound: it moved; {refused}"));
    }
}

#[test]
fn a_source_that_never_came_deletes_nothing_after_a_restart() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let mut other = Hub::new(json!({}));
    std::mem::swap(&mut hub.world.hub, &mut other.world.hub);
    other.world.restart_operator();
    other.world.fail_fetching(&key(), SourceFailure { reason: "SourceUnreachable", message: "down".into() });
    assert_eq!(other.run(), "Reconciling SourceUnreachable: down; 000000000000 stays applied");
    assert_eq!(other.data("a").as_deref(), Some("1"));
}

#[test]
fn deletions_over_the_budget_wait_for_their_approval() {
    let mut hub = Hub::new(json!({}));
    let all: Vec<_> = (0..8).map(|i| (format!("{i}.yaml"), map(&format!("m{i}"), "1"))).collect();
    let files: Vec<_> = all.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
    hub.commit(&files);
    let message = hub.commit(&files[..1]);
    let held = hub.status().held_deletions.unwrap();
    assert_eq!((held.total, held.objects.len()), (7, 7));
    let approval = held.approval;
    let hint = format!(
        ", …). To approve, annotate the ConfigRepo: gitops.wheelwright.dev/approve-deletions={approval}"
    );
    assert!(
        message.starts_with("Stalled DeletionsHeld: 000000000000 is applied, but deletions wait: 7 deletions are over the budget of 5"),
        "{message}"
    );
    assert!(message.ends_with(&hint), "{message}");
    assert_eq!(hub.names().len(), 8);
    hub.repo(json!({}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    assert_eq!(hub.run(), "Ready: 1 object of 000000000000");
    assert_eq!(
        (hub.names(), hub.owned().len(), hub.status().held_deletions),
        (vec!["m0".to_owned()], 1, None)
    );
}

#[test]
fn an_emptied_repository_deletes_nothing_by_itself() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let message = hub.commit(&[("a.yaml", "")]);
    assert!(message.starts_with("Stalled"), "{message}");
    assert_eq!(hub.names(), ["a"]);
}

#[test]
fn a_repeated_drift_is_corrected_less_and_less_often_and_named() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let edit = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "edited"}});
    hub.apply(edit.clone());
    hub.run();
    assert_eq!(hub.data("a").as_deref(), Some("1"), "the first drift is corrected at once");
    let mut corrected = 0;
    for _ in 0..120 {
        hub.apply(edit.clone());
        let message = hub.run();
        corrected += u32::from(hub.data("a").as_deref() == Some("1"));
        if hub.data("a").as_deref() == Some("edited") {
            assert!(
                message.starts_with("Reconciling Drifted: ConfigMap config/a was changed on the hub "),
                "{message}"
            );
        }
    }
    assert!((3..=8).contains(&corrected), "{corrected} of 120 in ten minutes");
}

#[test]
fn a_foreign_object_stops_the_commit_until_its_owner_gives_it_up() {
    let mut hub = Hub::new(json!({}));
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "b"}, "data": {"k": "theirs"}});
    hub.apply(theirs);
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    assert!(
        message
            .starts_with("Stalled TakeoverRefused: ConfigMap config/b exists already and differs at data.k;"),
        "{message}"
    );
    assert!(message.ends_with("(b.yaml:1); nothing has been applied yet"), "{message}");
    assert_eq!(hub.names(), ["b"]);
    hub.repo(json!({"takeover": "Always"}), json!({}));
    assert!(hub.run().starts_with("Ready"));
    assert_eq!(hub.data("b").as_deref(), Some("1"));
}

#[test]
fn a_report_to_the_branch_that_is_followed_is_refused() {
    let checkout = Arc::new(object::tree::Checkout { revision: String::new(), tree: FileTree::default() });
    for url in ["", "https://git.example/x.git", "git@git.example:x"] {
        let report = json!({"url": url, "branch": "main"});
        let repo: ConfigRepo =
            serde_json::from_value(json!({"metadata": {"namespace": "config", "name": "x"},
            "spec": {"url": "https://git.example/x", "ref": {"branch": "main"}, "report": report}}))
            .unwrap();
        let completed = commit::completed(&repo, &checkout, &Caches::default()).unwrap();
        let Err(commit::Incomplete::Problems(problems)) = completed else { panic!("it is followed") };
        assert!(problems[0].message.starts_with("spec.report.branch is also the followed branch"));
    }
}

#[test]
fn an_object_for_a_cluster_that_has_not_joined_waits_alone() {
    let mut hub = Hub::new(json!({}));
    let elsewhere = map("b", "1").replace("  name: b", "  name: b\n  namespace: cluster-1");
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &elsewhere)]);
    assert!(
        message.starts_with("Reconciling NamespaceNotFound: 000000000000 is applied except ConfigMap cluster-1/b: namespace cluster-1"),
        "{message}"
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-1"}}));
    assert_eq!(hub.run(), "Ready: 2 objects of 000000000000");
}

#[test]
fn a_suspended_repository_says_so_and_is_left_alone() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.repo(json!({"suspend": true}), json!({}));
    let message = hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert_eq!(message, "Ready: suspended (spec.suspend); 1 object of 000000000000");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    let repo = hub.world.get::<ConfigRepo>(&key()).unwrap();
    assert_eq!(repo.status.as_ref().unwrap().observed_generation, repo.metadata.generation);
    hub.world.restart_operator();
    assert_eq!(hub.run(), message, "it says so once");
    let version = hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version;
    assert_eq!(version, repo.metadata.resource_version);
    hub.repo(json!({"suspend": false}), json!({}));
    hub.run();
    assert_eq!(hub.data("a").as_deref(), Some("2"));
}

#[test]
fn in_mode_observe_nothing_is_written() {
    let mut hub = Hub::new(json!({"mode": "Observe"}));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert!(
        message.starts_with(
            "Reconciling NotApplied: 1 of 1 objects do not match 000000000000, such as ConfigMap config/a"
        ),
        "{message}"
    );
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "1"}});
    hub.apply(theirs);
    assert_eq!(
        hub.commit(&[("a.yaml", &map("a", "1")), ("README", "x")]),
        "Ready: the hub matches 000000000000 (1 object)"
    );
    assert_eq!(hub.owned().len(), 0);
}
