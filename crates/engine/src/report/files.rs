//! The files of a report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::limits::{MAX_FILES, MESSAGE};
use super::{FleetReport, Rollout, Workload, config_repo, exceptions, placement, timeline};
use crate::plural::counted;
use exceptions::CLUSTERS;
use object::hex;
use object::text::{clip, markdown, plain, short_commit};

/// The directory of add-on pages.
const ADD_ONS: &str = "addons";
/// The directory of ManifestWorkReplicaSet pages.
const REPLICA_SETS: &str = "replica-sets";
/// The directory of ManifestWork pages.
const WORKS: &str = "works";
/// The maximum number of clusters that the report lists for each workload.
const MAX_LISTED: usize = 20;
/// The maximum number of versions that the report lists for each add-on or set.
const VERSIONS: usize = 10;
/// The maximum size of the summary.
const SUMMARY: usize = 256 << 10;
/// Levels of detail for the summary: the number of clusters per workload, and the number of workloads per kind.
/// The first level that fits is used. The other files always contain everything.
const DETAILS: [(usize, usize); 6] =
    [(MAX_LISTED, MAX_FILES), (5, MAX_FILES), (1, MAX_FILES), (0, MAX_FILES), (0, 100), (0, 20)];

/// Returns the files of a report, by path.
pub fn files(fleet: &FleetReport) -> BTreeMap<String, String> {
    let exceptions = exceptions::exceptions(fleet);
    let mut files = exceptions::files(&exceptions);
    let FleetReport { add_ons, replica_sets, works, .. } = fleet;
    for (directory, workloads) in [(ADD_ONS, add_ons), (REPLICA_SETS, replica_sets), (WORKS, works)] {
        let pages = workloads.iter().take(MAX_FILES);
        for workload in pages {
            let file = file_of(directory, workload);
            let picture = timeline::svg(workload).map(|svg| (picture_of(&file), svg));
            let text = page(fleet, workload, picture.as_ref().map(|(path, _)| path.as_str()));
            files.insert(file, text);
            files.extend(picture);
        }
    }
    files.insert("README.md".into(), readme(fleet, exceptions.len()));
    files.insert("summary.json".into(), summary(fleet, exceptions.len()));
    files
}

/// Returns a digest of the files. Equal digests mean that there is nothing new to report.
pub fn digest(files: &BTreeMap<String, String>) -> String {
    let hash = files.iter().fold(Sha256::new(), |hash, (path, content)| {
        hash.chain_update(format!("{path}\0{}\0", content.len())).chain_update(content)
    });
    hex(hash.finalize().get(..8).unwrap_or_default())
}

/// Returns a safe path for a workload. Names of Kubernetes objects are unchanged. A dot separates the namespace,
/// which never contains a dot.
fn file_of(directory: &str, workload: &Workload) -> String {
    let safe = |c: char| match c {
        '/' => '.',
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') => c,
        _ => '-',
    };
    let name: String = workload.name.chars().map(safe).collect();
    format!("{directory}/{}.md", clip(name.trim_start_matches('.'), 320))
}

/// Returns the path of the picture for a page.
fn picture_of(page: &str) -> String {
    format!("{}.svg", page.trim_end_matches(".md"))
}

fn short(commit: &str) -> &str {
    match commit {
        "" => "none",
        commit => short_commit(commit),
    }
}

