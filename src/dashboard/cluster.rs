//! The page of a cluster: its set, taints and conditions, and the state of its add-ons and works.

use std::sync::Arc;

use maud::{Markup, html};

use super::fleet_map::encoded;
use super::html::{Frame, ago, state};
use super::rights::{Right, Rights, namespace};
use super::state::State;
use crate::shell::now;
use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::{ManagedCluster, Taint};
use api::condition::{Conditions, find_condition};
use api::names::{CLUSTER_SET_LABEL, WORK_REPLICA_SET_LABEL, addon_conditions, work_conditions};
use api::work::v1::{ManifestCondition, ManifestWork};
use controllers::hub::overview::{ClusterSummary, Overview, WorkloadSummary};
use engine::plural::counted;
use object::text::plain;
use object::{Key, Kind, Metadata as _};

/// The maximum number of add-ons and of works.
const SHOWN: usize = 200;
/// The maximum length of a message, in characters.
const MESSAGE: usize = 1_000;
/// The conditions of an add-on to explain if they do not have the expected status.
const OF_ADD_ONS: [(&str, bool); 4] = [
    (addon_conditions::AVAILABLE, true),
    (addon_conditions::CONFIGURED, true),
    (addon_conditions::PROGRESSING, false),
    (addon_conditions::DEGRADED, false),
];
/// The conditions of a work to explain if they do not have the expected status.
const OF_WORKS: [(&str, bool); 4] = [
    (work_conditions::AVAILABLE, true),
    (work_conditions::APPLIED, true),
    (work_conditions::PROGRESSING, false),
    (work_conditions::DEGRADED, false),
];
/// The conditions that determine the health of an object in a work, those with the best reason first. The meaning
/// of other conditions is unknown, because the author of a rule chooses them.
const OF_OBJECTS: [(&str, bool); 5] = [
    (work_conditions::APPLIED, true),
    (work_conditions::AVAILABLE, true),
    (work_conditions::PODS_READY, true),
    (work_conditions::DEGRADED, false),
    (work_conditions::PROGRESSING, false),
];

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterObjects {
    /// The ManagedCluster, or the reason why it cannot be read; `None` if it does not exist.
    pub cluster: Option<Result<Arc<ManagedCluster>, String>>,
    /// The names of the sets that contain the cluster, by label or by selector.
    pub sets: Vec<String>,
    /// The add-ons, by name.
    pub add_ons: Vec<Arc<ManagedClusterAddOn>>,
    /// The works of ManifestWorkReplicaSets, by name. A process that watches rollouts caches no other works.
    pub works: Vec<Arc<ManifestWork>>,
}

impl ClusterObjects {
    /// Returns the objects that a visitor with these rights may read.
    fn readable(self, name: &str, rights: &Rights) -> Self {
        let Self { cluster, sets, add_ons, works } = self;
        // Selectors are part of the sets; the label is part of the cluster.
        let label = cluster.as_ref().and_then(|cluster| cluster.as_ref().ok()?.label(CLUSTER_SET_LABEL));
        let sets = match rights.may(Right::ExplainPlacements, "") {
            true => sets,
            false => label.map(str::to_owned).into_iter().collect(),
        };
        Self {
            sets,
            cluster: cluster.filter(|_| may_see(name, rights)),
            add_ons: if rights.may(Right::ListAddOnsOfClusters, name) { add_ons } else { Vec::new() },
            works: if rights.may(Right::ListWorks, name) { works } else { Vec::new() },
        }
    }
}

fn may_see(name: &str, rights: &Rights) -> bool {
    rights.may(Right::ListClusters, "") || rights.may(Right::GetCluster, name)
}

/// Returns the page of a cluster for a visitor with these rights; `None` if the visitor may read none of its
/// objects.
pub(super) fn page(
    name: &str,
    objects: ClusterObjects,
    overview: &Overview,
    rights: &Rights,
    visitor: Option<&str>,
) -> Option<String> {
    let ClusterObjects { cluster, sets, add_ons, works } = objects.readable(name, rights);
    if cluster.is_none() && add_ons.is_empty() && works.is_empty() {
        return None;
    }
    let may_see_it = may_see(name, rights);
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #clusters href="clusters" { "Clusters" } }
        div .head { h1 { (name) } }
        @match &cluster {
            Some(Ok(cluster)) => (facts(cluster, &sets)),
            Some(Err(why)) => p .problem { (plain(why, MESSAGE)) },
            None if may_see_it => p .problem { "It has no ManagedCluster." },
            None => p .note.dim { "You may not get this managedcluster, so its conditions are not shown." },
        }
        section .panel aria-labelledby="add-ons" {
            header { h2 #add-ons { "Add-ons" } }
            @if rights.may(Right::ListAddOnsOfClusters, name) {
                (table("Add-on", &rows_of_add_ons(&add_ons, overview, rights)))
            } @else { p .empty { "You may not list managedclusteraddons here, so they are not shown." } }
        }
        section .panel aria-labelledby="works" {
            header { h2 #works { "Works of ManifestWorkReplicaSets" } }
            @if rights.may(Right::ListWorks, name) {
                (table("Work", &rows_of_works(&works, overview, rights)))
                p .note.dim.small { code { "wheelwright get works -n " (name) } " shows all works, with those of add-ons." }
            } @else { p .empty { "You may not list manifestworks here, so they are not shown." } }
        }
        @if let Some(Ok(cluster)) = &cluster { (conditions(cluster)) }
    };
    Some(Frame { title: &format!("Cluster {name}"), visitor, ..Frame::default() }.document(&main))
}

fn rows_of_add_ons<'a>(
    add_ons: &'a [Arc<ManagedClusterAddOn>],
    overview: &'a Overview,
    rights: &Rights,
) -> Vec<Row<'a>> {
    let row = |add_on: &'a Arc<ManagedClusterAddOn>| Row {
        rollout: rollout_of_add_on(add_on, overview, rights),
        ..Row::of(add_on.as_ref(), &OF_ADD_ONS)
    };
    add_ons.iter().map(row).collect()
}

