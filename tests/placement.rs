//! The operator in place of OCM's placement controller, on a real API server that serves OCM's cluster kinds but
//! none of ours: `wheelwright operator --controllers=placement,clusterset,clustersetbinding`.

use std::path::Path;

use api::crds;
use serde_json::{Value, json};

use crate::kube::{Cluster, Kubectl};
use crate::running::Running;
use crate::wait::eventually;

const GROUP: &str = "cluster.open-cluster-management.io";

/// A hub with an operator that only schedules.
struct Hub {
    kubectl: Kubectl,
    operator: Running,
    dir: tempfile::TempDir,
    // The last field, so that the operator stops before the cluster.
    _cluster: Cluster,
}

impl Hub {
    async fn start(name: &str, controllers: &str) -> Self {
        let cluster = Cluster::start(name).await;
        let kubectl = cluster.kubectl();
        kubectl.install(crds::hub().into_iter().filter(|crd| crd.spec.group == GROUP));
        kubectl.run(&["create", "namespace", "fleet"]);
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = cluster.kubeconfig.to_str().unwrap();
        let controllers = format!("--controllers={controllers}");
        let operator =
            Running::start("operator", dir.path(), &["operator", &controllers, "--kubeconfig", kubeconfig]);
        Self { kubectl, operator, dir, _cluster: cluster }
    }

    fn create(&self, version: &str, kind: &str, metadata: Value, spec: Value) {
        let object = json!({"apiVersion": format!("{GROUP}/{version}"), "kind": kind, "metadata": metadata, "spec": spec});
        self.kubectl.run_with(&["create", "-f", "-"], &object.to_string());
    }

