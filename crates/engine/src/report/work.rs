//! The repository's own ManifestWorks in a report, with the same states as add-ons.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::input::{Workload, WorkloadCluster};
use crate::replica_set::{self, SuccessNeeds};
use crate::rollout::ClusterState;
use crate::rollout::cluster::{Hash, Report};
use api::condition::{Condition, Conditions as _};
use api::names::work_conditions::APPLIED;
use api::work::v1::ManifestWork;
use object::Metadata as _;

/// Reads works without a controller. Works with the same name form one workload. The workloads with the worst
/// clusters come first.
pub fn works<'a>(works: impl IntoIterator<Item = &'a ManifestWork>) -> Vec<Workload> {
    let mut clusters: BTreeMap<&str, Vec<Arc<WorkloadCluster>>> = BTreeMap::new();
    for work in works {
        let cluster =
            WorkloadCluster::from_work(work.namespace(), &state(work), Some((work, &Hash::default())));
        clusters.entry(work.name()).or_default().push(Arc::new(cluster));
    }
    let read = |(name, mut clusters): (&str, Vec<Arc<WorkloadCluster>>)| {
        clusters.sort_by_key(|cluster| cluster.rank());
        Workload { name: name.to_owned(), clusters, ..Workload::default() }
    };
    let mut works: Vec<_> = clusters.into_iter().map(read).collect();
    works.sort_by_key(|work| work.clusters.first().map(|worst| worst.rank()));
    works
}

/// Returns the state of a work, which has no deadline and belongs to no rollout.
fn state(work: &ManifestWork) -> ClusterState {
    let applied = work.condition(APPLIED);
    let applied = applied.filter(|applied| applied.observed_generation == work.metadata.generation);
    match replica_set::report(work, SuccessNeeds::Applied) {
        Report::Succeeded => ClusterState::Done,
        Report::Failed | Report::Relapsed { .. } | Report::TimeOut => ClusterState::Failed { deadline: None },
        Report::ToApply if applied.is_some_and(Condition::is_false) => {
            ClusterState::Failed { deadline: None }
        }
        Report::ToApply | Report::Progressing => {
            ClusterState::Progressing { deadline: None, reported: applied.is_some() }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The type, status and observed generation of each condition.
    type Conditions<'a> = &'a [(&'a str, &'a str, i64)];

    fn work(cluster: &str, name: &str, conditions: Conditions<'_>) -> ManifestWork {
        let condition = |(type_, status, generation): &(&str, &str, i64)| {
            json!({
                "type": type_, "status": status, "observedGeneration": generation, "reason": "R", "message": format!("{type_} is {status}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        let metadata = json!({"name": name, "namespace": cluster, "generation": 2});
        let work = json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}});
        serde_json::from_value(work).unwrap()
    }

    #[test]
    fn a_work_has_the_state_that_it_reports_for_its_current_generation() {
        let cases: [(Conditions<'_>, &str, bool, &str); 7] = [
            (&[], "Progressing", false, ""),
            (&[("Applied", "True", 2), ("Available", "True", 2)], "Done", true, ""),
            (&[("Applied", "True", 2), ("Available", "False", 2)], "Done", false, "Available is False"),
            (&[("Applied", "False", 2)], "Failed", false, "Applied is False"),
            (&[("Applied", "False", 1), ("Available", "True", 1)], "Progressing", false, ""),
            (
                &[("Applied", "True", 2), ("Available", "True", 2), ("Degraded", "True", 2)],
                "Failed",
                true,
                "Degraded is True",
            ),
            (
                &[("Applied", "True", 2), ("Available", "True", 2), ("Progressing", "True", 2)],
                "Progressing",
                true,
                "Progressing is True",
            ),
        ];
        for (conditions, word, available, message) in cases {
            let works = works([&work("c1", "settings", conditions)]);
            let cluster = &works[0].clusters[0];
            assert_eq!(
                (cluster.state.word(), cluster.available, cluster.message.as_str()),
                (word, available, message),
                "{conditions:?}"
            );
        }
    }

    #[test]
    fn a_work_that_is_refused_names_the_object_and_why() {
        let condition = |status: &str, message: &str| {
            json!([{
                "type": "Applied", "status": status, "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }])
        };
        let manifest = |name: &str, conditions: Value| {
            let meta = json!({"ordinal": 0, "kind": "ConfigMap", "namespace": "n", "name": name});
            json!({"resourceMeta": meta, "conditions": conditions})
        };
        let of = |reason: &str| {
            let mut work = work("c1", "settings", &[("Applied", "False", 2)]);
            let manifests = json!({"manifests": [
                manifest("good", condition("True", "applied")), manifest("bad", condition("False", reason))]});
            work.status.as_mut().unwrap().resource_status = serde_json::from_value(manifests).unwrap();
            works([&work])[0].clusters[0].message.clone()
        };
        assert_eq!(of("exceeded quota: q"), "ConfigMap bad: exceeded quota: q");
        assert_eq!(of(""), "Applied is False", "the object says nothing");
    }

    #[test]
    fn works_of_one_name_are_one_workload_and_the_worst_comes_first() {
        let good = [("Applied", "True", 2), ("Available", "True", 2)];
        let all =
            [work("c1", "a", &good), work("c1", "b", &good), work("c2", "b", &[("Applied", "False", 2)])];
        let works = works(&all);
        let names = |work: &Workload| {
            let clusters: Vec<&str> = work.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            format!("{}: {}", work.name, clusters.join(" "))
        };
        assert_eq!(works.iter().map(names).collect::<Vec<_>>(), ["b: c2 c1", "a: c1"]);
    }
}
