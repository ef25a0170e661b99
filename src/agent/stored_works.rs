//! Stores the hub's works in secrets on the cluster. If the hub is unreachable when an agent starts, the agent
//! uses them: it corrects drift, and removes objects only for works that are being deleted.
//!
//! Each secret stores one work, compressed with gzip, and is written when a field changes that a plan reads.
//! New content is written at once. States are written when they are about the current content. Manifests may
//! contain confidential data, so they are stored only in Secrets. A work that is too large for a Secret is not
//! stored.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::AgentOptions;
use super::error::{JoinError, api};
use super::hub::BootstrapHub;
use crate::shell::{Handle, is_away, list_all, message, with_causes};
use api::Condition;
use api::condition::{ConditionStatus, Conditions as _};
use api::names::work_conditions::{APPLIED, COMPLETE};
use api::names::{AGENT, KEPT_WORK_LABEL, KEPT_WORK_TYPE};
use api::work::v1::ManifestWork;
use object::{Metadata as _, hex};
use reconcile::{Query, Site, View as _};

/// The interval between checks for changed works.
const PERIOD: Duration = Duration::from_secs(5);
/// The number of checks during which a new work may wait for its status. They take half a minute, in which an
/// agent applies a thousand new works.
const CHECKS: u32 = 6;
/// The interval between checks of the hub. The stored works are used if the hub is unreachable for `AWAY` at
/// the start.
const HUB_CHECK: Duration = Duration::from_secs(1);
const AWAY: Duration = Duration::from_secs(5);
/// The maximum size of a work, because API servers accept requests of 3 MiB.
const MAX_BYTES: u64 = 3 << 20;

/// Stores the works of one cluster on one hub.
pub(super) struct StoredWorks {
    secrets: Api<Secret>,
    cluster: String,
    /// Distinguishes the hubs.
    hub: String,
    stored: Digests,
    /// The resource versions of works that are up to date in their secret, or that fit in no secret.
    handled: BTreeMap<String, String>,
    /// The number of checks for which each work has waited for a status about its content.
    waiting: BTreeMap<String, u32>,
}

/// The digests of the stored works, by the name of the secret. `None` if the work is of another hub, unreadable
/// or too large.
type Digests = BTreeMap<String, Option<WorkDigest>>;

/// The digests of the parts of a work that a plan reads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WorkDigest {
    /// The digest of the metadata and spec.
    content: String,
    /// The digest of the status.
    states: String,
}

