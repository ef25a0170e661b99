//! Checks the clusters: they are accepted and available, and their clocks agree.

use super::finding::{Finding, all, few};
use super::hub::ExaminedHub;
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::names::cluster_conditions::{AVAILABLE, CLOCK_SYNCED};
use engine::plural::counted;
use object::Metadata as _;

const CHECK: &str = "clusters";

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    match all::<ManagedCluster>(CHECK, &hub.client, "").await {
        Ok(clusters) => of(&clusters),
        Err(unread) => vec![unread],
    }
}

fn of(clusters: &[ManagedCluster]) -> Vec<Finding> {
    let named = |is: fn(&ManagedCluster) -> bool| -> Vec<&str> {
        clusters.iter().filter(|cluster| is(cluster)).map(|cluster| cluster.name()).collect()
    };
    let waiting = named(|cluster| !cluster.spec.hub_accepts_client);
    let away = named(|cluster| cluster.spec.hub_accepts_client && !cluster.holds(AVAILABLE));
    let skewed = named(|cluster| {
        cluster.conditions().iter().any(|condition| condition.type_ == CLOCK_SYNCED && !condition.is_true())
    });
    let mut findings = Vec::new();
    if !waiting.is_empty() {
        let message =
            format!("{} to be accepted: {}", counted(waiting.len(), "cluster"), few(waiting.iter().copied()));
        findings.push(Finding::warning(CHECK, message, "wheelwright accept --clusters NAME"));
    }
    if !away.is_empty() {
        let message =
            format!("{} not available: {}", counted(away.len(), "cluster"), few(away.iter().copied()));
        findings.push(Finding::warning(
            CHECK,
            message,
            "wheelwright get clusters NAME, and the log of its agent",
        ));
    }
    if !skewed.is_empty() {
        let message = format!(
            "{} with a wrong clock: {}",
            counted(skewed.len(), "cluster"),
            few(skewed.iter().copied())
        );
        findings.push(Finding::bad(
            "clocks",
            message,
            "synchronize the clocks of their nodes and of the hub's nodes with NTP",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::good(CHECK, format!("{} available", counted(clusters.len(), "cluster"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn clusters_that_wait_are_away_or_have_wrong_clocks_are_named() {
        let cluster = |name: &str, accepted: bool, available: &str, clock: &str| -> ManagedCluster {
            let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": accepted},
                "status": {"conditions": [condition(AVAILABLE, available), condition(CLOCK_SYNCED, clock)]}}))
            .unwrap()
        };
        let found = of(&[
            cluster("good", true, "True", "True"),
            cluster("new", false, "False", "True"),
            cluster("away", true, "Unknown", "True"),
            cluster("skewed", true, "True", "False"),
        ]);
        let messages: Vec<_> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "1 cluster to be accepted: new",
                "1 cluster not available: away",
                "1 cluster with a wrong clock: skewed",
            ]
        );
        assert_eq!(of(&[])[0].message, "0 clusters available");
    }
}
