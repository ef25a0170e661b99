//! Records events (`events.k8s.io/v1`).
//!
//! Equal events become a series, and every object has a budget of events, as in client-go's `EventCorrelator`
//! (`tools/record`). So even an object that changes constantly costs the API server little. Here, each reason has
//! its own budget, so that a crash loop does not hide the rollback that ends it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as KubeEvent, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use tracing::debug;

use super::clock::{WallClockWait, now};
use object::ObjectRef;
use object::duration::later;
use reconcile::{Event, EventType};

/// The time after which an equal event starts a new series, as in client-go (`tools/events`, `finishTime`).
const SERIES: SignedDuration = SignedDuration::from_mins(6);
/// The number of events with one reason that an object may have at once, as in client-go (`defaultSpamBurst`).
const BURST: i32 = 25;
/// The time after which it may have one more, as in client-go (`defaultSpamQPS`).
const PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// The maximum size of a note in an API server, in bytes.
const NOTE: usize = 1024;

/// Records the events of a controller.
pub struct EventRecorder {
    client: Client,
    /// The reporting controller.
    reporter: String,
    correlator: Mutex<EventCorrelator>,
}

/// The way to publish an event.
#[derive(Debug, PartialEq)]
enum Publication {
    /// Create an Event with this name.
    Create { name: String },
    /// Continue the series of the Event with this name.
    Repeat { name: String, count: i32 },
    /// Publish nothing, because the budget is spent.
    Drop,
}

/// The events of the last few minutes.
#[derive(Default)]
struct EventCorrelator {
    recent: BTreeMap<Event, Recent>,
    /// When the budget of each object and reason is full again.
    whole_at: BTreeMap<(ObjectRef, String), Timestamp>,
    swept_at: Timestamp,
}

struct Recent {
    name: String,
    count: i32,
    last: Timestamp,
}

impl EventRecorder {
    /// Returns an event recorder for a controller.
    pub fn new(client: Client, reporter: &str) -> Self {
        Self { client, reporter: reporter.to_owned(), correlator: Mutex::default() }
    }

    /// Records events. An event that cannot be recorded is lost, because no decision depends on events.
    pub async fn record(&self, events: Vec<Event>) {
        for event in events {
            let now = now();
            let publication = match self.correlator.lock() {
                Ok(mut correlator) => correlator.publication(&event, now),
                Err(_) => return,
            };
            if let Err(error) = self.publish(&event, publication, now).await {
                debug!(object = %event.regarding, %error, "cannot record an event");
                if let Ok(mut correlator) = self.correlator.lock() {
                    correlator.recent.remove(&event);
                }
            }
        }
    }

    async fn publish(&self, event: &Event, publication: Publication, now: Timestamp) -> Result<(), Error> {
        let namespace = &event.regarding.key.namespace;
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let api: Api<KubeEvent> = Api::namespaced(self.client.clone(), namespace);
        match publication {
            Publication::Drop => {}
            Publication::Create { name } => {
                let metadata = ObjectMeta {
                    namespace: Some(namespace.into()),
                    name: Some(name),
                    ..ObjectMeta::default()
                };
                api.create(&PostParams::default(), &self.object(event, metadata, now)).await?;
            }
            Publication::Repeat { name, count } => {
                let series = EventSeries { count, last_observed_time: MicroTime(now) };
                let patch = Patch::Merge(json!({"series": series}));
                api.patch(&name, &PatchParams::default(), &patch).await?;
            }
        }
        Ok(())
    }

    fn object(&self, event: &Event, metadata: ObjectMeta, now: Timestamp) -> KubeEvent {
        let Event { regarding, uid, related, event_type, reason, action, message } = event;
        let type_ = match event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        KubeEvent {
            metadata,
            action: Some(action.clone()),
            event_time: Some(MicroTime(now)),
            note: Some(within_limit(message).to_owned()),
            reason: Some(reason.clone()),
            regarding: Some(reference(regarding, uid)),
            related: related.as_ref().map(|(object, uid)| reference(object, uid)),
            reporting_controller: Some(self.reporter.clone()),
            reporting_instance: Some(self.reporter.clone()),
            type_: Some(type_.into()),
            ..KubeEvent::default()
        }
    }
}

