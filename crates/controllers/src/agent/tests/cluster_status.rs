use serde_json::{Value, json};

use super::*;
use crate::agent_identity::{AgentIdentity, AgentSettings};
use reconcile::Caches;

#[test]
fn quantities_add_up() {
    let mut sums = Sums::new();
    for text in ["2", "1500m", "1.5", "x", "1Ki"] {
        add(&mut sums, &[("cpu".to_owned(), Quantity(text.into()))].into());
    }
    let total: Vec<_> = quantities(sums).collect();
    assert_eq!(total, [("cpu".to_owned(), Quantity("1029".into()))]);
}

#[test]
fn an_unschedulable_node_adds_only_to_the_capacity() {
    let node = |name: &str, spec: Value| -> Node {
        let status =
            json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}, "images": [{"sizeBytes": 1}]});
        let metadata = json!({"name": name, "resourceVersion": "1"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    };
    let mut caches = Caches::default();
    let nodes = vec![node("a", json!({})), node("b", json!({"unschedulable": true}))];
    caches.replace::<Node>(Site::Spoke, nodes, "1");
    let mut status = ManagedClusterStatus::default();
    report_resources(&mut status, &caches).unwrap();
    assert_eq!(json!(status.capacity), json!({"cpu": "4"}));
    assert_eq!(json!(status.allocatable), json!({"cpu": "2"}));
}

fn settings() -> AgentSettings {
    AgentSettings::new(AgentIdentity::parse("c1/a/hash").unwrap())
}

/// Returns the reported claims and the event for a spoke with a reserved claim and 25 other claims, `c00` to
/// `c24`.
fn reported(options: Option<ClaimOptions>) -> (Vec<String>, Option<Event>) {
    let claim = |name: &str, labels: Value| -> ClusterClaim {
        let metadata = json!({"name": name, "resourceVersion": "1", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"value": "x"}})).unwrap()
    };
    let mut claims = vec![claim("of-an-agent", json!({SPOKE_ONLY_LABEL: ""})), claim("id.k8s.io", json!({}))];
    claims.extend((0..25).map(|n| claim(&format!("c{n:02}"), json!({}))));
    let mut caches = Caches::default();
    caches.set_settings(AgentSettings { claims: options.unwrap_or_default(), ..settings() });
    caches.replace::<ClusterClaim>(Site::Spoke, claims, "1");
    let cluster = json!({"metadata": {"name": "c1", "uid": "u"}, "spec": {}});
    let cluster: ManagedCluster = serde_json::from_value(cluster).unwrap();
    let mut status = ManagedClusterStatus::default();
    let event = report_claims(&mut status, &cluster, &caches).unwrap();
    let again = report_claims(&mut status, &cluster, &caches).unwrap();
    assert_eq!(again, None, "it is reported once");
    (status.cluster_claims.into_iter().map(|claim| claim.name).collect(), event)
}

#[test]
fn an_agent_that_is_not_accepted_says_so_and_reports_nothing() {
    let mut caches = Caches::default();
    caches.set_settings(settings());
    let cluster = json!({"metadata": {"name": "c1", "uid": "u", "resourceVersion": "1"}, "spec": {}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![serde_json::from_value(cluster).unwrap()], "1");
    let plan = ClusterStatusController::plan(&Key::cluster("c1"), &caches, Timestamp::UNIX_EPOCH).unwrap();
    let reasons: Vec<&str> = plan.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(
        (reasons.as_slice(), plan.status, plan.steps.len()),
        (["ManagedClusterIsNotAccepted"].as_slice(), None, 0)
    );
}

#[test]
fn claims_beyond_the_limit_are_left_out_and_counted_in_an_event_in_the_words_of_ocm() {
    let (names, event) = reported(None);
    assert_eq!((names.len(), names[0].as_str(), names[20].as_str()), (21, "id.k8s.io", "c19"));
    let event = event.unwrap();
    assert_eq!(
        (event.reason.as_str(), event.regarding.key.to_string()),
        ("CustomClusterClaimsTruncated", "c1/c1".into())
    );
    assert_eq!(
        event.message,
        "25 cluster claims are found. It exceeds the max number of custom cluster claims (20). 5 custom cluster claims are not exposed."
    );
}

#[test]
fn the_options_of_the_agent_say_how_many_claims_are_reported_and_which_are_reserved() {
    let (names, event) = reported(Some(ClaimOptions {
        max_custom: 2,
        reserved_suffixes: vec!["24".into()],
        ..ClaimOptions::default()
    }));
    assert_eq!(names, ["c24", "id.k8s.io", "c00", "c01"]);
    assert!(event.unwrap().message.starts_with("24 cluster claims are found."));
    assert_eq!(
        reported(Some(ClaimOptions { enabled: false, ..ClaimOptions::default() })),
        (Vec::new(), None)
    );
}
