use super::*;
use api::names::INDEXED_LABELS;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn config_map(name: &str, resource_version: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: Some("ns".into()),
        name: Some(name.into()),
        resource_version: Some(resource_version.into()),
        labels: INDEXED_LABELS.first().map(|label| [((*label).to_owned(), "p".to_owned())].into()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn names(caches: &Caches, query: Query<'_>) -> Vec<String> {
    caches.list::<ConfigMap>(query).unwrap().iter().map(|c| c.metadata.name.clone().unwrap()).collect()
}

#[test]
fn absence_means_nothing_before_the_first_list() {
    let mut caches = Caches::default();
    assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).is_err());
    caches.apply(Site::Hub, Delta::Seen(config_map("a", "1")));
    assert!(caches.list::<ConfigMap>(Query::ALL).is_err());
    caches.replace(Site::Hub, vec![config_map("b", "2")], "3");
    assert_eq!(names(&caches, Query::ALL), ["b"]);
}

#[test]
fn a_write_is_visible_before_its_watch_event_and_not_undone_by_older_ones() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
    assert!(caches.apply(Site::Hub, Delta::Written(config_map("a", "5"))).is_some());
    assert!(caches.apply(Site::Hub, Delta::Seen(config_map("a", "3"))).is_none());
    caches.replace(Site::Hub, vec![config_map("a", "4")], "4");
    assert!(caches.apply(Site::Hub, Delta::Seen(config_map("a", "5"))).is_none());
    let cached = caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).unwrap().unwrap();
    assert_eq!(cached.metadata.resource_version.as_deref(), Some("5"));
}

#[test]
fn a_late_write_result_does_not_revive_a_deleted_object() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
    assert!(
        caches.apply(Site::Hub, Delta::<ConfigMap>::Gone(Key::namespaced("ns", "a"), "7".into())).is_some()
    );
    assert!(caches.apply(Site::Hub, Delta::Written(config_map("a", "6"))).is_none());
    assert!(names(&caches, Query::ALL).is_empty());
}

/// The event about our own write need not be parsed completely.
#[test]
fn a_cached_version_gives_the_same_result_as_its_object() {
    let key = Key::namespaced("ns", "a");
    let written = || {
        let mut caches = Caches::default();
        caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
        caches.apply(Site::Hub, Delta::Written(config_map("a", "5")));
        caches
    };
    for at in ["4", "5", "6", "v-one"] {
        let is_known = written().confirm::<ConfigMap>(Site::Hub, &key, version(at));
        assert_eq!(is_known, ["4", "5"].contains(&at), "{at}");
        let changes = written().apply(Site::Hub, Delta::Seen(config_map("a", at))).is_some();
        assert_eq!(changes, !is_known, "{at}");
    }
    let mut caches = written();
    assert!(caches.confirm::<ConfigMap>(Site::Hub, &key, 5));
    assert!(caches.apply(Site::Hub, Delta::Written(config_map("b", "5"))).is_none(), "it was deleted since");
    caches.apply(Site::Hub, unreadable("a", None));
    assert!(!caches.confirm::<ConfigMap>(Site::Hub, &key, 5), "its object may end that");
    assert!(caches.apply(Site::Hub, Delta::<ConfigMap>::Gone(key.clone(), "7".into())).is_some());
    assert!(!caches.confirm::<ConfigMap>(Site::Hub, &key, 5));
}

#[test]
fn an_object_written_after_the_list_survives_it() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, Vec::<ConfigMap>::new(), "1");
    caches.apply(Site::Hub, Delta::Written(config_map("new", "9")));
    caches.replace(Site::Hub, vec![config_map("a", "2")], "8");
    assert_eq!(names(&caches, Query::ALL), ["a", "new"]);
}

fn unreadable(name: &str, label: Option<&str>) -> Delta<ConfigMap> {
    let labels = label.map(|value| [(INDEXED_LABELS[0].to_owned(), value.to_owned())].into());
    Delta::Unreadable(Unreadable {
        key: Key::namespaced("ns", name),
        labels,
        reason: "data: not a map".into(),
    })
}

#[test]
fn an_unreadable_object_fails_the_reads_that_would_overlook_it_and_no_others() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
    caches.apply(Site::Hub, unreadable("b", Some("q")));
    let error = caches.list::<ConfigMap>(Query::ALL).unwrap_err();
    assert_eq!(error.to_string(), "cannot read ConfigMap ns/b: data: not a map");
    assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "b")).is_err());
    assert!(caches.list::<ConfigMap>(Query::label(INDEXED_LABELS[0], "q")).is_err());
    assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).is_ok());
    assert!(caches.list::<ConfigMap>(Query::namespace("other")).is_ok());
    assert_eq!(names(&caches, Query::label(INDEXED_LABELS[0], "p")), ["a"]);
    caches.apply(Site::Hub, Delta::Seen(config_map("b", "2")));
    assert_eq!(names(&caches, Query::ALL), ["a", "b"]);
}

#[test]
fn an_object_without_readable_labels_could_be_in_any_list_of_its_namespace() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
    caches.apply(Site::Hub, unreadable("b", None));
    assert!(caches.list::<ConfigMap>(Query::label("other", "p")).is_err());
    assert!(caches.list::<ConfigMap>(Query::label("other", "p").within("other")).is_ok());
}

