//! The plan of a placement: its schedule as actions, events and a status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::placement_of;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::names::{DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL};
use engine::placement::publish::{DecisionLabels, DecisionWrite};
use engine::placement::{PlacementEvent, Schedule};
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Event, EventType, Plan, Precondition, Site, StatusWrite, Subresource};

/// Plans a schedule. If a placement was deleted and recreated, the new one first adopts the decisions of the old
/// one, before the garbage collector deletes them.
pub(super) fn plan(placement: &Placement, decisions: &[Arc<PlacementDecision>], schedule: Schedule) -> Plan {
    let known = decisions.iter().map(|decision| (decision.name(), &**decision)).collect();
    let mut writes = Writes { placement, known, written: BTreeSet::new() };
    let mut plan = Plan { wake_at: schedule.wake_at, ..Plan::default() };
    plan.step(writes.adoptions());
    for step in schedule.steps {
        let actions: Vec<Action> = step.into_iter().map(|write| writes.action(write)).collect();
        plan.step(actions);
    }
    plan.events = schedule.events.into_iter().map(|event| writes.event(event)).collect();
    if placement.status.as_ref() != Some(&schedule.status) {
        let wanted = Placement { status: Some(schedule.status), ..placement.clone() };
        plan.status = StatusWrite::between(placement, &wanted);
    }
    plan
}

/// The writes to the decisions of a placement.
struct Writes<'a> {
    placement: &'a Placement,
    /// The existing decisions, by name.
    known: BTreeMap<&'a str, &'a PlacementDecision>,
    /// The names that an earlier action of the plan writes.
    written: BTreeSet<String>,
}

impl Writes<'_> {
    fn adoptions(&mut self) -> Vec<Action> {
        let is_owned = |decision: &PlacementDecision| {
            let owners = decision.metadata.owner_references.as_deref().unwrap_or_default();
            owners.iter().any(|owner| owner.uid == self.placement.uid())
                && placement_of(decision) == Some(Key::of(self.placement))
        };
        let orphans: Vec<&str> = self
            .known
            .values()
            .filter(|decision| !is_owned(decision))
            .map(|decision| decision.name())
            .collect();
        let metadata = json!({ "metadata": {
            "labels": { PLACEMENT_LABEL: self.placement.name() },
            "ownerReferences": [self.placement.controller_reference()],
        } });
        orphans.into_iter().map(|orphan| self.patch(orphan, Subresource::None, &metadata)).collect()
    }

    fn action(&mut self, write: DecisionWrite) -> Action {
        match write {
            DecisionWrite::Create(labels) => Action::create(Object::from_typed(&self.created(&labels))),
            DecisionWrite::Decide { name, decisions } => {
                self.patch(&name, Subresource::Status, &json!({ "status": { "decisions": decisions } }))
            }
            DecisionWrite::Label(labels) => {
                let patch = json!({ "metadata": { "labels": group_labels(&labels) } });
                self.patch(&labels.name, Subresource::None, &patch)
            }
            DecisionWrite::Delete { name } => Action::Delete {
                site: Site::Hub,
                target: self.target(&name),
                precondition: self.precondition(&name),
                orphan: false,
                impersonate: None,
            },
        }
    }

    fn created(&self, labels: &DecisionLabels) -> PlacementDecision {
        let mut decision = PlacementDecision::default();
        decision.metadata.name = Some(labels.name.clone());
        decision.metadata.namespace = self.placement.metadata.namespace.clone();
        let mut all = group_labels(labels);
        all.insert(PLACEMENT_LABEL.to_owned(), self.placement.name().to_owned());
        decision.metadata.labels = Some(all);
        decision.metadata.owner_references = Some(vec![self.placement.controller_reference()]);
        decision
    }

    fn patch(&mut self, name: &str, subresource: Subresource, patch: &Value) -> Action {
        let (target, precondition) = (self.target(name), self.precondition(name));
        let patch = patch.as_object().cloned().unwrap_or_default();
        Action::Patch { site: Site::Hub, target, subresource, patch, precondition, impersonate: None }
    }

    /// Returns the precondition for writing a decision: the version that was read, so that an outdated plan cannot
    /// overwrite a newer decision. A plan may write a decision in several steps. The first write changes the
    /// version, so the later ones compare only the uid.
    fn precondition(&mut self, name: &str) -> Precondition {
        let is_first = self.written.insert(name.to_owned());
        match self.known.get(name).copied() {
            Some(decision) if is_first => Precondition::unchanged(decision),
            Some(decision) => Precondition::uid(decision),
            None => Precondition::default(),
        }
    }

    fn target(&self, name: &str) -> ObjectRef {
        ObjectRef::of::<PlacementDecision>(Key::namespaced(self.placement.namespace(), name))
    }

    fn event(&self, event: PlacementEvent) -> Event {
        let uid = self.known.get(event.decision.as_str()).map(|decision| decision.uid());
        let event_type = if event.is_warning { EventType::Warning } else { EventType::Normal };
        Event {
            related: Some((self.target(&event.decision), uid.unwrap_or_default().to_owned())),
            ..Event::new(self.placement, event_type, event.reason, event.action, event.message)
        }
    }
}

fn group_labels(labels: &DecisionLabels) -> BTreeMap<String, String> {
    let pairs = [
        (DECISION_GROUP_INDEX_LABEL, labels.index.to_string()),
        (DECISION_GROUP_NAME_LABEL, labels.group.clone()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_of_a_decision_is_made_to_the_version_that_was_read() {
        let decision = json!({"metadata": {
            "namespace": "ns", "name": "p-decision-1", "uid": "u", "resourceVersion": "7",
            "labels": {PLACEMENT_LABEL: "p"}, "ownerReferences": [
                {"apiVersion": "v1", "kind": "Placement", "name": "p", "uid": "p", "controller": true},
            ],
        }});
        let decision: PlacementDecision = serde_json::from_value(decision).unwrap();
        let placement = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "p"}, "spec": {}});
        let placement: Placement = serde_json::from_value(placement).unwrap();
        let name = || "p-decision-1".to_owned();
        let labels = DecisionLabels { name: name(), index: 1, group: String::new() };
        let decide = DecisionWrite::Decide { name: name(), decisions: Vec::new() };
        let delete = DecisionWrite::Delete { name: name() };
        let steps = vec![vec![decide], vec![DecisionWrite::Label(labels)], vec![delete]];
        let schedule = Schedule { steps, status: Default::default(), events: Vec::new(), wake_at: None };
        let plan = plan(&placement, &[Arc::new(decision)], schedule);
        let versions = plan.steps.iter().flatten().filter_map(|action| match action {
            Action::Patch { precondition, .. } | Action::Delete { precondition, .. } => {
                assert_eq!(precondition.uid, "u");
                Some(precondition.resource_version.as_str())
            }
            Action::Apply { .. }
            | Action::Create { .. }
            | Action::Replace { .. }
            | Action::Push(_)
            | Action::SetCommitStatus(_)
            | Action::Notify(_) => None,
        });
        assert_eq!(versions.collect::<Vec<_>>(), ["7", "", ""]);
    }
}
