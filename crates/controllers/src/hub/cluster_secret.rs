//! Writes an Argo CD cluster secret for each cluster of a ClusterDecision whose Placement requests it.
//!
//! The generator of an ApplicationSet drops a cluster without a secret, and Argo CD then removes its application.
//! Therefore the secrets follow the list, which loses only a few clusters at once without an approval. A secret
//! stays for an hour after its cluster left, because Argo CD needs it to delete the objects of the application.
//! Secrets that this controller did not write are never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, json};

use crate::multimap;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::ClusterDecision;
use api::names::argo::ARGO_SECRET_TYPE_LABEL;
use api::names::{CLUSTER_SECRETS_ANNOTATION, LEFT_SINCE_ANNOTATION, PLACEMENTS_ANNOTATION};
use engine::placement::cluster_secret::{ClusterAccess, cluster_secret_name};
use object::duration::later;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{
    Action, Change, Controller, Event, EventType, Index, Observes, Plan, Query, Read, View, Watches,
};

/// Time for Argo CD to delete the application of a cluster that left.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

const CLUSTER_SECRETS: Query<'_> = Query::label(ARGO_SECRET_TYPE_LABEL, "cluster");

pub(crate) struct ClusterSecretController;

impl Controller for ClusterSecretController {
    const NAME: &'static str = "cluster-secret";
    type Primary = ManagedCluster;

    fn concerns(change: &Change<ManagedCluster>) -> bool {
        change.differs_in(|cluster| &cluster.spec.managed_cluster_client_configs)
    }

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ClusterDecision>(|change, _| {
            let [old, new] = [&change.old, &change.new]
                .map(|side| side.iter().flat_map(|decision| listed(decision)).collect::<BTreeSet<_>>());
            old.symmetric_difference(&new).map(|name| Key::cluster(*name)).collect()
        });
        watches.on::<Placement>(|change, view| {
            if !change.differs_in(|placement| placement.annotation(CLUSTER_SECRETS_ANNOTATION)) {
                return Vec::new();
            }
            let decision =
                change.latest().map(|placement| view.get_readable::<ClusterDecision>(&Key::of(placement)));
            let decision = decision.and_then(Result::ok).flatten();
            decision.iter().flat_map(|decision| listed(decision)).map(Key::cluster).collect()
        });
        watches.on::<Secret>(|change, _| change.sides().filter_map(cluster_of).collect());
        watches.keep::<ClusterIndex>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let name = cluster_secret_name(&key.name);
        let mut asking = asking(&key.name, view)?;
        for secret in secrets_with(view, "name", &key.name)? {
            if secret.name() == name && cluster_of(&secret).is_some() {
                asking.entry(secret.namespace().to_owned()).or_default();
            }
        }
        for (namespace, placements) in &asking {
            let live = view.get::<Secret>(&Key::namespaced(namespace.as_str(), name.as_str()))?;
            let live = live.filter(|live| is_cluster_secret(live));
            if placements.is_empty() {
                leave(&mut plan, live.as_deref(), view, now)?;
            } else if live.as_deref().is_none_or(|live| cluster_of(live).is_some()) {
                match keep(key, placements, live.as_deref(), view)? {
                    Ok(actions) => plan.step(actions),
                    Err(reason) => plan.events.extend(refused(key, reason, view)?),
                }
            }
        }
        Ok(plan)
    }
}

/// Indexes the lists by their clusters, and the cluster secrets by their clusters and addresses. Without it, a
/// plan for one cluster would scan the whole fleet.
#[derive(Default)]
struct ClusterIndex {
    decisions: BTreeMap<String, BTreeSet<Key>>,
    /// The secrets by the value of a field.
    secrets: BTreeMap<(&'static str, Vec<u8>), BTreeSet<Key>>,
}

impl Index for ClusterIndex {
    fn build(view: &impl View) -> Read<Self> {
        let mut index = Self::default();
        for decision in view.list_readable::<ClusterDecision>(Query::ALL)? {
            index.list(&decision);
        }
        for secret in view.list_readable::<Secret>(CLUSTER_SECRETS)? {
            index.secret(&secret);
        }
        Ok(index)
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ClusterDecision>(|index, change| {
            if let Some(decision) = &change.old {
                let key = Key::of(decision.as_ref());
                listed(decision).for_each(|cluster| multimap::remove(&mut index.decisions, cluster, &key));
            }
            change.new.iter().for_each(|decision| index.list(decision));
            Vec::new()
        });
        observes.on::<Secret>(|index, change| {
            if let Some(secret) = &change.old {
                let key = Key::of(secret.as_ref());
                identities(secret).for_each(|identity| multimap::remove(&mut index.secrets, &identity, &key));
            }
            change.new.iter().for_each(|secret| index.secret(secret));
            Vec::new()
        });
    }
}

impl ClusterIndex {
    fn list(&mut self, decision: &ClusterDecision) {
        for cluster in listed(decision) {
            self.decisions.entry(cluster.to_owned()).or_default().insert(Key::of(decision));
        }
    }

