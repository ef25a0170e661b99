//! The work of one request: its CPU time on the hub, and the requests that are handled in the meantime.

use std::sync::mpsc;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use store::ListOptions;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use super::{Hub, config_map};
use crate::kube::client_of;

/// Maximum CPU seconds that a request may cost the hub, for a test build on any machine. Work that is quadratic in
/// these bodies takes ten times as long.
const MOST: f64 = 6.0;

impl Hub {
    /// Returns the CPU seconds of the process so far.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The program name ends at the last bracket; the times are fields 14 and 15.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        // The kernel counts in hundredths of a second (USER_HZ), regardless of its own clock.
        ticks as f64 / 100.0
    }
}

/// A request that a tenant may send.
struct Sent {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    type_: &'static str,
    body: Value,
    expected: u16,
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";

fn work_of(what: &'static str, manifests: usize, expected: u16) -> Sent {
    let manifest = |i: usize| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("c{i}") } });
    let body = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": "many" },
        "spec": { "workload": { "manifests": (0..manifests).map(manifest).collect::<Vec<_>>() } },
    });
    let path = "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks";
    Sent { what, method: "POST", path, type_: JSON, body, expected }
}

/// Returns requests whose work once grew faster than their size.
fn hostile() -> Vec<Sent> {
    let many = |count: usize, one: fn(usize) -> Value| (0..count).map(one).collect::<Vec<Value>>();
    let map = |count: usize, one: fn(usize) -> String| {
        (0..count).map(|i| (one(i), json!(""))).collect::<serde_json::Map<_, _>>()
    };
    let sent = |what, method, path, type_, body, expected| Sent { what, method, path, type_, body, expected };
    vec![
        sent(
            "tests of an absent field",
            "PATCH",
            "/api/v1/namespaces/default/configmaps/large",
            JSON_PATCH,
            vec![json!({ "op": "test", "path": "/data/absent", "value": null }); 10_000].into(),
            200,
        ),
        sent(
            "moves of a subtree",
            "PATCH",
            "/api/v1/namespaces/default/configmaps/large",
            JSON_PATCH,
            many(10_000, |i| {
                let (from, to) = if i % 2 == 0 { ("/data", "/binaryData") } else { ("/binaryData", "/data") };
                json!({ "op": "move", "from": from, "path": to })
            })
            .into(),
            413,
        ),
        sent(
            "a set that is merged",
            "PATCH",
            "/api/v1/namespaces/default/configmaps/large",
            "application/strategic-merge-patch+json",
            json!({ "metadata": { "finalizers": many(150_000, |i| format!("x.dev/{i:06}").into()) } }),
            413,
        ),
        sent(
            "invalid keys",
            "POST",
            CONFIG_MAPS,
            JSON,
            json!({ "metadata": { "name": "invalid" }, "data": map(120_000, |i| format!("!{i:06}")) }),
            422,
        ),
        sent(
            "ports of a service",
            "POST",
            "/api/v1/namespaces/default/services",
            JSON,
            json!({
                "metadata": { "name": "ports" },
                "spec": { "ports": many(30_000, |i| json!({ "name": format!("p{i}"), "port": 1 + i })) },
            }),
            413,
        ),
        sent(
            "a request that none of many bindings allows",
            "GET",
            "/api/v1/namespaces/default/endpoints/a/status",
            JSON,
            json!({}),
            403,
        ),
        work_of("a work of many manifests, which an admission policy lists", 1_000, 201),
        work_of("a work of too many manifests", 12_000, 422),
        sent(
            "a role of many rules",
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            JSON,
            json!({
                "metadata": { "name": "many" },
                "rules": [{
                    "verbs": many(400, |i| format!("v{i}").into()),
                    "apiGroups": many(400, |i| format!("g{i}").into()),
                    "resources": many(400, |i| format!("r{i}").into()),
                }],
            }),
            403,
        ),
    ]
}

