//! Formats a fleet as text: one line per repository and placement, and the groups of each add-on and
//! ManifestWorkReplicaSet in rollout order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use controllers::hub::overview::{
    ClusterSummary, Clusters, CommitSummary, DirectorySummary, GroupSummary, Mark, ObjectList, Overview,
    WorkloadSummary,
};

use super::output::Style;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::ConfigRepo;
use engine::plural::counted;
use engine::rollout::ClusterState;
use object::Gvk;
use object::text::short_commit;

/// The largest group with a cell per cluster; larger groups are shown as counts per state.
const CELLS: usize = 48;
/// The maximum number of directories of a repository to list, and of troubled clusters, for the hub and for each add-on
/// or set.
const MAX_LISTED: usize = 20;

/// Formats the whole fleet, including the last results of commits if `has_history` is set. Everything that depends
/// on the `unread` kinds is left out.
pub(super) fn page(overview: &Overview, style: Style, has_history: bool, unread: &[Gvk]) -> String {
    let mut page = String::new();
    let is_read = |kind: &Gvk| !unread.contains(kind);
    if is_read(&Gvk::of::<ConfigRepo>()) {
        repositories(&mut page, overview, style, has_history);
    }
    if is_read(&Gvk::of::<ManagedCluster>()) {
        clusters(&mut page, &overview.clusters, style);
    }
    if is_read(&Gvk::of::<Placement>()) {
        placements(&mut page, overview, style);
    }
    if unread.is_empty() {
        for summary in overview.workloads() {
            let _ = write!(page, "\n{}", workload(summary, style));
        }
    }
    page
}

/// Formats an add-on or a set: its clusters by group, in rollout order.
pub(super) fn workload(summary: &WorkloadSummary, style: Style) -> String {
    let WorkloadSummary { name, holds, corrections, groups, .. } = summary;
    let mut page = format!("{}  {}\n", style.bold(name), summary.progress());
    for line in holds.iter().chain(corrections) {
        let _ = writeln!(page, "  {line}");
    }
    for line in group_lines(name, groups, style) {
        let _ = writeln!(page, "{line}");
    }
    write_soaking(&mut page, summary);
    write_failures(&mut page, summary, style);
    page
}

fn repositories(page: &mut String, overview: &Overview, style: Style, has_history: bool) {
    if overview.repositories.is_empty() {
        let _ = writeln!(page, "no ConfigRepo: nothing drives this fleet yet");
    }
    for repository in &overview.repositories {
        let waits = !repository.held_plan.is_empty() || repository.held_deletions.is_some();
        let (mark, colour) = match () {
            () if repository.ready => ('✓', GREEN),
            () if waits => ('‖', YELLOW),
            () if repository.is_under_way() => ('↻', YELLOW),
            () => ('✗', RED),
        };
        let commit = short(&repository.applied);
        let _ = writeln!(
            page,
            "{} {}  {commit}  {}: {}",
            style.colour(colour, &mark.to_string()),
            style.bold(&repository.name),
            repository.reason,
            repository.message
        );
        if repository.seen != repository.applied && !repository.seen.is_empty() {
            let _ = writeln!(page, "  fetched {}", short(&repository.seen));
        }
        if !repository.unanswered.is_empty() {
            let _ = writeln!(
                page,
                "  {}: wheelwright doctor shows whether one is running",
                repository.unanswered
            );
        }
        if !repository.report_error.is_empty() {
            let _ = writeln!(page, "  the current state is not reported: {}", repository.report_error);
        }
        if repository.suspended && !repository.message.starts_with("suspended") {
            let _ = writeln!(page, "  suspended: spec.suspend is true");
        }
        directories(page, &repository.directories);
        if let Some(held) = &repository.held_deletions {
            let _ = writeln!(page, "  {}", held.summary());
            objects(page, "    ", &held.objects, held.more);
        }
        if !repository.held_plan.is_empty() {
            let _ = writeln!(
                page,
                "  the plan waits for approval: wheelwright repo approve {} {}",
                repository.name, repository.held_plan
            );
            for ObjectList { what, objects: listed, more } in &repository.held_changes {
                let _ = writeln!(page, "    {what}");
                objects(page, "      ", listed, *more);
            }
        }
        if has_history && !repository.history.is_empty() {
            let _ = writeln!(page, "  last results of commits:");
            for CommitSummary { commit, reason, time } in &repository.history {
                let line = format!("    {}  {reason}  {time}", short(commit));
                let _ = writeln!(page, "{}", line.trim_end());
            }
        }
    }
}