impl StoredWorks {
    pub(super) fn new(options: &AgentOptions, hub: &BootstrapHub) -> Self {
        Self {
            secrets: Api::namespaced(options.home().clone(), &options.secret.namespace),
            cluster: options.cluster.clone(),
            hub: hub.label(),
            stored: Digests::new(),
            handled: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Passes the stored works to the controllers if the hub is unreachable at the start, and stores the hub's
    /// works until `stop`.
    pub(super) async fn run(mut self, hub: &kube::Client, shell: Handle, stop: &CancellationToken) {
        let secrets = match self.load().await {
            Ok(secrets) => secrets,
            Err(error) => {
                warn!(error = with_causes(&error), "cannot read the works stored on the cluster");
                Vec::new()
            }
        };
        let listed = || shell.caches().is_listed::<ManifestWork>(Site::Hub);
        let is_away = stop.run_until_cancelled(is_away_at_start(hub, listed)).await;
        if is_away == Some(true) {
            let works: Vec<ManifestWork> = secrets.iter().filter_map(unpacked).collect();
            info!(
                cluster = self.cluster,
                count = works.len(),
                "the hub is unreachable; using the works stored on the cluster"
            );
            shell.load_persisted(works);
        }
        drop(secrets);
        let cluster = self.cluster.clone();
        let works =
            || shell.caches().list::<ManifestWork>(Query::namespace(&cluster)).ok().filter(|_| listed());
        while !stop.is_cancelled() {
            if let Some(works) = works() {
                self.keep(&works, false).await;
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        // A process that stops gracefully writes the last changes.
        if let Some(works) = works() {
            self.keep(&works, true).await;
        }
    }

    /// Reads the secrets with the works of this cluster and hub. The works stay compressed, because the hub is
    /// rarely unreachable.
    async fn load(&mut self) -> Result<Vec<Secret>, JoinError> {
        let all = list_all(&self.secrets, ListParams::default().labels(KEPT_WORK_LABEL)).await;
        let secrets = all.map_err(api("list the stored works"))?;
        let (stored, ours) = of_cluster(secrets, &self.cluster, &self.hub);
        self.stored = stored;
        Ok(ours)
    }

    /// Stores the changed works, and removes those that are gone. The last check postpones nothing.
    async fn keep(&mut self, works: &[Arc<ManifestWork>], is_last: bool) {
        let wanted: BTreeMap<String, _> = works.iter().map(|work| (self.name_of(work), work)).collect();
        for (name, work) in &wanted {
            if self.handled.get(name).is_some_and(|seen| *seen == version(work)) {
                continue;
            }
            let is_stored = self.stored.get(name).is_some_and(Option::is_some);
            if !is_stored && !is_last && self.waits(name, work) {
                continue;
            }
            let digest = WorkDigest::new(work);
            let stored = self.stored.get(name).and_then(Option::as_ref);
            if stored != Some(&digest) {
                // An agent that is killed must not return to older content.
                let is_current = stored.is_some_and(|stored| stored.content == digest.content);
                if is_current && !is_last && self.waits(name, work) {
                    continue;
                }
                let written = self.write(name, work).await;
                if let Err(error) = &written {
                    warn!(
                        work = work.name(),
                        error = with_causes(error),
                        "cannot store a work on the cluster"
                    );
                    if !is_final(error) || self.remove(name).await.is_err() {
                        continue;
                    }
                }
                self.stored.insert(name.clone(), written.is_ok().then_some(digest));
            }
            self.handled.insert(name.clone(), version(work));
            self.waiting.remove(name);
        }
        self.waiting.retain(|name, _| wanted.contains_key(name));
        let gone: Vec<String> =
            self.stored.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            if self.remove(&name).await.is_ok() {
                self.stored.remove(&name);
                self.handled.remove(&name);
            }
        }
    }

    /// Removes the secret of a work that is gone, or that no longer fits in a secret.
    async fn remove(&self, name: &str) -> Result<(), kube::Error> {
        match self.secrets.delete(name, &DeleteParams::default()).await {
            Err(error) if !matches!(&error, kube::Error::Api(status) if status.is_not_found()) => {
                warn!(secret = name, error = message(&error), "cannot remove a stored work; retrying");
                Err(error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns true if a work should wait for the next check: the status of its current content is still to
    /// come, and would cause another write. A work that is being deleted gets no such status.
    fn waits(&mut self, name: &str, work: &ManifestWork) -> bool {
        let applied = work.condition(APPLIED);
        let is_reported =
            applied.is_some_and(|applied| applied.observed_generation == work.metadata.generation);
        if is_reported || work.is_terminating() {
            return false;
        }
        let checks = self.waiting.entry(name.to_owned()).or_default();
        *checks += 1;
        *checks <= CHECKS
    }

    async fn write(&self, name: &str, work: &ManifestWork) -> Result<(), JoinError> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": KEPT_WORK_TYPE,
            "metadata": {"name": name, "labels": {KEPT_WORK_LABEL: self.hub}},
            "data": {"work": ByteString(packed(work))},
        });
        let params = PatchParams::apply(AGENT).force();
        let written = self.secrets.patch(name, &params, &Patch::Apply(secret)).await;
        written.map(drop).map_err(api("store a work on the cluster"))
    }

    fn name_of(&self, work: &ManifestWork) -> String {
        let text = format!("{}/{}/{}", self.hub, self.cluster, work.name());
        let hash: String = hex(Sha256::digest(text)).chars().take(32).collect();
        format!("kept-work-{hash}")
    }
}

/// Returns the digests of the stored works, and the secrets with works of this cluster and hub. Secrets of
/// other clusters are left out, because their agents may store works in the same namespace.
fn of_cluster(secrets: Vec<Secret>, cluster: &str, hub: &str) -> (Digests, Vec<Secret>) {
    let (mut digests, mut ours) = (Digests::new(), Vec::new());
    for secret in secrets {
        let work = unpacked(&secret);
        if work.as_ref().is_some_and(|work| work.namespace() != cluster) {
            continue;
        }
        let labels = secret.metadata.labels.as_ref();
        let is_of_hub =
            labels.and_then(|labels| labels.get(KEPT_WORK_LABEL)).is_some_and(|label| label == hub);
        let digest = work.filter(|_| is_of_hub).map(|work| WorkDigest::new(&work));
        let is_stored = digest.is_some();
        digests.extend(secret.metadata.name.clone().map(|name| (name, digest)));
        if is_stored {
            ours.push(secret);
        }
    }
    (digests, ours)
}

/// Returns true if the hub is unreachable before the works have been listed.
async fn is_away_at_start(hub: &kube::Client, listed: impl Fn() -> bool) -> bool {
    let mut since = None;
    while !listed() {
        match hub.apiserver_version().await {
            Err(error) if is_away(&error) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= AWAY {
                    return true;
                }
            }
            Ok(_) | Err(_) => since = None,
        }
        sleep(HUB_CHECK).await;
    }
    false
}

fn version(work: &ManifestWork) -> String {
    work.metadata.resource_version.clone().unwrap_or_default()
}

/// Returns true if the cluster rejects the secret permanently, for example because it is too large.
fn is_final(error: &JoinError) -> bool {
    match error {
        JoinError::Api { source: kube::Error::Api(status), .. } => matches!(status.code, 400 | 413 | 422),
        _ => false,
    }
}

impl WorkDigest {
    /// Ignores versions, other conditions and feedback values: no plan reads them, and they change often.
    fn new(work: &ManifestWork) -> Self {
        let ManifestWork { metadata, spec, status, root: _ } = work;
        let metadata = ObjectMeta { resource_version: None, managed_fields: None, ..metadata.clone() };
        let conditions: Vec<_> = status.iter().flat_map(|status| states(&status.conditions)).collect();
        let manifests: Vec<_> = status
            .iter()
            .flat_map(|status| &status.resource_status.manifests)
            .map(|one| (&one.resource_meta, states(&one.conditions).collect::<Vec<_>>()))
            .collect();
        Self { content: hashed(&(metadata, spec)), states: hashed(&(conditions, manifests)) }
    }
}

fn hashed(value: &impl Serialize) -> String {
    hex(Sha256::digest(serde_json::to_string(value).unwrap_or_default()))
}

/// Returns the states of the conditions that a plan reads, each with its generation.
fn states(conditions: &[Condition]) -> impl Iterator<Item = (&str, &ConditionStatus, Option<i64>)> {
    let read = conditions.iter().filter(|condition| [APPLIED, COMPLETE].contains(&condition.type_.as_str()));
    read.map(|condition| (condition.type_.as_str(), &condition.status, condition.observed_generation))
}

fn packed(work: &ManifestWork) -> Vec<u8> {
    let text = serde_json::to_vec(work).unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text).expect("a vector takes every byte");
    encoder.finish().expect("a vector takes every byte")
}

fn unpacked(secret: &Secret) -> Option<ManifestWork> {
    let ByteString(packed) = secret.data.as_ref()?.get("work")?;
    let mut text = Vec::new();
    GzDecoder::new(packed.as_slice()).take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
#[path = "tests/stored_works.rs"]
mod tests;