fn rows_of_works<'a>(
    works: &'a [Arc<ManifestWork>],
    overview: &'a Overview,
    rights: &Rights,
) -> Vec<Row<'a>> {
    let row = |work: &'a Arc<ManifestWork>| Row {
        rollout: rollout_of_work(work, overview, rights),
        objects: objects_of(work),
        ..Row::of(work.as_ref(), &OF_WORKS)
    };
    works.iter().map(row).collect()
}

/// A workload, and the state of its rollout on a cluster.
type WorkloadState<'a> = (&'a str, &'a ClusterSummary);

fn rollout_on<'a>(workload: &'a WorkloadSummary, cluster: &str) -> Option<WorkloadState<'a>> {
    Some((workload.name.as_str(), workload.clusters().find(|one| one.name == cluster)?))
}

fn rollout_of_add_on<'a>(
    add_on: &ManagedClusterAddOn,
    overview: &'a Overview,
    rights: &Rights,
) -> Option<WorkloadState<'a>> {
    let workload = overview.add_ons.iter().find(|one| one.name == add_on.name())?;
    let on_cluster = rollout_on(workload, add_on.namespace());
    on_cluster.filter(|_| rights.may(Right::ListAddOns, ""))
}

fn rollout_of_work<'a>(
    work: &ManifestWork,
    overview: &'a Overview,
    rights: &Rights,
) -> Option<WorkloadState<'a>> {
    let set = work.label(WORK_REPLICA_SET_LABEL)?;
    let workload = overview.replica_sets.iter().find(|one| one.name.replacen('/', ".", 1) == set)?;
    let on_cluster = rollout_on(workload, work.namespace());
    on_cluster.filter(|_| rights.may(Right::ListReplicaSets, namespace(&workload.name)))
}

fn facts(cluster: &ManagedCluster, sets: &[String]) -> Markup {
    let taints: Vec<String> = cluster.spec.taints.iter().map(Taint::to_string).collect();
    let kubernetes = cluster.status.as_ref().map(|status| status.version.kubernetes.as_str());
    let (title, none) = if sets.len() == 1 { ("Cluster set", "") } else { ("Cluster sets", "none") };
    let sets = if sets.is_empty() { none.to_owned() } else { sets.join(", ") };
    let facts = [
        (title, sets.as_str()),
        ("Taints", &taints.join(", ")),
        ("Kubernetes", kubernetes.unwrap_or_default()),
        ("Accepted", if cluster.spec.hub_accepts_client { "yes" } else { "no (spec.hubAcceptsClient)" }),
        ("Deletion", if cluster.is_terminating() { "the cluster is being deleted" } else { "" }),
    ];
    html! {
        section .panel aria-label="Facts" {
            dl .facts.body.top {
                @for (term, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
                    div { dt { (term) } dd { (fact) } }
                }
            }
        }
    }
}

