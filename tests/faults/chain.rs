//! A commit reaches the fleet despite every fault of an API server. Each row is a fault.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::call::Call;
use super::fleet::{Fleet, Standing};
use super::proxy::{Fault, Rule, Seen};
use crate::wait::eventually;

/// Number of clusters in the fleet.
pub(super) const CLUSTERS: usize = 5;
/// A rule without a limit.
const ALWAYS: usize = usize::MAX;

/// The fate of the watches and long responses that are open when a row begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Streams {
    Stay,
    Tear,
    Silence,
}

/// A fault of an API server during a commit.
struct Row {
    name: &'static str,
    streams: Streams,
    rules: &'static [Rule],
    /// The duration of the fault after the first affected request, in seconds.
    lasts: u64,
    /// Maximum number of requests by the operator and agent until the commit is everywhere, without leases and
    /// events.
    requests: usize,
}

const fn refuse(code: u16, reason: &'static str) -> Fault {
    Fault::Refuse { code, reason, retry_after: None }
}

const fn busy() -> Fault {
    Fault::Refuse { code: 429, reason: "TooManyRequests", retry_after: Some(1) }
}

fn is_read(call: &Call) -> bool {
    matches!(call.verb, "list" | "watch")
}

/// Returns true if the request is a write caused by a commit.
fn is_ours(call: &Call) -> bool {
    call.is_write() && !call.is_sign_of_life()
}

