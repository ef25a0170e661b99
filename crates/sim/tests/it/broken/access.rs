//! Bugs that give clusters access.

use std::any::Any;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use crate::bugs::{Bug, hub_with};
use crate::fixtures::{self, seconds};
use api::cluster::v1::ManagedCluster;
use api::names::{CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER};
use object::Object;
use sim::{Invariant, Setup, World};
use store::{ResourcePath, User, WriteOptions};

/// A certificate request by the agent `agent` of the cluster `c1`.
const PEM: &str = include_str!("../../../../controllers/src/hub/tests/agent.csr");

/// Returns a hub with a cluster `c1`.
fn hub(setup: Setup, is_accepted: bool) -> World {
    let mut world = fixtures::with(setup, 7, 0);
    let kind = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"});
    let spec = json!({"hubAcceptsClient": is_accepted, "leaseDurationSeconds": 60});
    fixtures::put(&mut world, fixtures::merged(kind, json!({"metadata": {"name": "c1"}, "spec": spec})));
    world
}

/// Requests, as a user, the certificate of the agent of `c1`, and returns the broken invariant.
fn ask(mut world: World, user: &str) -> Invariant {
    let request: Value = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "r", "labels": {CLUSTER_NAME_LABEL: "c1"}},
        "spec": {"request": ByteString(PEM.into()), "signerName": KUBE_CLIENT_SIGNER, "usages": ["client auth"]},
    });
    let user = Arc::new(User { name: user.into(), ..User::admin() });
    let requests = ResourcePath::all::<CertificateSigningRequest>();
    let request = Object::from_value(request).unwrap();
    let now = world.now;
    world.hub.create(&requests, request, &WriteOptions::manager("user").by(user), now).unwrap();
    world.run_for(seconds(30)).unwrap_err().invariant
}

fn accept(object: &mut dyn Any) {
    if let Some(cluster) = object.downcast_mut::<ManagedCluster>() {
        cluster.spec.hub_accepts_client = true;
    }
}

/// A cluster gets its permissions before a person accepts it.
struct PermitsAll;

impl Bug for PermitsAll {
    const CONTROLLER: &'static str = "cluster";

    fn see(object: &mut dyn Any) {
        accept(object);
    }
}

#[test]
fn permissions_before_the_acceptance_are_found() {
    let broken = hub(hub_with::<PermitsAll>(), false).run_for(seconds(30)).unwrap_err();
    assert_eq!(broken.invariant, Invariant::OnlyAcceptedClustersGetAccess, "{broken}");
}

/// The agent of a cluster gets a certificate before a person accepts the cluster.
struct ApprovesAll;

impl Bug for ApprovesAll {
    const CONTROLLER: &'static str = "csr";

    fn see(object: &mut dyn Any) {
        accept(object);
    }
}

#[test]
fn a_certificate_before_the_acceptance_is_found() {
    let world = hub(hub_with::<ApprovesAll>(), false);
    let broken = ask(world, "system:open-cluster-management:c1:agent");
    assert_eq!(broken, Invariant::OnlyAcceptedClustersGetAccess);
}

/// Anyone can get an agent's certificate.
struct ApprovesAnybody;

impl Bug for ApprovesAnybody {
    const CONTROLLER: &'static str = "csr";

    fn see(object: &mut dyn Any) {
        if let Some(request) = object.downcast_mut::<CertificateSigningRequest>() {
            request.spec.username = Some("system:open-cluster-management:c1:agent".into());
        }
    }
}

#[test]
fn a_certificate_for_another_user_is_found() {
    for user in ["somebody", "system:open-cluster-management:c10:agent"] {
        let world = hub(hub_with::<ApprovesAnybody>(), true);
        assert_eq!(ask(world, user), Invariant::OnlyAcceptedClustersGetAccess, "{user}");
    }
}
