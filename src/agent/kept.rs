//! The works of the hub, kept in secrets of the cluster. An agent that starts while the hub is away uses
//! them: it corrects drift, and removes only what a work that is being deleted has applied.
//!
//! A secret holds one work, in gzip, and is written when a field changes that a plan reads. Manifests may
//! hold secrets, so they are kept in Secrets only. A work that is too large for a Secret is not kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::AgentOptions;
use super::error::{JoinError, api};
use super::hub::Hub;
use crate::shell::{Handle, is_away};
use api::names::{AGENT, KEPT_WORK_LABEL, KEPT_WORK_TYPE};
use api::work::v1::ManifestWork;
use object::text::with_causes;
use object::{Metadata as _, hex};
use reconcile::{Query, Site, View as _};

/// Interval of the checks for works that changed.
const PERIOD: Duration = Duration::from_secs(5);
/// Interval of the checks whether the hub answers. The kept works count if the hub is away for this long at
/// the start.
const HUB_CHECK: Duration = Duration::from_secs(1);
const AWAY: Duration = Duration::from_secs(5);
/// Longest work: API servers take requests of 3 MiB.
const MAX_BYTES: u64 = 3 << 20;

/// Keeps the works of one cluster of one hub.
pub(super) struct KeptWorks {
    secrets: Api<Secret>,
    cluster: String,
    /// Distinguishes the hubs.
    hub: String,
    /// The digests of the works that are kept, by the name of the secret; `None` if the work is of another
    /// hub or unreadable.
    held: BTreeMap<String, Option<String>>,
    /// The resource versions of the works that are kept as they are, or that no secret takes.
    handled: BTreeMap<String, String>,
    /// The new works that had no status at the last check.
    new: BTreeSet<String>,
}

impl KeptWorks {
    pub(super) fn new(options: &AgentOptions, hub: &Hub) -> Self {
        Self {
            secrets: Api::namespaced(options.home().clone(), &options.secret.namespace),
            cluster: options.cluster.clone(),
            hub: hub.label(),
            held: BTreeMap::new(),
            handled: BTreeMap::new(),
            new: BTreeSet::new(),
        }
    }

    /// Hands the kept works to the controllers if the hub is away at the start, and keeps those of the hub
    /// until `stop`.
    pub(super) async fn run(mut self, hub: &kube::Client, shell: Handle, stop: &CancellationToken) {
        let kept = match self.load().await {
            Ok(kept) => kept,
            Err(error) => {
                warn!(error = with_causes(&error), "cannot read the works that are kept on the cluster");
                Vec::new()
            }
        };
        let listed = || shell.caches().is_listed::<ManifestWork>(Site::Hub);
        let is_away = stop.run_until_cancelled(is_away_at_start(hub, listed)).await;
        if is_away == Some(true) {
            info!(
                cluster = self.cluster,
                count = kept.len(),
                "the hub is away; going on from the kept works"
            );
            shell.keep(kept);
        } else {
            drop(kept);
        }
        let cluster = self.cluster.clone();
        let works =
            || shell.caches().list::<ManifestWork>(Query::namespace(&cluster)).ok().filter(|_| listed());
        while !stop.is_cancelled() {
            if let Some(works) = works() {
                self.keep(&works, false).await;
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        // Writes the last changes of a process that stops in the regular way.
        if let Some(works) = works() {
            self.keep(&works, true).await;
        }
    }

    /// Reads the kept works of this cluster and hub.
    async fn load(&mut self) -> Result<Vec<ManifestWork>, JoinError> {
        let all = self.secrets.list(&ListParams::default().labels(KEPT_WORK_LABEL)).await;
        let secrets = all.map_err(api("list the kept works"))?.items;
        let kept = of_cluster(secrets, &self.cluster, &self.hub);
        self.held = kept.iter().map(|(name, work)| (name.clone(), work.as_ref().map(digest))).collect();
        Ok(kept.into_values().flatten().collect())
    }

    /// Keeps the works that changed, and removes those that are gone. The last check leaves no work for
    /// later.
    async fn keep(&mut self, works: &[Arc<ManifestWork>], is_last: bool) {
        let wanted: BTreeMap<String, _> = works.iter().map(|work| (self.name_of(work), work)).collect();
        for (name, work) in &wanted {
            if self.handled.get(name).is_some_and(|seen| *seen == version(work))
                || (!is_last && self.waits(name, work))
            {
                continue;
            }
            let digest = digest(work);
            if self.held.get(name).is_none_or(|held| held.as_ref() != Some(&digest)) {
                let written = self.write(name, work).await;
                if let Err(error) = &written {
                    warn!(
                        work = work.name(),
                        error = with_causes(error),
                        "cannot keep a work on the cluster"
                    );
                    if !is_final(error) {
                        continue;
                    }
                }
                self.held.insert(name.clone(), written.is_ok().then_some(digest));
            }
            self.handled.insert(name.clone(), version(work));
        }
        self.new.retain(|name| wanted.contains_key(name) && !self.held.contains_key(name));
        let gone: Vec<String> =
            self.held.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            match self.secrets.delete(&name, &DeleteParams::default()).await {
                Err(error) if !matches!(&error, kube::Error::Api(status) if status.is_not_found()) => {
                    warn!(secret = name, %error, "cannot remove a kept work that is gone; it is tried again");
                }
                Ok(_) | Err(_) => {
                    self.held.remove(&name);
                    self.handled.remove(&name);
                }
            }
        }
    }

    /// Returns whether a work is left for the next check: its first status comes, after which it would have
    /// to be kept once more. A change of a kept work is not left.
    fn waits(&mut self, name: &str, work: &ManifestWork) -> bool {
        let has_status = work.status.as_ref().is_some_and(|status| !status.conditions.is_empty());
        if has_status || self.held.contains_key(name) {
            return false;
        }
        self.new.insert(name.to_owned())
    }

    async fn write(&self, name: &str, work: &ManifestWork) -> Result<(), JoinError> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": KEPT_WORK_TYPE,
            "metadata": {"name": name, "labels": {KEPT_WORK_LABEL: self.hub}},
            "data": {"work": ByteString(packed(work))},
        });
        let params = PatchParams::apply(AGENT).force();
        let written = self.secrets.patch(name, &params, &Patch::Apply(secret)).await;
        written.map(drop).map_err(api("keep a work on the cluster"))
    }

    fn name_of(&self, work: &ManifestWork) -> String {
        let text = format!("{}/{}/{}", self.hub, self.cluster, work.name());
        let hash: String = hex(Sha256::digest(text)).chars().take(32).collect();
        format!("kept-work-{hash}")
    }
}