fn readme(fleet: &FleetReport, exceptions: usize) -> String {
    let mut page = format!("# {}\n\n", markdown(&fleet.repo, 300));
    let state = if fleet.ready { "Ready" } else { "**Not ready**" };
    let (reason, message) = &fleet.condition;
    let _ = writeln!(page, "{state}: {} ({})\n", markdown(message, MESSAGE * 2), markdown(reason, 60));
    let _ = writeln!(page, "| | |\n|---|---|");
    let _ = writeln!(page, "| Applied commit | `{}` |", short(&fleet.applied));
    if fleet.seen != fleet.applied {
        let _ = writeln!(page, "| Newest commit | `{}` |", short(&fleet.seen));
    }
    let _ = writeln!(page, "| Clusters | {} of {} available |", fleet.available, fleet.clusters);
    if exceptions > 0 {
        let _ = writeln!(page, "| Clusters that need attention | [{exceptions}]({CLUSTERS}) |");
    }
    page.push('\n');
    let tables = [
        table("Add-on", ADD_ONS, &fleet.add_ons),
        table("ManifestWorkReplicaSet", REPLICA_SETS, &fleet.replica_sets),
        table("ManifestWork", WORKS, &fleet.works),
        placement::table(&fleet.placements),
        config_repo::table(&fleet.others),
    ];
    let tables: Vec<String> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    page.push_str(if tables.is_empty() { "No add-ons.\n" } else { "" });
    page.push_str(&tables.join("\n"));
    page
}

/// Returns the table of add-ons, sets or works, or an empty string if there are none.
fn table(kind: &str, directory: &str, workloads: &[Workload]) -> String {
    if workloads.is_empty() {
        return String::new();
    }
    let mut table =
        format!("| {kind} | Done | Other states | Unavailable | Rollout |\n|---|---|---|---|---|\n");
    for workload in workloads.iter().take(MAX_FILES) {
        let others = workload.labels().into_iter().filter(|(label, _)| label != "Done");
        let others: Vec<_> = others.map(|(label, count)| format!("{count} {label}")).collect();
        let mut rollouts: Vec<_> =
            workload.rollouts.iter().map(|rollout| markdown(&rollout.state, 40)).collect();
        rollouts.dedup();
        let _ = writeln!(
            table,
            "| [{}]({}) | {} of {} | {} | {} | {} |",
            markdown(&workload.name, 160),
            file_of(directory, workload),
            workload.counts().done,
            workload.clusters.len(),
            others.join(", "),
            workload.unavailable(),
            rollouts.join(", ")
        );
    }
    if workloads.len() > MAX_FILES {
        let _ = writeln!(table, "\nand {} more.", workloads.len() - MAX_FILES);
    }
    table
}

/// Returns the page of an add-on, a set or works; `picture` is the path of its timeline.
fn page(fleet: &FleetReport, workload: &Workload, picture: Option<&str>) -> String {
    let mut page = format!(
        "# {}\n\nAs of commit `{}` of {}.\n",
        markdown(&workload.name, 160),
        short(&fleet.applied),
        markdown(&fleet.repo, 300)
    );
    if !workload.rollouts.is_empty() {
        page.push_str("\n## Rollouts\n\n| Placement | State | |\n|---|---|---|\n");
    }
    for Rollout { placement, state, message, desired: _, last_good: _, quarantined: _ } in &workload.rollouts
    {
        let (placement, state, message) =
            (markdown(placement, 120), markdown(state, 40), markdown(message, MESSAGE));
        let _ = writeln!(page, "| {placement} | {state} | {message} |");
    }
    let quarantines = workload.rollouts.iter().filter_map(Rollout::quarantine);
    for hold in quarantines.chain(workload.holds.iter().cloned()).take(MAX_LISTED) {
        let _ = writeln!(page, "\n- {}", markdown(&hold, MESSAGE * 2));
    }
    page.push_str("\n## Clusters\n\n| State | Clusters |\n|---|---|\n");
    for (label, count) in workload.labels() {
        let _ = writeln!(page, "| {label} | {count} |");
    }
    if let Some((_, picture)) = picture.and_then(|path| path.rsplit_once('/')) {
        let _ = writeln!(page, "\n![Clusters that were done or failed, over time]({picture})");
    }
    let _ = writeln!(
        page,
        "\nUnavailable: {} of {}.",
        workload.unavailable(),
        counted(workload.clusters.len(), "cluster")
    );
    let versions = workload.versions();
    if versions.keys().any(|version| !version.is_empty()) {
        page.push_str("\n| Configuration | Clusters |\n|---|---|\n");
        for (version, count) in versions.iter().take(VERSIONS) {
            let _ = writeln!(
                page,
                "| {} | {count} |",
                markdown(if version.is_empty() { "none" } else { version }, 160)
            );
        }
        if versions.len() > VERSIONS {
            let _ = writeln!(page, "| and {} more | |", versions.len() - VERSIONS);
        }
    }
    let behind = workload.clusters.iter().filter(|cluster| cluster.needs_attention());
    let total = behind.clone().count();
    if total > 0 {
        page.push_str("\n## What needs attention\n\n| Cluster | State | |\n|---|---|---|\n");
        for cluster in behind.take(MAX_LISTED) {
            let _ = writeln!(
                page,
                "| {} | {} | {} |",
                markdown(&cluster.name, 80),
                cluster.state.label(),
                markdown(&cluster.message, MESSAGE)
            );
        }
        if total > MAX_LISTED {
            let _ = writeln!(page, "\nand {} more; see [{CLUSTERS}](../{CLUSTERS}).", total - MAX_LISTED);
        }
    }
    page
}

