//! The shell with a small controller, on the embedded hub, and on a real API server that gets killed.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use object::{Key, Object};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use reconcile::{Action, Cancel, Controller, Memo, Plan, Query, Read, Register as _, View, Watches};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::{Handle, Shell, ShellOptions, now};

use crate::kube::Cluster;
use crate::wait::eventually;

const LABEL: &str = "copies.test/of";

/// Keeps a copy of every ConfigMap in `default` that has a `key`.
struct Copier;

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Primary = ConfigMap;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ConfigMap>(|change, _| {
            let original = |copy: &ConfigMap| {
                Some(Key::namespaced("default", copy.metadata.labels.as_ref()?.get(LABEL)?))
            };
            change.sides().filter_map(original).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(original) = view.get::<ConfigMap>(key)? else { return Ok(plan) };
        let all = view.list::<ConfigMap>(Query::namespace("default"))?;
        assert!(!key.name.starts_with("bug"), "a bug of this controller");
        let Some(data) = original.data.as_ref().filter(|data| data.contains_key("key")) else {
            return Ok(plan);
        };
        let is_copy = |map: &ConfigMap| {
            map.metadata.labels.as_ref().is_some_and(|labels| labels.get(LABEL) == Some(&key.name))
        };
        if is_copy(&original)
            || original.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL))
        {
            return Ok(plan);
        }
        if !all.iter().any(|map| is_copy(map) && map.data.as_ref() == Some(data)) {
            let copy = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": data,
                "metadata": {"name": format!("{}-copy", key.name), "namespace": "default", "labels": {LABEL: key.name}},
            });
            plan.step([Action::apply(Object::from_value(copy).unwrap())]);
        }
        Ok(plan)
    }
}

/// Computes endlessly until it is canceled.
struct Computer;

#[derive(PartialEq)]
struct Endless;

impl Memo for Endless {
    const NAME: &'static str = "endless";
    type Output = ();

    fn input(&self) -> String {
        String::new()
    }

    fn deadline(&self) -> SignedDuration {
        SignedDuration::from_hours(1)
    }

    fn compute(&self, _: Option<&()>, _: &Cancel) {
        loop {
            std::thread::park();
        }
    }
}

impl Controller for Computer {
    const NAME: &'static str = "computer";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        view.memo(Endless)?;
        Ok(Plan::nothing())
    }
}

struct Running {
    handle: Handle,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn run(hub: kube::Client) -> Running {
    let options = ShellOptions::new(hub);
    let shell = Shell::new(options, |register| register.add::<Copier>());
    let (handle, stop) = (shell.handle(), CancellationToken::new());
    Running { handle, stop: stop.clone(), task: tokio::spawn(shell.run(stop)) }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map.data = Some(BTreeMap::from([("key".to_owned(), value.to_owned())]));
    map
}

async fn value(api: &Api<ConfigMap>, name: &str) -> Option<String> {
    api.get_opt(name).await.ok()??.data?.remove("key")
}

fn metrics(handle: &Handle) -> String {
    let mut registry = Registry::with_prefix("wheelwright");
    handle.register_metrics(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

fn applies(handle: &Handle) -> u64 {
    let metrics = metrics(handle);
    let line = metrics.lines().find_map(|line| {
        line.strip_prefix("wheelwright_writes_total{controller=\"copier\",action=\"apply\"} ")
    });
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_controller_converges_writes_each_object_once_and_repairs_what_others_break() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(hub.client(), "default");
    let Running { handle, stop, task } = run(hub.client());
    for i in 0..20 {
        api.create(&PostParams::default(), &config_map(&format!("map-{i}"), "one")).await.unwrap();
    }
    eventually("twenty copies", async || {
        value(&api, "map-19-copy").await.is_some() && applies(&handle) >= 20
    })
    .await;
    assert_eq!(
        applies(&handle),
        20,
        "an own write that the watch has not delivered yet must not be repeated"
    );

    api.patch("map-3", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "two"}})))
        .await
        .unwrap();
    eventually("the change is copied", async || value(&api, "map-3-copy").await.as_deref() == Some("two"))
        .await;
    api.delete("map-4-copy", &DeleteParams::default()).await.unwrap();
    eventually("the deleted copy is back", async || value(&api, "map-4-copy").await.is_some()).await;
    assert_eq!(applies(&handle), 22);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn changes_during_an_outage_of_the_api_server_are_noticed() {
    let mut cluster = Cluster::start("away").await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client().await, "default");
    api.create(&PostParams::default(), &config_map("before", "one")).await.unwrap();
    let Running { handle, stop, task } = run(cluster.client().await);
    eventually("the first copy", async || value(&api, "before-copy").await.is_some()).await;
    assert!(handle.is_ready());

    cluster.kill_apiserver();
    cluster.restart_apiserver().await;
    api.create(&PostParams::default(), &config_map("after", "one")).await.unwrap();
    eventually("a copy after the restart", async || value(&api, "after-copy").await.is_some()).await;
    assert_eq!(applies(&handle), 2);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_decision_that_panics_costs_only_its_key_a_reconciliation() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(hub.client(), "default");
    // As many as are planned concurrently, so that none of them may keep its slot.
    for i in 0..40 {
        api.create(&PostParams::default(), &config_map(&format!("bug-{i}"), "one")).await.unwrap();
    }
    api.create(&PostParams::default(), &config_map("sound", "one")).await.unwrap();
    let Running { handle, stop, task } = run(hub.client());
    eventually("the copy of the sound one", async || value(&api, "sound-copy").await.is_some()).await;
    let panics = metrics(&handle);
    assert!(panics.contains("wheelwright_reconcile_panics_total{controller=\"copier\"}"), "{panics}");
    assert!(!stop.is_cancelled(), "what is known is whole");
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_shell_that_is_stopped_leaves_no_record_of_the_computation_under_way() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(hub.client(), "default");
    api.create(&PostParams::default(), &config_map("one", "one")).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = ShellOptions { attempts: Some(dir.path().to_owned()), ..ShellOptions::new(hub.client()) };
    let records = || dir.path().read_dir().unwrap().count();
    let shell = Shell::new(options, |register| register.add::<Computer>());
    let stop = CancellationToken::new();
    let task = tokio::spawn(shell.run(stop.clone()));
    eventually("the computation has begun", async || records() == 1).await;
    stop.cancel();
    task.await.unwrap();
    assert_eq!(records(), 0);
}