/// Returns the works in the secrets by the name of the secret; `None` for one of another hub or an unreadable
/// one. Those of other clusters are left out: their agents may keep them in the same namespace.
fn of_cluster(secrets: Vec<Secret>, cluster: &str, hub: &str) -> BTreeMap<String, Option<ManifestWork>> {
    let mut kept = BTreeMap::new();
    for secret in secrets {
        let work = unpacked(&secret);
        if work.as_ref().is_some_and(|work| work.namespace() != cluster) {
            continue;
        }
        let labels = secret.metadata.labels.unwrap_or_default();
        let is_of_hub = labels.get(KEPT_WORK_LABEL).is_some_and(|label| label == hub);
        kept.extend(secret.metadata.name.map(|name| (name, work.filter(|_| is_of_hub))));
    }
    kept
}

/// Returns whether the hub stays away until the works have been listed.
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

/// Returns whether the cluster refuses the secret as it is, such as one that is too large.
fn is_final(error: &JoinError) -> bool {
    match error {
        JoinError::Api { source: kube::Error::Api(status), .. } => matches!(status.code, 400 | 413 | 422),
        _ => false,
    }
}

/// Returns a digest of the parts of a work that a plan reads.
fn digest(work: &ManifestWork) -> String {
    let text = serde_json::to_string(&essence(work)).unwrap_or_default();
    hex(Sha256::digest(text))
}

