//! The placement controller: publishes the clusters that placements select as PlacementDecisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::names::{
    DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PLACEMENT_LABEL, SCHEDULING_DISABLED_ANNOTATION,
};
use engine::placement::explain::{self, Explanation};
use engine::placement::filter::Facts;
use engine::placement::publish::{Labels, Write};
use engine::placement::{Event as ScheduleEvent, Fleet, IncrementalSchedule, Input, MAX_STEPS, Schedule};
use object::{Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{
    Action, Change, Controller, Event, EventType, Index, Observes, Plan, Precondition, Query, Read, Site,
    StatusWrite, Subresource, View, Watches,
};

/// Schedules placements.
pub struct PlacementController;

/// The clusters, and what is remembered of each placement.
#[derive(Default)]
pub struct Scheduling {
    fleet: Fleet,
    schedules: BTreeMap<Key, IncrementalSchedule>,
}

impl Index for Scheduling {
    fn build(view: &impl View) -> Read<Self> {
        // The clusters last: until the others can be read, asking must cost nothing.
        let scores = view.list::<AddOnPlacementScore>(Query::ALL)?;
        let decisions = view.list::<PlacementDecision>(Query::ALL)?;
        let placements = view.list::<Placement>(Query::ALL)?;
        let clusters = view.list::<ManagedCluster>(Query::ALL)?;
        let fleet = Fleet::of(clusters, scores, decisions);
        // Every change wakes a placement that was not scheduled since the index was built.
        let unscheduled =
            |placement: &Arc<Placement>| (Key::of(&**placement), IncrementalSchedule::default());
        Ok(Self { fleet, schedules: placements.iter().map(unscheduled).collect() })
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedCluster>(|scheduling, change| {
            scheduling.observe_cluster(change);
            scheduling.concerned_by_cluster(change)
        });
        observes.on::<PlacementDecision>(|scheduling, change| {
            scheduling.fleet.set_decision(change.old.as_deref(), change.new.as_deref());
            Vec::new()
        });
        observes.on::<AddOnPlacementScore>(|scheduling, change| {
            scheduling.fleet.set_score(change.old.as_deref(), change.new.clone());
            scheduling.concerned_by_score(change)
        });
        observes.on::<Placement>(|scheduling, change| {
            if let Change { old: Some(old), new: None } = change {
                scheduling.schedules.remove(&Key::of(&**old));
            }
            Vec::new()
        });
    }
}

impl Scheduling {
    fn observe_cluster(&mut self, change: &Change<ManagedCluster>) {
        match (&change.old, &change.new) {
            (_, Some(cluster)) => self.fleet.set_cluster(Arc::clone(cluster)),
            (Some(cluster), None) => {
                self.fleet.remove_cluster(cluster.metadata.name.as_deref().unwrap_or_default());
                if self.fleet.should_renumber() {
                    self.fleet.renumber();
                    for schedule in self.schedules.values_mut() {
                        *schedule = IncrementalSchedule::default();
                    }
                }
            }
            (None, None) => {}
        }
    }

    /// Returns the placements that a change of a cluster concerns.
    fn concerned_by_cluster(&self, change: &Change<ManagedCluster>) -> Vec<Key> {
        let differs = match (&change.old, &change.new) {
            (Some(old), Some(new)) => differs(old, new),
            (None, _) | (_, None) => true,
        };
        let sides: Vec<Facts> = change.sides().map(Facts::of).collect();
        self.concerned(|schedule| sides.iter().any(|facts| schedule.concerns(&self.fleet, facts, differs)))
    }

    /// Returns the placements that a change of scores concerns.
    fn concerned_by_score(&self, change: &Change<AddOnPlacementScore>) -> Vec<Key> {
        let names: BTreeSet<String> = change.sides().map(name).collect();
        self.concerned(|schedule| names.iter().any(|name| schedule.reads_score(name)))
    }

    fn concerned(&self, concerns: impl Fn(&IncrementalSchedule) -> bool) -> Vec<Key> {
        let concerned = self.schedules.iter().filter(|(_, schedule)| concerns(schedule));
        concerned.map(|(key, _)| key.clone()).collect()
    }
}

impl Controller for PlacementController {
    const NAME: &'static str = "placement";
    type Primary = Placement;
    const REPORTER: &'static str = "placement-controller";
    /// Balance prefers clusters that few placements selected, so each placement must see what the one before selected.
    const ONE_BY_ONE: bool = true;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<PlacementDecision>(|change, _| change.sides().filter_map(placement_of).collect());
        watches.on::<ManagedClusterSetBinding>(|change, view| {
            let bindings: BTreeSet<(String, String)> =
                change.sides().map(|binding| (namespace(binding), name(binding))).collect();
            users_of(view, &bindings).unwrap_or_default()
        });
        watches.on::<ManagedClusterSet>(|change, view| {
            let is_same =
                matches!((&change.old, &change.new), (Some(old), Some(new)) if old.spec == new.spec);
            if is_same {
                Vec::new()
            } else {
                users_of_sets(view, change.sides().map(name).collect()).unwrap_or_default()
            }
        });
        watches.keep::<Scheduling>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        decide(key, view, now)
    }
}