/// Writes a line with the first directories of a repository with patterns.
fn directories(page: &mut String, all: &[DirectorySummary]) {
    let one = |one: &DirectorySummary| format!("{} ({})", one.path, counted(one.objects, "object"));
    let mut first: Vec<_> = all.iter().take(MAX_LISTED).map(one).collect();
    if let Some(more) = all.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        first.push(format!("and {more} more"));
    }
    if !first.is_empty() {
        let _ = writeln!(page, "  directories: {}", first.join(", "));
    }
}

/// Writes the listed objects, and the number of objects that are not listed.
fn objects(page: &mut String, indent: &str, objects: &[String], more: usize) {
    for object in objects {
        let _ = writeln!(page, "{indent}{object}");
    }
    if more > 0 {
        let _ = writeln!(page, "{indent}and {more} more");
    }
}

fn clusters(page: &mut String, clusters: &Clusters, style: Style) {
    let Clusters { total, available, troubled, labels: _ } = clusters;
    let _ = writeln!(page, "\n{}  {available} of {total} available", style.bold("clusters"));
    for cluster in troubled.iter().take(MAX_LISTED) {
        let _ = writeln!(page, "  {} {}: {}", style.colour(RED, "✗"), cluster.name, cluster.message);
    }
    if let Some(more) = troubled.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        let _ = writeln!(page, "  and {more} more");
    }
}

fn placements(page: &mut String, overview: &Overview, style: Style) {
    if overview.placements.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n{}", style.bold("placements"));
    let width = overview.placements.iter().map(|placement| placement.name.chars().count()).max();
    let width = width.unwrap_or_default();
    for placement in &overview.placements {
        let (mark, colour) = if placement.satisfied { ('✓', GREEN) } else { ('✗', RED) };
        let message = if placement.satisfied { "" } else { placement.message.as_str() };
        let mark = style.colour(colour, &mark.to_string());
        let line = format!(
            "  {mark} {:width$}  {}  {message}",
            placement.name,
            counted(placement.selected, "cluster")
        );
        let _ = writeln!(page, "{}", line.trim_end());
    }
}

/// Returns the placement and the name of a group.
pub(super) fn title(group: &GroupSummary) -> String {
    match group.placement.as_str() {
        "" => "no placement".to_owned(),
        placement => format!("{placement} {}", group.name).trim_end().to_owned(),
    }
}

/// Formats the groups of an add-on or a set: a cell per cluster or, for large groups, a count per state.
pub(super) fn group_lines(workload: &str, groups: &[GroupSummary], style: Style) -> Vec<String> {
    let width = groups.iter().map(|group| title(group).chars().count()).max().unwrap_or_default();
    let cell = groups
        .iter()
        .flat_map(|group| &group.clusters)
        .map(|cluster| text(workload, cluster).chars().count());
    let cell = cell.max().unwrap_or_default();
    let columns = (style.columns.saturating_sub(width + 4) / (cell + 2)).max(1);
    let mut lines = Vec::new();
    for group in groups {
        let cells: Vec<String> = match group.clusters.len() {
            0..=CELLS => {
                group.clusters.iter().map(|cluster| cell_of(workload, cluster, cell, style)).collect()
            }
            _ => counts(group, style),
        };
        for (number, row) in cells.chunks(columns).enumerate() {
            let title = if number == 0 { title(group) } else { String::new() };
            lines.push(format!("  {title:width$}  {}", row.join("  ")).trim_end().to_owned());
        }
    }
    lines
}

fn cell_of(workload: &str, cluster: &ClusterSummary, width: usize, style: Style) -> String {
    style.colour(colour(cluster.mark()), &format!("{:width$}", text(workload, cluster)))
}

fn text(workload: &str, cluster: &ClusterSummary) -> String {
    let version = cluster.version(workload);
    format!("{} {} {}", cluster.mark().sign(), cluster.name, if version.is_empty() { "-" } else { version })
}

/// Formats the number of clusters of a group per state.
fn counts(group: &GroupSummary, style: Style) -> Vec<String> {
    let mut counts: BTreeMap<(Mark, String), usize> = BTreeMap::new();
    for cluster in &group.clusters {
        *counts.entry((cluster.mark(), cluster.label())).or_default() += 1;
    }
    let cell = |((mark, label), count): ((Mark, String), usize)| {
        style.colour(colour(mark), &format!("{} {count} {label}", mark.sign()))
    };
    counts.into_iter().map(cell).collect()
}

