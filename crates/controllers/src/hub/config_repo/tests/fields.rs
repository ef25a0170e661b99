//! Tests fields that other appliers own, and fields that other clients set.

use super::*;

fn entries(data: &str, annotation: &str) -> String {
    let annotations =
        if annotation.is_empty() { String::new() } else { format!("  annotations: {{{annotation}}}\n") };
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n{annotations}data: {data}\n")
}

impl Hub {
    fn apply_as(&mut self, manager: &str, data: Value) -> String {
        let metadata = json!({"namespace": "config", "name": "a"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.world.apply_as(manager, object(map)).unwrap();
        self.run()
    }

    fn entries(&self) -> Value {
        json!(self.world.get::<ConfigMap>(&Key::namespaced("config", "a")).unwrap().data)
    }

    /// Commits and applies the ConfigMap.
    fn put_entries(&mut self, data: &str, annotation: &str) {
        let message = self.commit(&[("a.yaml", &entries(data, annotation))]);
        assert!(message.starts_with("Ready"), "{message}");
    }
}

#[test]
fn a_field_that_kubectl_applied_is_removed_when_it_leaves_the_repository() {
    let mut hub = Hub::new(json!({}));
    hub.apply_as("kubectl", json!({"k": "1", "more": "1"}));
    hub.put_entries("{k: '1', more: '1'}", "");
    hub.put_entries("{k: '1'}", "");
    assert_eq!(hub.entries(), json!({"k": "1"}));
}

#[test]
fn a_field_that_kubectl_applied_stays_with_kubectl_under_the_rule_merge() {
    let mut hub = Hub::new(json!({}));
    let merge = "gitops.wheelwright.dev/apply: Merge";
    hub.apply_as("kubectl", json!({"k": "1", "more": "1"}));
    hub.repo(json!({"takeover": "Always"}), json!({}));
    hub.put_entries("{k: '1', more: '1'}", merge);
    hub.put_entries("{k: '2'}", merge);
    assert_eq!(hub.entries(), json!({"k": "2", "more": "1"}));
}

#[test]
fn an_ignored_field_stays_as_others_set_it() {
    let mut hub = Hub::new(json!({}));
    let ignore = "gitops.wheelwright.dev/ignore-fields: /data/k /data/absent";
    hub.put_entries("{k: '1', j: '1'}", ignore);
    assert_eq!(hub.entries(), json!({"k": "1", "j": "1"}), "it is created with the values of the repository");
    hub.apply_as("scaler", json!({"k": "9"}));
    assert_eq!(hub.status().drift, None);
    hub.put_entries("{k: '2', j: '2'}", ignore);
    assert_eq!(hub.entries(), json!({"k": "9", "j": "2"}));
    hub.apply_as("scaler", json!({"k": "10"}));
    assert_eq!(hub.entries(), json!({"k": "10", "j": "2"}), "the field belongs to the other alone");
    hub.apply_as("person", json!({"j": "9"}));
    assert_eq!(hub.entries(), json!({"k": "10", "j": "2"}), "the other fields are still corrected");
}

#[test]
fn the_spec_names_ignored_fields_of_many_objects_and_a_change_of_it_counts_at_once() {
    let ignore = |kind: &str| json!({"ignore": [{"kind": kind, "paths": ["/data/k"]}]});
    let mut hub = Hub::new(ignore("ConfigMap"));
    hub.put_entries("{k: '1'}", "");
    hub.apply_as("person", json!({"k": "9"}));
    assert_eq!(hub.entries(), json!({"k": "9"}));
    hub.repo(ignore("Secret"), json!({}));
    hub.run();
    assert_eq!(hub.entries(), json!({"k": "1"}));
}

#[test]
fn an_invalid_path_is_refused_with_an_example() {
    let mut hub = Hub::new(json!({}));
    for (path, why) in [
        ("spec.replicas", "\"spec.replicas\" is not a field path; write a path such as /spec/replicas"),
        ("/metadata/name", "\"/metadata/name\" cannot be ignored, because it identifies the object"),
    ] {
        let annotation = format!("gitops.wheelwright.dev/ignore-fields: {path}");
        let message = hub.commit(&[("a.yaml", &entries("{k: '1'}", &annotation))]);
        assert!(message.contains(why), "{message}");
    }
    let mut hub = Hub::new(json!({"ignore": [{"paths": ["no path"]}]}));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert!(
        message.starts_with("Stalled InvalidSpec: spec.ignore: \"no path\" is not a field path"),
        "{message}"
    );
}

#[test]
fn a_fight_names_the_other_client_and_its_fields_and_ends() {
    let mut hub = Hub::new(json!({}));
    hub.put_entries("{k: '1'}", "");
    for _ in 0..400 {
        let message = hub.apply_as("other-tool", json!({"k": "9"}));
        if message.starts_with("Stalled Fight") {
            break;
        }
        hub.world.run_for(SignedDuration::from_secs(20)).unwrap();
    }
    let message = hub.message();
    assert!(
        message.starts_with("Stalled Fight: ConfigMap config/a was changed on the hub and corrected 10 times; other-tool sets .data.k; it is no longer corrected."),
        "{message}"
    );
    hub.world.run_for(SignedDuration::from_mins(60)).unwrap();
    assert_eq!(hub.entries(), json!({"k": "9"}));
    hub.repo(json!({}), json!({"gitops.wheelwright.dev/reconcile-at": "now"}));
    assert!(hub.run().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.entries(), json!({"k": "1"}));
}