/// Binds a large role to the tenant many times.
async fn bind_often(client: kube::Client) {
    let role = serde_json::from_value(json!({
        "metadata": { "name": "long" },
        "rules": [
            {
                "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"],
                "resourceNames": (0..60_000).map(|i| format!("name-{i}")).collect::<Vec<_>>(),
            },
            { "verbs": ["create"], "apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"] },
        ],
    }));
    let roles = Api::<k8s_openapi::api::rbac::v1::Role>::default_namespaced(client.clone());
    roles.create(&PostParams::default(), &role.unwrap()).await.unwrap();
    let bindings = Api::<k8s_openapi::api::rbac::v1::RoleBinding>::default_namespaced(client);
    for i in 0..300 {
        let binding = serde_json::from_value(json!({
            "metadata": { "name": format!("long-{i}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "long" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant" }],
        }));
        bindings.create(&PostParams::default(), &binding.unwrap()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_request_grows_no_faster_than_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let (hub, _) = Hub::start(&dir.path().join("data"), "127.0.0.1:0");
    let client = client_of(&hub.data.join("admin.kubeconfig")).await;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": "tenant" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant" }],
    }));
    let bindings = Api::<k8s_openapi::api::rbac::v1::RoleBinding>::default_namespaced(client.clone());
    bindings.create(&PostParams::default(), &binding.unwrap()).await.unwrap();
    let large = ConfigMap {
        data: Some((0..25_000).map(|i| (format!("k{i}"), "x".to_owned())).collect()),
        ..config_map("large", "")
    };
    hub.config_maps().await.create(&PostParams::default(), &large).await.unwrap();
    bind_often(client.clone()).await;
    for Sent { what, method, path, type_, body, expected } in hostile() {
        let before = hub.cpu();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", type_)
            .header("impersonate-user", "tenant")
            .body(kube::client::Body::from(body.to_string().into_bytes()));
        let answer = client.send(request.unwrap()).await.unwrap();
        let taken = hub.cpu() - before;
        assert_eq!(answer.status(), StatusCode::from_u16(expected).unwrap(), "{what}");
        assert!(taken < MOST, "{what}: {taken} s");
    }
}

/// Holds a server's store until the sender sends or is dropped; returns the sender and the thread, which returns
/// true if the release came in time.
fn hold(server: &std::sync::Arc<Server>) -> (mpsc::Sender<()>, std::thread::JoinHandle<bool>) {
    let ((held, is_held), (release, released)) = (mpsc::channel(), mpsc::channel());
    let server = server.clone();
    let holder = std::thread::spawn(move || {
        server.with_store(|_, _| {
            held.send(()).unwrap();
            // A request that blocks this runtime's only thread makes this time out.
            released.recv_timeout(Duration::from_secs(20)).is_ok()
        })
    });
    is_held.recv().unwrap();
    (release, holder)
}

#[tokio::test]
async fn requests_are_answered_while_a_write_holds_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let options = ServerOptions { data: Some(dir.path().join("data")), ..ServerOptions::new(now) };
    let server = std::sync::Arc::new(Server::start(options).await.unwrap());
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    maps.create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    let (release, holder) = hold(&server);
    let writes: Vec<_> = ["b", "c", "d"]
        .map(|name| {
            let maps = maps.clone();
            tokio::spawn(async move { maps.create(&PostParams::default(), &config_map(name, "")).await })
        })
        .into();
    // All writes have begun before a read is sent.
    tokio::task::yield_now().await;
    maps.get("a").await.unwrap();
    let livez = Request::get("/livez").body(Vec::new()).unwrap();
    assert_eq!(server.client().request_text(livez).await.unwrap(), "ok");
    release.send(()).unwrap();
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert!(holder.join().unwrap(), "the store was held for too short a time");
}

#[tokio::test]
async fn other_writes_continue_while_a_collection_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let options = ServerOptions { data: Some(dir.path().join("data")), ..ServerOptions::new(now) };
    let server = std::sync::Arc::new(Server::start(options).await.unwrap());
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let target = store::ResourcePath::resource("", "v1", "configmaps").within("default");
    server.with_store(|store, now| {
        for i in 0..8_000 {
            let map = object::Object::from_value(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("many-{i}") },
            }));
            let options = store::WriteOptions::manager("test");
            store.create(&target, map.unwrap(), &options, now).unwrap();
        }
    });
    let (release, holder) = hold(&server);
    let deletion = {
        let maps = maps.clone();
        tokio::spawn(
            async move { maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await },
        )
    };
    tokio::task::yield_now().await;
    let others: Api<ConfigMap> = Api::namespaced(server.client(), "kube-public");
    let write = |name: &'static str| {
        let others = others.clone();
        tokio::spawn(async move { others.create(&PostParams::default(), &config_map(name, "")).await })
    };
    let first = write("first");
    tokio::task::yield_now().await;
    release.send(()).unwrap();
    let left = || {
        let list = server.with_store(|store, _| store.list(&target, &ListOptions::default()).unwrap());
        list.items.iter().filter(|map| map.name().starts_with("many-")).count()
    };
    // The deletion lists its objects first.
    first.await.unwrap().unwrap();
    write("second").await.unwrap().unwrap();
    assert!(left() > 0, "the other write waited for the end of the deletion");
    deletion.await.unwrap().unwrap();
    assert_eq!(left(), 0);
    assert!(holder.join().unwrap());
}