#[test]
fn an_object_that_becomes_unreadable_is_listed_as_it_was_read_last() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1"), config_map("b", "1")], "1");
    caches.apply(Site::Hub, unreadable("b", Some("p")));
    assert_eq!(names(&caches, Query::ALL), ["a", "b"]);
    assert!(caches.get::<ConfigMap>(&Key::namespaced("ns", "b")).is_err());
    let refused = Unreadable { key: Key::namespaced("ns", "b"), ..Unreadable::default() };
    caches.kind_mut::<ConfigMap>(Site::Hub).replace(vec![Arc::new(config_map("a", "1"))], vec![refused], 3);
    assert_eq!(names(&caches, Query::ALL), ["a", "b"], "an unreadable object of a list is not gone");
}

#[test]
fn a_clone_does_not_see_later_changes() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1")], "1");
    let before = caches.clone();
    caches.apply(Site::Hub, Delta::Seen(config_map("b", "2")));
    caches.apply(Site::Hub, Delta::<ConfigMap>::Gone(Key::namespaced("ns", "a"), "3".into()));
    assert_eq!(
        (names(&before, Query::ALL), names(&caches, Query::ALL)),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    assert_eq!(names(&before, Query::label(INDEXED_LABELS[0], "p")), ["a"]);
}

#[test]
fn indexed_labels_and_namespaces_select() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1"), config_map("b", "2")], "2");
    let label = INDEXED_LABELS[0];
    assert_eq!(names(&caches, Query::label(label, "p").within("ns")), ["a", "b"]);
    assert!(names(&caches, Query::label(label, "p").within("other")).is_empty());
    assert!(names(&caches, Query::label(label, "q")).is_empty());
    assert!(names(&caches, Query::namespace("n")).is_empty());
    caches.apply(Site::Hub, Delta::<ConfigMap>::Gone(Key::namespaced("ns", "a"), "3".into()));
    assert_eq!(names(&caches, Query::label(label, "p")), ["b"]);
    assert_eq!(names(&caches, Query::label("unindexed", "p")), [""; 0]);
}

#[test]
fn an_object_that_cannot_be_read_costs_no_wake_of_another() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "1"), config_map("b", "1")], "1");
    caches.apply(Site::Hub, unreadable("never-read", Some("p")));
    assert!(caches.list::<ConfigMap>(Query::ALL).is_err(), "a decision waits");
    assert_eq!(caches.keys::<ConfigMap>(Query::ALL).len(), 2, "a mapping function wakes the others");
}

/// After etcd is restored from a backup, objects that were created later are gone, and edited objects have lower
/// versions.
#[test]
fn a_list_of_a_restored_server_replaces_all_cached_objects() {
    let labeled = |name: &str, version: &str, data: &str| {
        let data = Some([("key".to_owned(), data.to_owned())].into());
        ConfigMap { data, ..config_map(name, version) }
    };
    let mut caches = Caches::default();
    let newest =
        vec![labeled("changed", "90", "new"), labeled("same", "40", "a"), config_map("phantom", "95")];
    caches.replace(Site::Hub, newest, "100");
    caches.apply(Site::Hub, Delta::Written(config_map("own", "110")));

    let restored = vec![labeled("changed", "30", "old"), labeled("same", "40", "b")];
    let changes = caches.replace(Site::Hub, restored, "50");
    assert_eq!(names(&caches, Query::ALL), ["changed", "same"]);
    assert_eq!(changes.len(), 4);
    for (name, data) in [("changed", "old"), ("same", "b")] {
        let cached = caches.get::<ConfigMap>(&Key::namespaced("ns", name)).unwrap().unwrap();
        assert_eq!(cached.data.as_ref().unwrap()["key"], data);
    }
    // The server continues from this version.
    assert!(caches.apply(Site::Hub, Delta::Written(config_map("own", "51"))).is_some());
    assert!(caches.apply(Site::Hub, Delta::Seen(config_map("changed", "52"))).is_some());
}

/// By the next list, the server may have passed the versions that were seen.
#[test]
fn a_list_holds_for_all_that_is_not_newer_than_it() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "90")], "100");
    let changes = caches.replace(Site::Hub, vec![config_map("a", "30")], "120");
    assert_eq!(changes.len(), 1);
    let cached = caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).unwrap().unwrap();
    assert_eq!(cached.metadata.resource_version.as_deref(), Some("30"));
}

/// An aggregated API server may send versions that are not numbers.
#[test]
fn versions_that_are_not_numbers_follow_the_order_of_the_watch() {
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![config_map("a", "v-one")], "v-one");
    assert!(caches.apply(Site::Hub, Delta::Seen(config_map("a", "v-two"))).is_some());
    assert!(caches.apply(Site::Hub, Delta::Written(config_map("a", "v-zero"))).is_none());
    let cached = caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).unwrap().unwrap();
    assert_eq!(cached.metadata.resource_version.as_deref(), Some("v-two"));
    caches.replace(Site::Hub, vec![config_map("a", "v-three")], "v-three");
    let cached = caches.get::<ConfigMap>(&Key::namespaced("ns", "a")).unwrap().unwrap();
    assert_eq!(cached.metadata.resource_version.as_deref(), Some("v-three"));
}
