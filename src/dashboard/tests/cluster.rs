use super::super::cluster::{ClusterObjects, page};
use super::super::rights::{Right, Rights};
use super::super::visitor::Visitors;
use super::{cluster, fleet, hub};
use crate::cli::cluster_objects::cluster_objects;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta2::ManagedClusterSet;
use api::work::v1::ManifestWork;
use controllers::hub::overview::Overview;
use engine::report::cluster_file;
use engine::rollout::ClusterState;
use object::Kind;
use reconcile::{Caches, Site};
use serde_json::{Value, json};
use std::sync::Arc;

const TIME: &str = "2026-01-02T03:04:05Z";

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": TIME})
}

fn typed<K: Kind>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Returns a work in the namespace of a cluster, with labels.
fn work(name: &str, namespace: &str, labels: &Value) -> ManifestWork {
    let conditions = [
        condition("Applied", "False", "AppliedManifestWorkFailed", "1 of 2 is forbidden"),
        condition("Available", "True", "ResourcesAvailable", "All resources are available"),
    ];
    typed(json!({"metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"workload": {"manifests": [{"kind": "Secret"}]}}, "status": {"conditions": conditions,
            "resourceStatus": {"manifests": [
                {"resourceMeta": {"ordinal": 0, "kind": "ConfigMap", "namespace": "n", "name": "good"},
                    "conditions": [condition("Applied", "True", "AppliedManifestComplete", ""),
                        condition("Available", "True", "ResourceAvailable", ""),
                        condition("Progressing", "False", "ConditionRuleEvaluated", ""),
                        condition("Degraded", "False", "ConditionRuleEvaluated", ""),
                        condition("Complete", "False", "ConditionRuleEvaluated", "")]},
                {"resourceMeta": {"ordinal": 2, "kind": "StatefulSet", "namespace": "n", "name": "db"},
                    "conditions": [condition("Available", "True", "ResourceAvailable", ""),
                        condition("Progressing", "True", "ConditionRuleEvaluated", "1 of 2 replicas")]},
                {"resourceMeta": {"ordinal": 1, "kind": "Deployment", "namespace": "n", "name": "web"},
                    "conditions": [condition("Available", "False", "PodsFailed", "CrashLoopBackOff <i>")]}]}}}))
}