    fn secret(&mut self, secret: &Secret) {
        for identity in identities(secret) {
            self.secrets.entry(identity).or_default().insert(Key::of(secret));
        }
    }
}

/// Returns the values of a cluster secret by which Argo CD identifies a cluster; none for another Secret.
fn identities(secret: &Secret) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let data = secret.data.as_ref().filter(|_| is_cluster_secret(secret));
    ["name", "server"].into_iter().filter_map(move |field| Some((field, data?.get(field)?.0.clone())))
}

fn is_cluster_secret(secret: &Secret) -> bool {
    secret.label(ARGO_SECRET_TYPE_LABEL) == Some("cluster")
}

/// Returns the cluster secrets with this value in a field.
fn secrets_with(view: &impl View, field: &'static str, value: &str) -> Read<Vec<Arc<Secret>>> {
    let identity = (field, value.as_bytes().to_vec());
    let keys = view.index(|index: &mut ClusterIndex| index.secrets.get(&identity).cloned())?;
    keys.iter().flatten().filter_map(|key| view.get(key).transpose()).collect()
}

/// Returns the cluster of a secret that this controller wrote.
fn cluster_of(secret: &Secret) -> Option<Key> {
    secret.annotation(PLACEMENTS_ANNOTATION)?;
    let cluster = secret.data.as_ref()?.get("name")?;
    let cluster = std::str::from_utf8(&cluster.0).ok()?;
    (secret.name() == cluster_secret_name(cluster)).then(|| Key::cluster(cluster))
}

/// Returns the clusters of a list.
fn listed(decision: &ClusterDecision) -> impl Iterator<Item = &str> {
    let entries = decision.status.iter().flat_map(|status| &status.decisions);
    entries.filter_map(|entry| entry.get("clusterName")).map(String::as_str)
}

/// Returns the placements that request the secret of a cluster, by namespace.
fn asking(cluster: &str, view: &impl View) -> Read<BTreeMap<String, Vec<Arc<Placement>>>> {
    let mut asking: BTreeMap<String, Vec<Arc<Placement>>> = BTreeMap::new();
    let lists = view.index(|index: &mut ClusterIndex| index.decisions.get(cluster).cloned())?;
    for list in lists.into_iter().flatten() {
        let asks = |placement: &Arc<Placement>| placement.annotation(CLUSTER_SECRETS_ANNOTATION).is_some();
        let is_there = view.get::<ClusterDecision>(&list)?.is_some();
        if let Some(placement) = view.get::<Placement>(&list)?.filter(|it| is_there && asks(it)) {
            asking.entry(list.namespace).or_default().push(placement);
        }
    }
    Ok(asking)
}

/// Returns the write to the secret of a cluster that `placements` of a namespace select, or the reason that it
/// gets none. `live` is the current secret.
fn keep(
    key: &Key,
    placements: &[Arc<Placement>],
    live: Option<&Secret>,
    view: &impl View,
) -> Read<Result<Vec<Action>, String>> {
    let accounts = placements.iter().filter_map(|placement| placement.annotation(CLUSTER_SECRETS_ANNOTATION));
    let account = accounts.map(str::trim).find(|account| !account.is_empty());
    let access = match account {
        None => ClusterAccess::none(&key.name),
        Some(account) => match access(key, account, view)? {
            None => return Ok(Ok(Vec::new())),
            Some(Ok(access)) => access,
            Some(Err(reason)) => return Ok(Err(reason)),
        },
    };
    let Some(namespace) = placements.first().map(|placement| placement.namespace()) else {
        return Ok(Ok(Vec::new()));
    };
    // An unreadable secret may be for the same cluster.
    for unread in view.unreadable::<Secret>(CLUSTER_SECRETS.within(namespace))? {
        view.get::<Secret>(&unread.key)?;
    }
    // With two secrets for a cluster in a namespace, Argo CD would mix up their credentials.
    let mut rivals = secrets_with(view, "name", &key.name)?;
    rivals.extend(secrets_with(view, "server", access.server())?);
    let is_rival = |secret: &&Arc<Secret>| {
        secret.namespace() == namespace && secret.name() != cluster_secret_name(&key.name)
    };
    if let Some(rival) = rivals.iter().find(is_rival) {
        return Ok(Err(format!("the secret {} already uses this cluster or its address", Key::of(&**rival))));
    }
    let names = placements.iter().map(|placement| placement.name().to_owned()).collect();
    let wanted = access.secret(namespace, &key.name, &names);
    // A Secret with this name that is not a cluster secret is left unchanged.
    let write =
        live.map_or_else(|| Some(Action::create(Object::from_typed(&wanted))), |live| update(live, &wanted));
    Ok(Ok(write.into_iter().collect()))
}

