//! Tests commits that wait for the ConfigRepos on which they depend.

use super::*;

fn base() -> Key {
    Key::namespaced("config", "base")
}

/// Returns a hub with the repository `fleet`, which depends on `base`.
fn hub(url_of_base: &str) -> Hub {
    let mut hub = Hub::new(json!({"dependsOn": [{"name": "base"}]}));
    hub.put("base", json!({"url": url_of_base}));
    hub
}

const SAME: &str = "https://git.example/fleet";
const OTHER: &str = "https://git.example/base";

impl Hub {
    fn put(&mut self, name: &str, spec: Value) {
        let metadata = json!({"namespace": "config", "name": name});
        self.apply(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}));
    }

    fn commit_base(&mut self, number: usize, text: &str) {
        let tree: FileTree = [("b.yaml".to_owned(), text.as_bytes())].into_iter().collect();
        self.world.commit(&base(), &format!("{number:040x}"), tree);
        self.run();
    }
}

#[test]
fn a_commit_waits_until_what_it_depends_on_is_ready() {
    let mut hub = hub(OTHER);
    assert_eq!(
        hub.commit(&[("a.yaml", &map("a", "1"))]),
        "Reconciling DependencyNotReady: 000000000000 waits for the ConfigRepo config/base, which is not ready: Fetching; nothing has been applied yet"
    );
    assert!(hub.names().is_empty());
    hub.commit_base(7, &map("b", "1"));
    assert_eq!(hub.message(), "Ready: 1 object of 000000000000", "it is woken and does not poll");
    assert_eq!(hub.names(), ["a", "b"]);

    hub.commit_base(8, "{");
    hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert!(
        hub.message().contains("is not ready: RenderFailed; 000000000000 stays applied"),
        "{}",
        hub.message()
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn of_one_repository_no_commit_runs_ahead_of_its_base() {
    let mut hub = hub(SAME);
    hub.commit_base(1, &map("b", "1"));
    assert!(hub.commit(&[("a.yaml", &map("a", "1"))]).starts_with("Ready"));
    let message = hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert!(
        message.contains("config/base, which has not applied that commit yet; 000000000000 stays applied"),
        "{message}"
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    hub.commit_base(2, &map("b", "2"));
    assert_eq!((hub.data("a").as_deref(), hub.data("b").as_deref()), (Some("2"), Some("2")));
}

#[test]
fn drift_is_corrected_although_the_base_is_not_ready() {
    let mut hub = hub(OTHER);
    hub.commit_base(1, &map("b", "1"));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.commit_base(2, "{");
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "a"}, "data": {"k": "edited"}}));
    hub.run();
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn an_applied_and_healthy_base_counts_even_if_someone_changes_one_of_its_objects() {
    let mut hub = hub(OTHER);
    hub.commit_base(1, &map("b", "1"));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let status = |hub: &Hub| hub.world.get::<ConfigRepo>(&base()).unwrap().status.unwrap();
    let corrections = |hub: &Hub| status(hub).drift.map_or(0, |drift| drift.corrected[0].corrections);
    let edit = |hub: &mut Hub| {
        hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "b"}, "data": {"k": "edited"}}));
        hub.run();
    };
    // After six corrections, the delay is a minute.
    while corrections(&hub) < 6 {
        edit(&mut hub);
    }
    edit(&mut hub);
    let is_drifted = |hub: &Hub| status(hub).conditions.iter().any(|it| it.reason == "Drifted");
    assert!(is_drifted(&hub), "{:?}", status(&hub));
    assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"), "{}", hub.message());

    let elsewhere = map("c", "1").replace("\n  name: c", "\n  name: c\n  namespace: absent");
    hub.commit_base(2, &format!("{}---\n{elsewhere}", map("b", "1")));
    assert!(is_drifted(&hub), "{:?}", status(&hub));
    let told = hub.commit(&[("a.yaml", &map("a", "3"))]);
    assert!(told.contains("is not ready: Drifted"), "not all objects of the base exist: {told}");
}

#[test]
fn a_cycle_of_dependencies_is_refused_by_its_names() {
    let mut hub = hub(OTHER);
    hub.put("base", json!({"url": OTHER, "dependsOn": [{"name": "middle"}]}));
    hub.put("middle", json!({"url": OTHER, "dependsOn": [{"name": "fleet"}]}));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert_eq!(
        message,
        "Stalled DependencyCycle: spec.dependsOn forms a cycle: config/fleet -> config/base -> config/middle -> config/fleet; \
         remove one of these dependencies; nothing has been applied yet"
    );
    hub.put("middle", json!({"url": OTHER}));
    hub.world.commit(
        &Key::namespaced("config", "middle"),
        &format!("{:040x}", 9),
        [("m.yaml".to_owned(), map("m", "1").as_bytes())].into_iter().collect(),
    );
    hub.commit_base(9, &map("b", "1"));
    assert!(hub.message().starts_with("Ready"), "{}", hub.message());
}

#[test]
fn a_dependency_that_does_not_exist_is_named() {
    let mut hub = Hub::new(json!({"dependsOn": [{"name": "typo"}]}));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert!(message.contains("waits for the ConfigRepo config/typo, which does not exist"), "{message}");
}

#[test]
fn config_repos_that_wait_for_each_other_report_it_at_once() {
    let repo = |name: &str, url: &str| {
        format!(
            "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: ConfigRepo\nmetadata: {{name: {name}}}\nspec: {{url: '{url}'}}\n"
        )
    };
    let mut hub = Hub::new(json!({"takeover": "Always"}));
    hub.put("base", json!({"url": OTHER, "takeover": "Always"}));
    hub.commit(&[("base.yaml", &repo("base", OTHER))]);
    hub.commit_base(7, &repo("fleet", SAME));
    let message = hub.message();
    assert!(
        message.starts_with("Stalled DependencyCycle: 000000000000 is applied, but these ConfigRepos wait for each other: config/fleet -> config/base -> config/fleet"),
        "{message}"
    );
    assert_eq!(hub.status().objects, Some(1));
}
