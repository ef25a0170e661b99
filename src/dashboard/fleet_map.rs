//! The fleet as a map of cells. A cell is a cluster in its most urgent state.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};

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
    /// The state in words, and the workload with this state.
    pub(super) label: String,
    /// The version of that workload on the cluster; empty if there is no workload.
    pub(super) version: &'a str,
    /// The reason for the state; empty if there is none.
    pub(super) reason: &'a str,
    /// The time at which the state, or the change towards it, began.
    pub(super) since: Option<Timestamp>,
    /// The latest time at which the state ends.
    pub(super) until: Option<Timestamp>,
    /// The group in the rollout.
    pub(super) group: String,
}

impl<'a> Cell<'a> {
    /// Returns the cell of a cluster in a group of a workload.
    pub(super) fn new(cluster: &'a ClusterSummary, workload: &str, group: &str) -> Self {
        Self {
            name: &cluster.name,
            state: State::from_cluster(cluster),
            label: cluster.label(),
            version: cluster.version(workload),
            reason: &cluster.message,
            since: cluster.since,
            until: cluster.state.ends(),
            group: group.to_owned(),
        }
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
        let title = group_title(group);
        cells.extend(group.clusters.iter().map(|cluster| Cell::new(cluster, &workload.name, &title)));
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
            let cell = Cell { label: format!("{} ({})", cell.label, workload.name), ..cell };
            match places.get(cell.name).and_then(|place| cells.get_mut(*place)) {
                Some(known) if cell.state < known.state => {
                    let group = std::mem::take(&mut known.group);
                    *known = Cell { group, ..cell };
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
    let idle = |name| Cell {
        name,
        state: State::Idle,
        label: "No rollout".into(),
        version: "",
        reason: "",
        since: None,
        until: None,
        group: "No rollout".into(),
    };
    let names = clusters.labels.keys().map(String::as_str);
    cells.extend(names.filter(|name| !places.contains_key(name)).map(idle));
    let silent: BTreeMap<&str, &str> =
        clusters.troubled.iter().map(|one| (one.name.as_str(), one.message.as_str())).collect();
    for cell in cells.iter_mut().filter(|cell| cell.state > State::Unreachable) {
        if let Some(reason) = silent.get(cell.name) {
            (cell.state, cell.label, cell.reason) = (State::Unreachable, "Not available".into(), reason);
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

    /// Returns the title of a cell's group, and the fields of the table that select it.
    fn group<'c>(self, cell: &'c Cell<'_>, shown: &'c Shown) -> (&'c str, [(&'static str, String); 1]) {
        let label = |key: &str| shown.label(cell.name, key);
        match self {
            Self::Rollout => (&cell.group, [("group", cell.group.clone())]),
            Self::Set => match label(CLUSTER_SET_LABEL) {
                Some(set) => (set, [("set", set.to_owned())]),
                None => ("No set", [("label", format!("!{CLUSTER_SET_LABEL}"))]),
            },
            Self::Label(key) => match label(key) {
                Some(value) => (value, [("label", format!("{key}={value}"))]),
                None => ("No value", [("label", format!("!{key}"))]),
            },
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
    /// The fields of the table that select it.
    fields: [(&'static str, String); 1],
    cells: Vec<&'c Cell<'c>>,
}

impl Group<'_> {
    /// Returns the address of the table with the clusters of the group in a state, or of all.
    fn address(&self, state: &str) -> String {
        let fields = self.fields.iter().map(|(name, value)| (*name, value.as_str()));
        address("clusters", &fields.chain([("state", state)]).collect::<Vec<_>>(), 1)
    }
}

/// Returns the groups of cells: groups of a rollout in its order, others by title.
fn groups<'c>(cells: &'c [Cell<'c>], grouping: Grouping<'_>, shown: &'c Shown) -> Vec<Group<'c>> {
    let mut groups: Vec<Group<'c>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in cells {
        let (title, fields) = grouping.group(cell, shown);
        let place = *places.entry(title).or_insert_with(|| {
            groups.push(Group { title, fields, cells: Vec::new() });
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
    let mut room = EXCEPTIONS;
    html! {
        div .tools {
            nav .legend aria-label="Clusters by state" {
                a href="clusters" { "All" b { (cells.len()) } }
                @for (state, count) in State::count(cells.iter().map(|cell| cell.state)) {
                    a href={ "clusters?state=" (state.class()) } {
                        span class={ "st " (state.class()) } { (state.word()) } b { (count) }
                    }
                }
            }
            (groupings(grouping, shown))
        }
        @for group in groups.iter().take(GROUPS) {
            div .set {
                div {
                    h3 {
                        a id={ "group:" (group.title) } href=(group.address("")) { (group.title) }
                        " " span .dim { (group.cells.len()) }
                    }
                    p .small.dim { (counts(&group.cells)) }
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
fn counts(cells: &[&Cell<'_>]) -> String {
    let counts = State::count(cells.iter().map(|cell| cell.state));
    let words = counts.iter().map(|(state, count)| format!("{count} {}", state.word().to_lowercase()));
    words.collect::<Vec<_>>().join(" · ")
}

/// Returns a cell. Cells of clusters that need no attention are not in the tab order, because the table lists all
/// clusters.
pub(super) fn drawn(cell: &Cell<'_>, is_named: bool) -> Markup {
    let Cell { name, state, label, .. } = cell;
    let label = label.as_str();
    let is_reached = state.is_exception() || is_named;
    let id = is_reached.then(|| format!("cell:{name}"));
    // A large fleet has hundreds of such cells, and their labels would add nothing.
    let label = if is_reached { label } else { state.word() };
    html! {
        a id=[id] class={ "c " (state.class()) @if is_named { " named" } }
            tabindex=[(!is_reached).then_some("-1")] href={ "cluster?of=" (name) }
            title={ (name) ": " (label) } { @if is_named { (name) } }
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
