//! Golden tests: the histories under `tests/golden/placement`, with the expected decisions and explanations.
//!
//! A case is a YAML file, with the expected text next to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::harness::Hub;
use crate::golden;

/// The history of one placement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    spec: Value,
    /// The bound sets, as manifests. Defaults to one that selects every cluster.
    #[serde(default)]
    sets: Vec<Value>,
    #[serde(default)]
    clusters: Vec<Cluster>,
    #[serde(default)]
    scores: BTreeMap<String, i32>,
    #[serde(default)]
    steps: Vec<Step>,
}

/// The changes before the next schedule of the placement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    what: String,
    #[serde(default)]
    wait: i64,
    spec: Option<Value>,
    #[serde(default)]
    clusters: Vec<Cluster>,
    #[serde(default)]
    lose: Vec<String>,
    #[serde(default)]
    scores: BTreeMap<String, i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    /// The name, or with `count` the prefix of that many names.
    name: String,
    count: Option<usize>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    claims: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Value>,
    cpu: Option<String>,
}

fn put(hub: &mut Hub, clusters: &[Cluster]) {
    for cluster in clusters {
        let names = match cluster.count {
            Some(count) => (1..=count).map(|i| format!("{}{i:03}", cluster.name)).collect(),
            None => vec![cluster.name.clone()],
        };
        let claims: Vec<Value> =
            cluster.claims.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let amount = cluster.cpu.as_ref().map(|cpu| json!({ "cpu": cpu })).unwrap_or(json!({}));
        for name in names {
            hub.put(json!({
                "metadata": { "name": name, "labels": cluster.labels },
                "spec": { "taints": cluster.taints },
                "status": { "conditions": [], "clusterClaims": claims, "allocatable": amount, "capacity": amount },
            }));
        }
    }
}

fn trace(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut hub = Hub::new(case.spec);
    if !case.sets.is_empty() {
        hub.sets = case
            .sets
            .into_iter()
            .map(|set| std::sync::Arc::new(serde_json::from_value(set).unwrap()))
            .collect();
    }
    put(&mut hub, &case.clusters);
    case.scores.iter().for_each(|(cluster, score)| hub.score(cluster, *score, None));
    let mut page: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    page += &settle(&mut hub, "first");
    for step in case.steps {
        hub.wait(step.wait);
        step.spec.into_iter().for_each(|spec| hub.spec(spec));
        put(&mut hub, &step.clusters);
        step.lose.iter().for_each(|name| hub.fleet.remove_cluster(name));
        step.scores.iter().for_each(|(cluster, score)| hub.score(cluster, *score, None));
        page += &settle(&mut hub, &step.what);
    }
    page + &explained(&hub)
}

/// Schedules until nothing is written, and prints the result.
fn settle(hub: &mut Hub, what: &str) -> String {
    let mut page = format!("\n== {what}\n");
    let mut wake_at = None;
    for _ in 0..10 {
        let schedule = hub.schedule();
        wake_at = schedule.wake_at;
        page.extend(
            schedule
                .events
                .iter()
                .map(|event| format!("{} {}: {}\n", event.reason, event.action, short(&event.message))),
        );
        if schedule.steps.is_empty() {
            break;
        }
    }
    page.extend(hub.shape().iter().map(|slice| format!("{}\n", short(slice))));
    let status = hub.placement.status.as_ref().unwrap();
    let groups: Vec<String> = status
        .decision_groups
        .iter()
        .map(|g| {
            format!(
                "{} {:?} {} in [{}]",
                g.decision_group_index,
                g.decision_group_name,
                g.cluster_count,
                g.decisions.join(" ")
            )
        })
        .collect();
    page += &format!("{} selected: {}\n", status.number_of_selected_clusters, groups.join(", "));
    page.extend(
        status.conditions.iter().map(|c| format!("{}={} {}: {}\n", c.type_, c.status, c.reason, c.message)),
    );
    page.extend(wake_at.map(|at| format!("again in {}s\n", at.duration_since(hub.now).as_secs())));
    page
}

/// Shortens a long list to its beginning and end.
fn short(line: &str) -> String {
    match line.len() {
        0..=160 => line.trim_end().to_owned(),
        length => format!("{}…({length} characters)…{}", &line[..60], &line[length - 40..]),
    }
}

fn explained(hub: &Hub) -> String {
    let explanation = hub.explain();
    let mut page = "\n== explained\n".to_owned();
    page.extend(explanation.error.iter().map(|error| format!("{error}\n")));
    for explained in explanation.clusters.iter().take(12) {
        let rank = explained.rank.map(|rank| format!(" rank {rank}")).unwrap_or_default();
        let total =
            explained.total.map(|total| format!(" total {total} {:?}", explained.scores)).unwrap_or_default();
        page += &format!("{} {}: {}{rank}{total}\n", explained.cluster_name, explained.state, explained.why);
    }
    page
}

#[test]
fn golden_decisions_are_as_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/placement");
    let cases = golden::cases(&folder, "yaml");
    assert!(cases.len() >= 12, "golden cases are missing");
    golden::check(cases.iter().map(|case| (case.with_extension("txt"), trace(case))));
}
