//! The spans of an operator. The fetch is the first span of a commit, and all work of the controllers for it is
//! below the fetch. Only the webhook that requested the fetch comes before it.
//!
//! An object on the hub belongs to the commit that its ConfigRepo is applying, or has applied last. If a later
//! commit of the same repository overtakes a rollout, the rollout's writes therefore belong to the later
//! commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest as _, Sha256};

use super::TraceOptions;
use super::export::{Exporter, SpanQueue};
use super::message::{KeyValue, Span, SpanKind, Status, StatusCode};
use crate::shell::{Activity, ActivityKind};
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::{Key, Kind};
use reconcile::{Act, Action, Caches, Failure, FailureKind, Outcome, Source, View as _};

/// Creates spans for the operator's work on commits.
pub(crate) struct Tracer {
    queue: SpanQueue,
    /// Makes span ids unique across processes.
    seed: [u8; 16],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The commits being applied, by ConfigRepo.
    applying: BTreeMap<Key, Applying>,
    /// The traces of reconciliations that have written, by `reconcile_id`.
    written: BTreeMap<u64, TraceContext>,
    /// Numbers the spans that have no other id.
    count: u64,
}

struct Applying {
    commit: String,
    /// The commit that was applied before.
    before: Option<String>,
}

/// The position of a span in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TraceContext {
    trace_id: Vec<u8>,
    parent: Vec<u8>,
    commit: String,
    repo: Key,
}

/// The times of a fetch.
pub(crate) struct FetchTimes {
    /// The time when a webhook requested it, if one did.
    pub(crate) hinted: Option<Timestamp>,
    pub(crate) began: Timestamp,
    pub(crate) ended: Timestamp,
}

/// A span without its position.
struct Work {
    id: Vec<u8>,
    name: String,
    kind: SpanKind,
    began: Timestamp,
    ended: Timestamp,
    attributes: Vec<KeyValue>,
    status: Option<Status>,
}

impl Tracer {
    /// Returns a tracer, and the exporter for its spans.
    pub(crate) fn new(options: TraceOptions) -> (Self, Exporter) {
        let (queue, exporter) = Exporter::new(options);
        let mut seed = [0; 16];
        // Without random bytes, ids of two processes may collide, which only garbles a trace.
        let _ = SystemRandom::new().fill(&mut seed);
        (Self { queue, seed, state: Mutex::default() }, exporter)
    }

    /// Creates the first spans of a newly fetched commit. A commit that an earlier process fetched gets no new
    /// ones.
    pub(crate) fn fetched(&self, repo: &ConfigRepo, source: &Source, times: FetchTimes) {
        let FetchTimes { hinted, began, ended } = times;
        let Some(commit) = source.checkout.as_ref().map(|checkout| checkout.revision.as_str()) else {
            return;
        };
        let seen = repo.status.as_ref().and_then(|status| status.seen.as_ref());
        if seen.is_some_and(|seen| seen.commit == commit) {
            return;
        }
        let Some(context) = TraceContext::new(repo, commit) else { return };
        let first = TraceContext { parent: Vec::new(), ..context.clone() };
        let mut parent = Vec::new();
        if let Some(hinted) = hinted {
            parent = self.next_id();
            let (id, name, kind) = (parent.clone(), "push".into(), SpanKind::Internal);
            let (began, ended) = (hinted, began);
            self.add(&first, Work { id, name, kind, began, ended, attributes: Vec::new(), status: None });
        }
        let (id, name, kind) = (context.parent, "fetch".into(), SpanKind::Client);
        let work = Work { id, name, kind, began, ended, attributes: Vec::new(), status: None };
        self.add(&TraceContext { parent, ..first }, work);
    }

