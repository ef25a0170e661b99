//! Tests which events of a plan are published after some of its writes failed.

use jiff::Timestamp;
use reconcile::{Answer, Caches, Controller, Failure, FailureKind, Outcome, Site};
use serde_json::json;

use super::*;
use crate::hub::addon_config::AddOnConfigController;
use crate::hub::replica_set::ReplicaSetController;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;

/// Returns the write of an object of a kind.
fn write<K: Kind>() -> Action {
    let target = ObjectRef::of::<K>(Key::cluster("one"));
    let (site, precondition) = (Site::Hub, reconcile::Precondition::default());
    Action::Delete { site, target, precondition, orphan: false, impersonate: None }
}

/// Returns the event reasons of a plan that records a quarantine, returns a cluster, and makes one more write;
/// `None` if its status is not written.
fn reported<C: Controller, K: Kind + PartialEq, M: Kind>(
    object: &K,
    outcomes: &[bool],
) -> Option<Vec<String>> {
    let mut new = serde_json::to_value(object).unwrap();
    let progressions = json!([{"namespace": "default", "name": "p"}]);
    new["status"] = json!({"summary": {"total": 1}, "installProgressions": progressions});
    let mut status = StatusWrite::between(object, &serde_json::from_value::<K>(new).unwrap()).unwrap();
    let reasons = [ROLLED_BACK, "RolloutStarted", "RolloutHeld"];
    status.events = reasons.map(|reason| event(object, EventType::Normal, reason, String::new())).into();
    let mut plan = Plan { status: Some(status), ..Plan::default() };
    plan.step([write::<RolloutPolicy>()]);
    plan.step([write::<M>()]);
    plan.step([write::<M>()]);
    let outcome = |is_ok: &bool| -> Vec<Outcome> {
        let failure = Failure { kind: FailureKind::Forbidden, message: "no".into() };
        vec![if *is_ok { Ok(Answer::Nothing) } else { Err(failure) }]
    };
    let done = Executed { plan, outcomes: outcomes.iter().map(outcome).collect() };
    let mut caches = Caches::default();
    caches.replace::<K>(Site::Hub, vec![object.clone()], "1");
    let written = C::conclude(&Key::of(object), &caches, &done, Timestamp::UNIX_EPOCH).unwrap()?;
    Some(written.events.into_iter().map(|event| event.reason).collect())
}

#[test]
fn a_rollback_is_reported_once_its_quarantine_is_recorded() {
    let meta = json!({"name": "one", "namespace": "default", "resourceVersion": "1"});
    let set =
        json!({"metadata": meta, "spec": {"placementRefs": [], "manifestWorkTemplate": {"workload": {}}}});
    let set: ManifestWorkReplicaSet = serde_json::from_value(set).unwrap();
    let addon = json!({"metadata": {"name": "one", "resourceVersion": "1"}, "spec": {}});
    let addon: ClusterManagementAddOn = serde_json::from_value(addon).unwrap();
    let of_set = |outcomes: &[bool]| {
        reported::<ReplicaSetController, _, ManifestWork>(&set, outcomes).unwrap().join(",")
    };
    let of_addon = |outcomes: &[bool]| {
        reported::<AddOnConfigController, _, ManagedClusterAddOn>(&addon, outcomes)
            .map(|lines| lines.join(","))
    };
    let all = "RolledBack,RolloutStarted,RolloutHeld";
    for (outcomes, set, addon) in [
        (&[true, true, true][..], all, Some(all)),
        (&[true, false], "RolledBack,RolloutHeld", Some(all)),
        (&[false], "RolloutHeld", None),
    ] {
        assert_eq!(of_set(outcomes), set, "{outcomes:?}");
        assert_eq!(of_addon(outcomes).as_deref(), addon, "{outcomes:?}");
    }
}
