//! What a shell counts. Labels come from closed sets: controllers, actions and kinds of failure.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use reconcile::{Action, FailureKind};

/// Counters since the process started.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    plans: Family<ByController, Counter>,
    panics: Family<ByController, Counter>,
    unread: Family<ByController, Counter>,
    writes: Family<ByAction, Counter>,
    failures: Family<ByFailure, Counter>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
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

impl Metrics {
    pub(super) fn planned(&self, controller: &'static str) {
        self.plans.get_or_create(&ByController { controller }).inc();
    }

    pub(super) fn unread(&self, controller: &'static str) {
        self.unread.get_or_create(&ByController { controller }).inc();
    }

    pub(super) fn panicked(&self, controller: &'static str) {
        self.panics.get_or_create(&ByController { controller }).inc();
    }

    pub(super) fn wrote(&self, controller: &'static str, action: &Action) {
        let action = match action {
            Action::Apply { .. } => "apply",
            Action::Create { .. } => "create",
            Action::Patch { .. } => "patch",
            Action::Replace { .. } => "replace",
            Action::Delete { .. } => "delete",
            Action::Push(_) => "push",
        };
        self.writes.get_or_create(&ByAction { controller, action }).inc();
    }

    pub(super) fn failed(&self, controller: &'static str, kind: FailureKind) {
        let failure = match kind {
            FailureKind::Conflict => "conflict",
            FailureKind::Owned => "owned",
            FailureKind::Invalid => "invalid",
            FailureKind::Forbidden => "forbidden",
            FailureKind::NotFound => "not_found",
            FailureKind::Unavailable => "unavailable",
        };
        self.failures.get_or_create(&ByFailure { controller, failure }).inc();
    }

    /// The counters, and the depth of each queue as it is now, in the OpenMetrics text format.
    pub(super) fn encode(
        &self,
        depths: impl Iterator<Item = (&'static str, usize)>,
    ) -> Result<String, fmt::Error> {
        let depth = Family::<ByController, Gauge>::default();
        for (controller, keys) in depths {
            depth.get_or_create(&ByController { controller }).set(i64::try_from(keys).unwrap_or(i64::MAX));
        }
        let mut registry = Registry::with_prefix("wheelwright");
        registry.register("plans", "Keys planned", self.plans.clone());
        registry.register("panics", "Decisions that panicked, each a bug", self.panics.clone());
        let unread = "Keys that could not be planned because a cache they depend on could not be read";
        registry.register("unread_plans", unread, self.unread.clone());
        registry.register("writes", "Requests that wrote something, by kind of action", self.writes.clone());
        registry.register("write_failures", "Requests that did not", self.failures.clone());
        registry.register("queue_keys", "Keys that are due or running", depth);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_for_the_product() {
        let metrics = Metrics::default();
        metrics.planned("placement");
        metrics.failed("placement", FailureKind::NotFound);
        let text = metrics.encode([("placement", 3)].into_iter()).unwrap();
        assert!(text.contains("wheelwright_plans_total{controller=\"placement\"} 1"), "{text}");
        assert!(
            text.contains(
                "wheelwright_write_failures_total{controller=\"placement\",failure=\"not_found\"} 1"
            ),
            "{text}"
        );
        assert!(text.contains("wheelwright_queue_keys{controller=\"placement\"} 3"), "{text}");
    }
}
