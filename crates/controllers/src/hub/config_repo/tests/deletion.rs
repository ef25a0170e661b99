//! Tests the deletion of ConfigRepos, including by another ConfigRepo.

use super::*;

fn child() -> Key {
    Key::namespaced("config", "child")
}

impl Hub {
    /// Applies a ConfigRepo from the repository, which applies three objects itself. Returns the result of the
    /// next commit, which drops it.
    fn drops(&mut self, spec: &str) -> String {
        let nested = format!(
            "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: ConfigRepo\nmetadata:\n  name: child\nspec:\n  url: https://git.example/child\n{spec}"
        );
        self.commit(&[("child.yaml", &nested), ("kept.yaml", &map("kept", "1"))]);
        let own = ["a", "b", "c"].map(|name| (name.to_owned(), map(name, "1")));
        let tree: FileTree =
            own.iter().map(|(name, text)| (format!("{name}.yaml"), text.as_bytes())).collect();
        self.world.commit(&child(), &format!("{:040x}", 77), tree);
        self.run();
        assert_eq!(self.names(), ["a", "b", "c", "kept"], "{}", self.message());
        self.commit(&[("kept.yaml", &map("kept", "1"))])
    }
}

#[test]
fn a_commit_that_drops_a_config_repo_that_deletes_its_objects_waits_for_an_approval() {
    let mut hub = Hub::new(json!({}));
    let told = hub.drops("  deletionPolicy: Delete\n");
    let why = "deleting ConfigRepo.gitops.wheelwright.dev config/child deletes what it owns, 3 objects now";
    assert!(told.starts_with("Stalled DeletionsHeld") && told.contains(why), "{told}");
    hub.world.run_for(SignedDuration::from_hours(2)).unwrap();
    assert_eq!(hub.names(), ["a", "b", "c", "kept"]);
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    assert!(hub.run().starts_with("Ready"), "{}", hub.message());
    assert_eq!((hub.names(), hub.world.get::<ConfigRepo>(&child())), (vec!["kept".to_owned()], None));
}

/// Simulates an operator that may not delete namespaces.
fn keep_namespaces(
    sites: &mut sim::Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
) -> reconcile::Outcome {
    if matches!(action, Action::Delete { target, .. } if target.gvk.kind == "Namespace") {
        let message =
            "namespaces \"team\" is forbidden: User \"operator\" cannot delete resource \"namespaces\"";
        return Err(Failure { kind: FailureKind::Forbidden, message: message.into() });
    }
    sim::execute(sites, manager, action, now)
}

#[test]
fn an_approved_deletion_that_the_operator_may_not_do_waits_for_no_approval() {
    let setup = sim::Setup { execute: keep_namespaces, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({}));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n";
    let kept = map("kept", "1");
    assert!(hub.commit(&[("team.yaml", namespace), ("kept.yaml", &kept)]).starts_with("Ready"));
    let message = hub.commit(&[("kept.yaml", &kept)]);
    assert!(message.starts_with("Stalled DeletionsHeld"), "{message}");
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    let message = hub.run();
    assert!(
        message.starts_with("Stalled Forbidden") && message.contains("cannot delete resource"),
        "{message}"
    );
    assert_eq!(hub.status().held_deletions, None);
}

#[test]
fn a_config_repo_that_leaves_its_objects_may_be_dropped() {
    let mut hub = Hub::new(json!({}));
    let told = hub.drops("");
    assert!(told.starts_with("Ready"), "{told}");
    assert_eq!(hub.names(), ["a", "b", "c", "kept"]);
    assert!(hub.world.get::<ConfigRepo>(&child()).is_none());
}

#[test]
fn a_deleted_repository_keeps_or_deletes_its_objects_by_its_policy() {
    for (policy, left) in [("Orphan", vec!["a".to_owned()]), ("Delete", Vec::new())] {
        let mut hub = Hub::new(json!({"deletionPolicy": policy}));
        assert!(hub.commit(&[("a.yaml", &map("a", "1"))]).starts_with("Ready"));
        let target = hub.world.hub.target(&object::ObjectRef::of::<ConfigRepo>(key())).unwrap();
        hub.world.hub.delete(&target, &store::DeleteOptions::default(), hub.world.now).unwrap();
        hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
        assert!(hub.world.get::<ConfigRepo>(&key()).is_none(), "{policy}");
        assert_eq!(hub.names(), left, "{policy}");
    }
}

#[test]
fn a_deletion_that_does_not_end_is_named_with_its_finalizers() {
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "config", "name": "a", "finalizers": ["example.com/backup"]},
    });
    let (files, stuck) = (
        [("a.yaml", &*map("a", "1")), ("b.yaml", &*map("b", "1"))],
        "Stalled DeletionStuck: ConfigMap config/a has been terminating since 2026-01-02T03:0",
    );
    for is_repo_deleted in [false, true] {
        let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
        hub.commit(&files);
        hub.apply(held.clone());
        let told = if is_repo_deleted {
            hub.world.delete::<ConfigRepo>(&key()).unwrap();
            hub.run()
        } else {
            hub.commit(&files[1..])
        };
        let progress = "1 objects are being deleted, such as ConfigMap config/a";
        assert!(told.starts_with("Reconciling Deleting") && told.ends_with(progress), "{told}");
        hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
        let told = hub.message();
        assert!(told.starts_with(stuck) && told.contains("(example.com/backup)"), "{told}");
    }
}
