//! The files of a report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{AddOn, Fleet, Standing};
use object::hex;
use object::text::{clip, markdown, plain};

/// Clusters that are named of each add-on.
const NAMED: usize = 20;
/// Characters of a message that are shown.
const MESSAGE: usize = 240;
/// Add-ons that get a file of their own.
const MAX_ADD_ONS: usize = 500;
/// Versions that are listed of each add-on.
const VERSIONS: usize = 10;

/// The files of a report, by path.
pub fn files(fleet: &Fleet) -> BTreeMap<String, String> {
    let shown = || fleet.add_ons.iter().take(MAX_ADD_ONS);
    let mut files: BTreeMap<String, String> =
        shown().map(|add_on| (file_of(add_on), page(fleet, add_on))).collect();
    files.insert("README.md".into(), readme(fleet));
    files.insert("summary.json".into(), summary(fleet));
    files
}

/// A digest of the files; equal digests mean that there is nothing new to report.
pub fn digest(files: &BTreeMap<String, String>) -> String {
    let hash = files.iter().fold(Sha256::new(), |hash, (path, content)| {
        hash.chain_update(format!("{path}\0{}\0", content.len())).chain_update(content)
    });
    hex(hash.finalize().get(..8).unwrap_or_default())
}

/// Longest subject of a commit, in characters: what `git log --oneline` shows of one on a usual terminal.
const SUBJECT: usize = 72;

/// The message of the commit, with trailers for programs.
pub fn message(fleet: &Fleet, digest: &str) -> String {
    let failed = |add_on: &&AddOn| add_on.count(Standing::Failed) > 0;
    let behind = |add_on: &&AddOn| add_on.count(Standing::Done) < add_on.clusters.len();
    let head = match (fleet.add_ons.iter().find(failed), fleet.add_ons.iter().find(behind)) {
        _ if !fleet.ready => format!("not ready: {}", fleet.condition.0),
        (Some(worst), _) => format!(
            "{} failed on {} of {} clusters",
            worst.name,
            worst.count(Standing::Failed),
            worst.clusters.len()
        ),
        (None, Some(next)) => format!(
            "{} is done on {} of {} clusters",
            next.name,
            next.count(Standing::Done),
            next.clusters.len()
        ),
        (None, None) => "every cluster is up to date".to_owned(),
    };
    let head = plain(&head, SUBJECT);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "report: {head}\n\nWheelwright-Version: {version}\nWheelwright-Repo: {}\nWheelwright-Source: {}\nWheelwright-Report: {digest}\n",
        fleet.repo, fleet.applied
    )
}

/// Names of Kubernetes objects are safe in paths; anything else is made so.
fn file_of(add_on: &AddOn) -> String {
    let name: String = add_on
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .collect();
    format!("addons/{}.md", clip(name.trim_start_matches('.'), 253))
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
    if fleet.add_ons.is_empty() {
        page.push_str("No add-ons.\n");
        return page;
    }
    page.push_str("| Add-on | Done | Progressing | Waiting | Failed | Unavailable | Rollout |\n|---|---|---|---|---|---|---|\n");
    for add_on in fleet.add_ons.iter().take(MAX_ADD_ONS) {
        let count = |standing| add_on.count(standing);
        let rollout: Vec<_> = add_on.rollouts.iter().map(|(_, reason, _)| markdown(reason, 40)).collect();
        let _ = writeln!(
            page,
            "| [{}]({}) | {} of {} | {} | {} | {} | {} | {} |",
            markdown(&add_on.name, 80),
            file_of(add_on),
            count(Standing::Done),
            add_on.clusters.len(),
            count(Standing::Progressing),
            count(Standing::Waiting),
            count(Standing::Failed),
            count(Standing::Unavailable),
            rollout.join(", ")
        );
    }
    if fleet.add_ons.len() > MAX_ADD_ONS {
        let _ = writeln!(page, "\nand {} more.", fleet.add_ons.len() - MAX_ADD_ONS);
    }
    page
}

fn page(fleet: &Fleet, add_on: &AddOn) -> String {
    let mut page = format!(
        "# {}\n\nAs of commit `{}` of {}.\n",
        markdown(&add_on.name, 80),
        short(&fleet.applied),
        markdown(&fleet.repo, 300)
    );
    page.push_str("\n## Rollouts\n\n| Placement | State | |\n|---|---|---|\n");
    for (placement, reason, message) in &add_on.rollouts {
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            markdown(placement, 120),
            markdown(reason, 40),
            markdown(message, MESSAGE)
        );
    }
    for hold in add_on.holds.iter().take(NAMED) {
        let _ = writeln!(page, "\n- {}", markdown(hold, MESSAGE));
    }
    page.push_str("\n## Clusters\n\n| State | Clusters |\n|---|---|\n");
    for standing in Standing::ALL {
        let _ = writeln!(page, "| {} | {} |", standing.as_str(), add_on.count(standing));
    }
    page.push_str("\n| Configuration | Clusters |\n|---|---|\n");
    let versions = add_on.versions();
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
    let behind = add_on.clusters.iter().take_while(|cluster| cluster.standing < Standing::Waiting);
    let total = behind.clone().count();
    if total > 0 {
        page.push_str("\n## What needs attention\n\n| Cluster | State | |\n|---|---|---|\n");
        for cluster in behind.take(NAMED) {
            let _ = writeln!(
                page,
                "| {} | {} | {} |",
                markdown(&cluster.name, 80),
                cluster.standing.as_str(),
                markdown(&cluster.message, MESSAGE)
            );
        }
        if total > NAMED {
            let _ = writeln!(page, "\nand {} more.", total - NAMED);
        }
    }
    page
}

