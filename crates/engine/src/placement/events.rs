//! The events for the writes of a placement, with OCM's messages.

use std::collections::BTreeSet;

use super::fleet::Id;
use super::input::Cycle;
use super::prioritizer::{Range, Score};
use super::publish::{DecisionLabels, DecisionWrite};
use super::rank::{scores, total};
use super::schedule::PlacementEvent;
use super::select::CycleSelection;
use api::cluster::v1beta1::Placement;

/// The maximum length of a list of clusters in an event, as in OCM.
const MAX_TEXT: usize = 1000;

/// The input of the events.
pub(super) struct EventSource<'a> {
    pub cycle: &'a Cycle<'a>,
    pub placement: &'a Placement,
    pub selection: &'a CycleSelection,
    pub ranges: &'a [Range],
}

/// Returns the events for the writes, without duplicate messages.
pub(super) fn events(source: &EventSource<'_>, steps: &[Vec<DecisionWrite>]) -> Vec<PlacementEvent> {
    let meta = &source.placement.metadata;
    let (placement, namespace) =
        (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
    let about = |decision: &str, verb: &str| {
        format!("Decision {decision} is {verb} with placement {placement} in namespace {namespace}")
    };
    let normal = |reason, action, decision: &str, message| PlacementEvent {
        is_warning: false,
        reason,
        action,
        decision: decision.to_owned(),
        message,
    };
    let updated = steps.iter().flatten().find_map(|write| match write {
        DecisionWrite::Decide { name, .. } => Some(name),
        DecisionWrite::Create(_) | DecisionWrite::Label(_) | DecisionWrite::Delete { .. } => None,
    });
    let warning = updated.and_then(|_| source.expired_scores());
    let mut events = Vec::new();
    for write in steps.iter().flatten() {
        match write {
            DecisionWrite::Create(DecisionLabels { name, .. }) => {
                events.push(normal("DecisionCreate", "DecisionCreated", name, about(name, "created")));
            }
            DecisionWrite::Decide { name, .. } => events.push(PlacementEvent {
                is_warning: warning.is_some(),
                ..normal(
                    "DecisionUpdate",
                    "DecisionUpdated",
                    name,
                    about(name, "updated") + warning.as_deref().unwrap_or_default(),
                )
            }),
            DecisionWrite::Delete { name } => {
                events.push(normal("DecisionDelete", "DecisionDeleted", name, about(name, "deleted")));
            }
            DecisionWrite::Label(_) => {}
        }
    }
    if let Some(decision) = updated
        && !source.cycle.policy.weights.is_empty()
    {
        let totals = source.totals();
        if !totals.is_empty() {
            events.push(normal("ScoreUpdate", "ScoreUpdated", decision, totals));
        }
    }
    let mut messages = BTreeSet::new();
    events.retain(|event| messages.insert(event.message.clone()));
    events
}

impl EventSource<'_> {
    fn feasible(&self) -> impl Iterator<Item = Id> + '_ {
        self.selection.feasible(self.cycle.fleet)
    }

    /// Returns a message that names the clusters with expired scores. As in OCM, only the last such prioritizer
    /// counts.
    fn expired_scores(&self) -> Option<String> {
        let weights = self.cycle.policy.weights.iter().enumerate().rev();
        let mut warnings = weights.filter_map(|(at, weighted)| {
            let resource = &weighted.add_on.as_ref()?.resource;
            let expired = self.feasible().filter(|id| {
                let score = scores(self.cycle, self.ranges, *id).nth(at);
                matches!(score, Some((_, Score::Expired(_))))
            });
            let text = shortened(expired.map(|id| format!(" {}/{resource}", self.cycle.fleet.name(id))));
            (!text.is_empty()).then(|| format!(": AddOnPlacementScores{text} expired in plugin {weighted}"))
        });
        warnings.next()
    }

    /// Returns the total scores of the feasible clusters, by name.
    fn totals(&self) -> String {
        let total = |id| total(self.cycle, self.ranges, id).value;
        shortened(self.feasible().map(|id| format!("{}:{} ", self.cycle.fleet.name(id), total(id))))
    }
}

/// Joins as many words as fit in an event.
fn shortened(words: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() + word.len() > MAX_TEXT {
            text.push_str("......");
            break;
        }
        text.push_str(&word);
    }
    text
}
