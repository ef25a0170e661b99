//! The fleet as a map of cells. A cell is a cluster in its most urgent state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::rc::Rc;

use jiff::Timestamp;
use maud::{Markup, html};

use super::html::legend;
use super::paging::{address, encoded};
use super::shown::Shown;
use super::state::State;
use api::names::CLUSTER_SET_LABEL;
use controllers::hub::overview::{ClusterSummary, GroupSummary, WorkloadSummary};
use engine::plural::counted;

/// The largest fleet with a cell per cluster, which is about 60 kB of HTML. Larger fleets are shown as tiles.
pub(super) const CELLS: usize = 640;
/// The maximum number of clusters in a larger fleet that get a cell because a person should look at them.
const EXCEPTIONS: usize = 300;
/// The number of clusters per tile.
const TILE: usize = 50;
/// The maximum number of groups.
const GROUPS: usize = 60;
/// The maximum number of labels to group by.
const LABELS: usize = 20;
/// The largest fleet whose cells show names.
const NAMED: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell<'a> {
    pub(super) name: &'a str,
    pub(super) state: State,
    /// The state in words.
    pub(super) label: CellLabel<'a>,
    /// The version of that workload on the cluster; empty if there is no workload.
    pub(super) version: &'a str,
    /// The reason for the state; empty if there is none.
    pub(super) reason: &'a str,
    /// The time at which the state, or the change towards it, began.
    pub(super) since: Option<Timestamp>,
    /// The latest time at which the state ends.
    pub(super) until: Option<Timestamp>,
    /// The group in the rollout.
    pub(super) group: Rc<str>,
}

/// The state of a cell in words. Large fleets have thousands of cells, and most of their labels are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellLabel<'a> {
    /// No rollout decides the state.
    Text(&'static str),
    /// The state in a rollout, with the name of its workload if it is not empty.
    Rollout(&'a ClusterSummary, &'a str),
}

impl Display for CellLabel<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Rollout(cluster, "") => f.write_str(&cluster.label()),
            Self::Rollout(cluster, workload) => write!(f, "{} ({workload})", cluster.label()),
        }
    }
}

impl<'a> Cell<'a> {
    /// Returns the cell of a cluster in a group of a workload.
    pub(super) fn new(cluster: &'a ClusterSummary, workload: &str, group: Rc<str>) -> Self {
        Self {
            name: &cluster.name,
            state: State::from_cluster(cluster),
            label: CellLabel::Rollout(cluster, ""),
            version: cluster.version(workload),
            reason: &cluster.message,
            since: cluster.since,
            until: cluster.state.ends(),
            group,
        }
    }

    /// Returns the cell with a label that names the workload.
    fn with_workload(self, workload: &'a str) -> Self {
        let label = match self.label {
            CellLabel::Rollout(cluster, _) => CellLabel::Rollout(cluster, workload),
            CellLabel::Text(_) => self.label,
        };
        Self { label, ..self }
    }
}

/// Returns the display name of a group.
fn group_title(group: &GroupSummary) -> String {
    match group.placement.as_str() {
        "" => "No placement".to_owned(),
        placement => format!("{placement} {}", group.name).trim_end().to_owned(),
    }
}

/// Returns the clusters of a workload, by group.
pub(super) fn cells_of(workload: &WorkloadSummary) -> Vec<Cell<'_>> {
    let mut cells = Vec::new();
    for group in &workload.groups {
        let title: Rc<str> = group_title(group).into();
        let cell = |cluster| Cell::new(cluster, &workload.name, Rc::clone(&title));
        cells.extend(group.clusters.iter().map(cell));
    }
    cells
}

/// Returns the clusters that a visitor may see, each in its most urgent state and in its group of the largest
/// workload.
pub(super) fn cells(shown: &Shown) -> Vec<Cell<'_>> {
    let overview = &shown.overview;
    let mut workloads: Vec<_> = overview.workloads().collect();
    workloads.sort_by_key(|workload| std::cmp::Reverse(workload.total));
    let mut cells: Vec<Cell<'_>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for workload in workloads {
        for cell in cells_of(workload) {
            let cell = cell.with_workload(&workload.name);
            match places.get(cell.name).and_then(|place| cells.get_mut(*place)) {
                Some(known) if cell.state < known.state => {
                    *known = Cell { group: Rc::clone(&known.group), ..cell };
                }
                Some(_) => {}
                None => {
                    places.insert(cell.name, cells.len());
                    cells.push(cell);
                }
            }
        }
    }
    let clusters = &overview.clusters;
    let no_rollout: Rc<str> = "No rollout".into();
    let idle = |name| Cell {
        name,
        state: State::Idle,
        label: CellLabel::Text("No rollout"),
        version: "",
        reason: "",
        since: None,
        until: None,
        group: Rc::clone(&no_rollout),
    };
    let names = clusters.labels.keys().map(String::as_str);
    cells.extend(names.filter(|name| !places.contains_key(name)).map(idle));
    let silent: BTreeMap<&str, &str> =
        clusters.troubled.iter().map(|one| (one.name.as_str(), one.message.as_str())).collect();
    for cell in cells.iter_mut().filter(|cell| cell.state > State::Unreachable) {
        if let Some(reason) = silent.get(cell.name) {
            cell.label = CellLabel::Text("Not available");
            (cell.state, cell.reason) = (State::Unreachable, reason);
            (cell.since, cell.until) = (None, None);
        }
    }
    cells
}