/// Returns the caches of a hub with the clusters `edge` and `other`.
pub(super) fn caches() -> Caches {
    let down = condition("ManagedClusterConditionAvailable", "Unknown", "LeaseStopped", "no lease <i>");
    let taint = json!({"key": "down", "value": "yes", "effect": "NoSelect", "timeAdded": TIME});
    let edge: ManagedCluster = typed(json!({
        "metadata": {"name": "edge", "labels": {"cluster.open-cluster-management.io/clusterset": "shops", "region": "eu"}},
        "spec": {"hubAcceptsClient": true, "taints": [taint]},
        "status": {"conditions": [down], "version": {"kubernetes": "v1.36.0"}}}));
    let other: ManagedCluster = typed(json!({"metadata": {"name": "other"}, "spec": {}}));
    let stopped = condition("Available", "False", "ProbeUnavailable", "0 of 1 pods <i>");
    let proxy = |namespace: &str| -> ManagedClusterAddOn {
        typed(json!({"metadata": {"name": "proxy", "namespace": namespace}, "spec": {},
            "status": {"conditions": [stopped]}}))
    };
    let set = json!({"work.open-cluster-management.io/manifestworkreplicaset": "team.settings"});
    let works = vec![
        work("settings", "edge", &set),
        work("addon-proxy", "edge", &json!({})),
        work("of-other", "other", &set),
    ];
    let mut caches = Caches::default();
    caches.replace(Site::Hub, vec![edge, other], "0");
    caches.replace(Site::Hub, vec![proxy("edge"), proxy("other")], "0");
    caches.replace(Site::Hub, works, "0");
    let selector =
        json!({"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"region": "eu"}}});
    let set = |name: &str, selector: &Value| -> ManagedClusterSet {
        typed(json!({"metadata": {"name": name}, "spec": {"clusterSelector": selector}}))
    };
    let labeled = json!({"selectorType": "ExclusiveClusterSetLabel"});
    let sets = vec![set("shops", &labeled), set("other", &labeled), set("europe", &selector)];
    caches.replace(Site::Hub, sets, "0");
    caches
}

/// Returns a fleet whose add-on `proxy` has failed on the cluster `edge`.
pub(super) fn failed_on_edge() -> Overview {
    let mut fleet = fleet(1);
    fleet.add_ons[0].groups[0].clusters = vec![cluster("edge".into(), ClusterState::TimedOut)];
    fleet
}

fn page_for(rights: &Rights, name: &str) -> Option<String> {
    page(name, cluster_objects(name, &caches()).unwrap(), &failed_on_edge(), rights, None)
}

const OF_CLUSTER: [&str; 6] = [
    "shops</dd>",
    "<td>down=yes:NoSelect</td>",
    "v1.36.0",
    "LeaseStopped: no lease &lt;i&gt;",
    TIME,
    "Accepted",
];
const OF_ADD_ONS: [&str; 2] =
    ["\">proxy</th>", "Available is False (ProbeUnavailable: 0 of 1 pods &lt;i&gt;)"];
const OF_WORKS: [&str; 2] =
    ["<b>settings</b>", "Applied is False (AppliedManifestWorkFailed: 1 of 2 is forbidden)"];
const ROLLOUT_OF_ADD_ON: &str = ">TimedOut</span> <a";
const ROLLOUT_OF_SET: &str = ">Done</span> 0123abcd";

#[test]
fn the_page_of_a_cluster_has_its_set_taints_conditions_add_ons_and_works() {
    let html = page_for(&Rights::every(), "edge").unwrap();
    for shown in OF_CLUSTER.iter().chain(&OF_ADD_ONS).chain(&OF_WORKS) {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    assert!(html.contains(ROLLOUT_OF_ADD_ON) && html.contains(ROLLOUT_OF_SET), "{html}");
    assert!(html.contains("<title>Cluster edge – Wheelwright</title>"), "{html}");
    for foreign in ["of-other", "<i>", "<script>", "Secret", "You may not"] {
        assert!(!html.contains(foreign), "{foreign}: {html}");
    }
    assert_eq!(page_for(&Rights::every(), "none"), None);
    let [bad, busy, good] = ["Deployment n/web", "StatefulSet n/db", "ConfigMap n/good"]
        .map(|object| html.find(&format!("<span>{object}</span>")).unwrap());
    assert!(
        bad < busy && busy < good && html.contains("<p class=\"cause bad\">CrashLoopBackOff &lt;i&gt;</p>"),
        "{html}"
    );
    assert!(
        html.contains("<p class=\"cause\">1 of 2 replicas</p>") && html.contains("<b>addon-proxy</b>"),
        "{html}"
    );
    assert!(html.contains("1 of 3 objects unhealthy"), "{html}");
}

#[test]
fn the_first_line_of_a_cluster_says_what_is_wrong_before_it_says_that_all_is_well() {
    let add_on = |more: Value| -> Arc<ManagedClusterAddOn> {
        let conditions = json!([condition("Available", "True", "ProbeAvailable", ""), more]);
        let metadata = json!({"name": "proxy", "namespace": "edge"});
        Arc::new(typed(json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}})))
    };
    let line = |available: &str, more: Value, fleet: &Overview| {
        let available = condition("ManagedClusterConditionAvailable", available, "Lease", "");
        let cluster =
            typed(json!({"metadata": {"name": "edge"}, "spec": {}, "status": {"conditions": [available]}}));
        let objects = ClusterObjects {
            cluster: Some(Ok(Arc::new(cluster))),
            add_ons: vec![add_on(more)],
            ..ClusterObjects::default()
        };
        let html = page("edge", objects, fleet, &Rights::every(), None).unwrap();
        html.split("<h1>edge</h1>").nth(1).unwrap().split("</p>").next().unwrap().to_owned()
    };
    let calm = || condition("Progressing", "False", "Completed", "");
    let moves = condition("Progressing", "True", "Upgrading", "");
    let (idle, failed) = (Overview::default(), failed_on_edge());
    assert!(line("True", calm(), &idle).contains("Everything works"));
    assert!(line("True", moves, &idle).contains("proxy: Progressing is True (Upgrading)"));
    assert!(line("True", calm(), &failed).contains("proxy TimedOut"));
    let lost = line("Unknown", calm(), &failed);
    assert!(lost.contains("Not available</span> since <time datetime=\"2026-01-02T03:04:05Z\""), "{lost}");
}

#[test]
fn the_page_of_a_cluster_leads_to_its_problems_in_the_reports() {
    let mut fleet = failed_on_edge();
    let repository = &mut fleet.repositories[0];
    repository.report_url = "https://git.example.com/team/reports.git".into();
    repository.report_place = ("wheelwright/status".into(), "hubs/1a2b3c4d".into());
    let name = repository.name.clone();
    let html = |rights: &Rights, fleet: &Overview| {
        page("edge", cluster_objects("edge", &caches()).unwrap(), fleet, rights, None).unwrap()
    };
    let file = cluster_file("edge");
    let link =
        format!("https://git.example.com/team/reports/commits/wheelwright/status/hubs/1a2b3c4d/{file}");
    let text = format!("href=\"{link}\" rel=\"noreferrer\">Reports of {name}</a>");
    let shown = html(&Rights::every(), &fleet);
    assert!(shown.contains(&text) && shown.contains("history --cluster edge"), "{shown}");
    let stranger = html(&Rights::new(&[Right::ListClusters], &[]), &fleet);
    assert!(!stranger.contains("git.example.com") && !stranger.contains("history --cluster"), "{stranger}");
    fleet.repositories[0].report_place.1 = "/".into();
    let root = format!("reports/commits/wheelwright/status/{file}\"");
    assert!(html(&Rights::every(), &fleet).contains(&root));
    // A repository without reports, and one without pages.
    fleet.repositories[0].report_place.0 = String::new();
    assert!(!html(&Rights::every(), &fleet).contains("Reports of"));
    fleet.repositories[0].report_place.0 = "wheelwright/status".into();
    fleet.repositories[0].report_url = "/srv/reports".into();
    assert!(!html(&Rights::every(), &fleet).contains("Reports of"));
}

