//! Tests the deletion of a ClusterManagementAddOn: what delays it, and what it reports while it waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::addon_removal::{Fleet, NOW, addon, cluster};
use super::unreadable::refuse;
use crate::addon_deletion::{of, release, report};
use crate::addon_reads::OnClusters;
use crate::addon_removal::AddOnDeletion;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::names::ADDON_REMOVAL_FINALIZER;
use object::{Key, Kind, Object, ObjectRef};
use reconcile::{Action, Caches, Lookup, LookupAnswer, Read};

const ORPHAN: &str = "orphan";

/// Returns the ClusterManagementAddOn `a`, which is being deleted.
fn deleted(finalizers: &[&str]) -> ClusterManagementAddOn {
    let metadata = json!({
        "name": "a", "resourceVersion": "1", "finalizers": finalizers,
        "deletionTimestamp": "2023-01-01T00:00:00Z",
    });
    let status = json!({"installProgressions": [{"namespace": "default", "name": "fleet"}]});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
}

/// Sets the API server's answer on whether an object exists.
fn answer<K: Kind>(caches: &mut Caches, key: Key, exists: bool) {
    let found = exists.then(|| Arc::new(Object::default()));
    caches.set_answer(Lookup::Object(ObjectRef::of::<K>(key)), Ok(LookupAnswer::Object(found)));
}

/// Plans the release of an add-on that is on no cluster according to the lists.
fn release_unseen(cma: &ClusterManagementAddOn, view: &Caches) -> Read<Option<Action>> {
    release(cma, &OnClusters::default(), view)
}

#[test]
fn clusters_lose_a_deleted_addon_only_if_our_finalizer_holds_it_and_its_dependents_are_deleted() {
    for (finalizers, want) in [
        (vec![ADDON_REMOVAL_FINALIZER], Some(AddOnDeletion::Budgeted)),
        (vec![ADDON_REMOVAL_FINALIZER, "other"], Some(AddOnDeletion::Budgeted)),
        (vec![], None),
        (vec!["other"], None),
        (vec![ORPHAN], None),
        (vec![ADDON_REMOVAL_FINALIZER, ORPHAN], None),
    ] {
        assert_eq!(of(&deleted(&finalizers)), want, "{finalizers:?}");
    }
    let mut living = deleted(&[ADDON_REMOVAL_FINALIZER]);
    living.metadata.deletion_timestamp = None;
    assert_eq!(of(&living), None);
}

#[test]
fn a_deleted_addon_is_released_once_no_cluster_has_it() {
    let cma = deleted(&[ADDON_REMOVAL_FINALIZER]);
    let released: Read<_> = Ok(Action::remove_finalizers(&cma, &[ADDON_REMOVAL_FINALIZER]));
    assert!(released.as_ref().is_ok_and(Option::is_some));
    assert_eq!(release_unseen(&cma, &Fleet::default().caches()), released, "there are no clusters");
    let mut view = Fleet { clusters: vec![cluster("c1"), cluster("c2")], ..Fleet::default() }.caches();
    let of_cluster = |name: &str| Key::namespaced(name, "a");
    answer::<ManagedClusterAddOn>(&mut view, of_cluster("c1"), false);
    assert!(release_unseen(&cma, &view).unwrap_err().is_coming(), "c2 is not answered yet");
    answer::<ManagedClusterAddOn>(&mut view, of_cluster("c2"), true);
    assert_eq!(release_unseen(&cma, &view), Ok(None), "the list left the add-on of c2 out");
    answer::<ManagedClusterAddOn>(&mut view, of_cluster("c2"), false);
    assert_eq!(release_unseen(&cma, &view), released);
}

#[test]
fn an_addon_of_a_cluster_that_is_on_no_list_holds_the_deletion_while_the_hub_has_the_cluster() {
    let cma = deleted(&[ADDON_REMOVAL_FINALIZER]);
    let mut view = Fleet { addons: vec![addon("c1")], ..Fleet::default() }.caches();
    answer::<ManagedCluster>(&mut view, Key::cluster("c1"), true);
    assert_eq!(release_unseen(&cma, &view), Ok(None));
    answer::<ManagedCluster>(&mut view, Key::cluster("c1"), false);
    assert!(release_unseen(&cma, &view).unwrap().is_some());
}

/// Returns the add-on on `c1`, as in the lists.
fn on_a_cluster() -> OnClusters {
    let addon: ManagedClusterAddOn = serde_json::from_value(addon("c1")).unwrap();
    OnClusters { addons: vec![Arc::new(addon)], unreadable: BTreeSet::new() }
}

#[test]
fn one_cluster_with_the_addon_or_an_unreadable_one_holds_the_deletion() {
    let cma = deleted(&[ADDON_REMOVAL_FINALIZER]);
    let view = Fleet::default().caches();
    assert_eq!(release(&cma, &on_a_cluster(), &view), Ok(None));
    let unreadable = OnClusters { addons: Vec::new(), unreadable: ["c1".to_owned()].into() };
    assert_eq!(release(&cma, &unreadable, &view), Ok(None));
}

#[test]
fn an_addon_whose_dependents_stay_is_released_at_once() {
    let cma = deleted(&[ADDON_REMOVAL_FINALIZER, ORPHAN]);
    let released = Action::remove_finalizers(&cma, &[ADDON_REMOVAL_FINALIZER]);
    assert!(released.is_some());
    assert_eq!(release(&cma, &on_a_cluster(), &Fleet::default().caches()), Ok(released));
}

/// Returns the condition of a deletion whose add-on is on `c1` and `c2`, while `c9` is unreadable.
fn reported(cma: &ClusterManagementAddOn, policy: &Value) -> Value {
    let mut view = Fleet::new(vec![addon("c1"), addon("c2")], policy).caches();
    refuse::<ManagedCluster>(&mut view, Key::cluster("c9"));
    let plan = serde_json::to_value(report(cma, &view, NOW).unwrap()).unwrap();
    plan["status"]["patch"]["status"]["installProgressions"][0]["conditions"][0].clone()
}

#[test]
fn a_deletion_that_waits_says_for_how_many_clusters_or_for_which_approval() {
    let cma = deleted(&[ADDON_REMOVAL_FINALIZER]);
    let leaving = reported(&cma, &json!({"removalBudget": "100%"}));
    assert_eq!(
        ["type", "status", "reason", "message"].map(|field| leaving[field].as_str().unwrap()),
        ["Progressing", "True", "Deleting", "the add-on is being deleted; it is still on 3 clusters"]
    );
    let removal = reported(&cma, &json!({"removalBudget": 0}));
    let message = removal["message"].as_str().unwrap();
    let begin =
        "the add-on is being deleted; its removal from 2 clusters is on hold; to allow it, add remove/";
    assert!(message.starts_with(begin), "{message}");
    assert!(message.ends_with(" to spec.approved of RolloutPolicy p"), "{message}");
    assert_eq!(reported(&deleted(&[ORPHAN]), &json!({})), Value::Null, "no cluster loses the add-on");
}
