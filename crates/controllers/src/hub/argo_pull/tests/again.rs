//! Tests an Application that is created again after somebody removed the finalizers of the previous one.

use super::*;
use object::{Object, ObjectRef};
use reconcile::{Lookup, LookupAnswer};

const FORMER: &str = "9f8e7d6c-0000-0000-0000-000000000000";

fn with_uid(uid: &str) -> Application {
    application(&json!({"metadata": {"uid": uid}}))
}

/// Returns the work of the previous Application on a cluster.
fn of_former(cluster: &str) -> ManifestWork {
    let mut work = work(&with_uid(FORMER));
    work.metadata.namespace = Some(cluster.to_owned());
    work
}

/// Returns the deleted works if the API server has an Application with this uid.
fn deletions(works: Vec<ManifestWork>, uid: Option<&str>) -> Vec<String> {
    let cached = with_uid(UID);
    let mut caches = caches(&cached, works);
    let live = uid.map(|uid| Arc::new(Object::from_typed(&with_uid(uid))));
    let lookup = Lookup::Object(ObjectRef::of::<Application>(Key::of(&cached)));
    caches.set_answer(lookup, Ok(LookupAnswer::Object(live)));
    let actions = planned(&cached, &caches).steps.concat().into_iter();
    let deleted = actions.filter_map(|action| match action {
        Action::Delete { target, .. } => Some(target.key.to_string()),
        _ => None,
    });
    deleted.collect()
}

#[test]
fn the_old_work_is_deleted_once_the_cluster_has_the_new_one() {
    let new = || work(&with_uid(UID));
    assert_eq!(deletions(vec![of_former("c1"), applied(new())], Some(UID)), ["c1/shop-9f8e7"]);
    assert_eq!(deletions(vec![of_former("c2")], Some(UID)), ["c2/shop-9f8e7"], "another cluster");
    let none: [&str; 0] = [];
    assert_eq!(deletions(vec![of_former("c1")], Some(UID)), none, "the new work does not exist");
    assert_eq!(deletions(vec![of_former("c1"), new()], Some(UID)), none, "the agent has not applied it");
}

#[test]
fn a_work_stays_unless_its_application_was_deleted() {
    let none: [&str; 0] = [];
    for uid in [Some(FORMER), None] {
        assert_eq!(deletions(vec![of_former("c2")], uid), none, "the cache is not what the server has");
    }
    for metadata in [
        json!({"name": "shop-other"}),
        json!({"labels": {APPLICATION_UID_LABEL: null}}),
        json!({"annotations": {"apps.open-cluster-management.io/hub-application-name": "cart"}}),
    ] {
        let mut other = json!(of_former("c2"));
        json_patch::merge(&mut other, &json!({"metadata": metadata}));
        assert_eq!(deletions(vec![typed(other)], Some(UID)), none, "{metadata}");
    }
}