#[test]
fn the_sets_of_a_cluster_are_those_of_its_labels_and_of_selectors() {
    let html = page_for(&Rights::every(), "edge").unwrap();
    assert!(html.contains("<dt>Cluster sets</dt><dd>europe, shops</dd>"), "{html}");
    for (id, query) in [("europe", "label=region%20in%20%28eu%29"), ("shops", "set=shops")] {
        assert!(html.contains(&format!("<a id=\"set:{id}\" href=\"clusters?{query}")), "{html}");
    }
    // A visitor who may not list sets sees the label of the cluster.
    let html = page_for(&Rights::new(&[Right::ListClusters], &[]), "edge").unwrap();
    assert!(html.contains("<dt>Cluster set</dt><dd>shops</dd>"), "{html}");
}

#[test]
fn a_visitor_of_a_part_of_a_cluster_sees_that_part_only() {
    let all: Vec<&str> =
        [&OF_CLUSTER[..], &OF_ADD_ONS, &OF_WORKS, &[ROLLOUT_OF_ADD_ON, ROLLOUT_OF_SET]].concat();
    let check = |rights: &Rights, shown: &[&str]| {
        let html = page_for(rights, "edge").unwrap();
        for text in &all {
            assert_eq!(html.contains(text), shown.contains(text), "{text} of {rights:?}: {html}");
        }
    };
    check(&Rights::new(&[Right::ListClusters], &[]), &OF_CLUSTER);
    check(&Rights::new(&[], &[(Right::GetCluster, "edge")]), &OF_CLUSTER);
    check(&Rights::new(&[], &[(Right::ListAddOnsOfClusters, "edge")]), &OF_ADD_ONS);
    let rollout = [&OF_ADD_ONS[..], &[ROLLOUT_OF_ADD_ON]].concat();
    check(&Rights::new(&[Right::ListAddOns], &[(Right::ListAddOnsOfClusters, "edge")]), &rollout);
    check(&Rights::new(&[], &[(Right::ListWorks, "edge")]), &OF_WORKS);
    let rollout = [&OF_WORKS[..], &[ROLLOUT_OF_SET]].concat();
    check(&Rights::new(&[], &[(Right::ListWorks, "edge"), (Right::ListReplicaSets, "team")]), &rollout);

    let others =
        [(Right::GetCluster, "other"), (Right::ListWorks, "other"), (Right::ListAddOnsOfClusters, "other")];
    for nothing in [Rights::default(), Rights::new(&[Right::ListAddOns, Right::ListPolicies], &others)] {
        for cluster in ["edge", "none"] {
            assert_eq!(page_for(&nothing, cluster), None, "{nothing:?}");
        }
    }
}

#[tokio::test]
async fn the_hub_is_asked_about_the_cluster_itself_and_its_namespace() {
    let reviews = Arc::default();
    let of_edge = |spec: &Value| {
        let attributes = &spec["resourceAttributes"];
        (attributes["verb"] == "get" && attributes["name"] == "edge" && attributes["namespace"].is_null())
            || (attributes["resource"] == "manifestworks" && attributes["namespace"] == "edge")
    };
    let hub = hub(of_edge, &reviews);
    let visitor = Visitors::new(hub.clone()).authenticate("good").await.unwrap().unwrap();
    let fleet = Overview::default();
    let rights = visitor.rights_to_cluster(&hub, &fleet, "edge").await.unwrap();
    let may =
        [Right::GetCluster, Right::ListWorks, Right::ListAddOnsOfClusters].map(|one| rights.may(one, "edge"));
    assert_eq!(may, [true, true, false]);
    let asked = reviews.lock().unwrap().len();
    let rights = visitor.rights_to_cluster(&hub, &fleet, "other").await.unwrap();
    assert!(!rights.may(Right::GetCluster, "edge") && !rights.may(Right::GetCluster, "other"));
    assert_eq!(reviews.lock().unwrap().len(), asked + 3, "the other rights are kept");
}
