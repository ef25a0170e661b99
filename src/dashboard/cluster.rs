//! The page of a cluster: what runs on it, its works with their objects, its conditions, and its last changes.

use std::sync::Arc;

use maud::{Markup, html};

use super::html::{Frame, relative, state};
use super::paging::{address, encoded};
use super::reasons;
use super::rights::{Right, Rights, namespace};
use super::state::State;
use crate::shell::now;
use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::{Conditions, find_condition};
use api::names::{
    CLUSTER_SET_LABEL, WORK_REPLICA_SET_LABEL, addon_conditions, cluster_conditions, work_conditions,
};
use api::work::v1::{ManifestCondition, ManifestWork};
use controllers::hub::overview::{ClusterSummary, ConditionSummary, Overview, Repository, WorkloadSummary};
use engine::placement::sets::SetMembers;
use engine::plural::counted;
use engine::report::{cluster_file, history_link};
use object::text::plain;
use object::{Key, Kind, Metadata as _};

/// The maximum number of add-ons, and of objects of a work.
const SHOWN: usize = 200;
/// The maximum number of changes.
const CHANGES: usize = 12;
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
    /// The sets that contain the cluster, by label or by selector.
    pub sets: Vec<SetMembers>,
    /// The add-ons, by name.
    pub add_ons: Vec<Arc<ManagedClusterAddOn>>,
    /// The works, by name.
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
            false => label.map(|label| SetMembers::Labeled(label.to_owned())).into_iter().collect(),
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
    let add_ons = rows_of_add_ons(&add_ons, overview, rights);
    let works = rows_of_works(&works, overview, rights);
    let readable = cluster.as_ref().and_then(|cluster| cluster.as_ref().ok());
    let main = html! {
        p .small.dim { a #back href="./" { "Fleet" } " / " a #clusters href="clusters" { "Clusters" }
            @for set in &sets { " / " a id={ "set:" (set.name()) } href=(clusters_of(set)) { (set.name()) } }
        }
        div .head { div { h1 { (name) } (summary(readable, &add_ons, &works)) } }
        @match &cluster {
            Some(Ok(cluster)) => (facts(cluster, &sets)),
            Some(Err(reason)) => p .problem { (plain(reason, MESSAGE)) },
            None if may_see(name, rights) => p .problem { "It has no ManagedCluster." },
            None => p .note.dim { "You may not get this managedcluster, so its conditions are not shown." },
        }
        section .panel aria-labelledby="add-ons" {
            header { h2 #add-ons { "Add-ons" } }
            @if rights.may(Right::ListAddOnsOfClusters, name) { (table(&add_ons)) }
            @else { p .empty { "You may not list managedclusteraddons here, so they are not shown." } }
        }
        div .split {
            div .stack {
                section .panel aria-labelledby="works" {
                    header { h2 #works { "Works and objects" } }
                    @if !rights.may(Right::ListWorks, name) {
                        p .empty { "You may not list manifestworks here, so they are not shown." }
                    } @else if works.is_empty() { p .empty { "None." } }
                    @else { ul .rows { @for work in &works { (self::work(work)) } } }
                }
                (changes(readable, &add_ons, &works))
                (history(name, overview, rights))
            }
            @if let Some(cluster) = readable {
                div .stack {
                    (reasons::panel(false, &conditions(cluster), now()))
                    (properties(cluster))
                }
            }
        }
    };
    Some(
        Frame { title: &format!("Cluster {name}"), visitor, here: "clusters", ..Frame::default() }
            .document(&main),
    )
}

/// Describes the state of a cluster in one line, by its most urgent problem.
fn summary(cluster: Option<&Arc<ManagedCluster>>, add_ons: &[Row<'_>], works: &[Row<'_>]) -> Markup {
    let bad = |rows: &[Row<'_>]| rows.iter().filter(|row| row.state() == State::Failed).count();
    let (bad_add_ons, bad_works) = (bad(add_ons), bad(works));
    let available = cluster.and_then(|cluster| cluster.condition(cluster_conditions::AVAILABLE));
    let lost = available.filter(|available| !available.is_true());
    let all = || add_ons.iter().chain(works);
    let failed = all().find_map(|row| row.rollout.filter(|(_, on)| State::from_cluster(on) == State::Failed));
    let open = all().find_map(|row| Some(format!("{}: {}", row.name, row.problems.first()?)));
    html! {
        p {
            @if let Some(lost) = lost {
                (state(State::Unreachable, "Not available")) " since " (relative(lost.last_transition_time.0, now()))
                "; everything below is its last report"
            }
            @else if bad_add_ons > 0 { (state(State::Failed, format!("{bad_add_ons} of {} not working", counted(add_ons.len(), "add-on")))) }
            @else if bad_works > 0 { (state(State::Failed, format!("{bad_works} of {} not working", counted(works.len(), "work")))) }
            @else if let Some((workload, on)) = failed { (state(State::Failed, format!("{workload} {}", on.label()))) }
            @else if let Some(open) = open { (state(State::InFlight, open)) }
            @else if !add_ons.is_empty() || !works.is_empty() { (state(State::Done, "Everything works")) }
        }
    }
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

/// Returns the address of the list of a set's clusters.
fn clusters_of(set: &SetMembers) -> String {
    let field = match set {
        SetMembers::Selected(_, selector) => ("label", selector.to_string()),
        set => ("set", set.name().to_owned()),
    };
    address("clusters", &[(field.0, &field.1)], 1)
}

fn facts(cluster: &ManagedCluster, sets: &[SetMembers]) -> Markup {
    let kubernetes = cluster.status.as_ref().map(|status| status.version.kubernetes.as_str());
    let (title, none) = if sets.len() == 1 { ("Cluster set", "") } else { ("Cluster sets", "none") };
    let names: Vec<&str> = sets.iter().map(SetMembers::name).collect();
    let sets = if names.is_empty() { none.to_owned() } else { names.join(", ") };
    let facts = [
        (title, sets.as_str()),
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

fn conditions(cluster: &ManagedCluster) -> Vec<ConditionSummary> {
    cluster.conditions().iter().map(ConditionSummary::of).collect()
}

/// Returns the taints, the claims and the labels of a cluster. A label leads to the clusters that share it.
fn properties(cluster: &ManagedCluster) -> Markup {
    let claims = cluster.status.iter().flat_map(|status| &status.cluster_claims);
    let labels = cluster.metadata.labels.iter().flatten();
    html! {
        section .panel aria-labelledby="properties" {
            header { h2 #properties { "Taints, claims and labels" } }
            @if cluster.spec.taints.is_empty() { p .empty { "No taints: every placement may select this cluster." } }
            table .properties {
                tbody {
                    @for taint in &cluster.spec.taints {
                        tr { th scope="row" { "taint" } td { (taint.to_string()) } }
                    }
                    @for claim in claims { tr { th scope="row" { (claim.name) } td { (plain(&claim.value, MESSAGE)) } } }
                    @for (key, value) in labels {
                        @let selector = format!("{key}={value}");
                        tr {
                            th scope="row" { (key) }
                            td { a id={ "label:" (key) } href=(address("clusters", &[("label", &selector)], 1)) {
                                @if value.is_empty() { "(empty)" } @else { (value) }
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the last changes of a cluster, its add-ons and its works, newest first.
fn changes(cluster: Option<&Arc<ManagedCluster>>, add_ons: &[Row<'_>], works: &[Row<'_>]) -> Markup {
    let of_rollout = |row: &Row<'_>| {
        let (workload, on) = row.rollout?;
        let what = format!("{workload} {} {}", on.version(workload), on.label());
        Some((on.since?, State::from_cluster(on), what))
    };
    let of_condition = |condition: &Condition| {
        let what = format!("{} is {} ({})", condition.type_, condition.status, condition.reason);
        (condition.last_transition_time.0, State::Idle, what)
    };
    let conditions = cluster.iter().flat_map(|cluster| cluster.conditions());
    let mut changes: Vec<_> = add_ons.iter().chain(works).filter_map(of_rollout).collect();
    changes.extend(conditions.map(of_condition));
    changes.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    html! {
        @if !changes.is_empty() {
            section .panel aria-labelledby="changes" {
                header { h2 #changes { "Last changes" } span .small.dim { "newest first" } }
                ol .rows.dense {
                    @for (at, shown, what) in changes.iter().take(CHANGES) {
                        li .row {
                            @if *shown == State::Idle { span { (what) } } @else { (state(*shown, what)) }
                            span .end.small { (relative(*at, now())) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns links to the problems of a cluster in the reports.
fn history(name: &str, overview: &Overview, rights: &Rights) -> Markup {
    let file = |Repository { name: repository, report_url, report_place, .. }: &Repository| {
        let (branch, directory) = report_place;
        let file = [directory.trim_matches('/'), &cluster_file(name)].join("/");
        let link = history_link(report_url, branch, file.trim_start_matches('/'))?;
        rights.may(Right::ListRepositories, namespace(repository)).then(|| (repository.clone(), link))
    };
    let files: Vec<_> = overview.repositories.iter().filter_map(file).collect();
    html! {
        @if !files.is_empty() {
            section .panel aria-labelledby="history" {
                header { h2 #history { "History" } span .small.dim { "problems of this cluster in the reports" } }
                ul .rows { @for (repository, link) in &files {
                    li { a id={ "history:" (repository) } href=(link) rel="noreferrer" { "Reports of " (repository) } }
                } }
                p .note.dim.small { "In a clone, run " code { "wheelwright rollout history --cluster " (name) } "." }
            }
        }
    }
}

/// Returns the reason and the message of a condition.
fn reason_and_message(condition: &Condition) -> String {
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
            problems.push("the agent has not reported on the current spec yet".to_owned());
        }
        let mut available = false;
        for (number, (type_, good)) in expected.iter().enumerate() {
            let is_first = number == 0;
            match object.condition(type_) {
                Some(condition) if condition.is_true() == *good => available |= is_first,
                Some(condition) => {
                    problems.push(format!(
                        "{type_} is {} ({})",
                        condition.status,
                        reason_and_message(condition)
                    ));
                }
                None if is_first => problems.push(format!("{type_} has not been reported yet")),
                None => {}
            }
        }
        Self { name: object.name(), available, problems, objects: Vec::new(), rollout: None }
    }

    fn state(&self) -> State {
        let is_bad = self.objects.iter().any(|object| object.state == State::Failed);
        if self.available && !is_bad { State::Done } else { State::Failed }
    }
}

/// An object of a work.
struct WorkObject {
    name: String,
    state: State,
    /// The reason why the object is not healthy; empty if it is healthy.
    reason: String,
    message: String,
    /// True if the reason comes from a pod.
    is_of_pod: bool,
}

/// Returns the objects of a work as reported by the agent, unhealthy ones first.
fn objects_of(work: &ManifestWork) -> Vec<WorkObject> {
    let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
    let mut objects: Vec<_> = manifests.map(object).collect();
    objects.sort_by_key(|object| object.state);
    objects
}

fn object(manifest: &ManifestCondition) -> WorkObject {
    let meta = &manifest.resource_meta;
    let of_type = |(type_, good): &(&str, bool)| {
        find_condition(&manifest.conditions, type_).filter(|condition| condition.is_true() != *good)
    };
    let bad = OF_OBJECTS.iter().find_map(of_type);
    // The pods know the cause.
    let pods = bad.and(of_type(&(work_conditions::PODS_READY, true)));
    let state = match bad {
        None => State::Done,
        Some(condition) if condition.type_ == work_conditions::PROGRESSING => State::InFlight,
        Some(_) => State::Failed,
    };
    let reason = pods.or(bad);
    WorkObject {
        name: format!("{} {}", meta.kind, Key::namespaced(meta.namespace.as_str(), meta.name.as_str())),
        state,
        reason: reason.map(|condition| plain(&condition.reason, MESSAGE)).unwrap_or_default(),
        message: reason.map(|condition| plain(&condition.message, MESSAGE)).unwrap_or_default(),
        is_of_pod: pods.is_some(),
    }
}

/// Returns a work with its objects as a tree, down to the pod that is the reason.
fn work(row: &Row<'_>) -> Markup {
    let Row { name, problems, objects, rollout, .. } = row;
    let bad = objects.iter().filter(|object| object.state == State::Failed).count();
    let all = counted(objects.len(), "object");
    let words = match bad {
        0 if row.state() == State::Done => format!("{all}, healthy"),
        0 => "Not available".to_owned(),
        bad => format!("{bad} of {all} unhealthy"),
    };
    html! {
        li {
            details .fold.tree open[row.state() != State::Done] id={ "objects:" (name) } {
                summary id={ "open:objects:" (name) } {
                    b { (name) } " " (state(row.state(), words))
                    @if let Some((workload, on)) = rollout { " " span .small.dim { (on.version(workload)) } }
                }
                @for problem in problems { p .small.why { (problem) } }
                ul { @for object in objects.iter().take(SHOWN) { (leaf(object)) } }
                @if objects.len() > SHOWN { p .small.dim { (objects.len() - SHOWN) " more are not shown" } }
            }
            @if let Some((workload, on)) = rollout {
                p .small { (state(State::from_cluster(on), on.label())) " " (on.version(workload)) " "
                    a id={ "rollout:" (name) } href={ "rollout?of=" (encoded(workload)) } { "Rollout" } }
            }
        }
    }
}

fn leaf(object: &WorkObject) -> Markup {
    let WorkObject { name, state: of, reason, message, is_of_pod } = object;
    html! {
        li {
            span .row {
                span { (name) }
                span .end { (state(*of, if *of == State::Done { "Healthy" } else if *is_of_pod { "Pods not ready" } else { reason })) }
            }
            @if *is_of_pod {
                ul { li { span .row { span { "Pod" } span .end { (state(*of, reason)) } } p .cause.bad[*of == State::Failed] { (message) } } }
            } @else if !message.is_empty() { p .cause.bad[*of == State::Failed] { (message) } }
        }
    }
}

/// Returns a table of add-ons.
fn table(rows: &[Row<'_>]) -> Markup {
    if rows.is_empty() {
        return html! { p .empty { "None." } };
    }
    html! {
        table {
            thead { tr {
                th scope="col" { "Add-on" } th scope="col" { "Runs" } th scope="col" { "State" }
                th scope="col" { "Rollout" } th scope="col" { "Why" }
            } }
            tbody { @for row in rows.iter().take(SHOWN) { (self::row(row)) } }
        }
        @if rows.len() > SHOWN { p .empty { (rows.len() - SHOWN) " more are not shown" } }
    }
}

fn row(row: &Row<'_>) -> Markup {
    let Row { name, problems, rollout, .. } = row;
    html! {
        tr {
            th scope="row" { (name) }
            td data-label="Runs" { @if let Some((workload, on)) = rollout { (on.version(workload)) } @else { "–" } }
            td { (state(row.state(), if row.state() == State::Done { "Available" } else { "Not available" })) }
            td {
                @if let Some((workload, on)) = rollout {
                    (state(State::from_cluster(on), on.label())) " "
                    a id={ "rollout:" (name) } href={ "rollout?of=" (encoded(workload)) } { "Open" }
                } @else { "–" }
            }
            td .why {
                @for problem in problems { p { (problem) } }
                @if let Some((_, on)) = rollout.filter(|(_, on)| !on.message.is_empty()) { p { (on.message) } }
            }
        }
    }
}