/// Writes the time until which clusters soak. The next group waits for it.
fn write_soaking(page: &mut String, summary: &WorkloadSummary) {
    let ends = summary.clusters().filter_map(|cluster| match cluster.state {
        ClusterState::Soaking { until } => Some(until),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let _ = match (ends.len(), ends.iter().max()) {
        (_, None) => Ok(()),
        (1, Some(until)) => writeln!(page, "  1 cluster soaks until {until:.0}"),
        (count, Some(last)) => writeln!(page, "  {count} clusters soak, the last until {last:.0}"),
    };
}

/// Writes the troubled clusters with their messages: first those that failed, then those that report an error.
fn write_failures(page: &mut String, summary: &WorkloadSummary, style: Style) {
    let mut troubled: Vec<_> =
        summary.clusters().filter(|cluster| matches!(cluster.mark(), Mark::Bad | Mark::Warned)).collect();
    troubled.sort_by_key(|cluster| cluster.mark());
    for cluster in troubled.iter().take(MAX_LISTED) {
        let mark = style.colour(colour(cluster.mark()), &cluster.mark().sign().to_string());
        let label = cluster.label();
        let _ = match cluster.message.as_str() {
            "" => writeln!(page, "  {mark} {} {label}", cluster.name),
            message => writeln!(page, "  {mark} {} {label}: {message}", cluster.name),
        };
    }
    if let Some(more) = troubled.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        let _ = writeln!(page, "  and {more} more");
    }
}

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const FAINT: &str = "2";

/// Returns the colour of a mark, as an ANSI code.
fn colour(mark: Mark) -> &'static str {
    match mark {
        Mark::Bad => RED,
        Mark::Warned | Mark::Returned | Mark::Busy => YELLOW,
        Mark::Waiting => FAINT,
        Mark::Good => GREEN,
    }
}

fn short(commit: &str) -> &str {
    match short_commit(commit) {
        "" => "-",
        commit => commit,
    }
}

#[cfg(test)]
mod tests {
    use controllers::hub::overview::Repository;

    use super::*;

    #[test]
    fn a_report_that_cannot_be_pushed_is_shown() {
        let fleet = Repository { name: "n/fleet".into(), ready: true, ..Repository::default() };
        let refused = Repository { report_error: "the server refused it".into(), ..fleet.clone() };
        let text = |repository| {
            page(
                &Overview { repositories: vec![repository], ..Overview::default() },
                Style::PLAIN,
                false,
                &[],
            )
        };
        assert!(text(refused).contains("\n  the current state is not reported: the server refused it\n"));
        assert!(!text(fleet).contains("not reported"));
    }

    #[test]
    fn a_cluster_that_reports_an_error_is_named_before_its_deadline() {
        let cluster = |number: usize, reports_error| ClusterSummary {
            name: format!("c{number:03}"),
            runs: String::new(),
            state: ClusterState::Progressing { deadline: None, reported: true },
            available: false,
            reports_error,
            message: if reports_error { "ConfigMap Greeting_X: is invalid".into() } else { String::new() },
            since: None,
        };
        let clusters = (0..107).map(|number| cluster(number, [5, 50, 100].contains(&number))).collect();
        let group = GroupSummary { placement: "fleet/all".into(), name: "#0".into(), clusters };
        let summary = WorkloadSummary { name: "fleet/settings".into(), ..WorkloadSummary::of(vec![group]) };
        let page = workload(&summary, Style::PLAIN);
        let head = "fleet/settings  0 of 107 clusters done, 3 report an error\n  \
                    fleet/all #0  ! 3 Progressing (reports an error)  ↻ 104 Progressing\n";
        assert!(page.starts_with(head), "{page}");
        for name in ["c005", "c050", "c100"] {
            let line =
                format!("  ! {name} Progressing (reports an error): ConfigMap Greeting_X: is invalid\n");
            assert!(page.contains(&line), "{page}");
        }
    }

    #[test]
    fn a_repository_under_way_is_no_failure_and_one_that_waits_for_a_person_is_marked() {
        let mark = |change: &dyn Fn(&mut Repository)| {
            let mut repository =
                Repository { name: "a/b".into(), reconciling: true, ..Repository::default() };
            change(&mut repository);
            let (mut page, fleet) =
                (String::new(), Overview { repositories: vec![repository], ..Overview::default() });
            repositories(&mut page, &fleet, Style::PLAIN, false);
            page.chars().next().unwrap()
        };
        assert_eq!(mark(&|one| one.ready = true), '✓');
        assert_eq!(mark(&|one| one.reason = "WaitingForHealth".into()), '↻');
        assert_eq!(mark(&|one| one.held_plan = "c0de".into()), '‖');
        assert_eq!(
            mark(&|one| one.reason = "SourceUnreachable".into()),
            '✗',
            "a failed fetch is no progress"
        );
        assert_eq!(mark(&|one| one.reconciling = false), '✗');
    }

