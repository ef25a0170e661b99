//! What a control plane does by itself: collect garbage, empty namespaces, issue certificates, give
//! namespaces their defaults.
//!
//! The decisions are pure functions elsewhere; here is when they are asked for: when something changed, and
//! now and then.

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

/// How long things that depend on time alone may wait: old signing requests.
const RESYNC_PERIOD: Duration = Duration::from_secs(600);

/// Events expire an hour after their last write (`--event-ttl` of kube-apiserver).
const EVENTS: SignedDuration = SignedDuration::from_hours(1);
/// How often old events are looked for.
const EXPIRY: Duration = Duration::from_secs(60);

/// Starts all of them.
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
        let ((), durable) = hub.write_unsettled(|store, now| store.expire_events(EVENTS, now));
        if let Some(durable) = durable {
            // Writes that the disk refused are tried again.
            let _ = durable.wait().await;
        }
    }
}

/// Does a step at the start, and again whenever something changed since it began.
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

/// Garbage and dying namespaces.
async fn collect(hub: &Arc<Hub>) {
    let ((), durable) = hub.write_unsettled(|store, now| store.settle(now));
    if let Some(durable) = durable {
        // Writes that the disk refused are undone; the next change comes back here.
        let _ = durable.wait().await;
    }
}

/// Every namespace has a default service account, and the certificate that its tokens are to be used with.
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
                // A namespace that is going meanwhile refuses it, rightly.
                let options = WriteOptions::manager("kube-controller-manager");
                drop(hub.write(|store, now| store.create(&target, object, &options, now)).await);
            }
        }
    }
}