/// The property that groups the clusters of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping<'q> {
    /// The cluster set of the label.
    Set,
    /// The group in the largest rollout.
    Rollout,
    /// The value of a label.
    Label(&'q str),
}

impl<'q> Grouping<'q> {
    /// Returns the property that an address names. The default is the set, for visitors who may list clusters.
    pub(super) fn parse(by: &'q str, shown: &Shown) -> Self {
        match by.split_once(':') {
            Some(("label", key)) if !key.is_empty() => Self::Label(key),
            _ if by == "rollout" || shown.overview.clusters.labels.is_empty() => Self::Rollout,
            _ => Self::Set,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::Set => "set".into(),
            Self::Rollout => "group of the rollout".into(),
            Self::Label(key) => format!("label {key}"),
        }
    }

    /// Returns the value of the property of a cell; `None` if it has none.
    fn value<'c>(self, cell: &'c Cell<'_>, shown: &'c Shown) -> Option<&'c str> {
        match self {
            Self::Rollout => Some(&cell.group),
            Self::Set => shown.label(cell.name, CLUSTER_SET_LABEL),
            Self::Label(key) => shown.label(cell.name, key),
        }
    }

    /// Returns the title of the cells with a value, and the field of the table that selects them.
    fn group(self, value: Option<&str>) -> (&str, (&'static str, String)) {
        match (self, value) {
            (Self::Rollout, value) => {
                let group = value.unwrap_or_default();
                (group, ("group", group.to_owned()))
            }
            (Self::Set, Some(set)) => (set, ("set", set.to_owned())),
            (Self::Set, None) => ("No set", ("label", format!("!{CLUSTER_SET_LABEL}"))),
            (Self::Label(key), Some(value)) => (value, ("label", format!("{key}={value}"))),
            (Self::Label(key), None) => ("No value", ("label", format!("!{key}"))),
        }
    }
}

/// Returns links that group the map by another property.
fn groupings(grouping: Grouping<'_>, shown: &Shown) -> Markup {
    let keys = label_keys(shown);
    html! {
        @if !shown.overview.clusters.labels.is_empty() {
            div .by {
                span .dim { "Group by" }
                (by("set", "Set", grouping == Grouping::Set))
                (by("rollout", "Rollout", grouping == Grouping::Rollout))
                @if !keys.is_empty() {
                    details #by-label {
                        summary #open:by-label { "Label" }
                        ul .plain {
                            @for key in keys { li { (by(&format!("label:{key}"), key, grouping == Grouping::Label(key))) } }
                        }
                    }
                }
            }
        }
    }
}

fn by(by: &str, words: &str, is_current: bool) -> Markup {
    html! {
        a id={ "by:" (by) } href={ "./?by=" (encoded(by)) } aria-current=[is_current.then_some("true")] { (words) }
    }
}

/// Returns the keys of labels that divide the fleet into a few groups.
fn label_keys(shown: &Shown) -> Vec<&str> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in shown.overview.clusters.labels.values().flatten() {
        let values = values.entry(key).or_default();
        if values.len() <= GROUPS {
            values.insert(value);
        }
    }
    values.retain(|key, values| (2..=GROUPS).contains(&values.len()) && *key != CLUSTER_SET_LABEL);
    values.into_keys().take(LABELS).collect()
}

/// A group of cells.
struct Group<'c> {
    title: &'c str,
    /// The field of the table that selects it.
    field: (&'static str, String),
    cells: Vec<&'c Cell<'c>>,
}

impl Group<'_> {
    /// Returns the address of the table with the clusters of the group in a state, or of all.
    fn address(&self, state: &str) -> String {
        let (name, value) = &self.field;
        address("clusters", &[(*name, value.as_str()), ("state", state)], 1)
    }
}

