//! Tests stages that wait until the objects of earlier stages are healthy.

use super::*;
use api::addon::v1alpha1::ClusterManagementAddOn;
use k8s_openapi::api::apps::v1::Deployment;

/// A workload of an early stage, and an add-on of a late one.
pub(super) const WORKLOAD: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 2\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      containers:\n      - name: web\n        image: web:1\n";
pub(super) const ADDON: &str = "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\nmetadata:\n  name: late\nspec: {}\n";

impl Hub {
    fn has_addon(&self) -> bool {
        self.world.get::<ClusterManagementAddOn>(&Key::cluster("late")).is_some()
    }

    fn run_replicas(&mut self, count: i32) -> String {
        let generation = self.world.get::<Deployment>(&web()).unwrap().metadata.generation;
        let status = json!({"observedGeneration": generation, "replicas": count, "updatedReplicas": count,
            "availableReplicas": count});
        self.world.patch_status::<Deployment>(&web(), json!({"status": status})).unwrap();
        self.run()
    }
}

fn web() -> Key {
    Key::namespaced("config", "web")
}

#[test]
fn a_stage_that_is_not_healthy_holds_the_next() {
    let mut hub = Hub::new(json!({}));
    let message = hub.commit(&[("web.yaml", WORKLOAD), ("addon.yaml", ADDON)]);
    assert!(message.starts_with("Reconciling WaitingForHealth: 000000000000 waits until "), "{message}");
    assert!(
        message.ends_with(" for Deployment.apps config/web: its controller has not observed generation 1 yet; later stages of the commit are not applied"),
        "{message}"
    );
    let status = hub.status();
    assert_eq!((hub.has_addon(), status.applied, status.healthy), (false, None, None));
    assert_eq!(status.unhealthy.unwrap().objects[0].name, "web");

    assert!(hub.run_replicas(1).starts_with("Reconciling WaitingForHealth"));
    assert!(!hub.has_addon());
    assert_eq!(hub.run_replicas(2), "Ready: 2 objects of 000000000000");
    let status = hub.status();
    assert_eq!((hub.has_addon(), status.unhealthy), (true, None));
    assert_eq!(status.healthy.unwrap().commit, format!("{:040x}", 1));
}

#[test]
fn only_objects_that_have_failed_are_counted_as_failed() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("web.yaml", WORKLOAD), ("api.yaml", &WORKLOAD.replace("web", "api"))]);
    let late = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
    let status = json!({"observedGeneration": 1, "conditions": [late]});
    hub.world.patch_status::<Deployment>(&web(), json!({"status": status})).unwrap();
    let message = hub.run();
    let start = "Stalled HealthCheckFailed: Deployment.apps config/web of 000000000000 has failed: ";
    assert!(message.starts_with(start), "{message}");
}

#[test]
fn after_the_timeout_a_person_is_needed_and_a_better_commit_is_applied() {
    let mut hub = Hub::new(json!({"healthTimeout": "1m"}));
    hub.commit(&[("web.yaml", WORKLOAD), ("addon.yaml", ADDON)]);
    hub.world.run_for(SignedDuration::from_secs(70)).unwrap();
    assert_eq!(
        hub.message(),
        "Stalled HealthTimeout: Deployment.apps config/web of 000000000000 did not become healthy within 1m: \
         its controller has not observed generation 1 yet; later stages of the commit are not applied"
    );
    hub.world.restart_operator();
    assert!(hub.run().starts_with("Stalled HealthTimeout"), "{}", hub.message());
    assert!(!hub.has_addon());
    hub.commit(&[("web.yaml", &WORKLOAD.replace("replicas: 2", "replicas: 0")), ("addon.yaml", ADDON)]);
    let message = hub.run_replicas(0);
    assert!(message.starts_with("Ready") && hub.has_addon(), "{message}");
}

#[test]
fn a_repository_that_holds_its_own_config_repo_does_not_wait_for_itself() {
    let mut hub = Hub::new(json!({"takeover": "Always"}));
    let own = "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: ConfigRepo\nmetadata:\n  name: fleet\nspec:\n  url: https://git.example/fleet\n";
    let message = hub.commit(&[("own.yaml", own), ("addon.yaml", ADDON)]);
    assert_eq!((message.as_str(), hub.has_addon()), ("Ready: 2 objects of 000000000000", true));
    assert!(hub.status().healthy.is_some());
}

#[test]
fn nothing_is_deleted_while_a_stage_waits() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.commit(&[("web.yaml", WORKLOAD), ("addon.yaml", ADDON)]);
    assert_eq!(hub.names(), ["a"]);
    hub.run_replicas(2);
    assert!(hub.names().is_empty());
}

#[test]
fn the_healthy_revision_stays_until_a_later_one_is_healthy() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("web.yaml", WORKLOAD)]);
    assert!(hub.run_replicas(2).starts_with("Ready"));
    let message = hub.commit(&[("web.yaml", &WORKLOAD.replace("web:1", "web:2"))]);
    assert!(message.starts_with("Reconciling WaitingForHealth"), "{message}");
    let status = hub.status();
    let commit = |revision: Option<gitops::Revision>| revision.unwrap().commit;
    assert_eq!(commit(status.healthy), format!("{:040x}", 1));
    assert_eq!(commit(status.applied), format!("{:040x}", 2));
    assert!(hub.run_replicas(2).starts_with("Ready"));
    assert_eq!(commit(hub.status().healthy), format!("{:040x}", 2));
}

#[test]
fn without_a_timeout_no_stage_waits() {
    let mut hub = Hub::new(json!({"healthTimeout": "0s"}));
    let message = hub.commit(&[("web.yaml", WORKLOAD), ("addon.yaml", ADDON)]);
    assert_eq!(message, "Ready: 2 objects of 000000000000");
    let status = hub.status();
    assert_eq!((hub.has_addon(), status.healthy, status.unhealthy.unwrap().total), (true, None, 1));
    hub.run_replicas(2);
    assert_eq!(hub.status().healthy.unwrap().commit, format!("{:040x}", 1));
}
