//! The files of a report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Fleet, Rollout, Workload, placement};
use object::hex;
use object::text::{clip, markdown, plain};

/// Directory of the pages of add-ons.
const ADD_ONS: &str = "addons";
/// Directory of the pages of ManifestWorkReplicaSets.
const REPLICA_SETS: &str = "replica-sets";
/// Directory of the pages of ManifestWorks.
const WORKS: &str = "works";
/// Limit of the clusters that the report names for each add-on, set or work.
const MAX_LISTED: usize = 20;
/// Limit of the characters of a message.
pub(super) const MESSAGE: usize = 240;
/// Limit of the add-ons with a file of their own, of the sets, and of the works.
pub(super) const MAX_FILES: usize = 500;
/// Limit of the versions that the report lists for each add-on or set.
const VERSIONS: usize = 10;

/// Returns the files of a report, by path.
pub fn files(fleet: &Fleet) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let Fleet { add_ons, replica_sets, works, .. } = fleet;
    for (directory, workloads) in [(ADD_ONS, add_ons), (REPLICA_SETS, replica_sets), (WORKS, works)] {
        let pages = workloads.iter().take(MAX_FILES);
        files.extend(pages.map(|workload| (file_of(directory, workload), page(fleet, workload))));
    }
    files.insert("README.md".into(), readme(fleet));
    files.insert("summary.json".into(), summary(fleet));
    files
}

/// Returns a digest of the files; equal digests mean that there is nothing new to report.
pub fn digest(files: &BTreeMap<String, String>) -> String {
    let hash = files.iter().fold(Sha256::new(), |hash, (path, content)| {
        hash.chain_update(format!("{path}\0{}\0", content.len())).chain_update(content)
    });
    hex(hash.finalize().get(..8).unwrap_or_default())
}

/// Makes a name safe in a path. Names of Kubernetes objects stay as they are, and a dot stands after a
/// namespace, which has none itself.
fn file_of(directory: &str, workload: &Workload) -> String {
    let safe = |c: char| match c {
        '/' => '.',
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') => c,
        _ => '-',
    };
    let name: String = workload.name.chars().map(safe).collect();
    format!("{directory}/{}.md", clip(name.trim_start_matches('.'), 320))
}

fn short(commit: &str) -> &str {
    match commit {
        "" => "none",
        commit => commit.get(..12).unwrap_or(commit),
    }
}

fn readme(fleet: &Fleet) -> String {
    let mut page = format!("# {}\n\n", markdown(&fleet.repo, 300));
    let state = if fleet.ready { "Ready" } else { "**Not ready**" };
    let (reason, message) = &fleet.condition;
    let _ = writeln!(page, "{state}: {} ({})\n", markdown(message, MESSAGE * 2), markdown(reason, 60));
    let _ = writeln!(page, "| | |\n|---|---|");
    let _ = writeln!(page, "| Applied commit | `{}` |", short(&fleet.applied));
    if fleet.seen != fleet.applied {
        let _ = writeln!(page, "| Newest commit | `{}` |", short(&fleet.seen));
    }
    let _ = writeln!(page, "| Clusters | {} of {} available |\n", fleet.available, fleet.clusters);
    let tables = [
        table("Add-on", ADD_ONS, &fleet.add_ons),
        table("ManifestWorkReplicaSet", REPLICA_SETS, &fleet.replica_sets),
        table("ManifestWork", WORKS, &fleet.works),
        placement::table(&fleet.placements),
    ];
    let tables: Vec<String> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    page.push_str(if tables.is_empty() { "No add-ons.\n" } else { "" });
    page.push_str(&tables.join("\n"));
    page
}

/// Returns the table of add-ons, of sets or of works; empty without any.
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

fn page(fleet: &Fleet, workload: &Workload) -> String {
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
        let _ = writeln!(page, "\n- {}", markdown(&hold, MESSAGE));
    }
    page.push_str("\n## Clusters\n\n| State | Clusters |\n|---|---|\n");
    for (label, count) in workload.labels() {
        let _ = writeln!(page, "| {label} | {count} |");
    }
    let _ =
        writeln!(page, "\nIt does not work on {} of {}.", workload.unavailable(), workload.clusters.len());
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
            let _ = writeln!(page, "\nand {} more.", total - MAX_LISTED);
        }
    }
    page
}

