use serde_json::{Value, json};

use super::*;
use reconcile::Caches;

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn typed<K: object::Kind>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// Plans for an add-on with this status, whose cluster is available or unknown and has this lease.
fn plan(status: &Value, cluster: &str, lease: Option<&Value>) -> Plan {
    plan_hosted(false, "", status, cluster, lease)
}

/// Plans in an agent that may be hosted, for an add-on with this hosting cluster.
fn plan_hosted(is_hosted: bool, host: &str, status: &Value, cluster: &str, lease: Option<&Value>) -> Plan {
    let mut caches = Caches::default();
    let identity = agent_identity::AgentIdentity::parse("c1/a/hash").unwrap();
    caches.set_settings(AgentSettings { is_hosted, ..AgentSettings::new(identity) });
    let annotations = json!({"addon.open-cluster-management.io/hosting-cluster-name": host});
    let metadata = json!({"name": "a", "namespace": "c1", "annotations": annotations});
    let addon = json!({"metadata": metadata, "spec": {"installNamespace": "agents"}, "status": status});
    caches.replace::<ManagedClusterAddOn>(Site::Hub, vec![typed(addon)], "1");
    let available = json!([{"type": "ManagedClusterConditionAvailable", "status": cluster, "reason": "R",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let cluster = json!({"metadata": {"name": "c1"}, "spec": {}, "status": {"conditions": available}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(cluster)], "1");
    let lease =
        lease.map(|spec| typed(json!({"metadata": {"name": "a", "namespace": "agents"}, "spec": spec})));
    caches.replace::<Lease>(Site::Spoke, lease.into_iter().collect(), "1");
    AddOnLeaseController::plan(&Key::namespaced("c1", "a"), &caches, NOW).unwrap()
}

#[test]
fn the_lease_of_its_agent_says_whether_an_addon_is_available() {
    let renewed = |before: i64| {
        let time = NOW - SignedDuration::from_secs(before);
        json!({"renewTime": format!("{time:.6}")})
    };
    for (lease, expected) in [
        (None, "Unknown ManagedClusterAddOnLeaseNotFound: The status of a add-on is unknown."),
        (Some(renewed(299)), "True ManagedClusterAddOnLeaseUpdated: a add-on is available."),
        (Some(renewed(-3600)), "True ManagedClusterAddOnLeaseUpdated: a add-on is available."),
        (Some(renewed(300)), "False ManagedClusterAddOnLeaseUpdateStopped: a add-on is not available."),
        (Some(json!({})), "False ManagedClusterAddOnLeaseUpdateStopped: a add-on is not available."),
    ] {
        let plan = plan(&json!({}), "True", lease.as_ref());
        let status = serde_json::to_value(plan.status.unwrap()).unwrap();
        let condition = status["patch"]["status"]["conditions"][0].clone();
        let word = |field: &str| condition[field].as_str().unwrap().to_owned();
        assert_eq!(word("type"), "Available");
        assert_eq!(format!("{} {}: {}", word("status"), word("reason"), word("message")), expected);
        let wakes = plan.wake_at.map(|at| at.duration_since(NOW).as_secs());
        assert_eq!(wakes.is_some(), expected.starts_with("True"), "{wakes:?} {expected}");
    }
}

#[test]
fn the_hub_judges_other_addons_and_addons_on_unknown_clusters() {
    assert!(plan(&json!({"healthCheck": {"mode": "Customized"}}), "True", None).is_empty());
    assert!(plan(&json!({}), "Unknown", None).is_empty());
    assert!(plan(&Value::Null, "True", None).is_empty(), "the status names the lease");
}

#[test]
fn a_hosted_agent_reads_only_leases_of_addons_without_a_host_on_its_cluster() {
    for (is_hosted, host, is_judged) in
        [(true, "host", false), (true, "", true), (false, "host", true), (false, "", true)]
    {
        let plan = plan_hosted(is_hosted, host, &json!({}), "True", None);
        assert_eq!(plan.status.is_some(), is_judged, "{is_hosted} {host}");
    }
}
