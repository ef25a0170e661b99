//! The controllers of the embedded control plane: garbage collection, deletion of namespaces, certificates,
//! and the defaults of namespaces.
//!
//! The decisions are pure functions in other modules. This module runs them when something changed, and at
//! intervals.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::hub::Hub;
use super::signer;
use object::Object;
use store::{GroupResource, ListOptions, ResourcePath, WriteOptions};

/// How long work that depends only on time may wait, such as the deletion of old signing requests.
const RESYNC_PERIOD: Duration = Duration::from_secs(600);

/// Events expire an hour after their last write (`--event-ttl` of kube-apiserver).
const EVENTS: SignedDuration = SignedDuration::from_hours(1);
/// Interval of the checks for expired events.
const EXPIRY: Duration = Duration::from_secs(60);

/// Starts all controllers.
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

/// Deletes old events.
async fn expire(hub: Arc<Hub>) {
    loop {
        tokio::select! {
            () = hub.stop.cancelled() => return,
            () = tokio::time::sleep(EXPIRY) => {}
        }
        let mut last = None;
        loop {
            let expired = hub.write(move |store, now| Ok(store.expire_events(EVENTS, last.as_ref(), now)));
            // A write that the disk refused is tried again in the next round.
            let Ok(Some(more)) = expired.await else { break };
            last = Some(more);
        }
    }
}

/// Runs a step at the start, and again whenever something changed since the step began.
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

/// Collects garbage and empties namespaces that are being deleted, in slices between which writes of clients go on.
async fn collect(hub: &Arc<Hub>) {
    // A write that the disk refused is undone; the next change starts this step again.
    while hub.write(|store, now| Ok(store.collect_some(now))).await == Ok(true) {}
}

/// Gives every namespace a default service account, and the CA certificate for its tokens.
async fn furnish(hub: &Arc<Hub>) {
    let Ok(namespaces) = hub
        .read(|store| store.list(&ResourcePath::resource("", "v1", "namespaces"), &ListOptions::default()))
    else {
        return;
    };
    let ca = hub.authority.certificate_pem();
    for namespace in namespaces.items.iter().filter(|n| !n.is_terminating()) {
        let account =
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        let root = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kube-root-ca.crt" }, "data": { "ca.crt": ca } });
        for (resource, object) in [("serviceaccounts", account), ("configmaps", root)] {
            let target = ResourcePath::resource("", "v1", resource).within(namespace.name());
            let object = Object::from_value(object).expect("a JSON object just above");
            let there = hub.read(|store| store.get(&target.clone().named(object.name())).is_ok());
            if !there {
                // A namespace that is being deleted meanwhile refuses the write, as it should.
                let options = WriteOptions::manager("kube-controller-manager");
                drop(hub.write(move |store, now| store.create(&target, object, &options, now)).await);
            }
        }
    }
}
