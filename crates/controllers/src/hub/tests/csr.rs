use super::*;
use api::names::{FIRST_ACCEPTED_ANNOTATION, KUBE_CLIENT_SIGNER};
use k8s_openapi::ByteString;
use object::Object;
use reconcile::{Caches, Site, Subresource};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
/// A request from the agent `agent` of the cluster `c1`.
const PEM: &str = include_str!("agent.csr");

struct Case {
    requester: &'static str,
    accepted: bool,
    annotations: &'static [(&'static str, &'static str)],
    /// The statuses of the conditions Joined and Available; empty if the condition is missing.
    joined: &'static str,
    available: &'static str,
    /// The labels of the namespace with the cluster's name, as JSON; empty if it does not exist.
    namespace: &'static str,
    /// True if the namespace records that a cluster was accepted.
    left: bool,
}

const BOOTSTRAP: &str = "system:serviceaccount:ocm:bootstrap";

const JOINING: Case = Case {
    requester: BOOTSTRAP,
    accepted: false,
    annotations: &[],
    joined: "",
    available: "",
    namespace: "",
    left: false,
};

/// Checks the planned actions.
fn check(case: &Case, want: &[&str]) {
    let plan = CsrController::plan(&Key::cluster("r"), &hub(case, "c1"), NOW).unwrap();
    let word = |action: &Action| match action {
        Action::Patch { subresource: Subresource::Approval, .. } => "approve",
        Action::Patch { .. } => "accept",
        _ => "?",
    };
    let words: Vec<_> = plan.steps.iter().flatten().map(word).collect();
    assert_eq!(words, want, "{}", case.requester);
}

