use serde_json::Value;

use super::*;
use crate::hub::tests::{Demo, NOW, World, words};

const OF_A: &str = include_str!("a.csr");
const OF_B: &str = include_str!("b.csr");
const CUSTOM: &str = include_str!("custom.csr");
const KUBE: &str = "kubernetes.io/kube-apiserver-client";
const SIGNER: &str = "example.com/agents";
const REQUESTER: &str = "system:open-cluster-management:c1:agent";

fn planned(world: &mut World, (addon, pem, signer): (&str, &str, &str), status: &Value) -> Plan {
    let labels = json!({"open-cluster-management.io/cluster-name": "c1", "open-cluster-management.io/addon-name": addon});
    world.requests = vec![json!({
        "metadata": {"name": "r", "labels": labels},
        "spec": {"request": ByteString(pem.into()), "signerName": signer, "username": REQUESTER, "usages": ["client auth"]},
        "status": status,
    })];
    RequestController::<Demo>::plan(&Key::cluster("r"), &world.caches(), NOW).unwrap()
}

#[test]
fn exactly_the_requests_of_its_own_agents_are_approved() {
    let approved = ["patch CertificateSigningRequest"].as_slice();
    let cases = [
        (("a", OF_A, KUBE), approved),
        (("a", CUSTOM, SIGNER), approved),
        (("b", OF_B, KUBE), &[]),
        (("a", OF_B, KUBE), &[]),
        (("a", CUSTOM, KUBE), &[]),
        (("a", OF_A, SIGNER), &[]),
        (("a", CUSTOM, "example.com/others"), &[]),
    ];
    for (request, want) in cases {
        let plan = planned(&mut World::new(&[]), request, &json!({}));
        assert_eq!(words(&plan), want, "{} {}", request.0, request.2);
    }
}

#[test]
fn a_cluster_that_is_not_accepted_or_lacks_the_addon_gets_no_certificate() {
    let mut world = World::new(&[]);
    world.cluster["spec"]["hubAcceptsClient"] = json!(false);
    assert!(planned(&mut world, ("a", OF_A, KUBE), &json!({})).is_empty());
    let mut world = World::new(&[]);
    world.addon["metadata"]["namespace"] = json!("c2");
    assert!(planned(&mut world, ("a", OF_A, KUBE), &json!({})).is_empty());
}

#[test]
fn an_approved_request_of_a_signer_of_the_addon_is_signed_once() {
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let request = ("a", CUSTOM, SIGNER);
    let plan = planned(&mut World::new(&[]), request, &json!({"conditions": approved}));
    let Some(Action::Patch { subresource, patch, .. }) = plan.steps.iter().flatten().next() else {
        panic!("{plan:?}");
    };
    assert_eq!(*subresource, Subresource::Status);
    assert_eq!(patch["status"]["certificate"], json!(ByteString(b"certificate".to_vec())));
    for status in [
        json!({"conditions": approved, "certificate": ByteString(b"certificate".to_vec())}),
        json!({"conditions": [{"type": "Denied", "status": "True"}]}),
    ] {
        assert!(planned(&mut World::new(&[]), request, &status).is_empty(), "{status}");
    }
}