fn summary(fleet: &FleetReport, exceptions: usize) -> String {
    let of = |(worst, listed)| summary_of(fleet, exceptions, worst, listed);
    let fitting = DETAILS.into_iter().map(of).find(|text| text.len() <= SUMMARY);
    fitting.unwrap_or_else(|| of((0, 0)))
}

/// Returns a summary with limited numbers of clusters for each workload and of workloads for each kind.
fn summary_of(fleet: &FleetReport, exceptions: usize, worst: usize, listed: usize) -> String {
    let values = |workloads: &[Workload]| -> Map<String, Value> {
        let shown = workloads.iter().take(listed);
        shown.map(|workload| (plain(&workload.name, 320), value_of(workload, worst))).collect()
    };
    let (reason, message) = &fleet.condition;
    let summary = json!({
        "version": 1,
        "repo": plain(&fleet.repo, 320),
        "commit": {"seen": fleet.seen, "applied": fleet.applied},
        "ready": {"status": fleet.ready, "reason": plain(reason, 60), "message": plain(message, MESSAGE * 2)},
        "clusters": {
            "total": fleet.clusters, "available": fleet.available, "needAttention": exceptions,
        },
        "addOns": values(&fleet.add_ons),
        "replicaSets": values(&fleet.replica_sets),
        "works": values(&fleet.works),
        "placements": placement::values(&fleet.placements, listed),
        "otherConfigRepos": config_repo::values(&fleet.others, listed),
    });
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    text
}

fn value_of(workload: &Workload, most: usize) -> Value {
    let worst = workload.clusters.iter().filter(|cluster| cluster.needs_attention()).take(most);
    let worst = worst.map(|cluster| {
        let (name, message) = (plain(&cluster.name, 253), plain(&cluster.message, MESSAGE));
        json!({"cluster": name, "state": cluster.state.word(), "available": cluster.available, "message": message})
    });
    let rollouts = workload.rollouts.iter().map(|rollout| {
        let Rollout { placement, state, message, desired, last_good, quarantined } = rollout;
        json!({
            "placement": plain(placement, 320), "state": plain(state, 60), "message": plain(message, MESSAGE),
            "desired": plain(desired, 320), "lastGood": plain(last_good, 320), "quarantined": quarantined.is_some(),
        })
    });
    let versions: BTreeMap<String, usize> = workload
        .versions()
        .into_iter()
        .take(VERSIONS)
        .map(|(version, count)| (plain(version, 160), count))
        .collect();
    let holds: Vec<_> = workload.holds.iter().take(MAX_LISTED).map(|hold| plain(hold, MESSAGE)).collect();
    json!({
        "clusters": workload.counts(),
        "unavailable": workload.unavailable(),
        "waiting": workload.waiting(),
        "configurations": versions,
        "rollouts": rollouts.collect::<Vec<_>>(),
        "holds": holds,
        "worst": worst.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
#[path = "tests/files.rs"]
mod tests;