    fn join(&self, names: impl Iterator<Item = String>, labels: &Value) {
        let cluster = |name| {
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ManagedCluster", "metadata": {"name": name, "labels": labels},
                "spec": {"hubAcceptsClient": true}})
        };
        let list =
            json!({"apiVersion": "v1", "kind": "List", "items": names.map(cluster).collect::<Vec<_>>()});
        self.kubectl.run_with(&["create", "-f", "-"], &list.to_string());
    }

    fn place(&self, name: &str, spec: Value) {
        self.create("v1beta1", "Placement", json!({"name": name, "namespace": "fleet"}), spec);
    }

    fn bind(&self, set: &str) {
        self.create(
            "v1beta2",
            "ManagedClusterSetBinding",
            json!({"name": set, "namespace": "fleet"}),
            json!({"clusterSet": set}),
        );
    }

    fn edit(&self, object: &str, patch: Value) {
        self.kubectl.run(&["patch", "-n", "fleet", object, "--type=merge", "-p", &patch.to_string()]);
    }

    /// Returns an object, or null.
    fn get(&self, object: &str) -> Value {
        let text = self.kubectl.run(&["get", "-n", "fleet", object, "--ignore-not-found", "-o", "json"]);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Returns a condition as `Status Reason: message`.
    fn condition(&self, object: &str, condition: &str) -> String {
        let object = self.get(object);
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.filter(|found| found["type"] == condition);
        found
            .map(|c| format!("{} {}: {}", text(&c["status"]), text(&c["reason"]), text(&c["message"])))
            .collect()
    }

    async fn says(&self, object: &str, condition: &str, expected: &str) {
        eventually(&format!("{object}: {condition} {expected}"), async || {
            self.condition(object, condition) == expected
        })
        .await;
    }

    async fn satisfied(&self, placement: &str, expected: &str) {
        self.says(&format!("placement/{placement}"), "PlacementSatisfied", expected).await;
    }

    /// Returns the decisions of a placement as `name[index group]: clusters`.
    fn decisions(&self, placement: &str) -> Vec<String> {
        let selector = format!("{GROUP}/placement={placement}");
        let list: Value = serde_json::from_str(&self.kubectl.run(&[
            "get",
            "placementdecisions",
            "-n",
            "fleet",
            "-l",
            &selector,
            "-o",
            "json",
        ]))
        .unwrap();
        let line = |decision: &Value| {
            let label =
                |name: &str| text(&decision["metadata"]["labels"][format!("{GROUP}/{name}")]).to_owned();
            let clusters = decision["status"]["decisions"].as_array().cloned().unwrap_or_default();
            let clusters: Vec<&str> = clusters.iter().map(|entry| text(&entry["clusterName"])).collect();
            let shown =
                if clusters.len() > 9 { format!("{} clusters", clusters.len()) } else { clusters.join(",") };
            format!(
                "{}[{} {}]: {shown}",
                text(&decision["metadata"]["name"]),
                label("decision-group-index"),
                label("decision-group-name")
            )
        };
        list["items"].as_array().unwrap().iter().map(line).collect()
    }

    async fn decides(&self, placement: &str, expected: &[&str]) {
        let mut last = Vec::new();
        eventually(&format!("{placement} decides {expected:?}"), async || {
            let decided = self.decisions(placement);
            if decided != last {
                eprintln!("{placement}: {decided:?}");
                last.clone_from(&decided);
            }
            decided == expected
        })
        .await;
    }

    /// Returns the events about a placement, selected as common clients do: `type reason action about: note`.
    fn events(&self, placement: &str) -> Vec<String> {
        let all: Value = serde_json::from_str(&self.kubectl.run(&[
            "get",
            "events.events.k8s.io",
            "-n",
            "fleet",
            "-o",
            "json",
        ]))
        .unwrap();
        let about = all["items"].as_array().unwrap().iter().filter(|event| {
            event["regarding"]["kind"] == "Placement" && event["regarding"]["name"] == placement
        });
        let line = |event: &Value| {
            assert_eq!(event["reportingController"], "placement-controller", "{event:#}");
            assert_eq!(event["related"]["kind"], "PlacementDecision", "{event:#}");
            let [kind, reason, action] = ["type", "reason", "action"].map(|field| text(&event[field]));
            format!("{kind} {reason} {action} {}: {}", text(&event["related"]["name"]), text(&event["note"]))
        };
        let mut lines: Vec<String> = about.map(line).collect();
        lines.sort();
        lines.dedup();
        lines
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn log(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("operator.log")).unwrap()
}

/// Returns cluster names that consist of `prefix` and a number.
fn names(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(move |i| format!("{prefix}-{i:03}"))
}

#[tokio::test]
async fn placements_are_scheduled_as_by_ocm_on_a_hub_without_kinds_of_ours() {
    let hub = Hub::start("placement", "placement,clusterset").await;

    hub.place("two", json!({"numberOfClusters": 2}));
    hub.satisfied(
        "two",
        "False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace",
    )
    .await;
    hub.decides("two", &["two-decision-1[0 ]: "]).await;
    hub.bind("global");
    hub.satisfied(
        "two",
        "False AllManagedClusterSetsEmpty: All ManagedClusterSets [global] have no member ManagedCluster",
    )
    .await;
    hub.edit("placement/two", json!({"spec": {"clusterSets": ["elsewhere", "nowhere"]}}));
    hub.satisfied("two", "False NoIntersection: None of ManagedClusterSets [elsewhere,nowhere] is bound to placement namespace").await;
    hub.edit("placement/two", json!({"spec": {"clusterSets": null}}));

    hub.join(names("a", 1), &json!({"env": "dev"}));
    hub.satisfied("two", "False NotAllDecisionsScheduled: 1 cluster decisions unscheduled").await;
    hub.join(names("b", 2), &json!({"env": "prod"}));
    hub.satisfied("two", "True AllDecisionsScheduled: All cluster decisions scheduled").await;
    hub.decides("two", &["two-decision-1[0 ]: a-001,b-001"]).await;
    assert_eq!(
        hub.condition("placement/two", "PlacementMisconfigured"),
        "False Succeedconfigured: Placement configurations check pass"
    );
    let (placement, decision) = (hub.get("placement/two"), hub.get("placementdecision/two-decision-1"));
    let group = json!({"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["two-decision-1"], "clusterCount": 2});
    assert_eq!(placement["status"]["decisionGroups"], json!([group]));
    assert_eq!(placement["status"]["numberOfSelectedClusters"], 2);
    let owner = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement", "name": "two", "uid": placement["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true});
    assert_eq!(decision["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(decision["status"]["decisions"][0]["reason"], "");

    // The dev cluster no longer matches, and another one has a taint: both stay until they have been unselected
    // for ten seconds.
    hub.edit(
        "placement/two",
        json!({"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]}}),
    );
    hub.decides("two", &["two-decision-1[0 ]: b-001,b-002"]).await;
    hub.edit(
        "managedcluster/b-001",
        json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSelect"}]}}),
    );
    hub.edit("managedcluster/a-001", json!({"metadata": {"labels": {"env": "prod"}}}));
    hub.decides("two", &["two-decision-1[0 ]: a-001,b-002"]).await;

    // An invalid spec changes nothing.
    let bad = json!([{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["a/b"]}]}}}]);
    hub.edit("placement/two", json!({"spec": {"predicates": bad}}));
    eventually("two is misconfigured", async || {
        hub.condition("placement/two", "PlacementMisconfigured")
            .starts_with("True Misconfigured: Predicate:values[0][env]: Invalid value: \"a/b\"")
    })
    .await;
    assert_eq!(hub.decisions("two"), ["two-decision-1[0 ]: a-001,b-002"]);
    assert_eq!(hub.get("placement/two")["status"]["numberOfSelectedClusters"], 2);

    hub.kubectl.run(&["delete", "-n", "fleet", "placement/two"]);
    hub.decides("two", &[]).await;
    let about =
        |verb: &str| format!("Decision two-decision-1 is {verb} with placement two in namespace fleet");
    for event in [
        format!("Normal DecisionCreate DecisionCreated two-decision-1: {}", about("created")),
        format!("Normal DecisionUpdate DecisionUpdated two-decision-1: {}", about("updated")),
        "Normal ScoreUpdate ScoreUpdated two-decision-1: a-001:100 ".into(),
    ] {
        eventually(&event, async || hub.events("two").contains(&event)).await;
    }
    let log = log(hub.dir.path());
    let waits = |line: &&str| line.contains("cannot watch") || line.contains("cannot list");
    let unneeded = log.lines().filter(waits).find(|line| !line.contains(GROUP));
    assert_eq!(unneeded, None, "the operator waits for kinds it does not need");
    assert!(log.contains("INFO") && !log.contains('\u{1b}'), "a file gets no codes of colors:\n{log}");
    drop(hub.operator);
}

#[tokio::test]
async fn more_than_a_hundred_clusters_are_sliced_grouped_and_dissolved_with_their_set() {
    let hub = Hub::start("slices", "placement,clusterset,clustersetbinding").await;
    hub.create("v1beta2", "ManagedClusterSet", json!({"name": "team"}), json!({}));
    hub.bind("team");
    hub.says("managedclustersetbinding/team", "Bound", "True ClusterSetBound: ").await;
    hub.join(names("canary", 3), &json!({format!("{GROUP}/clusterset"): "team", "canary": "true"}));
    hub.join(names("c", 117), &json!({format!("{GROUP}/clusterset"): "team"}));
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    hub.place("all", json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}}));
    hub.decides(
        "all",
        &[
            "all-decision-1[0 canary]: canary-001,canary-002,canary-003",
            "all-decision-2[1 ]: 100 clusters",
            "all-decision-3[1 ]: 17 clusters",
        ],
    )
    .await;
    eventually("the groups are counted", async || {
        let counts =
            hub.get("placement/all")["status"]["decisionGroups"].as_array().cloned().unwrap_or_default();
        let counts: Vec<_> = counts
            .iter()
            .map(|group| (text(&group["decisionGroupName"]).to_owned(), group["clusterCount"].clone()))
            .collect();
        counts == [("canary".to_owned(), json!(3)), (String::new(), json!(117))]
    })
    .await;
    hub.says(
        "managedclusterset/team",
        "ClusterSetEmpty",
        "False ClustersSelected: 120 ManagedClusters selected",
    )
    .await;

    hub.kubectl.run(&["delete", "managedclusterset/team"]);
    hub.says("managedclustersetbinding/team", "Bound", "False ClusterSetNotFound: ").await;
    hub.satisfied(
        "all",
        "False NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace",
    )
    .await;
    hub.decides("all", &["all-decision-1[0 canary]: "]).await;
    drop(hub.operator);
}