/// Returns the write that brings a live secret to its desired state. Additions by others stay.
fn update(live: &Secret, wanted: &Secret) -> Option<Action> {
    let value = |secret: &Secret, name: &str| secret.data.as_ref().and_then(|data| data.get(name).cloned());
    let is_there = ClusterAccess::VALUES.iter().all(|name| value(live, name) == value(wanted, name))
        && live.annotation(PLACEMENTS_ANNOTATION) == wanted.annotation(PLACEMENTS_ANNOTATION)
        && live.annotation(LEFT_SINCE_ANNOTATION).is_none();
    let data = ClusterAccess::VALUES.map(|name| (name.to_owned(), json!(value(wanted, name))));
    let annotations =
        json!({PLACEMENTS_ANNOTATION: wanted.annotation(PLACEMENTS_ANNOTATION), LEFT_SINCE_ANNOTATION: null});
    let patch = [("metadata", json!({"annotations": annotations})), ("data", Map::from_iter(data).into())]
        .map(|(name, value)| (name.to_owned(), value));
    (!is_there).then(|| Action::patch(live, Map::from_iter(patch)))
}

/// Reports that the secret of a cluster is not written.
fn refused(key: &Key, reason: String, view: &impl View) -> Read<Option<Event>> {
    let cluster = view.get::<ManagedCluster>(key)?;
    let event = |cluster: Arc<ManagedCluster>| {
        Event::new(cluster.as_ref(), EventType::Warning, "ClusterSecretRefused", "Publish", reason)
    };
    Ok(cluster.map(event))
}

/// Returns the access with the token of an account; `None` while its Secret or the address of the cluster is
/// missing.
fn access(key: &Key, account: &str, view: &impl View) -> Read<Option<Result<ClusterAccess, String>>> {
    let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(None) };
    let Some(config) = cluster.spec.managed_cluster_client_configs.first() else { return Ok(None) };
    let target = ObjectRef::of::<Secret>(Key::namespaced(&key.name, account));
    let secret = view.object(&target)?.and_then(|secret| secret.to_typed::<Secret>().ok());
    Ok(secret.map(|secret| ClusterAccess::with_token(&config.url, config.ca_bundle.as_deref(), &secret)))
}

/// Plans the deletion of the secret of a cluster that no placement requests any longer.
fn leave(plan: &mut Plan, live: Option<&Secret>, view: &impl View, now: Timestamp) -> Read<()> {
    let Some(live) = live else { return Ok(()) };
    for name in live.annotation(PLACEMENTS_ANNOTATION).unwrap_or_default().split(',') {
        if !has_ended(&Key::namespaced(live.namespace(), name), view)? {
            return Ok(());
        }
    }
    let since = live.annotation(LEFT_SINCE_ANNOTATION).and_then(|since| since.parse::<Timestamp>().ok());
    match since.map(|since| later(since, KEPT)) {
        None => {
            let annotations = json!({LEFT_SINCE_ANNOTATION: now.to_string()});
            let patch = [("metadata".to_owned(), json!({"annotations": annotations}))];
            plan.step([Action::patch(live, patch.into_iter().collect())]);
        }
        Some(end) if end <= now => plan.step([Action::delete(live)]),
        Some(end) => plan.wake(end),
    }
    Ok(())
}

/// Returns true if a placement no longer requests the secret. Asks the API server about objects that are not in a
/// list, because they may be wrongly missing.
fn has_ended(placement: &Key, view: &impl View) -> Read<bool> {
    let decision = view.get::<ClusterDecision>(placement)?;
    let is_gone = match (decision, view.get::<Placement>(placement)?) {
        (Some(_), Some(_)) => return Ok(true),
        (None, _) => !view.exists::<ClusterDecision>(placement)?,
        (Some(_), None) => !view.exists::<Placement>(placement)?,
    };
    Ok(is_gone)
}
