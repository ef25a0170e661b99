//! Tests the fields of a plan that waits for an approval.

use super::approval::approve;
use super::*;
use api::cluster::v1beta1::{Placement, TolerationOperator};
use api::gitops::v1alpha1::{ChangedField, HeldChanges, ListedObjects, SharedChange};

/// Returns a hub to which approved files are applied.
fn applied(files: &[(&str, &str)]) -> Hub {
    let mut hub = Hub::new(json!({"planApproval": "Required"}));
    hub.commit(files);
    let plan = hub.status().held_plan;
    let told = approve(&mut hub, &plan);
    assert!(told.starts_with("Ready"), "{told}");
    hub
}

fn held(hub: &Hub) -> HeldChanges {
    hub.status().held_changes.unwrap()
}

/// Returns a line for each change, sorted: the number of objects, the first one, and its fields.
fn lines(listed: &Option<ListedObjects>) -> Vec<String> {
    let line = |change: &SharedChange| {
        let field = |field: &ChangedField| format!("{}: {} to {}", field.path, field.before, field.after);
        let fields: Vec<_> = change.fields.iter().map(field).collect();
        format!("{} {}: {}", change.total, change.objects[0].name, fields.join("; "))
    };
    let mut lines: Vec<_> = listed.iter().flat_map(|listed| &listed.changes).map(line).collect();
    lines.sort();
    lines
}

fn maps(count: usize, data: &str) -> String {
    let maps: Vec<_> = (0..count).map(|n| map(&format!("m{n:02}"), data)).collect();
    maps.join("---\n")
}

fn secret(name: &str, password: &str) -> String {
    format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, data: {{password: {password}}}}}")
}

#[test]
fn a_held_plan_has_the_fields_that_it_changes_once_for_objects_with_equal_changes() {
    let own = "{apiVersion: v1, kind: ConfigMap, metadata: {name: own}, data: {k: '1', gone: x}}";
    let (one, other) = (secret("one", "YQ=="), secret("other", "YQ=="));
    let mut hub = applied(&[
        ("maps.yaml", &maps(12, "1")),
        ("own.yaml", own),
        ("one.yaml", &one),
        ("other.yaml", &other),
    ]);
    // A field of another client stays.
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "own"}, "data": {"theirs": "x"}}));
    let own = "{apiVersion: v1, kind: ConfigMap, metadata: {name: own}, data: {k: '1', new: 'y'}}";
    let (one, other) = (secret("one", "Yg=="), secret("other", "Yg=="));
    let new = map("new", "1");
    hub.commit(&[
        ("maps.yaml", &maps(12, "2")),
        ("own.yaml", own),
        ("one.yaml", &one),
        ("other.yaml", &other),
        ("new.yaml", &new),
    ]);
    let HeldChanges { created, changed, .. } = held(&hub);
    assert_eq!(
        lines(&changed),
        [
            "1 one: data.password: \"(hidden)\" to \"(hidden)\"",
            "1 other: data.password: \"(hidden)\" to \"(hidden)\"",
            "1 own: data.gone: \"x\" to ; data.new:  to \"y\"",
            "12 m00: data.k: \"1\" to \"2\"",
        ]
    );
    let changed = changed.unwrap();
    assert_eq!((changed.total, changed.changes[0].total, changed.changes[0].objects.len()), (15, 12, 10));
    assert_eq!(lines(&created), ["1 new: data.k:  to \"1\""]);

    // The apply overwrites a value that another client has set.
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "m00"}, "data": {"k": "3"}}));
    hub.run();
    let told = lines(&held(&hub).changed);
    assert!(told.contains(&"1 m00: data.k: \"3\" to \"2\"".to_owned()), "{told:?}");
    assert!(told.contains(&"11 m01: data.k: \"1\" to \"2\"".to_owned()), "{told:?}");
}

/// A list that an apply replaces as a whole has defaults that the commit does not contain.
#[test]
fn a_held_plan_does_not_remove_the_defaults_of_the_items_of_a_list() {
    let placement = |key: &str| {
        format!(
            "{{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {{name: all}}, \
             spec: {{tolerations: [{{key: {key}}}]}}}}"
        )
    };
    let mut hub = applied(&[("placement.yaml", &placement("a"))]);
    let live = hub.world.get::<Placement>(&Key::namespaced("config", "all")).unwrap();
    assert_eq!(live.spec.tolerations[0].operator, TolerationOperator::Equal);
    hub.commit(&[("placement.yaml", &placement("b"))]);
    assert_eq!(lines(&held(&hub).changed), ["1 all: spec.tolerations[0].key: \"a\" to \"b\""]);
}

#[test]
fn a_held_plan_does_not_show_the_values_of_an_object_that_it_takes_over() {
    let mut hub = Hub::new(json!({"planApproval": "Required", "takeover": "Always"}));
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "there"}, "data": {"k": "of others"}}));
    hub.commit(&[("there.yaml", &map("there", "1"))]);
    assert_eq!(lines(&held(&hub).created), ["1 there: data.k:  to \"1\""]);
    assert!(!serde_json::to_string(&hub.status()).unwrap().contains("of others"));
}

#[test]
fn the_fields_of_a_held_plan_are_limited_in_number_and_size() {
    let map = |object: usize| {
        let field = |field: usize| format!("k{field:02}: \"{object} {}\"", "long ".repeat(60));
        let data: Vec<_> = (0..30).map(field).collect();
        let data = data.join(", ");
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m{object:02}}}, data: {{{data}}}}}")
    };
    let maps: Vec<_> = (0..50).map(map).collect();
    let mut hub = Hub::new(json!({"planApproval": "Required"}));
    hub.commit(&[("maps.yaml", &maps.join("\n---\n"))]);
    let created = held(&hub).created.unwrap();
    let size = serde_json::to_string(&created.changes).unwrap().len();
    assert!(created.total == 50 && (2..20).contains(&created.changes.len()), "{}", created.changes.len());
    assert!((8 << 10..17 << 10).contains(&size), "{size} bytes");
    let SharedChange { fields, more_fields, .. } = &created.changes[0];
    assert_eq!((fields.len(), *more_fields, fields[0].after.chars().count()), (20, 10, 200));
}

#[test]
fn long_values_of_a_held_plan_begin_before_their_difference() {
    let long = |end: &str| map("long", &format!("{}{end}", "same ".repeat(100)));
    let mut hub = applied(&[("long.yaml", &long("one"))]);
    hub.commit(&[("long.yaml", &long("two"))]);
    let changed = held(&hub).changed.unwrap();
    let same = "same ".repeat(8);
    let ChangedField { before, after, .. } = &changed.changes[0].fields[0];
    assert_eq!((before.as_str(), after.as_str()), (&*format!("…{same}one\""), &*format!("…{same}two\"")));
}
