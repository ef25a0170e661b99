use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use reconcile::{Command, Dispatcher, DispatcherLimits, Register as _, WatchedKind, WatcherEvent};
use serde_json::Value;

use super::*;
use crate::hub::tests::{Demo, NOW, World, words};

const OF_A: &str = include_str!("a.csr");
const OF_B: &str = include_str!("b.csr");
const CUSTOM: &str = include_str!("custom.csr");
const KUBE: &str = "kubernetes.io/kube-apiserver-client";
const SIGNER: &str = "example.com/agents";
const REQUESTER: &str = "system:open-cluster-management:c1:agent";

fn request((addon, pem, signer): (&str, &str, &str), status: &Value) -> Value {
    let labels = json!({"open-cluster-management.io/cluster-name": "c1", "open-cluster-management.io/addon-name": addon});
    json!({
        "metadata": {"name": "r", "labels": labels},
        "spec": {"request": ByteString(pem.into()), "signerName": signer, "username": REQUESTER, "usages": ["client auth"]},
        "status": status,
    })
}

fn planned(world: &mut World, of: (&str, &str, &str), status: &Value) -> Plan {
    world.requests = vec![request(of, status)];
    RequestController::<Demo>::plan(&Key::cluster("r"), &world.caches(), NOW).unwrap()
}

#[test]
fn only_requests_from_its_agents_are_approved() {
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

/// A hub whose objects change while the controller runs.
struct Hub {
    dispatcher: Dispatcher,
    now: Timestamp,
    kinds: BTreeMap<String, Arc<WatchedKind>>,
    /// Number of writes; none is answered.
    writes: usize,
}

impl Hub {
    /// Returns a hub whose agent has made a request.
    fn new(cluster: &Value, addon: Option<&Value>) -> Self {
        let mut dispatcher =
            Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, false);
        dispatcher.add::<RequestController<Demo>>();
        let mut hub = Self { dispatcher, now: NOW, kinds: BTreeMap::new(), writes: 0 };
        hub.run();
        let request = request(("a", OF_A, KUBE), &json!({}));
        for (kind, object) in [
            ("CertificateSigningRequest", Some(&request)),
            ("ManagedCluster", Some(cluster)),
            ("ManagedClusterAddOn", addon),
        ] {
            let kind = Arc::clone(&hub.kinds[kind]);
            let objects = object.map(|object| kind.decode(&object.to_string())).into_iter().collect();
            let listed = WatcherEvent::Listed { objects, resource_version: "1".into() };
            hub.dispatcher.watched(&kind, listed, hub.now);
        }
        hub.run();
        hub
    }

    fn change(&mut self, kind: &str, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!("2");
        let kind = Arc::clone(&self.kinds[kind]);
        let applied = WatcherEvent::Applied(kind.decode(&object.to_string()));
        self.dispatcher.watched(&kind, applied, self.now);
        self.run();
    }

    fn run(&mut self) {
        self.now += SignedDuration::from_secs(10);
        loop {
            let due = self.dispatcher.due(self.now);
            if due.is_empty() {
                return;
            }
            for command in due {
                match command {
                    Command::Decide(decision) => self.dispatcher.decided(decision.run(), self.now),
                    Command::Act(_) => self.writes += 1,
                    Command::Watch(kind) => {
                        self.kinds.insert(kind.gvk.kind.clone(), kind);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The agent waits for this request and makes no other.
#[test]
fn a_request_that_came_first_is_approved_when_its_cluster_is_accepted_and_has_the_addon() {
    let World { cluster: accepted, addon, .. } = World::new(&[]);
    let mut foreign = accepted.clone();
    foreign["spec"]["hubAcceptsClient"] = json!(false);

    let mut hub = Hub::new(&foreign, Some(&addon));
    assert_eq!(hub.writes, 0);
    hub.change("ManagedCluster", &accepted);
    assert_eq!(hub.writes, 1);

    let mut hub = Hub::new(&accepted, None);
    assert_eq!(hub.writes, 0);
    hub.change("ManagedClusterAddOn", &addon);
    assert_eq!(hub.writes, 1);
}