/// Returns the groups of cells: groups of a rollout in its order, others by title.
fn groups<'c>(cells: &'c [Cell<'c>], grouping: Grouping<'_>, shown: &'c Shown) -> Vec<Group<'c>> {
    let mut groups: Vec<Group<'c>> = Vec::new();
    let mut places: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for cell in cells {
        let value = grouping.value(cell, shown);
        let place = *places.entry(value).or_insert_with(|| {
            let (title, field) = grouping.group(value);
            groups.push(Group { title, field, cells: Vec::new() });
            groups.len() - 1
        });
        groups.get_mut(place).into_iter().for_each(|group| group.cells.push(cell));
    }
    if grouping != Grouping::Rollout {
        groups.sort_by_key(|group| group.title);
        groups.iter_mut().for_each(|group| group.cells.sort_by_key(|cell| cell.name));
    }
    if groups.len() > GROUPS {
        // Groups with the most urgent clusters come first; otherwise the order is kept.
        groups.sort_by_key(|group| group.cells.iter().map(|cell| cell.state).min());
    }
    groups
}

/// Returns the map of a fleet: a legend with links to the clusters in each state, and the groups.
pub(super) fn map(cells: &[Cell<'_>], grouping: Grouping<'_>, shown: &Shown) -> Markup {
    let groups = groups(cells, grouping, shown);
    let more = groups.len().saturating_sub(GROUPS);
    let counts = State::count(cells.iter().map(|cell| cell.state));
    let mut room = EXCEPTIONS;
    html! {
        div .tools {
            (legend("Clusters by state", &counts, None, |state| address("clusters", &[("state", state)], 1)))
            (groupings(grouping, shown))
        }
        @for group in groups.iter().take(GROUPS) {
            div .set {
                div {
                    h3 {
                        a id={ "group:" (group.title) } href=(group.address("")) { (group.title) }
                        " " span .dim { (group.cells.len()) }
                    }
                    p .small.dim { (in_words(&group.cells)) }
                }
                @if cells.len() > CELLS { (folded(group, &mut room)) }
                @else { div .cells { @for cell in &group.cells { (drawn(cell, cells.len() <= NAMED)) } } }
            }
        }
        @if more > 0 {
            p .set { a href="clusters" { (counted(more, "more group")) " without anything more urgent" } }
        }
    }
}

/// Describes the number of clusters per state.
fn in_words(cells: &[&Cell<'_>]) -> String {
    let counts = State::count(cells.iter().map(|cell| cell.state));
    let words = counts.iter().map(|(state, count)| format!("{count} {}", state.word().to_lowercase()));
    words.collect::<Vec<_>>().join(" · ")
}

/// Returns a cell. Cells of clusters that need no attention are not in the tab order, because the table lists all
/// clusters.
pub(super) fn drawn(cell: &Cell<'_>, is_named: bool) -> Markup {
    let Cell { name, state, label, .. } = cell;
    let is_reached = state.is_exception() || is_named;
    let id = is_reached.then(|| format!("cell:{name}"));
    html! {
        a id=[id] class={ "c " (state.class()) @if is_named { " named" } }
            tabindex=[(!is_reached).then_some("-1")] href={ "cluster?of=" (name) }
            // A large fleet has hundreds of calm cells, and their labels would add nothing.
            title={ (name) ": " @if is_reached { (label) } @else { (state.word()) } } { @if is_named { (name) } }
    }
}

/// Returns the cells of a group in a large fleet: cells for clusters that a person should look at, as long as
/// there is room, then tiles of clusters in the same state.
fn folded(group: &Group<'_>, room: &mut usize) -> Markup {
    let (mut singles, mut rest) = (Vec::new(), BTreeMap::<State, Vec<&str>>::new());
    for cell in &group.cells {
        if cell.state.is_exception() && singles.len() < *room {
            singles.push(cell);
        } else {
            rest.entry(cell.state).or_default().push(cell.name);
        }
    }
    *room -= singles.len();
    html! {
        div .cells {
            @for cell in singles { (drawn(cell, false)) }
            @for (state, names) in &rest {
                @let address = group.address(state.class());
                @for tile in names.chunks(TILE) {
                    a class={ "c tile " (state.class()) } tabindex="-1"
                        href=(address)
                        title={ (tile.len()) " " (state.word().to_lowercase()) ": "
                            (tile.first().unwrap_or(&"")) " to " (tile.last().unwrap_or(&"")) } { (tile.len()) }
                }
            }
        }
    }
}