/// Returns whether two states of a cluster differ in a field that is read without CEL expressions.
fn differs(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    fn facts(cluster: &ManagedCluster) -> impl PartialEq + '_ {
        let status = cluster.status.as_ref();
        let reported = status.map(|status| (&status.cluster_claims, &status.allocatable, &status.capacity));
        (
            cluster.metadata.deletion_timestamp.is_some(),
            &cluster.metadata.labels,
            &cluster.spec.taints,
            reported,
        )
    }
    facts(old) != facts(new)
}

/// Plans a placement.
fn decide(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Some(placement) = view.get::<Placement>(key)? else { return Ok(Plan::nothing()) };
    if placement.is_terminating() || is_disabled(&placement) {
        return Ok(Plan::nothing());
    }
    let bound = bound(view, &key.namespace)?;
    let mut decisions =
        view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace))?;
    decisions.extend(decisions_in_status(view, &placement, &decisions)?);
    loop {
        decisions.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let schedule = view.index(|scheduling: &mut Scheduling| {
            let Scheduling { fleet, schedules } = scheduling;
            let (bound, decisions) = (bound.as_slice(), decisions.as_slice());
            let input = Input { placement: &placement, bound, decisions, fleet, max_steps: MAX_STEPS };
            schedules.entry(key.clone()).or_default().schedule(&input, now)
        })?;
        let existing = decisions_to_create(view, &placement, &schedule)?;
        if existing.is_empty() {
            return Ok(plan(&placement, &decisions, schedule));
        }
        decisions.extend(existing);
    }
}

/// Returns the decisions that the status names and that lost our label.
fn decisions_in_status(
    view: &impl View,
    placement: &Placement,
    labelled: &[Arc<PlacementDecision>],
) -> Read<Vec<Arc<PlacementDecision>>> {
    let labelled: BTreeSet<&str> = labelled.iter().map(|decision| decision.name()).collect();
    let groups = placement.status.iter().flat_map(|status| &status.decision_groups);
    let unlabelled =
        groups.flat_map(|group| &group.decisions).filter(|name| !labelled.contains(name.as_str()));
    existing(view, placement, unlabelled)
}

/// Returns the decisions that would be created but exist, because somebody removed our label.
fn decisions_to_create(
    view: &impl View,
    placement: &Placement,
    schedule: &Schedule,
) -> Read<Vec<Arc<PlacementDecision>>> {
    let created = schedule.steps.iter().flatten().filter_map(|write| match write {
        Write::Create(labels) => Some(&labels.name),
        Write::Decide { .. } | Write::Label(_) | Write::Delete { .. } => None,
    });
    existing(view, placement, created)
}

