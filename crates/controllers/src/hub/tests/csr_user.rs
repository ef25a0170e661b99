use k8s_openapi::ByteString;
use serde_json::json;

use super::*;
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER};
use reconcile::{Caches, Site};

const AGENT: &str = "system:open-cluster-management:c1:agent";
const GRPC: &str = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa";
const CUSTOM: &str = "example.com/foo";

/// A request by `requester` for `user`, for the certificate of an agent of the cluster `c1` or of an add-on there.
#[derive(Clone, Copy)]
struct Case {
    requester: &'static str,
    user: &'static str,
    signer: &'static str,
    /// The service account in the binding.
    named: &'static str,
}

const FORWARDED: Case = Case { requester: GRPC, user: AGENT, signer: CUSTOM, named: "grpc-server-sa" };

/// Returns the kind of the requested certificate; empty if the request does not match.
fn asked(case: Case) -> &'static str {
    let mut labels = json!({CLUSTER_NAME_LABEL: "c1"});
    if case.signer == CUSTOM {
        labels[ADDON_NAME_LABEL] = json!("a");
    }
    let request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "r", "labels": labels, "annotations": {CSR_USER_ANNOTATION: case.user}},
        "spec": {
            "request": ByteString(include_str!("agent.csr").into()), "signerName": case.signer,
            "username": case.requester, "usages": ["client auth"],
        },
    }))
    .unwrap();
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let subject =
        json!({"kind": "ServiceAccount", "name": case.named, "namespace": "open-cluster-management-hub"});
    let metadata = json!({"name": CSR_USER_BINDING, "resourceVersion": "1"});
    let binding = json!({"metadata": metadata, "roleRef": role, "subjects": [subject]});
    let mut caches = Caches::default();
    caches.replace::<ClusterRoleBinding>(Site::Hub, vec![serde_json::from_value(binding).unwrap()], "1");
    match requested(&request, &caches).unwrap() {
        None => "",
        Some(RequestedCertificate::Cluster { renewal, .. }) => {
            if renewal {
                "renewal"
            } else {
                "cluster"
            }
        }
        Some(RequestedCertificate::AddOn { .. }) => "addon",
        Some(RequestedCertificate::Custom { .. }) => "custom",
    }
}

#[test]
fn a_client_requests_addons_of_others_if_a_binding_names_it() {
    assert_eq!(asked(FORWARDED), "custom");
    assert_eq!(asked(Case { named: "other", ..FORWARDED }), "", "no binding names it");
    let of_another = "system:open-cluster-management:c10:agent";
    assert_eq!(asked(Case { user: of_another, ..FORWARDED }), "", "the agent of another cluster asks");
    assert_eq!(asked(Case { requester: of_another, ..FORWARDED }), "", "an agent asks for another one");
}

#[test]
fn nobody_asks_for_the_identity_of_a_cluster_for_others() {
    let renewal = Case { signer: KUBE_CLIENT_SIGNER, ..FORWARDED };
    assert_eq!(asked(renewal), "");
    assert_eq!(asked(Case { requester: AGENT, ..renewal }), "renewal", "it asks for itself");
}
