//! Tests the annotation that controls whether and when an object is applied.

use super::*;

fn ruled(name: &str, data: &str, rule: &str) -> String {
    map(name, data).replace(
        &format!("  name: {name}\n"),
        &format!("  name: {name}\n  annotations: {{gitops.wheelwright.dev/apply: {rule}}}\n"),
    )
}

impl Hub {
    fn edit(&mut self, name: &str, data: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": name}, "data": {"k": data}}));
        self.run();
    }
}

#[test]
fn an_object_that_is_created_once_is_never_changed_and_is_deleted_when_it_leaves_the_repository() {
    let mut hub = Hub::new(json!({}));
    let (kept, rest) = (ruled("once", "1", "IfNotPresent"), map("a", "1"));
    assert!(hub.commit(&[("a.yaml", &rest), ("once.yaml", &kept)]).starts_with("Ready"));
    hub.edit("once", "theirs");
    assert!(
        hub.commit(&[("a.yaml", &rest), ("once.yaml", &ruled("once", "2", "IfNotPresent"))])
            .starts_with("Ready")
    );
    assert_eq!(hub.data("once").as_deref(), Some("theirs"));
    assert_eq!(hub.owned(), ["a", "once"]);
    hub.commit(&[("a.yaml", &rest)]);
    assert_eq!(hub.names(), ["a"]);
}

#[test]
fn an_object_of_others_that_would_be_created_once_is_neither_taken_nor_deleted() {
    let mut hub = Hub::new(json!({}));
    hub.edit("once", "theirs");
    let files = [("a.yaml", map("a", "1")), ("once.yaml", ruled("once", "1", "IfNotPresent"))];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    assert!(hub.commit(&files).starts_with("Ready"));
    assert_eq!((hub.data("once").as_deref(), hub.owned()), (Some("theirs"), vec!["a".to_owned()]));
    hub.commit(&files[..1]);
    assert_eq!(hub.names(), ["a", "once"]);
}

#[test]
fn an_ignored_object_is_neither_applied_nor_deleted() {
    let mut hub = Hub::new(json!({}));
    let rest = map("a", "1");
    assert!(hub.commit(&[("a.yaml", &rest), ("x.yaml", &ruled("x", "1", "Ignore"))]).starts_with("Ready"));
    assert_eq!(hub.names(), ["a"]);
    assert!(hub.commit(&[("a.yaml", &rest), ("x.yaml", &map("x", "1"))]).starts_with("Ready"));
    assert!(hub.commit(&[("a.yaml", &rest), ("x.yaml", &ruled("x", "2", "Ignore"))]).starts_with("Ready"));
    hub.edit("x", "theirs");
    assert_eq!(
        (hub.data("x").as_deref(), hub.owned()),
        (Some("theirs"), vec!["a".to_owned(), "x".to_owned()])
    );
}

#[test]
fn a_rule_that_does_not_exist_is_refused_with_those_that_do() {
    let mut hub = Hub::new(json!({}));
    let message = hub.commit(&[("x.yaml", &ruled("x", "1", "Sometimes"))]);
    assert!(
        message.contains("must be Always, Merge, IfNotPresent or Ignore, not \"Sometimes\""),
        "{message}"
    );
}

#[test]
fn a_field_that_cannot_change_is_refused_with_a_hint() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &format!("{}immutable: true\n", map("a", "1")))]);
    let message = hub.commit(&[("a.yaml", &format!("{}immutable: true\n", map("a", "2")))]);
    assert!(
        message.contains(
            "give the object another name, or annotate it in the repository with gitops.wheelwright.dev/force: enabled"
        ),
        "{message}"
    );
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn a_map_that_an_apply_cannot_empty_is_refused_with_a_hint() {
    let mut hub = Hub::new(json!({}));
    let config = |selector: &str| {
        format!(
            "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: AddOnDeploymentConfig\nmetadata:\n  name: a\nspec:\n  \
             nodePlacement: {{nodeSelector: {selector}}}\n"
        )
    };
    let message = hub.commit(&[("a.yaml", &config("{disk: fast}"))]);
    assert!(message.starts_with("Ready"), "{message}");
    let message = hub.commit(&[("a.yaml", &config("{}"))]);
    assert!(
        message.contains("an apply cannot empty a map of a custom resource: leave the field out"),
        "{message}"
    );
}

fn annotated(text: &str, annotation: &str) -> String {
    text.replacen(
        "metadata:\n",
        &format!("metadata:\n  annotations: {{gitops.wheelwright.dev/{annotation}}}\n"),
        1,
    )
}

#[test]
fn an_object_with_a_field_that_cannot_change_is_created_again_if_its_annotation_says_so() {
    let mut hub = Hub::new(json!({}));
    let text = |data: &str| annotated(&format!("{}immutable: true\n", map("a", data)), "force: enabled");
    hub.commit(&[("a.yaml", &text("1"))]);
    let uid = |hub: &Hub| hub.world.get::<ConfigMap>(&Key::namespaced("config", "a")).unwrap().metadata.uid;
    let first = uid(&hub);
    hub.commit(&[("a.yaml", &text("2"))]);
    hub.world.run_for(SignedDuration::from_secs(30)).unwrap();
    assert!(hub.message().starts_with("Ready"), "{}", hub.message());
    assert_eq!((hub.data("a").as_deref(), uid(&hub) == first), (Some("2"), false));
    assert_eq!(hub.status().recreate, []);
}

#[test]
fn an_object_that_holds_others_is_never_created_again() {
    let mut hub = Hub::new(json!({}));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: n\n";
    let message = hub.commit(&[("n.yaml", &annotated(namespace, "force: enabled"))]);
    assert!(message.contains("deleting it would delete more than the object"), "{message}");
    let add_on = "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\nmetadata:\n  name: m\n";
    let message = hub.commit(&[("m.yaml", &annotated(add_on, "force: enabled"))]);
    assert!(message.contains("deleting it would delete more than the object"), "{message}");
    let message = hub.commit(&[("a.yaml", &annotated(&map("a", "1"), "force: yes please"))]);
    assert!(
        message.contains("of ConfigMap config/a must be enabled or disabled, not \"yes please\""),
        "{message}"
    );
}

#[test]
fn a_deletion_that_asks_for_an_approval_waits_for_it() {
    let mut hub = Hub::new(json!({}));
    let (kept, rest) = (annotated(&map("precious", "1"), "prune: confirm"), map("a", "1"));
    hub.commit(&[("a.yaml", &rest), ("p.yaml", &kept)]);
    let message = hub.commit(&[("a.yaml", &rest)]);
    assert!(message.starts_with("Stalled DeletionsHeld"), "{message}");
    assert!(
        message.contains(
            "the annotation gitops.wheelwright.dev/prune of ConfigMap config/precious asks for an approval"
        ),
        "{message}"
    );
    assert_eq!(hub.names(), ["a", "precious"]);
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({}), json!({"gitops.wheelwright.dev/approve-deletions": approval}));
    hub.run();
    assert_eq!(hub.names(), ["a"]);
}