/// Returns a hub with a cluster and a request from the agent of `c1`.
fn hub(case: &Case, cluster_name: &str) -> Caches {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions =
        [("ManagedClusterJoined", case.joined), ("ManagedClusterConditionAvailable", case.available)];
    let conditions: Vec<_> = conditions
        .iter()
        .filter(|(_, status)| !status.is_empty())
        .map(|(kind, status)| condition(kind, status))
        .collect();
    let status = json!({"conditions": conditions});
    let annotations: serde_json::Map<_, _> =
        case.annotations.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let cluster = json!({"metadata": {"name": cluster_name, "annotations": annotations}, "spec": {"hubAcceptsClient": case.accepted}, "status": status});
    let subjects = json!([{"kind": "ServiceAccount", "name": "bootstrap", "namespace": "ocm"}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let binding = json!({"metadata": {"name": AUTO_APPROVE_BINDING}, "roleRef": role, "subjects": subjects});
    let mut caches = Caches::default();
    let request = json!({
        "metadata": {"name": "r", "labels": {CLUSTER_NAME_LABEL: "c1"}},
        "spec": {"request": ByteString(PEM.into()), "signerName": KUBE_CLIENT_SIGNER, "username": case.requester,
            "usages": ["client auth"]},
    });
    let request: CertificateSigningRequest = Object::from_value(request).unwrap().to_typed().unwrap();
    caches.replace(Site::Hub, vec![request], "1");
    caches.replace::<ManagedCluster>(
        Site::Hub,
        vec![Object::from_value(cluster).unwrap().to_typed().unwrap()],
        "1",
    );
    caches.replace::<ClusterRoleBinding>(
        Site::Hub,
        vec![Object::from_value(binding).unwrap().to_typed().unwrap()],
        "1",
    );
    let namespaces = (!case.namespace.is_empty()).then(|| {
        let labels: serde_json::Value = serde_json::from_str(case.namespace).unwrap();
        let annotations = if case.left { json!({FIRST_ACCEPTED_ANNOTATION: "x"}) } else { json!({}) };
        let metadata = json!({"name": "c1", "labels": labels, "annotations": annotations});
        Object::from_value(json!({"metadata": metadata})).unwrap().to_typed().unwrap()
    });
    caches.replace::<Namespace>(Site::Hub, namespaces.into_iter().collect(), "1");
    caches
}

#[test]
fn a_bootstrap_identity_joins_a_cluster_that_is_new() {
    check(&JOINING, &["accept", "approve"]);
    check(
        &Case { namespace: r#"{"open-cluster-management.io/cluster-name": "c1"}"#, ..JOINING },
        &["accept", "approve"],
    );
}

#[test]
fn the_name_of_a_cluster_that_left_waits_for_a_person() {
    let namespace = r#"{"open-cluster-management.io/cluster-name": "c1"}"#;
    check(&Case { namespace, left: true, ..JOINING }, &[]);
    let annotations = &[(REQUESTER_ANNOTATION, BOOTSTRAP)];
    check(&Case { namespace, left: true, accepted: true, annotations, ..JOINING }, &["approve"]);
}

#[test]
fn a_cluster_that_a_person_denied_stays_denied() {
    check(
        &Case {
            annotations: &[(AUTO_ACCEPTED_ANNOTATION, "x"), (REQUESTER_ANNOTATION, BOOTSTRAP)],
            ..JOINING
        },
        &[],
    );
}

#[test]
fn a_cluster_that_a_person_accepted_waits_for_a_person_unless_it_names_who_joins() {
    let accepted = Case { accepted: true, ..JOINING };
    check(&accepted, &[]);
    check(
        &Case { annotations: &[(REQUESTER_ANNOTATION, "system:serviceaccount:ocm:other")], ..accepted },
        &[],
    );
    check(&Case { annotations: &[(REQUESTER_ANNOTATION, BOOTSTRAP)], ..accepted }, &["approve"]);
    check(&Case { annotations: &[(REQUESTER_ANNOTATION, "other")], ..JOINING }, &[]);
}

#[test]
fn an_agent_that_lost_its_key_before_it_joined_asks_again() {
    let annotations = &[(AUTO_ACCEPTED_ANNOTATION, "x"), (REQUESTER_ANNOTATION, BOOTSTRAP)];
    check(&Case { accepted: true, annotations, ..JOINING }, &["approve"]);
}

#[test]
fn a_cluster_that_ever_joined_keeps_its_identity() {
    let annotations = &[(AUTO_ACCEPTED_ANNOTATION, "x"), (REQUESTER_ANNOTATION, BOOTSTRAP)];
    for (joined, available) in [("True", "True"), ("True", "Unknown"), ("True", ""), ("False", "False")] {
        check(&Case { accepted: true, annotations, joined, available, ..JOINING }, &[]);
        check(&Case { joined, available, ..JOINING }, &[]);
    }
}

#[test]
fn nobody_becomes_the_cluster_of_a_namespace_that_belongs_to_something_else() {
    check(&Case { namespace: "{}", ..JOINING }, &[]);
    check(&Case { namespace: r#"{"open-cluster-management.io/cluster-name": "c10"}"#, ..JOINING }, &[]);
}

#[test]
fn nobody_becomes_a_cluster_with_a_name_that_is_reserved() {
    for (name, steps) in [("c1", 2), ("work", 0), ("registration", 0), ("managed-clusters", 0)] {
        let (mut plan, caches) = (Plan::nothing(), hub(&JOINING, name));
        let request = caches.get::<CertificateSigningRequest>(&Key::cluster("r")).unwrap().unwrap();
        join(&mut plan, &request, name, &caches, NOW).unwrap();
        assert_eq!(plan.steps.len(), steps, "{name}");
    }
}

#[test]
fn nobody_else_joins_without_a_person() {
    for requester in
        ["system:serviceaccount:ocm:other", "system:serviceaccount:other:bootstrap", "bootstrap", ""]
    {
        check(&Case { requester, ..JOINING }, &[]);
    }
}

#[test]
fn an_identity_renews_itself_while_its_cluster_is_accepted() {
    let requester = "system:open-cluster-management:c1:agent";
    check(&Case { requester, accepted: true, joined: "True", available: "True", ..JOINING }, &["approve"]);
    check(&Case { requester, accepted: false, ..JOINING }, &[]);
}
