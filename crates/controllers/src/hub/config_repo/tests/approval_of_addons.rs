//! Tests the mark on a ClusterManagementAddOn whose deletion a person approved.

use super::*;
use crate::addon_deletion;
use crate::addon_removal::AddOnDeletion;
use crate::hub::config_repo::deletion::mark_approved;
use api::addon::v1alpha1::ClusterManagementAddOn;
use engine::sync::Deletion;
use object::{Kind, Metadata as _, ObjectRef};
use reconcile::{Precondition, Site, Subresource};

pub(super) const ADDON: &str = "{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: a}, spec: {}}";

fn addon(hub: &Hub) -> ClusterManagementAddOn {
    hub.world.get(&Key::cluster("a")).unwrap()
}

#[test]
fn an_approval_of_a_deletion_that_did_not_happen_ends_with_the_next_commit_that_has_the_addon() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", ADDON)]);
    // The operator stopped between the mark and the deletion.
    let uid = addon(&hub).uid().to_owned();
    let mark = json!({names::REMOVAL_DECIDED_ANNOTATION: uid});
    hub.apply(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
        "metadata": {"name": "a", "annotations": mark}, "spec": {},
    }));
    let told = hub.commit(&[("a.yaml", ADDON), ("b.yaml", &map("b", "1"))]);
    assert!(told.starts_with("Ready"), "{told}");
    assert_eq!(addon(&hub).annotation(names::REMOVAL_DECIDED_ANNOTATION), None);
}

#[test]
fn an_approval_counts_for_the_object_that_it_was_given_for() {
    for (uid, want) in
        [("u", AddOnDeletion::Approved), ("v", AddOnDeletion::Budgeted), ("true", AddOnDeletion::Budgeted)]
    {
        let metadata = json!({
            "name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [names::ADDON_REMOVAL_FINALIZER], "annotations": {names::REMOVAL_DECIDED_ANNOTATION: uid},
        });
        let addon = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        assert_eq!(addon_deletion::of(&addon), Some(want), "{uid}");
    }
}

#[test]
fn an_approved_deletion_marks_the_addon_that_was_read_and_no_other_deletion_marks_anything() {
    fn deleted<K: Kind>(is_approved: bool) -> Deletion {
        Deletion { target: ObjectRef::of::<K>(Key::cluster("a")), uid: "u".into(), is_approved }
    }
    let mark = json!({"metadata": {"annotations": {names::REMOVAL_DECIDED_ANNOTATION: "u"}}});
    let marked = Action::Patch {
        site: Site::Hub,
        target: ObjectRef::of::<ClusterManagementAddOn>(Key::cluster("a")),
        subresource: Subresource::None,
        patch: mark.as_object().cloned().unwrap(),
        precondition: Precondition { uid: "u".into(), ..Precondition::default() },
        impersonate: None,
    };
    assert_eq!(mark_approved(&deleted::<ClusterManagementAddOn>(true)), Some(marked));
    assert_eq!(mark_approved(&deleted::<ClusterManagementAddOn>(false)), None, "nobody approved it");
    assert_eq!(mark_approved(&deleted::<ManifestWorkReplicaSet>(true)), None, "it is no add-on");
}