    /// Creates a span for an activity that a commit caused.
    pub(crate) fn observe(&self, activity: &Activity<'_>) {
        let Activity { caches, began, ended, kind } = activity;
        let (began, ended) = (*began, *ended);
        let attribute = |key: &Key| vec![KeyValue::new("wheelwright.key", key.to_string())];
        match kind {
            ActivityKind::Computed { controller, key, name } => {
                let Some(context) = self.context(caches, controller, key) else { return };
                let name = if *name == "rendered commit" { "render" } else { name };
                let (name, kind, attributes) = (name.to_owned(), SpanKind::Internal, attribute(key));
                let id = self.next_id();
                self.add(&context, Work { id, name, kind, began, ended, attributes, status: None });
            }
            ActivityKind::Acted { act, outcome } => {
                self.applies(caches, act);
                let Some(context) = self.context(caches, act.controller, &act.key) else { return };
                self.acted(context, activity, act, outcome);
            }
            ActivityKind::Reconciled(result) => {
                let Some(context) = self.lock(|state| state.written.remove(&result.reconcile_id)) else {
                    return;
                };
                let name = format!("reconcile {}", result.controller);
                let (kind, attributes) = (SpanKind::Internal, attribute(&result.key));
                let status = result.failure.as_ref().and_then(status);
                let id = self.reconcile_id(result.reconcile_id);
                self.add(&context, Work { id, name, kind, began, ended, attributes, status });
            }
        }
    }

    /// Creates a span for a write, as a child of its reconciliation.
    fn acted(&self, context: TraceContext, activity: &Activity<'_>, act: &Act, outcome: &Outcome) {
        let (verb, object) = match act.action() {
            Action::Apply { dry_run: true, .. } => return,
            action @ Action::Apply { dry_run: false, .. } => ("apply", action.target()),
            action @ Action::Create { .. } => ("create", action.target()),
            action @ Action::Patch { .. } => ("patch", action.target()),
            action @ Action::Replace { .. } => ("replace", action.target()),
            action @ Action::Delete { .. } => ("delete", action.target()),
            Action::Push(_) => ("push report", None),
            Action::SetCommitStatus(_) => ("set commit status", None),
            Action::Notify(_) => ("notify", None),
        };
        let name = match &object {
            Some(object) => format!("{verb} {}", object.gvk.kind),
            None => verb.into(),
        };
        let object = object.map(|object| KeyValue::new("wheelwright.object", object.key.to_string()));
        let status = outcome.as_ref().err().and_then(status);
        let (began, ended, kind) = (activity.began, activity.ended, SpanKind::Client);
        let attributes = object.into_iter().collect();
        let parent = self.reconcile_id(act.reconcile_id);
        let id = self.next_id();
        let work = Work { id, name, kind, began, ended, attributes, status };
        self.add(&TraceContext { parent, ..context.clone() }, work);
        self.lock(|state| {
            state.written.entry(act.reconcile_id).or_insert(context);
        });
    }

    /// Records the commit if this writes one of its objects. The status of the ConfigRepo names the commit only
    /// after all of its objects are written.
    fn applies(&self, caches: &Caches, act: &Act) {
        let Action::Apply { object, dry_run: false, .. } = act.action() else { return };
        let is_of_commit = object.annotations().contains_key(names::CONFIG_REPO_ANNOTATION);
        if act.controller != "config-repo" || !is_of_commit {
            return;
        }
        let Some(commit) = fetched_commit(caches, &act.key) else { return };
        let before = get::<ConfigRepo>(caches, &act.key).as_deref().and_then(applied);
        self.lock(|state| {
            state.applying.insert(act.key.clone(), Applying { commit, before });
        });
    }

    /// Returns the position for spans of a controller's key; `None` if they belong to no known commit.
    fn context(&self, caches: &Caches, controller: &str, key: &Key) -> Option<TraceContext> {
        let repo = match controller {
            "config-repo" | "report" | "commit-status" => key.clone(),
            "placement" | "cluster-decision" => origin::<Placement>(caches, key)?,
            "addon-config" | "addon-install" | "overview" => origin::<ClusterManagementAddOn>(caches, key)?,
            "addon-deploy" | "addon-health" => {
                origin::<ClusterManagementAddOn>(caches, &Key::cluster(&key.name))?
            }
            "replica-set" => origin::<ManifestWorkReplicaSet>(caches, key)?,
            _ => return None,
        };
        let found = get::<ConfigRepo>(caches, &repo)?;
        let commit = match controller {
            "config-repo" => fetched_commit(caches, &repo)?,
            _ => self.commit(&repo, &found)?,
        };
        TraceContext::new(&found, &commit)
    }