    #[test]
    fn a_cluster_without_a_reason_has_no_colon_behind_its_state() {
        let cluster = ClusterSummary {
            name: "c1".into(),
            runs: String::new(),
            state: ClusterState::Done,
            available: false,
            reports_error: false,
            message: String::new(),
            since: None,
        };
        let group =
            GroupSummary { placement: "fleet/all".into(), name: "#0".into(), clusters: vec![cluster] };
        let page = workload(&WorkloadSummary::of(vec![group]), Style::PLAIN);
        assert!(page.ends_with("\n  ✗ c1 Done (not available)\n"), "{page}");
    }

    #[test]
    fn the_time_until_which_clusters_soak_is_shown() {
        let cluster = |minute: u8| ClusterSummary {
            name: format!("c{minute}"),
            runs: String::new(),
            state: ClusterState::Soaking { until: format!("2026-01-01T00:0{minute}:00Z").parse().unwrap() },
            available: true,
            reports_error: false,
            message: String::new(),
            since: None,
        };
        let group =
            |clusters| GroupSummary { placement: "fleet/all".into(), name: "canary".into(), clusters };
        let text = |clusters| workload(&WorkloadSummary::of(vec![group(clusters)]), Style::PLAIN);
        let one = text(vec![cluster(1)]);
        assert!(one.ends_with("\n  1 cluster soaks until 2026-01-01T00:01:00Z\n"), "{one}");
        let two = text(vec![cluster(7), cluster(1)]);
        assert!(two.ends_with("\n  2 clusters soak, the last until 2026-01-01T00:07:00Z\n"), "{two}");
    }

    #[test]
    fn a_long_message_is_shown_whole() {
        let message = format!("{} fleet/placements/all.yaml:7", "x".repeat(700));
        let condition = serde_json::json!({"type": "Ready", "status": "False", "reason": "InvalidObject",
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let repo = serde_json::json!({"metadata": {"name": "fleet", "namespace": "n"}, "spec": {"url": "https://h/x"},
            "status": {"conditions": [condition]}});
        let repository = Repository::from_config_repo(&serde_json::from_value(repo).unwrap());
        let page = page(
            &Overview { repositories: vec![repository], ..Overview::default() },
            Style::PLAIN,
            false,
            &[],
        );
        assert!(page.contains("fleet/placements/all.yaml:7"), "{page}");
    }

    #[test]
    fn directories_are_printed_below_their_repository_up_to_a_limit() {
        let directory = |n: usize| DirectorySummary { path: format!("clusters/c{n}"), objects: n };
        let text = |count| {
            let mut page = String::new();
            directories(&mut page, &(1..=count).map(directory).collect::<Vec<_>>());
            page
        };
        assert_eq!(
            (text(0), text(2)),
            (String::new(), "  directories: clusters/c1 (1 object), clusters/c2 (2 objects)\n".into())
        );
        assert!(text(MAX_LISTED + 3).ends_with("clusters/c20 (20 objects), and 3 more\n"), "{}", text(23));
    }

    #[test]
    fn the_effects_of_a_held_plan_are_listed_below_its_approval() {
        let objects = vec!["ConfigMap n/a".into(), "ConfigMap n/b".into()];
        let changed = ObjectList { what: "3 objects to change".into(), objects, more: 1 };
        let repository = Repository {
            name: "n/fleet".into(),
            held_plan: "c0de".into(),
            held_changes: vec![changed],
            ..Repository::default()
        };
        let page = page(
            &Overview { repositories: vec![repository], ..Overview::default() },
            Style::PLAIN,
            false,
            &[],
        );
        let expected = "\n  the plan waits for approval: wheelwright repo approve n/fleet c0de\n    \
                    3 objects to change\n      ConfigMap n/a\n      ConfigMap n/b\n      and 1 more\n";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn the_results_of_commits_are_printed_below_their_repository_on_request() {
        let result = |digit: &str, reason: &str, time: &str| CommitSummary {
            commit: digit.repeat(40),
            reason: reason.into(),
            time: time.into(),
        };
        let failed = result("2", "RenderFailed", "2026-01-02T03:04:05Z");
        let history = vec![failed, result("1", "Applied", "")];
        let reported = Repository { name: "n/told".into(), history, ..Repository::default() };
        let new = Repository { name: "n/new".into(), ..Repository::default() };
        let overview = Overview { repositories: vec![reported, new], ..Overview::default() };
        let lines = "  last results of commits:\n    222222222222  RenderFailed  2026-01-02T03:04:05Z\n    \
                     111111111111  Applied\n";
        let [asked, usual] = [true, false].map(|has_history| page(&overview, Style::PLAIN, has_history, &[]));
        assert_eq!(asked.matches(lines).count(), 1, "{asked}");
        assert_eq!(asked.replace(lines, ""), usual);
    }
}
