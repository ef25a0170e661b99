//! The metrics of a shell. Labels come from closed sets: controllers, actions, reasons and watched kinds.

use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use object::Gvk;
use reconcile::{Act, Action, CachedCount, ControllerInfo, FailureKind, Outcome, ReconcileResult};

/// Counters since the process started.
pub(super) struct Metrics {
    reconciles: Family<ByController, Counter>,
    reconcile_seconds: Family<ByController, Histogram, Buckets>,
    decision_seconds: Family<ByController, Histogram, Buckets>,
    computation_seconds: Family<ByName, Histogram, Buckets>,
    panics: Family<ByController, Counter>,
    read_errors: Family<ByReason, Counter>,
    writes: Family<ByAction, Counter>,
    write_seconds: Family<ByAction, Histogram, Buckets>,
    write_failures: Family<ByFailure, Counter>,
    watch_restarts: Family<ByKind, Counter>,
    resource_version_resets: Family<ByKind, Counter>,
    fetch_seconds: Histogram,
    fetch_failures: Family<ByFetchFailure, Counter>,
    received_bytes: Counter,
    sent_bytes: Counter,
}

/// From 1 ms, doubled 16 times, to 65 s.
type Buckets = fn() -> Histogram;

fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByName {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAction {
    controller: &'static str,
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFailure {
    controller: &'static str,
    failure: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    controller: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFetchFailure {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: String,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reconciles: Family::default(),
            reconcile_seconds: Family::new_with_constructor(buckets),
            decision_seconds: Family::new_with_constructor(buckets),
            computation_seconds: Family::new_with_constructor(buckets),
            panics: Family::default(),
            read_errors: Family::default(),
            writes: Family::default(),
            write_seconds: Family::new_with_constructor(buckets),
            write_failures: Family::default(),
            watch_restarts: Family::default(),
            resource_version_resets: Family::default(),
            fetch_seconds: buckets(),
            fetch_failures: Family::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
        }
    }
}

impl Metrics {
    /// Returns the start of a measured duration.
    pub(super) fn start(&self) -> Instant {
        Instant::now()
    }

    pub(super) fn decided(&self, controller: &'static str, started: Instant) {
        let seconds = started.elapsed().as_secs_f64();
        self.decision_seconds.get_or_create(&ByController { controller }).observe(seconds);
    }

    pub(super) fn computed(&self, name: &'static str, started: Instant) {
        self.computation_seconds.get_or_create(&ByName { name }).observe(started.elapsed().as_secs_f64());
    }

    /// Counts the end of a reconciliation.
    pub(super) fn ended(&self, ended: &ReconcileResult, now: Timestamp) {
        let controller = ended.controller;
        self.reconciles.get_or_create(&ByController { controller }).inc();
        let seconds = now.duration_since(ended.began).as_secs_f64();
        self.reconcile_seconds.get_or_create(&ByController { controller }).observe(seconds);
        if ended.panicked {
            self.panics.get_or_create(&ByController { controller }).inc();
        }
        if let Some(error) = &ended.read_error {
            self.read_errors.get_or_create(&ByReason { controller, reason: error.reason.as_str() }).inc();
        }
    }

    /// Counts an action that was attempted.
    pub(super) fn wrote(&self, act: &Act, outcome: &Outcome, started: Instant) {
        let controller = act.controller;
        let action = match act.action() {
            Action::Apply { dry_run: true, .. } => "dry-run",
            Action::Apply { dry_run: false, .. } => "apply",
            Action::Create { .. } => "create",
            Action::Patch { .. } => "patch",
            Action::Replace { .. } => "replace",
            Action::Delete { .. } => "delete",
            Action::Push(_) => "push",
            Action::SetCommitStatus(_) => "commit-status",
            Action::Notify(_) => "notify",
        };
        let labels = ByAction { controller, action };
        self.writes.get_or_create(&labels).inc();
        self.write_seconds.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
        if let Err(failure) = outcome {
            let failure = failure_word(failure.kind);
            self.write_failures.get_or_create(&ByFailure { controller, failure }).inc();
        }
    }

    pub(super) fn watch_restarted(&self, gvk: &Gvk) {
        self.watch_restarts.get_or_create(&ByKind { kind: gvk.to_string() }).inc();
    }

    pub(super) fn versions_went_back(&self, gvk: &Gvk) {
        self.resource_version_resets.get_or_create(&ByKind { kind: gvk.to_string() }).inc();
    }

    /// Counts a fetch that has ended.
    pub(super) fn fetched(&self, took: SignedDuration, bytes: u64, failure: Option<&'static str>) {
        self.fetch_seconds.observe(took.as_secs_f64());
        self.received_bytes.inc_by(bytes);
        if let Some(reason) = failure {
            self.fetch_failures.get_or_create(&ByFetchFailure { reason }).inc();
        }
    }

    /// Counts bytes that were sent to git servers.
    pub(super) fn sent_to_git(&self, bytes: u64) {
        self.sent_bytes.inc_by(bytes);
    }

    /// Registers the counters, and the current state of the process.
    pub(super) fn register(&self, registry: &mut Registry, state: &ProcessState) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let ProcessState { controllers, cached } = state;
        let depth = Family::<ByController, Gauge>::default();
        for info in controllers {
            let labels = ByController { controller: info.name };
            depth.get_or_create(&labels).set(count(info.depth));
            // Prometheus' `increase()` does not see the first panic if the series begins with it.
            drop(self.panics.get_or_create(&labels));
        }
        let cached_objects = Family::<ByKind, Gauge>::default();
        let unreadable_objects = Family::<ByKind, Gauge>::default();
        for (kind, CachedCount { objects, unreadable }) in cached {
            let labels = ByKind { kind: kind.to_string() };
            cached_objects.get_or_create(&labels).inc_by(count(*objects));
            if *unreadable > 0 {
                unreadable_objects.get_or_create(&labels).inc_by(count(*unreadable));
            }
        }
        registry.register(
            "reconcile",
            "Reconciliations: from the plan for a key to its last write",
            self.reconciles.clone(),
        );
        let help = "Time from the start of a reconciliation to its last write";
        registry.register("reconcile_duration_seconds", help, self.reconcile_seconds.clone());
        let help = "Duration of plans and conclusions, without their writes";
        registry.register("decision_duration_seconds", help, self.decision_seconds.clone());
        let help = "Duration of computations outside of plans, such as rendering a commit";
        registry.register("computation_duration_seconds", help, self.computation_seconds.clone());
        registry.register(
            "reconcile_panics",
            "Reconciliations that ended with a panic, which is a bug",
            self.panics.clone(),
        );
        let help = "Reconciliations that ended because a read could not be completed";
        registry.register("read_errors", help, self.read_errors.clone());
        registry.register("writes", "Write requests", self.writes.clone());
        registry.register("write_duration_seconds", "Duration of write requests", self.write_seconds.clone());
        registry.register("write_failures", "Write requests that failed", self.write_failures.clone());
        registry.register(
            "watch_restarts",
            "Watches that ended or failed and were restarted",
            self.watch_restarts.clone(),
        );
        let help = "Lists with a lower resource version than before, for example after a restore of etcd";
        registry.register("resource_version_resets", help, self.resource_version_resets.clone());
        registry.register("queue_depth", "Keys that are due or running", depth);
        registry.register("cached_objects", "Objects in the caches", cached_objects);
        registry.register(
            "unreadable_objects",
            "Objects that do not match the type of their kind",
            unreadable_objects,
        );
        self.register_fetches(registry);
    }

    fn register_fetches(&self, registry: &mut Registry) {
        let help = "Duration of fetches of repositories";
        registry.register("fetch_duration_seconds", help, self.fetch_seconds.clone());
        let help = "Fetches of repositories that failed, by the reason of the condition";
        registry.register("fetch_failures", help, self.fetch_failures.clone());
        let help = "Bytes received from git servers";
        registry.register("git_received_bytes", help, self.received_bytes.clone());
        let help = "Bytes sent to git servers: reports, and the requests of fetches";
        registry.register("git_sent_bytes", help, self.sent_bytes.clone());
    }
}