    /// Returns the commit that a ConfigRepo is applying or has applied last.
    fn commit(&self, key: &Key, repo: &ConfigRepo) -> Option<String> {
        let applied = applied(repo);
        self.lock(|state| match state.applying.get(key) {
            Some(applying) if applying.before == applied => Some(applying.commit.clone()),
            Some(_) | None => applied,
        })
    }

    fn add(&self, context: &TraceContext, work: Work) {
        let TraceContext { trace_id, parent, commit, repo } = context;
        let Work { id, name, kind, began, ended, mut attributes, status } = work;
        // The attribute name in OpenTelemetry's semantic conventions.
        attributes.push(KeyValue::new("vcs.ref.head.revision", commit));
        attributes.push(KeyValue::new("wheelwright.config_repo", repo.to_string()));
        let nanoseconds = |time: Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or_default();
        self.queue.add(Span {
            trace_id: trace_id.clone(),
            span_id: id,
            parent_span_id: parent.clone(),
            name,
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(began),
            // If the clock was set back, the span must still not end before its start.
            end_time_unix_nano: nanoseconds(ended.max(began)),
            attributes,
            status,
        });
    }

    fn reconcile_id(&self, reconcile_id: u64) -> Vec<u8> {
        span_id(&[&self.seed, b"reconcile", &reconcile_id.to_be_bytes()])
    }

    fn next_id(&self) -> Vec<u8> {
        let count = self.lock(|state| {
            state.count += 1;
            state.count
        });
        span_id(&[&self.seed, b"span", &count.to_be_bytes()])
    }

    fn lock<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TraceContext {
    /// Returns the position below the first span of a commit; `None` if the commit id has less than 16 bytes.
    fn new(repo: &ConfigRepo, commit: &str) -> Option<Self> {
        // The revision of an artifact is `TAG@sha256:DIGEST`.
        let digits = commit.rsplit(':').next()?.get(..32)?;
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let trace_id = (0..32).step_by(2).map(byte).collect::<Option<_>>()?;
        let uid = repo.metadata.uid.as_deref().unwrap_or_default();
        let parent = span_id(&[uid.as_bytes(), b"commit", commit.as_bytes()]);
        Some(Self { trace_id, parent, commit: commit.into(), repo: Key::of(repo) })
    }
}

/// Returns the first 8 bytes of a digest.
fn span_id(parts: &[&[u8]]) -> Vec<u8> {
    let digest = parts.iter().fold(Sha256::new(), |digest, part| digest.chain_update(part)).finalize();
    digest.iter().take(8).copied().collect()
}

fn status(failure: &Failure) -> Option<Status> {
    // A conflict only means that the object has changed since it was read.
    let is_error = failure.kind != FailureKind::Conflict;
    is_error.then(|| Status { message: failure.message.clone(), code: StatusCode::Error.into() })
}

fn get<K: Kind>(caches: &Caches, key: &Key) -> Option<Arc<K>> {
    caches.get::<K>(key).ok().flatten()
}

/// Returns the ConfigRepo that applied an object.
fn origin<K: Kind>(caches: &Caches, key: &Key) -> Option<Key> {
    let object = get::<K>(caches, key)?;
    let repo = object.meta().annotations.as_ref()?.get(names::CONFIG_REPO_ANNOTATION)?;
    let (namespace, name) = repo.split_once('/')?;
    Some(Key::namespaced(namespace, name))
}

fn fetched_commit(caches: &Caches, repo: &Key) -> Option<String> {
    Some(caches.source(repo)?.checkout.as_ref()?.revision.clone())
}

fn applied(repo: &ConfigRepo) -> Option<String> {
    Some(repo.status.as_ref()?.applied.as_ref()?.commit.clone())
}

#[cfg(test)]
#[path = "tests/spans.rs"]
mod tests;
