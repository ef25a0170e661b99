//! Tests branches that others follow, objects of others, and other ConfigRepos.

use super::*;
use api::names::CONFIG_REPO_ANNOTATION;

#[test]
fn a_report_to_the_branch_that_a_neighbor_follows_is_refused() {
    let follow = |world: &mut World, namespace: &str, branch: &str| {
        let spec = json!({"url": "https://git.example/other", "ref": {"branch": branch}});
        let metadata = json!({"namespace": namespace, "name": "other"});
        let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec});
        world.apply(object(repo)).unwrap();
    };
    let events = |world: &mut World| -> Vec<String> {
        let reports = world.take_events().into_iter().filter(|event| event.action == "Report");
        reports.map(|event| format!("{:?} {}", event.event_type, event.reason)).collect()
    };
    for url in ["https://git.example/other.git", "git@GIT.example:other"] {
        let mut world = world(json!({"url": url}));
        follow(&mut world, "config", BRANCH);
        commit(&mut world, '1', "msa");
        run(&mut world, 1500);
        assert_eq!(events(&mut world), ["Warning StatusPushMisconfigured"], "{url}");
        assert_eq!(reported(&world), ("False".into(), "StatusPushMisconfigured".into()), "{url}");
        assert!(!world.branches.contains_key(BRANCH), "{url}");
        follow(&mut world, "config", "main");
        run(&mut world, 900);
        assert_eq!(reported(&world), ("True".into(), "Pushed".into()), "{url}");
        assert_eq!(events(&mut world), ["Normal Pushed"], "{url}");
    }
    // A tenant cannot stop the reports of others.
    let mut world = world(json!({"url": "https://git.example/other"}));
    let tenant = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}});
    world.apply(object(tenant)).unwrap();
    follow(&mut world, "tenant", BRANCH);
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    assert_eq!(reported(&world), ("True".into(), "Pushed".into()));
}

/// The annotation alone proves nothing: a tenant or the agent of a cluster can write it.
#[test]
fn an_object_is_not_reported_because_it_names_the_repository() {
    let mut world = world(json!({}));
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn"});
    let metadata = json!({"name": "foreign", "annotations": {CONFIG_REPO_ANNOTATION: key().to_string()}});
    let mut foreign = json!({"metadata": metadata, "spec": {}});
    json_patch::merge(&mut foreign, &kind);
    world.apply(object(foreign)).unwrap();
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    let files = &world.branches[BRANCH].last().unwrap().files;
    assert!(files.contains_key("addons/msa.md"), "{:?}", files.keys());
    assert!(!files.values().any(|text| text.contains("foreign")), "{:?}", files.keys());
}

#[test]
fn a_report_shows_which_commit_another_config_repo_has_applied() {
    let mut world = world(json!({}));
    let metadata = json!({"namespace": "config", "name": "other"});
    world
        .apply(object(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": {"url": "https://git.example/other"}})))
        .unwrap();
    commit(&mut world, '1', "msa");
    run(&mut world, 120);
    let reported = |world: &World| -> Value {
        let newest = world.branches[BRANCH].last().unwrap();
        let summary: Value = serde_json::from_str(&newest.files["summary.json"]).unwrap();
        summary["otherConfigRepos"]["config/other"].clone()
    };
    assert_eq!((&reported(&world)["applied"], &reported(&world)["ready"]), (&json!(""), &json!(false)));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "config"}});
    let tree: FileTree = [("map.yaml", map.to_string().as_bytes())].into_iter().collect();
    world.commit(&Key::namespaced("config", "other"), &"2".repeat(40), tree);
    run(&mut world, 120);
    let applied = json!({"applied": "2".repeat(40), "ready": true, "reason": "Applied", "unhealthy": 0});
    assert_eq!(reported(&world), applied);
}