/// Registers a gauge that shows whether the process may write.
pub(super) fn register_leader(registry: &mut Registry, leads: bool) {
    let leader = Gauge::<i64>::default();
    leader.set(leads.into());
    registry.register("leader", "1 if the process leads and may write, 0 if it waits to be elected", leader);
}

/// The state of a process at a scrape.
#[derive(Default)]
pub(super) struct ProcessState {
    pub(super) controllers: Vec<ControllerInfo>,
    /// The number of cached objects by kind.
    pub(super) cached: Vec<(Gvk, CachedCount)>,
}

fn failure_word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Conflict => "conflict",
        FailureKind::FieldConflict => "field_conflict",
        FailureKind::Invalid => "invalid",
        FailureKind::Forbidden => "forbidden",
        FailureKind::NotFound => "not_found",
        FailureKind::Unavailable => "unavailable",
    }
}

/// Registers every metric with a value, to list them in the docs.
pub fn register_samples(registry: &mut Registry) {
    let metrics = Metrics::default();
    let controller = "placement";
    metrics.reconciles.get_or_create(&ByController { controller }).inc();
    for family in [&metrics.reconcile_seconds, &metrics.decision_seconds] {
        family.get_or_create(&ByController { controller }).observe(1.0);
    }
    metrics.computation_seconds.get_or_create(&ByName { name: "rendered commit" }).observe(1.0);
    metrics.panics.get_or_create(&ByController { controller }).inc();
    metrics.read_errors.get_or_create(&ByReason { controller, reason: "NotListed" }).inc();
    let labels = ByAction { controller, action: "apply" };
    metrics.writes.get_or_create(&labels).inc();
    metrics.write_seconds.get_or_create(&labels).observe(1.0);
    metrics.write_failures.get_or_create(&ByFailure { controller, failure: "conflict" }).inc();
    metrics.watch_restarted(&Gvk::parse("apps/v1", "Deployment"));
    metrics.versions_went_back(&Gvk::parse("apps/v1", "Deployment"));
    let controllers = vec![ControllerInfo { name: controller, reporter: "", depth: 3, is_ready: true }];
    metrics.fetched(SignedDuration::from_secs(1), 2048, Some("Unreachable"));
    metrics.sent_to_git(512);
    let cached = vec![(Gvk::parse("v1", "Secret"), CachedCount { objects: 40, unreadable: 2 })];
    metrics.register(registry, &ProcessState { controllers, cached });
    register_leader(registry, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn metrics_are_named_for_the_product() {
        let mut registry = Registry::with_prefix("wheelwright");
        register_samples(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "wheelwright_leader 1",
            "wheelwright_reconcile_total{controller=\"placement\"} 1",
            "wheelwright_watch_restarts_total{kind=\"Deployment.apps\"} 1",
            "wheelwright_queue_depth{controller=\"placement\"} 3",
            "wheelwright_cached_objects{kind=\"Secret\"} 40",
            "wheelwright_unreadable_objects{kind=\"Secret\"} 2",
            "wheelwright_fetch_duration_seconds_count 1",
            "wheelwright_fetch_failures_total{reason=\"Unreachable\"} 1",
            "wheelwright_git_received_bytes_total 2048",
            "wheelwright_git_sent_bytes_total 512",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