fn conditions(cluster: &ManagedCluster) -> Markup {
    html! {
        section .panel aria-labelledby="conditions" {
            header { h2 #conditions { "Conditions" } }
            @if cluster.conditions().is_empty() {
                p .empty { "None: its agent has not reported yet." }
            } @else {
                table {
                    thead { tr {
                        th scope="col" { "Condition" } th scope="col" { "Status" } th scope="col" { "Reason" }
                        th scope="col" { "Since" }
                    } }
                    tbody {
                        @for condition in cluster.conditions() {
                            tr {
                                th scope="row" { (condition.type_) }
                                td { (condition.status.as_str()) }
                                td { (why(condition)) }
                                td { (ago(&condition.last_transition_time.0.to_string(), now())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the reason and the message of a condition.
fn why(condition: &Condition) -> String {
    let Condition { reason, message, .. } = condition;
    let text = if message.is_empty() { reason.clone() } else { format!("{reason}: {message}") };
    plain(&text, MESSAGE)
}

/// The table row of an add-on or a work.
struct Row<'a> {
    name: &'a str,
    available: bool,
    problems: Vec<String>,
    /// The objects of a work, unhealthy ones first.
    objects: Vec<WorkObject>,
    rollout: Option<WorkloadState<'a>>,
}

impl<'a> Row<'a> {
    /// Returns the row of an object, without its rollout. `expected` lists condition types with true if the status
    /// should be `True`, starting with the condition for availability.
    fn of<K: Kind + Conditions>(object: &'a K, expected: &[(&str, bool)]) -> Self {
        let mut problems = Vec::new();
        if object.is_terminating() {
            problems.push("it is being deleted".to_owned());
        }
        let generation = object.meta().generation;
        let is_old =
            |one: &Condition| one.observed_generation.is_some() && one.observed_generation != generation;
        if object.conditions().iter().any(is_old) {
            problems.push("the agent has not answered the present spec yet".to_owned());
        }
        let mut available = false;
        for (number, (type_, good)) in expected.iter().enumerate() {
            let is_first = number == 0;
            match object.condition(type_) {
                Some(condition) if condition.is_true() == *good => available |= is_first,
                Some(condition) => {
                    problems.push(format!("{type_} is {} ({})", condition.status, why(condition)));
                }
                None if is_first => problems.push(format!("{type_} has not been reported yet")),
                None => {}
            }
        }
        Self { name: object.name(), available, problems, objects: Vec::new(), rollout: None }
    }
}

/// An object of a work.
struct WorkObject {
    name: String,
    state: State,
    /// The reason why the object is not healthy; empty if it is healthy.
    why: String,
}

/// Returns the objects of a work as reported by the agent, unhealthy ones first.
fn objects_of(work: &ManifestWork) -> Vec<WorkObject> {
    let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    let object = |manifest: &ManifestCondition| {
        let meta = &manifest.resource_meta;
        let bad = OF_OBJECTS.iter().find_map(|(type_, good)| {
            find_condition(&manifest.conditions, type_).filter(|condition| condition.is_true() != *good)
        });
        let state = match bad {
            None => State::Done,
            Some(condition) if condition.type_ == work_conditions::PROGRESSING => State::InFlight,
            Some(_) => State::Failed,
        };
        WorkObject {
            name: format!("{} {}", meta.kind, Key::namespaced(meta.namespace.as_str(), meta.name.as_str())),
            state,
            why: bad.map(why).unwrap_or_default(),
        }
    };
    let mut objects: Vec<_> = manifests.map(object).collect();
    objects.sort_by_key(|object| object.state);
    objects
}

fn objects(work: &str, objects: &[WorkObject]) -> Markup {
    let bad = objects.iter().filter(|object| object.state == State::Failed).count();
    let all = counted(objects.len(), "object");
    html! {
        @if !objects.is_empty() {
            details .fold open[bad > 0] id={ "objects:" (work) } {
                summary id={ "open:objects:" (work) } { @if bad > 0 { (bad) " of " } (all) @if bad > 0 { " unhealthy" } }
                ul .plain.tree {
                    @for object in objects.iter().take(SHOWN) {
                        li { (state(object.state, &object.name))
                            @if !object.why.is_empty() { br; span .small.why { (object.why) } } }
                    }
                    @if objects.len() > SHOWN { li { "and " (objects.len() - SHOWN) " more" } }
                }
            }
        }
    }
}

/// Returns a table of add-ons or works.
fn table(title: &str, rows: &[Row<'_>]) -> Markup {
    if rows.is_empty() {
        return html! { p .empty { "None." } };
    }
    html! {
        table {
            thead { tr { th scope="col" { (title) } th scope="col" { "State" } th scope="col" { "Rollout" } } }
            tbody { @for row in rows.iter().take(SHOWN) { (self::row(row)) } }
        }
        @if rows.len() > SHOWN { p .empty { "and " (rows.len() - SHOWN) " more" } }
    }
}

fn row(row: &Row<'_>) -> Markup {
    let Row { name, available, problems, objects, rollout } = row;
    html! {
        tr {
            th scope="row" { (name) }
            td {
                @if *available { (state(State::Done, "Available")) } @else { (state(State::Failed, "Not available")) }
                @for problem in problems { br; span .small { (problem) } }
                (self::objects(name, objects))
            }
            td {
                @if let Some((workload, cluster)) = rollout {
                    (state(State::of(cluster), cluster.label())) " " (cluster.version(workload))
                    " " a id={ "rollout:" (name) } href={ "rollout?of=" (encoded(workload)) } { "Open" }
                    @if !cluster.message.is_empty() { br; span .small { (cluster.message) } }
                } @else { "–" }
            }
        }
    }
}