fn summary(fleet: &Fleet) -> String {
    let add_ons: Map<String, Value> = fleet
        .add_ons
        .iter()
        .take(MAX_ADD_ONS)
        .map(|add_on| (plain(&add_on.name, 253), of_add_on(add_on)))
        .collect();
    let (reason, message) = &fleet.condition;
    let summary = json!({
        "version": 1,
        "repo": plain(&fleet.repo, 320),
        "commit": {"seen": fleet.seen, "applied": fleet.applied},
        "ready": {"status": fleet.ready, "reason": plain(reason, 60), "message": plain(message, MESSAGE * 2)},
        "clusters": {"total": fleet.clusters, "available": fleet.available},
        "addOns": add_ons,
    });
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    text
}

fn of_add_on(add_on: &AddOn) -> Value {
    let counts: Map<String, Value> = Standing::ALL
        .iter()
        .map(|standing| (standing.as_str().to_owned(), add_on.count(*standing).into()))
        .collect();
    let worst = add_on.clusters.iter().take_while(|cluster| cluster.standing < Standing::Waiting).take(NAMED);
    let worst: Vec<_> = worst
        .map(|cluster| json!({"cluster": plain(&cluster.name, 253), "state": cluster.standing.as_str(), "message": plain(&cluster.message, MESSAGE)}))
        .collect();
    let rollouts = add_on.rollouts.iter();
    let rollouts: Vec<_> =
        rollouts.map(|(placement, reason, message)| json!({"placement": plain(placement, 320), "state": plain(reason, 60), "message": plain(message, MESSAGE)})).collect();
    let versions: BTreeMap<String, usize> = add_on
        .versions()
        .into_iter()
        .take(VERSIONS)
        .map(|(version, count)| (plain(version, 160), count))
        .collect();
    let holds: Vec<_> = add_on.holds.iter().take(NAMED).map(|hold| plain(hold, MESSAGE)).collect();
    json!({"clusters": counts, "configurations": versions, "rollouts": rollouts, "holds": holds, "worst": worst})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cluster;

    fn cluster(name: &str, standing: Standing, message: &str) -> Cluster {
        Cluster { standing, name: name.into(), message: message.into(), runs: "msa-0.4.1@12345678".into() }
    }

    fn fleet(clusters: Vec<Cluster>) -> Fleet {
        let rollouts = vec![("fleet/canary".to_owned(), "Failed".to_owned(), "1 failed".to_owned())];
        let add_on = AddOn { name: "msa".into(), rollouts, holds: vec!["approval abc".into()], clusters };
        Fleet {
            repo: "config/fleet".into(),
            seen: "a".repeat(40),
            applied: "a".repeat(40),
            ready: true,
            condition: ("Applied".into(), "applied aaaaaaaaaaaa (9 objects)".into()),
            clusters: 3,
            available: 2,
            add_ons: vec![add_on],
            changed: None,
        }
    }

    #[test]
    fn a_report_counts_and_names_the_worst() {
        let files = files(&fleet(vec![
            cluster("c1", Standing::Failed, "image not found"),
            cluster("c2", Standing::Done, ""),
        ]));
        assert_eq!(files.keys().collect::<Vec<_>>(), ["README.md", "addons/msa.md", "summary.json"]);
        assert!(
            files["README.md"].contains("| [msa](addons/msa.md) | 1 of 2 | 0 | 0 | 1 | 0 | Failed |"),
            "{}",
            files["README.md"]
        );
        assert!(
            files["addons/msa.md"].contains("| c1 | failed | image not found |"),
            "{}",
            files["addons/msa.md"]
        );
        let summary: Value = serde_json::from_str(&files["summary.json"]).unwrap();
        assert_eq!(summary["addOns"]["msa"]["clusters"]["failed"], 1);
        assert_eq!(summary["addOns"]["msa"]["configurations"]["msa-0.4.1@12345678"], 2);
        assert!(files.values().all(|content| content.ends_with('\n')));
    }

    #[test]
    fn messages_of_spokes_are_redacted_escaped_and_capped() {
        let hostile = format!(
            "](javascript:x)|<b>\x1b[31m token=hunter22222 ::set-output \u{202e} {}",
            "A1b".repeat(400_000)
        );
        let files = files(&fleet(vec![cluster("c1", Standing::Failed, &hostile)]));
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
    fn rank_9_a_report_of_a_large_fleet_stays_small() {
        let clusters = (0..5000)
            .map(|i| cluster(&format!("c{i:05}"), Standing::Unavailable, &"x".repeat(1000)))
            .collect();
        let files = files(&fleet(clusters));
        assert!(files.values().all(|content| content.len() < 64 << 10));
        assert!(files["addons/msa.md"].contains("and 4980 more."));
    }

    #[test]
    fn the_same_fleet_gives_the_same_digest_and_any_change_another() {
        let of = |standing| digest(&files(&fleet(vec![cluster("c1", standing, "")])));
        assert_eq!(of(Standing::Done), of(Standing::Done));
        assert_ne!(of(Standing::Done), of(Standing::Waiting));
    }

    #[test]
    fn the_commit_message_says_what_matters_and_carries_trailers() {
        let text = message(&fleet(vec![cluster("c1", Standing::Done, "")]), "0123456789abcdef");
        assert!(text.starts_with("report: every cluster is up to date\n\n"), "{text}");
        assert!(text.contains(&format!("\nWheelwright-Source: {}\n", "a".repeat(40))), "{text}");
        let odd = AddOn { name: "../../etc/x".into(), ..AddOn::default() };
        assert_eq!(file_of(&odd), "addons/-..-etc-x.md");
    }
}