impl EventCorrelator {
    fn publication(&mut self, event: &Event, now: Timestamp) -> Publication {
        if (WallClockWait { since: self.swept_at, until: later(self.swept_at, SERIES) }).is_over(now) {
            // Times too far in the future stem from before the clock was set back.
            self.recent.retain(|_, recent| recent.last <= now && later(recent.last, SERIES) > now);
            let longest = later(now, PERIOD * BURST);
            self.whole_at.retain(|_, whole_at| (now..=longest).contains(whole_at));
            self.swept_at = now;
        }
        let key = (event.regarding.clone(), event.reason.clone());
        let whole_at = self.whole_at.get(&key).map_or(now, |whole_at| now.max(*whole_at));
        let whole_at = later(whole_at, PERIOD);
        if whole_at > later(now, PERIOD * BURST) {
            return Publication::Drop;
        }
        self.whole_at.insert(key, whole_at);
        if let Some(recent) = self.recent.get_mut(event).filter(|recent| later(recent.last, SERIES) > now) {
            (recent.count, recent.last) = (recent.count.saturating_add(1), now);
            return Publication::Repeat { name: recent.name.clone(), count: recent.count };
        }
        let name = format!("{}.{:x}", event.regarding.key.name, now.as_nanosecond());
        self.recent.insert(event.clone(), Recent { name: name.clone(), count: 1, last: now });
        Publication::Create { name }
    }
}

/// Returns the beginning of a message that fits into a note.
fn within_limit(message: &str) -> &str {
    message.get(..message.floor_char_boundary(NOTE)).unwrap_or(message)
}

fn reference(object: &ObjectRef, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.gvk.api_version()),
        kind: Some(object.gvk.kind.clone()),
        namespace: (!object.key.namespace.is_empty()).then(|| object.key.namespace.clone()),
        name: Some(object.key.name.clone()),
        uid: (!uid.is_empty()).then(|| uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use object::{Gvk, Key};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn event(name: &str, message: &str) -> Event {
        Event {
            regarding: ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("n", name) },
            uid: "u".into(),
            related: None,
            event_type: EventType::Normal,
            reason: "Applied".into(),
            action: "Apply".into(),
            message: message.into(),
        }
    }

    #[test]
    fn equal_events_are_a_series_and_other_words_are_another_event() {
        let mut correlator = EventCorrelator::default();
        let mut count = |message: &str, second| match correlator.publication(&event("a", message), at(second))
        {
            Publication::Create { .. } => 1,
            Publication::Repeat { count, .. } => count,
            Publication::Drop => 0,
        };
        let counts = [("x", 0), ("x", 10), ("y", 20), ("x", 300), ("x", 659), ("x", 1020)];
        assert_eq!(counts.map(|(message, second)| count(message, second)), [1, 2, 1, 3, 4, 1]);
    }

    #[test]
    fn an_object_has_25_events_at_once_and_one_more_in_five_minutes() {
        let mut correlator = EventCorrelator::default();
        let mut is_recorded = |name: &str, n: i32, second| {
            correlator.publication(&event(name, &n.to_string()), at(second)) != Publication::Drop
        };
        let recorded = (0..100).filter(|n| is_recorded("a", *n, 0)).count();
        assert_eq!((recorded, is_recorded("b", 0, 0)), (25, true));
        assert_eq!([299, 300, 301].map(|second| is_recorded("a", 200, second)), [false, true, false]);
        let recorded = (300..400).filter(|n| is_recorded("a", *n, 100_000)).count();
        assert_eq!(recorded, 25);
    }

    #[test]
    fn many_events_with_one_reason_leave_room_for_others() {
        let mut correlator = EventCorrelator::default();
        let failing = |n: i32| Event { reason: "ClusterFailing".into(), ..event("a", &n.to_string()) };
        let recorded = (0..100).filter(|n| correlator.publication(&failing(*n), at(0)) != Publication::Drop);
        assert_eq!(recorded.count(), 25);
        let other = Event { reason: "RolledBack".into(), ..event("a", "r2") };
        assert!(matches!(correlator.publication(&other, at(0)), Publication::Create { .. }));
    }

    #[test]
    fn setting_the_clock_back_drops_no_event() {
        let mut correlator = EventCorrelator::default();
        for n in 0..100 {
            correlator.publication(&event("a", &n.to_string()), at(10_800));
        }
        let again = correlator.publication(&event("a", "0"), at(0));
        assert!(matches!(again, Publication::Create { .. }), "{again:?}");
        correlator.publication(&event("b", "0"), at(400));
        assert_eq!(correlator.recent.len(), 1, "it forgets as before");
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        for (message, length) in [("é".repeat(600), 1024), (format!("x{}", "é".repeat(600)), 1023)] {
            assert_eq!(within_limit(&message).len(), length);
        }
        assert_eq!(within_limit("short"), "short");
    }
}