#[tokio::test]
async fn the_default_and_the_global_set_are_corrected_unless_an_annotation_forbids_it() {
    let hub = Hub::start("sets", "clusterset").await;
    let everything = json!({"selectorType": "LabelSelector", "labelSelector": {}});
    let selector =
        |set: &str| hub.get(&format!("managedclusterset/{set}"))["spec"]["clusterSelector"].clone();
    let empty = "True NoClusterMatched: No ManagedCluster selected";
    hub.says("managedclusterset/default", "ClusterSetEmpty", empty).await;
    hub.says("managedclusterset/global", "ClusterSetEmpty", empty).await;
    assert_eq!(selector("default"), json!({"selectorType": "ExclusiveClusterSetLabel"}));
    assert_eq!(selector("global"), everything);

    hub.kubectl.run(&["delete", "managedclusterset/default"]);
    hub.says("managedclusterset/default", "ClusterSetEmpty", empty).await;
    let other = json!({"spec": {"clusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}});
    hub.edit("managedclusterset/global", json!({"metadata": {"labels": {"mine": "kept"}}}));
    hub.edit("managedclusterset/global", other.clone());
    eventually("global selects everything again", async || selector("global") == everything).await;
    assert_eq!(hub.get("managedclusterset/global")["metadata"]["labels"]["mine"], "kept");

    hub.edit(
        "managedclusterset/global",
        json!({"metadata": {"annotations": {format!("{GROUP}/autoupdate"): "false"}}}),
    );
    hub.edit("managedclusterset/global", other);
    hub.join(names("c", 2), &json!({format!("{GROUP}/clusterset"): "default", "a": "b"}));
    hub.says(
        "managedclusterset/default",
        "ClusterSetEmpty",
        "False ClustersSelected: 2 ManagedClusters selected",
    )
    .await;
    hub.says(
        "managedclusterset/global",
        "ClusterSetEmpty",
        "False ClustersSelected: 2 ManagedClusters selected",
    )
    .await;
    assert_eq!(selector("global")["labelSelector"], json!({"matchLabels": {"a": "b"}}));
    drop(hub.operator);
}
