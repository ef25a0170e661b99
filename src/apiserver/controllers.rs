//! The controllers of the embedded control plane: garbage collection, deletion of namespaces, certificates,
//! and the defaults of namespaces.
//!
//! The decisions are pure functions in other modules. This module runs them on changes and at intervals.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::hub::{Hub, apart};
use super::signer;
use object::Object;
use store::{GroupResource, ListOptions, ResourcePath, WriteOptions};

/// The interval for work that depends only on time, such as the deletion of old signing requests.
const RESYNC_PERIOD: Duration = Duration::from_secs(600);

/// Events expire an hour after their last write (`--event-ttl` of kube-apiserver).
const EVENTS: SignedDuration = SignedDuration::from_hours(1);
/// The interval between checks for expired events.
const EXPIRY: Duration = Duration::from_secs(60);

pub(super) fn spawn(hub: &Arc<Hub>, tasks: &TaskTracker) {
    let any = hub.subscribe_all();
    let (requests, namespaces) = (
        GroupResource::new("certificates.k8s.io", "certificatesigningrequests"),
        GroupResource::new("", "namespaces"),
    );
    let (requests, namespaces) = (hub.subscribe(&requests), hub.subscribe(&namespaces));
    tasks.spawn(expire(hub.clone()));
    tasks.spawn(on_change(hub.clone(), any, async |hub| collect(hub).await));
    tasks.spawn(on_change(hub.clone(), requests, async |hub| signer::step(hub).await));
    tasks.spawn(on_change(hub.clone(), namespaces, async |hub| furnish(hub).await));
}

async fn expire(hub: Arc<Hub>) {
    loop {
        tokio::select! {
            () = hub.stop.cancelled() => return,
            () = tokio::time::sleep(EXPIRY) => {}
        }
        let mut last = None;
        loop {
            let expired = hub.write(move |store, now| Ok(store.expire_events(EVENTS, last.as_ref(), now)));
            // The next round retries a write that failed on disk.
            let Ok(Some(more)) = expired.await else { break };
            last = Some(more);
        }
    }
}

/// Runs a step at the start, and again after each change since the step began.
async fn on_change(hub: Arc<Hub>, mut changed: watch::Receiver<u64>, step: impl AsyncFn(&Arc<Hub>)) {
    loop {
        changed.mark_unchanged();
        step(&hub).await;
        tokio::select! {
            () = hub.stop.cancelled() => return,
            change = changed.changed() => if change.is_err() { return },
            () = tokio::time::sleep(RESYNC_PERIOD) => {}
        }
    }
}

/// Collects garbage and empties namespaces that are being deleted. Clients can write between the slices.
async fn collect(hub: &Arc<Hub>) {
    // A write that failed on disk is undone. The next change starts this step again.
    while hub.write(|store, now| Ok(store.collect_some(now))).await == Ok(true) {}
}

/// Creates the default service account and the CA certificate for its tokens in every namespace.
async fn furnish(hub: &Arc<Hub>) {
    let reader = hub.clone();
    for (target, object) in apart(move || missing(&reader)).await {
        // A terminating namespace rejects the write, as it should.
        let options = WriteOptions::manager("kube-controller-manager");
        drop(hub.write(move |store, now| store.create(&target, object, &options, now)).await);
    }
}

/// Returns the default objects that are missing in namespaces.
fn missing(hub: &Hub) -> Vec<(ResourcePath, Object)> {
    let namespaces = ResourcePath::resource("", "v1", "namespaces");
    let Ok(namespaces) = hub.read(|store| store.list(&namespaces, &ListOptions::default())) else {
        return Vec::new();
    };
    let names = namespaces.items.iter().filter(|one| !one.is_terminating()).map(|one| one.name());
    let wanted = names.flat_map(|namespace| {
        [("serviceaccounts", "ServiceAccount", "default"), ("configmaps", "ConfigMap", "kube-root-ca.crt")]
            .map(|(resource, kind, name)| {
                (ResourcePath::resource("", "v1", resource).within(namespace), kind, name)
            })
    });
    let absent =
        wanted.filter(|(target, _, name)| hub.read(|store| store.get(&target.clone().named(*name)).is_err()));
    let object = |kind: &str, name: &str| {
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
        let mut object = Object::from_value(object).expect("a JSON object just above");
        if kind == "ConfigMap" {
            object.0.insert("data".into(), json!({ "ca.crt": hub.authority.certificate_pem() }));
        }
        object
    };
    absent.map(|(target, kind, name)| (target, object(kind, name))).collect()
}