fn existing<'a>(
    view: &impl View,
    placement: &Placement,
    names: impl Iterator<Item = &'a String>,
) -> Read<Vec<Arc<PlacementDecision>>> {
    let namespace = namespace(placement);
    let found = names.map(|name| view.get::<PlacementDecision>(&Key::namespaced(namespace.clone(), name)));
    Ok(found.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Returns the sets that are bound to a namespace and exist, by name.
fn bound(view: &impl View, namespace: &str) -> Read<Vec<Arc<ManagedClusterSet>>> {
    let bindings = view.list::<ManagedClusterSetBinding>(Query::namespace(namespace))?;
    let sets = bindings.iter().map(|binding| view.get::<ManagedClusterSet>(&Key::cluster(name(&**binding))));
    Ok(sets.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect())
}

fn is_disabled(placement: &Placement) -> bool {
    placement.annotation(SCHEDULING_DISABLED_ANNOTATION) == Some("true")
}

fn plan(placement: &Placement, decisions: &[Arc<PlacementDecision>], schedule: Schedule) -> Plan {
    let mut plan = Plan { wake_at: schedule.wake_at, ..Plan::default() };
    let known: BTreeMap<&str, &PlacementDecision> =
        decisions.iter().map(|decision| (decision.name(), &**decision)).collect();
    // A placement that was deleted and created again adopts the decisions of its predecessor before they are collected.
    let orphans = decisions.iter().filter(|decision| {
        !is_owner(placement, decision) || placement_of(decision) != Some(Key::of(placement))
    });
    plan.step(orphans.map(|decision| {
        patch(&known, placement, &name(&**decision), Subresource::None, adoption(placement))
    }));
    for step in schedule.steps {
        plan.step(step.into_iter().map(|write| action(placement, &known, write)));
    }
    plan.events = schedule.events.into_iter().map(|one| event(placement, &known, one)).collect();
    if placement.status.as_ref() != Some(&schedule.status) {
        plan.status = StatusWrite::between(
            placement,
            &Placement { status: Some(schedule.status), ..placement.clone() },
        );
    }
    plan
}

fn is_owner(placement: &Placement, decision: &PlacementDecision) -> bool {
    let owners = decision.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| Some(&owner.uid) == placement.metadata.uid.as_ref())
}

fn adoption(placement: &Placement) -> Value {
    json!({ "metadata": { "labels": { PLACEMENT_LABEL: name(placement) }, "ownerReferences": [placement.controller_reference()] } })
}

fn action(placement: &Placement, known: &BTreeMap<&str, &PlacementDecision>, write: Write) -> Action {
    match write {
        Write::Create(labels) => Action::create(Object::from_typed(&created(placement, &labels))),
        Write::Decide { name, decisions } => patch(
            known,
            placement,
            &name,
            Subresource::Status,
            json!({ "status": { "decisions": decisions } }),
        ),
        Write::Label(labels) => {
            let wanted = json!({ "metadata": { "labels": group_labels(&labels) } });
            patch(known, placement, &labels.name, Subresource::None, wanted)
        }
        Write::Delete { name } => {
            let precondition =
                known.get(name.as_str()).map(|decision| Precondition::uid(*decision)).unwrap_or_default();
            Action::Delete { site: Site::Hub, target: target(placement, &name), precondition, orphan: false }
        }
    }
}

fn created(placement: &Placement, labels: &Labels) -> PlacementDecision {
    let mut decision = PlacementDecision::default();
    decision.metadata.name = Some(labels.name.clone());
    decision.metadata.namespace = placement.metadata.namespace.clone();
    let mut all = group_labels(labels);
    all.insert(PLACEMENT_LABEL.to_owned(), name(placement));
    decision.metadata.labels = Some(all);
    decision.metadata.owner_references = Some(vec![placement.controller_reference()]);
    decision
}

fn group_labels(labels: &Labels) -> BTreeMap<String, String> {
    let pairs = [
        (DECISION_GROUP_INDEX_LABEL, labels.index.to_string()),
        (DECISION_GROUP_NAME_LABEL, labels.group.clone()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Patches a decision. A plan may patch one twice, so only the identity of the object is a precondition.
fn patch(
    known: &BTreeMap<&str, &PlacementDecision>,
    placement: &Placement,
    name: &str,
    subresource: Subresource,
    patch: Value,
) -> Action {
    let precondition = known.get(name).map(|decision| Precondition::uid(*decision)).unwrap_or_default();
    let patch = match patch {
        Value::Object(patch) => patch,
        _ => Map::new(),
    };
    Action::Patch { site: Site::Hub, target: target(placement, name), subresource, patch, precondition }
}

fn target(placement: &Placement, name: &str) -> ObjectRef {
    ObjectRef::of::<PlacementDecision>(Key::namespaced(namespace(placement), name))
}

fn event(placement: &Placement, known: &BTreeMap<&str, &PlacementDecision>, event: ScheduleEvent) -> Event {
    let uid = known.get(event.decision.as_str()).and_then(|decision| decision.metadata.uid.clone());
    Event {
        regarding: ObjectRef::of::<Placement>(Key::of(placement)),
        uid: placement.metadata.uid.clone().unwrap_or_default(),
        related: Some((target(placement, &event.decision), uid.unwrap_or_default())),
        event_type: if event.is_warning { EventType::Warning } else { EventType::Normal },
        reason: event.reason.into(),
        action: event.action.into(),
        message: event.message,
    }
}

fn name<K: Kind>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn namespace<K: Kind>(object: &K) -> String {
    object.meta().namespace.clone().unwrap_or_default()
}

/// Returns the placement a decision belongs to.
fn placement_of(decision: &PlacementDecision) -> Option<Key> {
    Some(Key::namespaced(decision.namespace(), decision.label(PLACEMENT_LABEL)?))
}

/// Returns the placements that may use sets through bindings, given as namespace and set.
fn users_of(view: &impl View, bindings: &BTreeSet<(String, String)>) -> Read<Vec<Key>> {
    let mut keys = Vec::new();
    let namespaces: BTreeSet<&String> = bindings.iter().map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        let bound = |set: &String| bindings.contains(&(namespace.clone(), set.clone()));
        for placement in view.list::<Placement>(Query::namespace(namespace))? {
            let asked = &placement.spec.cluster_sets;
            if asked.is_empty() || asked.iter().any(bound) {
                keys.push(Key::of(&*placement));
            }
        }
    }
    Ok(keys)
}

fn users_of_sets(view: &impl View, sets: BTreeSet<String>) -> Read<Vec<Key>> {
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    let bindings = view.list::<ManagedClusterSetBinding>(Query::ALL)?;
    let bindings = bindings
        .iter()
        .map(|binding| (namespace(&**binding), name(&**binding)))
        .filter(|(_, set)| sets.contains(set));
    users_of(view, &bindings.collect())
}

/// Explains a placement, for people and for the debug endpoint; returns `None` where there is no such placement.
///
/// # Errors
/// [`ReadError`](reconcile::ReadError) where not everything it depends on has been read.
pub fn explain(key: &Key, view: &impl View, now: Timestamp) -> Read<Option<Explanation>> {
    let Some(placement) = view.get::<Placement>(key)? else { return Ok(None) };
    let bound = bound(view, &key.namespace)?;
    let decisions =
        view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace))?;
    let explanation = view.index(|Scheduling { fleet, schedules: _ }: &mut Scheduling| {
        let (bound, decisions) = (bound.as_slice(), decisions.as_slice());
        let input = Input { placement: &placement, bound, decisions, fleet, max_steps: MAX_STEPS };
        explain::explain(&input, now)
    })?;
    let why = match placement.metadata.deletion_timestamp {
        Some(_) => Some("the placement is being deleted".to_owned()),
        None => is_disabled(&placement)
            .then(|| format!("the annotation {SCHEDULING_DISABLED_ANNOTATION} is true")),
    };
    Ok(Some(Explanation { disabled: why, ..explanation }))
}