/// Returns a work without versions, times, messages and feedback values. No plan reads them, and they change
/// often.
fn essence(work: &ManifestWork) -> ManifestWork {
    let mut work = work.clone();
    (work.metadata.resource_version, work.metadata.managed_fields) = (None, None);
    if let Some(status) = &mut work.status {
        let manifests = &mut status.resource_status.manifests;
        let of_manifests = manifests.iter_mut().flat_map(|manifest| {
            manifest.status_feedback = Default::default();
            &mut manifest.conditions
        });
        for condition in status.conditions.iter_mut().chain(of_manifests) {
            condition.message = String::new();
            condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        }
    }
    work
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn work(text: &str) -> ManifestWork {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_work_is_written_again_when_a_plan_would_see_another_one() {
        let with = |version: &str, generation: u32, applied: &str, value: &str| {
            work(&format!(
                r#"{{"metadata": {{"namespace": "c1", "name": "w", "resourceVersion": "{version}", "generation": {generation}}},
                    "spec": {{"workload": {{"manifests": []}}}},
                    "status": {{"conditions": [], "resourceStatus": {{"manifests": [{{"resourceMeta": {{"ordinal": 0}},
                        "statusFeedback": {{"values": [{{"name": "a", "fieldValue": {{"type": "String", "string": "{value}"}}}}]}},
                        "conditions": [{{"type": "Applied", "status": "{applied}", "reason": "", "message": "{value}",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}}]}}]}}}}}}"#
            ))
        };
        let held = digest(&with("1", 1, "True", "x"));
        assert_eq!(digest(&with("2", 1, "True", "y")), held, "versions, values and texts do not count");
        assert_ne!(digest(&with("2", 2, "True", "x")), held);
        assert_ne!(digest(&with("2", 1, "False", "x")), held);
    }

    #[test]
    fn a_kept_work_is_read_as_it_was_and_one_that_expands_too_far_is_not() {
        let kept = work(
            r#"{"metadata": {"namespace": "c1", "name": "w"}, "spec": {"workload": {"manifests": [{"a": "é"}]}}}"#,
        );
        let secret = |packed: Vec<u8>| Secret {
            data: Some([("work".to_owned(), ByteString(packed))].into()),
            ..Secret::default()
        };
        assert_eq!(unpacked(&secret(packed(&kept))), Some(kept.clone()));
        let mut large = kept;
        large.metadata.labels = Some([("a".to_owned(), "b".repeat(4 << 20))].into());
        assert_eq!(unpacked(&secret(packed(&large))), None);
        assert_eq!(unpacked(&secret(b"no gzip".to_vec())), None);
    }

    /// An agent deletes the secrets that it holds and does not want.
    #[test]
    fn an_agent_holds_no_work_that_the_agent_of_another_cluster_keeps_beside_it() {
        let secret = |name: &str, hub: &str, data: Vec<u8>| Secret {
            metadata: kube::api::ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(KEPT_WORK_LABEL.to_owned(), hub.to_owned())].into()),
                ..Default::default()
            },
            data: Some([("work".to_owned(), ByteString(data))].into()),
            ..Secret::default()
        };
        let of = |cluster: &str| {
            let metadata = json!({"namespace": cluster, "name": "w"});
            work(&json!({"metadata": metadata, "spec": {"workload": {"manifests": []}}}).to_string())
        };
        let secrets = vec![
            secret("ours", "h1", packed(&of("c1"))),
            secret("of-the-hub-before", "h2", packed(&of("c1"))),
            secret("of-the-neighbour", "h1", packed(&of("c2"))),
            secret("broken", "h1", b"no gzip".to_vec()),
        ];
        let held = [("broken", None), ("of-the-hub-before", None), ("ours", Some(of("c1")))];
        let held = held.map(|(name, work)| (name.to_owned(), work));
        assert_eq!(of_cluster(secrets, "c1", "h1"), BTreeMap::from(held));
    }

    /// Keeps the works of one check after the other; returns how many secrets each check writes.
    async fn written(checks: &[(&[ManifestWork], bool)]) -> Vec<usize> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            assert_eq!(request.method(), http::Method::PATCH);
            counted.fetch_add(1, Ordering::Relaxed);
            async { http::Response::builder().body(kube::client::Body::from(b"{}".to_vec())) }
        });
        let mut kept = KeptWorks {
            secrets: Api::namespaced(kube::Client::new(service, "default"), "ns"),
            cluster: "c1".into(),
            hub: "h1".into(),
            held: BTreeMap::new(),
            handled: BTreeMap::new(),
            new: BTreeSet::new(),
        };
        let mut written = Vec::new();
        for (works, is_last) in checks {
            let works: Vec<_> = works.iter().cloned().map(Arc::new).collect();
            kept.keep(&works, *is_last).await;
            written.push(count.swap(0, Ordering::Relaxed));
        }
        written
    }

    #[tokio::test]
    async fn a_new_work_is_kept_once_with_its_first_status() {
        let with = |version: &str, conditions: serde_json::Value| {
            let metadata = json!({"namespace": "c1", "name": "w", "resourceVersion": version});
            let status = json!({"conditions": conditions, "resourceStatus": {"manifests": []}});
            let spec = json!({"workload": {"manifests": []}});
            [work(&json!({"metadata": metadata, "spec": spec, "status": status}).to_string())]
        };
        let time = "2026-01-01T00:00:00Z";
        let applied = json!({"type": "Applied", "status": "True", "reason": "", "message": "", "lastTransitionTime": time});
        let (new, done) = (with("1", json!([])), with("2", json!([applied])));
        assert_eq!(written(&[(&new, false), (&done, false), (&done, false)]).await, [0, 1, 0]);
        let checks = [(&new[..], false), (&new, false), (&done, false)];
        assert_eq!(written(&checks).await, [0, 1, 1], "it waits once");
        assert_eq!(written(&[(&new, true)]).await, [1], "there is no later check");
        let mut changed = new.clone();
        (changed[0].metadata.resource_version, changed[0].metadata.generation) = (Some("3".into()), Some(2));
        let checks = [(&new[..], false), (&new, false), (&changed, false)];
        assert_eq!(written(&checks).await, [0, 1, 1], "the change of a kept work does not wait");
    }
}