const ROWS: [Row; 14] = [
    Row { name: "nothing goes wrong", streams: Streams::Stay, rules: &[], lasts: 0, requests: 60 },
    Row { name: "every connection is lost", streams: Streams::Tear, rules: &[], lasts: 0, requests: 400 },
    Row {
        name: "429 with Retry-After for writes",
        streams: Streams::Stay,
        rules: &[Rule { on: is_ours, fault: busy(), times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
    Row {
        name: "429 with Retry-After for everything, after every connection is lost",
        streams: Streams::Tear,
        rules: &[Rule { on: |_| true, fault: busy(), times: ALWAYS }],
        lasts: 5,
        requests: 320,
    },
    Row {
        name: "410 for watches, as an event",
        streams: Streams::Tear,
        rules: &[Rule { on: |call| call.verb == "watch", fault: Fault::Expired, times: ALWAYS }],
        lasts: 4,
        requests: 250,
    },
    Row {
        name: "410 for watches and lists, as an answer",
        streams: Streams::Tear,
        rules: &[Rule { on: is_read, fault: refuse(410, "Expired"), times: ALWAYS }],
        lasts: 4,
        requests: 250,
    },
    Row {
        name: "a storm of 409",
        streams: Streams::Stay,
        rules: &[Rule { on: is_ours, fault: refuse(409, "Conflict"), times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
    Row {
        name: "500 after the write",
        streams: Streams::Stay,
        rules: &[Rule { on: is_ours, fault: Fault::ErrorAfterCommit, times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
    Row {
        name: "the connection ends after the write",
        streams: Streams::Stay,
        rules: &[Rule { on: is_ours, fault: Fault::ResetAfterCommit, times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
    Row {
        name: "504 for everything",
        streams: Streams::Stay,
        rules: &[Rule { on: |_| true, fault: refuse(504, "Timeout"), times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
    Row {
        name: "a kind may not be listed",
        streams: Streams::Tear,
        rules: &[Rule {
            on: |call| is_read(call) && call.resource == "placements",
            fault: refuse(403, "Forbidden"),
            times: ALWAYS,
        }],
        lasts: 6,
        requests: 250,
    },
    Row {
        name: "the conversion webhook of a kind is down",
        streams: Streams::Tear,
        rules: &[Rule {
            on: |call| call.resource == "managedclusteraddons",
            fault: refuse(503, "ServiceUnavailable"),
            times: ALWAYS,
        }],
        lasts: 6,
        requests: 250,
    },
    Row {
        name: "404 for a kind, as while its conversion is not there",
        streams: Streams::Tear,
        rules: &[Rule {
            on: |call| call.resource == "managedclusteraddons",
            fault: refuse(404, "NotFound"),
            times: ALWAYS,
        }],
        lasts: 6,
        requests: 250,
    },
    Row {
        name: "writes are not answered",
        streams: Streams::Stay,
        rules: &[Rule { on: is_ours, fault: Fault::Hold, times: ALWAYS }],
        lasts: 5,
        requests: 150,
    },
];

const SILENT: Row = Row {
    name: "watches fall silent on connections that live",
    streams: Streams::Silence,
    rules: &[],
    lasts: 0,
    requests: 250,
};

/// Checks that all objects keep their uids, that no object appears or disappears, and that each work changes once.
fn assert_once(row: &str, before: &Standing, after: &Standing) {
    for (id, (uid, generation)) in after {
        let (old_uid, old_generation) = before.get(id).unwrap_or_else(|| panic!("{row}: {id} is new"));
        assert_eq!(uid, old_uid, "{row}: {id} is another one");
        let once = i64::from(id.starts_with("ManifestWork "));
        assert_eq!(*generation, old_generation + once, "{row}: changes of {id}");
    }
    for id in before.keys() {
        assert!(after.contains_key(id), "{row}: {id} is gone");
    }
}

/// Returns the most frequent requests, for a failure message.
fn most(seen: &[Seen]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for Seen { user, call, fault, status, .. } in seen {
        *counts
            .entry(format!("{user}: {} {} {fault:?} {status:?}", call.verb, call.resource))
            .or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(what, times)| format!("{times:5} {what}")).collect();
    counts.sort();
    counts.iter().rev().take(30).fold(String::new(), |text, line| text + line + "\n")
}

async fn play(fleet: &Fleet, number: usize, row: &Row) {
    let (name, word) = (row.name, format!("word-{number}"));
    let before = fleet.standing().await;
    let (from, began) = (fleet.proxy.count(), Instant::now());
    fleet.proxy.set(row.rules);
    match row.streams {
        Streams::Stay => {}
        Streams::Tear => fleet.proxy.tear(),
        Streams::Silence => fleet.proxy.silence(),
    }
    fleet.commit(&word, &[]);
    if !row.rules.is_empty() {
        let hit = || fleet.proxy.seen().split_off(from).iter().any(|seen| seen.fault.is_some());
        eventually(&format!("{name}: the fault concerns a request"), async || hit()).await;
    }
    if row.lasts > 0 {
        tokio::time::sleep(Duration::from_secs(row.lasts)).await;
        fleet.proxy.set(&[]);
    }
    fleet.arrives(&word, CLUSTERS, name).await;
    fleet.proxy.set(&[]);
    let seen: Vec<Seen> = fleet.proxy.seen().split_off(from);
    let requests = seen.iter().filter(|seen| !seen.call.is_sign_of_life()).count();
    let hit = seen.iter().filter(|seen| seen.fault.is_some()).count();
    eprintln!("{requests:5} requests, {hit:4} of them wrong, {:3} s: {name}", began.elapsed().as_secs());
    assert!(requests <= row.requests, "{name}: {requests} requests\n{}", most(&seen));
    assert_once(name, &before, &fleet.standing().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_arrives_once_and_without_a_hot_loop_whatever_the_api_server_does() {
    let fleet = Fleet::start().await;
    for (number, row) in ROWS.iter().enumerate() {
        play(&fleet, number, row).await;
    }
}

/// This test waits for more than a minute, so it runs in parallel with the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_arrives_once_although_all_watches_fall_silent() {
    play(&Fleet::start().await, 0, &SILENT).await;
}

/// Fails if more requests than the limit arrived since `from`, without leases and events.
fn assert_asked_at_most(fleet: &Fleet, from: usize, most_of_them: usize, what: &str) {
    let mut seen = fleet.proxy.seen().split_off(from);
    seen.retain(|seen| !seen.call.is_sign_of_life());
    eprintln!("{:5} requests: {what}", seen.len());
    assert!(seen.len() <= most_of_them, "{what}: {} requests\n{}", seen.len(), most(&seen));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_survives_an_etcd_that_is_restored_from_a_backup() {
    let mut fleet = Fleet::start().await;
    let backup = fleet.dir.path().join("backup");
    fleet.hub.back_up(&backup).await;
    fleet.commit("after the backup", &[]);
    fleet.add_cluster("phantom").await;
    fleet.arrives("after the backup", CLUSTERS + 1, "before the restore").await;

    let from = fleet.proxy.count();
    fleet.hub.restore(&backup).await;
    fleet.arrives("after the backup", CLUSTERS, "after the restore").await;
    let standing = fleet.standing().await;
    assert!(
        !standing.keys().any(|id| id.contains("phantom")),
        "made for a cluster that never was: {standing:?}"
    );
    fleet.commit("after the restore", &[]);
    fleet.arrives("after the restore", CLUSTERS, "after the restore").await;
    assert_asked_at_most(&fleet, from, 600, "etcd is restored from a backup");
    assert_once("after the restore", &standing, &fleet.standing().await);
}

/// Returns a CRD of widgets with the given scope.
fn widgets(scope: &str) -> String {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let names = json!({ "kind": "Widget", "plural": "widgets", "singular": "widget" });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": { "group": "example.com", "scope": scope, "names": names, "versions": [version] },
    })
    .to_string()
}

fn widget(metadata: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": { "size": 1 } })
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_that_are_removed_and_come_back_otherwise_cost_nothing_else() {
    let fleet = Fleet::start().await;
    let kubectl = fleet.kubectl();
    let define = |definition: &str| {
        kubectl.run_with(&["apply", "--server-side", "-f", "-"], definition);
        kubectl.establishes();
    };
    let has_widget = async |namespace: &[&str]| {
        let args = [&["get", "widgets.example.com", "w"], namespace].concat();
        kubectl.command(&args).output().unwrap().status.success()
    };
    define(&widgets("Namespaced"));
    fleet.commit("with a widget", &[widget(json!({ "name": "w", "namespace": "gitops" }))]);
    fleet.arrives("with a widget", CLUSTERS, "a widget").await;
    assert!(has_widget(&["-n", "gitops"]).await);

    // Deleting a CRD deletes its objects. When the CRD returns, they are recreated without a commit.
    let from = fleet.proxy.count();
    kubectl.run(&["delete", "crd", "widgets.example.com"]);
    define(&widgets("Namespaced"));
    eventually("the widget is made again", async || has_widget(&["-n", "gitops"]).await).await;
    assert_asked_at_most(&fleet, from, 150, "the definition is removed and comes back");

    // The same kind gets another scope, followed by a commit for it.
    let before = fleet.standing().await;
    kubectl.run(&["delete", "crd", "widgets.example.com"]);
    define(&widgets("Cluster"));
    fleet.commit("in the cluster", &[widget(json!({ "name": "w" }))]);
    fleet.arrives("in the cluster", CLUSTERS, "another scope").await;
    assert!(has_widget(&[]).await);
    assert_once("another scope", &before, &fleet.standing().await);

    // One of the product's own CRDs is deleted: nothing is uninstalled, although all decisions are gone.
    let (before, from) = (fleet.standing().await, fleet.proxy.count());
    let decisions = "placementdecisions.cluster.open-cluster-management.io";
    kubectl.run(&["delete", "crd", decisions]);
    fleet.commit("without decisions", &[widget(json!({ "name": "w" }))]);
    prepare_hub_again(&fleet);
    fleet.arrives("without decisions", CLUSTERS, "decisions that are gone").await;
    eventually("the decision is back", async || {
        fleet.standing().await.keys().any(|id| id.starts_with("PlacementDecision "))
    })
    .await;
    let without_gone = |mut standing: Standing| {
        standing.retain(|id, _| !id.starts_with("PlacementDecision "));
        standing
    };
    assert_once("decisions that are gone", &without_gone(before), &without_gone(fleet.standing().await));
    assert_asked_at_most(&fleet, from, 400, "the definition of decisions is removed and comes back");
}

/// Reinstalls the hub's CRDs.
fn prepare_hub_again(fleet: &Fleet) {
    fleet.kubectl().install(api::crds::hub().into_iter());
}
