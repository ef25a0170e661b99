//! The page of a cluster: its set, taints and conditions, and the state of its add-ons and works.

use std::fmt::Write as _;
use std::sync::Arc;

use super::html::{document, escape};
use super::rights::{Right, Rights, namespace};
use super::rollouts::class;
use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::{ManagedCluster, Taint};
use api::condition::Conditions;
use api::names::{CLUSTER_SET_LABEL, WORK_REPLICA_SET_LABEL, addon_conditions, work_conditions};
use api::work::v1::ManifestWork;
use controllers::hub::overview::{ClusterSummary, Mark, Overview, WorkloadSummary};
use object::text::plain;
use object::{Kind, Metadata as _};

/// Limit of the add-ons, and of the works, that are shown.
const SHOWN: usize = 200;
/// Limit of the characters of a message.
const MESSAGE: usize = 1_000;
/// The conditions of an add-on that the page explains while they are not as they should be.
const OF_ADD_ONS: [(&str, bool); 4] = [
    (addon_conditions::AVAILABLE, true),
    (addon_conditions::CONFIGURED, true),
    (addon_conditions::PROGRESSING, false),
    (addon_conditions::DEGRADED, false),
];
/// The conditions of a work that the page explains while they are not as they should be.
const OF_WORKS: [(&str, bool); 4] = [
    (work_conditions::AVAILABLE, true),
    (work_conditions::APPLIED, true),
    (work_conditions::PROGRESSING, false),
    (work_conditions::DEGRADED, false),
];

/// The objects about one cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterObjects {
    /// Its ManagedCluster, or why that cannot be read; `None` if it does not exist.
    pub cluster: Option<Result<Arc<ManagedCluster>, String>>,
    /// Its add-ons, by name.
    pub add_ons: Vec<Arc<ManagedClusterAddOn>>,
    /// Its works of ManifestWorkReplicaSets, by name. A process that follows rollouts keeps no others.
    pub works: Vec<Arc<ManifestWork>>,
}

impl ClusterObjects {
    /// Returns the objects that a visitor with these rights may read.
    fn readable(self, name: &str, rights: &Rights) -> Self {
        let Self { cluster, add_ons, works } = self;
        Self {
            cluster: cluster.filter(|_| may_see(name, rights)),
            add_ons: if rights.may(Right::ListAddOnsOfClusters, name) { add_ons } else { Vec::new() },
            works: if rights.may(Right::ListWorks, name) { works } else { Vec::new() },
        }
    }
}

fn may_see(name: &str, rights: &Rights) -> bool {
    rights.may(Right::ListClusters, "") || rights.may(Right::GetCluster, name)
}

/// Returns the page of a cluster for a visitor with these rights; `None` if there is nothing about it that
/// the visitor may read.
pub(super) fn page(
    name: &str,
    objects: ClusterObjects,
    overview: &Overview,
    rights: &Rights,
) -> Option<String> {
    let ClusterObjects { cluster, add_ons, works } = objects.readable(name, rights);
    if cluster.is_none() && add_ons.is_empty() && works.is_empty() {
        return None;
    }
    let mut main = format!("<main><p><a href=\"./\">Back to the fleet</a></p><h2>{}</h2>", escape(name));
    match &cluster {
        Some(Ok(cluster)) => self::cluster(&mut main, cluster),
        Some(Err(why)) => problem(&mut main, why),
        None if may_see(name, rights) => problem(&mut main, "It has no ManagedCluster."),
        None => note(&mut main, "You may not get this managedcluster, so its conditions are not shown."),
    }
    main += "<h3>Add-ons</h3>";
    if rights.may(Right::ListAddOnsOfClusters, name) {
        let rows = add_ons.iter().map(|add_on| Row {
            rollout: rollout_of_add_on(add_on, overview, rights),
            ..Row::of(add_on.as_ref(), &OF_ADD_ONS)
        });
        table(&mut main, "Add-on", &rows.collect::<Vec<_>>());
    } else {
        note(&mut main, "You may not list managedclusteraddons here, so they are not shown.");
    }
    main += "<h3>Works of ManifestWorkReplicaSets</h3>";
    if rights.may(Right::ListWorks, name) {
        let rows = works.iter().map(|work| Row {
            rollout: rollout_of_work(work, overview, rights),
            ..Row::of(work.as_ref(), &OF_WORKS)
        });
        table(&mut main, "Work", &rows.collect::<Vec<_>>());
        let command = format!("wheelwright get works -n {}", escape(name));
        note(&mut main, &format!("<code>{command}</code> shows all works, with those of add-ons."));
    } else {
        note(&mut main, "You may not list manifestworks here, so they are not shown.");
    }
    main += "</main>";
    Some(document(&format!("Cluster {name}"), "", "", &main))
}