fn summary(fleet: &Fleet) -> String {
    let values = |workloads: &[Workload]| -> Map<String, Value> {
        let shown = workloads.iter().take(MAX_FILES);
        shown.map(|workload| (plain(&workload.name, 320), value_of(workload))).collect()
    };
    let (reason, message) = &fleet.condition;
    let summary = json!({
        "version": 1,
        "repo": plain(&fleet.repo, 320),
        "commit": {"seen": fleet.seen, "applied": fleet.applied},
        "ready": {"status": fleet.ready, "reason": plain(reason, 60), "message": plain(message, MESSAGE * 2)},
        "clusters": {"total": fleet.clusters, "available": fleet.available},
        "addOns": values(&fleet.add_ons),
        "replicaSets": values(&fleet.replica_sets),
        "works": values(&fleet.works),
        "placements": placement::values(&fleet.placements),
    });
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    text
}

fn value_of(workload: &Workload) -> Value {
    let worst = workload.clusters.iter().filter(|cluster| cluster.needs_attention()).take(MAX_LISTED);
    let worst = worst.map(|cluster| {
        let (name, message) = (plain(&cluster.name, 253), plain(&cluster.message, MESSAGE));
        json!({"cluster": name, "state": cluster.state.word(), "available": cluster.available, "message": message})
    });
    let rollouts = workload.rollouts.iter().map(|rollout| {
        let Rollout { placement, state, message, desired, last_good, quarantined } = rollout;
        json!({
            "placement": plain(placement, 320), "state": plain(state, 60), "message": plain(message, MESSAGE),
            "desired": plain(desired, 320), "lastGood": plain(last_good, 320), "quarantined": quarantined,
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
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::report::{Cluster, message};
    use crate::rollout::ClusterState;
    use crate::rollout::state::Wait;

    const FAILED: ClusterState = ClusterState::Failed { deadline: None };

    fn cluster(name: &str, state: ClusterState, message: &str) -> Cluster {
        let (name, message, runs) = (name.into(), message.into(), "msa-0.4.1@12345678".into());
        Cluster { state, available: true, name, message, runs }
    }

    fn fleet(clusters: Vec<Cluster>) -> Fleet {
        let rollout = Rollout {
            placement: "fleet/canary".into(),
            state: "Failed".into(),
            message: "1 failed".into(),
            ..Rollout::default()
        };
        let rollouts = vec![rollout];
        let clusters = clusters.into_iter().map(Arc::new).collect();
        let add_on = Workload { name: "msa".into(), rollouts, holds: vec!["approval abc".into()], clusters };
        Fleet {
            repo: "config/fleet".into(),
            seen: "a".repeat(40),
            applied: "a".repeat(40),
            ready: true,
            condition: ("Applied".into(), "applied aaaaaaaaaaaa (9 objects)".into()),
            clusters: 3,
            available: 2,
            add_ons: vec![add_on],
            replica_sets: Vec::new(),
            works: Vec::new(),
            placements: Vec::new(),
        }
    }

    #[test]
    fn a_report_counts_and_names_the_worst() {
        let files = files(&fleet(vec![
            cluster("c1", FAILED, "image not found"),
            cluster("c2", ClusterState::Done, ""),
        ]));
        assert_eq!(files.keys().collect::<Vec<_>>(), ["README.md", "addons/msa.md", "summary.json"]);
        assert!(
            files["README.md"].contains("| [msa](addons/msa.md) | 1 of 2 | 1 Failed | 0 | Failed |"),
            "{}",
            files["README.md"]
        );
        assert!(
            files["addons/msa.md"].contains("| c1 | Failed | image not found |"),
            "{}",
            files["addons/msa.md"]
        );
        let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
        assert_eq!(summary["addOns"]["msa"]["clusters"]["failed"], 1);
        assert_eq!(summary["addOns"]["msa"]["configurations"]["msa-0.4.1@12345678"], 2);
        assert!(files.values().all(|content| content.ends_with('\n')));
    }

    #[test]
    fn a_rollback_is_reported_with_both_versions() {
        let mut fleet = fleet(vec![cluster("c1", ClusterState::Quarantined { returns_to: None }, "")]);
        let rollout = &mut fleet.add_ons[0].rollouts[0];
        rollout.desired = "msa-0.4.2@12345678".into();
        rollout.last_good = "msa-0.4.1@87654321".into();
        rollout.quarantined = true;
        assert!(message(&fleet, "d").starts_with("report: msa is rolled back: 0.4.2 failed\n"));
        let files = files(&fleet);
        let page = &files["addons/msa.md"];
        assert!(page.contains("Quarantined on fleet/canary: msa-0.4.2"), "{page}");
        let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
        let rollout = &summary["addOns"]["msa"]["rollouts"][0];
        assert_eq!(
            (&rollout["quarantined"], &rollout["lastGood"]),
            (&json!(true), &json!("msa-0.4.1@87654321"))
        );
    }

    #[test]
    fn a_cluster_that_waits_says_what_for() {
        let files = files(&fleet(vec![
            cluster("c1", ClusterState::Waiting(Wait::Paused), ""),
            cluster("c2", ClusterState::Waiting(Wait::Paused), ""),
        ]));
        assert!(
            files["README.md"].contains("| 0 of 2 | 2 Waiting (Paused) | 0 | Failed |"),
            "{}",
            files["README.md"]
        );
        let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
        assert_eq!(summary["addOns"]["msa"]["clusters"]["waiting"], 2);
        assert_eq!(summary["addOns"]["msa"]["waiting"]["Paused"], 2);
    }

    #[test]
    fn messages_of_spokes_are_redacted_escaped_and_capped() {
        let hostile = format!(
            "](javascript:x)|<b>\x1b[31m token=hunter22222 ::set-output \u{202e} {}",
            "A1b".repeat(400_000)
        );
        let files = files(&fleet(vec![cluster("c1", FAILED, &hostile)]));
        for (path, content) in &files {
            assert!(content.len() < 8_000, "{path}: {}", content.len());
            for bad in ["hunter2", "\x1b", "\u{202e}"] {
                assert!(!content.contains(bad), "{path} holds {bad:?}");
            }
            if path.ends_with(".md") {
                assert!(
                    !content.contains("](javascript:")
                        && !content.contains("<b>")
                        && !content.contains("::set"),
                    "{content}"
                );
            }
        }
    }

    #[test]
    fn no_text_of_a_spoke_stops_the_ci_of_a_report() {
        let words = "[skip ci] [ci skip] [no ci] ***NO_CI*** skip-checks: true\n\nskip-checks:true";
        let mut fleet = fleet(vec![cluster("c1", FAILED, words)]);
        fleet.condition.1 = words.into();
        fleet.add_ons[0].rollouts[0].message = words.into();
        fleet.add_ons[0].holds = vec![words.into()];
        for ready in [true, false] {
            fleet.ready = ready;
            let text = message(&fleet, "0123456789abcdef").to_lowercase();
            assert!(!text.contains("skip") && !text.contains("no ci") && !text.contains("no_ci"), "{text}");
        }
    }

    #[test]
    fn a_report_of_a_large_fleet_stays_small() {
        let clusters = (0..5000).map(|i| cluster(&format!("c{i:05}"), FAILED, &"x".repeat(1000))).collect();
        let files = files(&fleet(clusters));
        assert!(files.values().all(|content| content.len() < 64 << 10));
        assert!(files["addons/msa.md"].contains("and 4980 more."));
    }

    #[test]
    fn the_same_fleet_gives_the_same_digest_and_any_change_another() {
        let of = |standing| digest(&files(&fleet(vec![cluster("c1", standing, "")])));
        assert_eq!(of(ClusterState::Done), of(ClusterState::Done));
        assert_ne!(of(ClusterState::Done), of(ClusterState::Waiting(Wait::Paused)));
    }

    #[test]
    fn the_commit_message_says_what_matters_and_carries_trailers() {
        let keeper = cluster("c2", ClusterState::Quarantined { returns_to: None }, "");
        let text = message(&fleet(vec![cluster("c1", FAILED, ""), keeper]), "0123456789abcdef");
        assert!(text.starts_with("report: msa failed on 1 of 2 clusters\n"), "{text}");
        let text = message(&fleet(vec![cluster("c1", ClusterState::Done, "")]), "0123456789abcdef");
        assert!(text.starts_with("report: every cluster is up to date\n\n"), "{text}");
        assert!(text.contains(&format!("\nWheelwright-Source: {}\n", "a".repeat(40))), "{text}");
        let odd = Workload { name: "../../etc/x".into(), ..Workload::default() };
        assert_eq!(file_of(ADD_ONS, &odd), "addons/etc.x.md");
    }
}