fn problem(html: &mut String, text: &str) {
    let _ = write!(html, "<p class=\"problem\">{}</p>", escape(&plain(text, MESSAGE)));
}

fn note(html: &mut String, text: &str) {
    let _ = write!(html, "<p class=\"note\">{text}</p>");
}

/// A workload, and its state in the rollout on one cluster.
type WorkloadState<'a> = (&'a str, &'a ClusterSummary);

fn rollout_on<'a>(workload: &'a WorkloadSummary, cluster: &str) -> Option<WorkloadState<'a>> {
    let mut clusters = workload.groups.iter().flat_map(|group| &group.clusters);
    Some((workload.name.as_str(), clusters.find(|one| one.name == cluster)?))
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

fn cluster(html: &mut String, cluster: &ManagedCluster) {
    let taints: Vec<String> = cluster.spec.taints.iter().map(Taint::to_string).collect();
    let kubernetes = cluster.status.as_ref().map(|status| status.version.kubernetes.as_str());
    let facts = [
        ("Cluster set", cluster.label(CLUSTER_SET_LABEL).unwrap_or("none")),
        ("Taints", &taints.join(", ")),
        ("Kubernetes", kubernetes.unwrap_or_default()),
        ("Accepted", if cluster.spec.hub_accepts_client { "yes" } else { "no (spec.hubAcceptsClient)" }),
        ("Deletion", if cluster.is_terminating() { "the cluster is being deleted" } else { "" }),
    ];
    *html += "<dl>";
    for (term, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        let _ = write!(html, "<dt>{term}</dt><dd>{}</dd>", escape(fact));
    }
    *html += "</dl><h3>Conditions</h3>";
    if cluster.conditions().is_empty() {
        *html += "<p>None: its agent has not reported yet.</p>";
        return;
    }
    *html += "<table><thead><tr><th scope=\"col\">Condition</th><th scope=\"col\">Status</th>\
              <th scope=\"col\">Reason</th><th scope=\"col\">Since</th></tr></thead><tbody>";
    for condition in cluster.conditions() {
        let since = condition.last_transition_time.0;
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td><time datetime=\"{since}\">{since}</time></td></tr>",
            escape(&condition.type_),
            escape(condition.status.as_str()),
            escape(&why(condition))
        );
    }
    *html += "</tbody></table>";
}

/// Returns the reason and the message of a condition.
fn why(condition: &Condition) -> String {
    let Condition { reason, message, .. } = condition;
    let text = if message.is_empty() { reason.clone() } else { format!("{reason}: {message}") };
    plain(&text, MESSAGE)
}

/// An add-on or a work.
struct Row<'a> {
    name: &'a str,
    available: bool,
    /// What is not as it should be.
    problems: Vec<String>,
    rollout: Option<WorkloadState<'a>>,
}

impl<'a> Row<'a> {
    /// Returns the row of an object without its rollout. `expected` has the types of conditions and whether
    /// they should be true, and begins with the one that says whether the object is available.
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
        Self { name: object.name(), available, problems, rollout: None }
    }
}

/// Writes a table of add-ons or works.
fn table(html: &mut String, title: &str, rows: &[Row<'_>]) {
    if rows.is_empty() {
        *html += "<p>None.</p>";
        return;
    }
    let _ = write!(
        html,
        "<table><thead><tr><th scope=\"col\">{title}</th><th scope=\"col\">State</th>\
         <th scope=\"col\">Rollout</th></tr></thead><tbody>"
    );
    for Row { name, available, problems, rollout } in rows.iter().take(SHOWN) {
        let (mark, state) = if *available { (Mark::Good, "Available") } else { (Mark::Bad, "Not available") };
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
        cell(html, mark, state, problems);
        match rollout {
            Some((workload, cluster)) => {
                let state = format!("{} {}", cluster.label(), cluster.version(workload));
                let message = Some(&cluster.message).filter(|message| !message.is_empty());
                cell(html, cluster.mark(), state.trim_end(), message);
            }
            None => *html += "<td>-</td>",
        }
        *html += "</tr>";
    }
    *html += "</tbody></table>";
    if let Some(more) = rows.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(html, "<p>and {more} more</p>");
    }
}

/// Writes a cell with a state, and messages each on a line.
fn cell<'a>(html: &mut String, mark: Mark, state: &str, messages: impl IntoIterator<Item = &'a String>) {
    let (class, sign, state) = (class(mark), mark.sign(), escape(state));
    let _ = write!(html, "<td class=\"{class}\"><b><span aria-hidden=\"true\">{sign}</span> {state}</b>");
    for message in messages {
        let _ = write!(html, "<br><small>{}</small>", escape(message));
    }
    *html += "</td>";
}
