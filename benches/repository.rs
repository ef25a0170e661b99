//! Measures a root kustomization that includes overlays of four objects each, with the operator as a process on a
//! real API server: rendering, the first commit, a commit that changes one overlay, and a minute without a commit.
//! The baseline, in the same run, is a loop of as many writes. Additional unreferenced files make the repository
//! large.
//!
//! `cargo bench --bench repository [-- OVERLAYS [IDLE_SECONDS [FILES]]]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]
#![allow(dead_code, reason = "of the harness, only part is needed here")]

mod hub;
#[path = "../tests/kube/mod.rs"]
mod kube;

use std::path::Path;
use std::time::{Duration, Instant};

use ::kube::Client;
use ::kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use api::gitops::v1alpha1::ConfigRepo;
use futures::{StreamExt as _, stream};
use hub::{AT_ONCE, Operator, install, requests, usage};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Cluster;
use object::tree::FileTree;
use object::{Gvk, Object, RenderedObject};
use render::{Parameters, RenderMemo, render_again};
use serde_json::{Value, json};

/// Number of namespaces that the overlays share.
const NAMESPACES: usize = 50;
/// Number of commits that change one overlay; the bench reports the median.
const CHANGES: usize = 5;
const POLL: Duration = Duration::from_millis(5);
const WITHIN: Duration = Duration::from_secs(600);
/// Time after which the operator has finished all work for a commit.
const SETTLES: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (overlays, idle) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(60));
    let files = numbers.next().unwrap_or_default();
    let first = tree(overlays, files, None);
    let mut memo = RenderMemo::default();
    let (objects, whole) = rendered(&first, &mut memo);
    let (_, part) = rendered(&tree(overlays, files, Some("rendered")), &mut memo);
    println!("overlays: {overlays}, objects: {}, files: {}", objects.len(), first.below("").count());
    println!("rendering: {whole:.3} CPU-s, after a change of one overlay: {part:.3} CPU-s");

    let server = Cluster::start("repository").await;
    install(&server);
    let client = server.client().await;
    let bare = bare_loop(&client, &objects).await;
    println!("bare loop of as many writes, {AT_ONCE} at once: {:.1} s", bare.as_secs_f64());

    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, &first);
    let (begin, sent) = (Instant::now(), requests(&client).await);
    let operator = Operator::start(&server.kubeconfig, &repository, dir.path(), &[]);
    let repo = applied(&client).await;
    let cold = begin.elapsed();
    let pid = operator.0.id();
    let (cpu, peak) = usage(pid);
    let ratio = cold.as_secs_f64() / bare.as_secs_f64();
    println!(
        "first commit applied, operator start included: {:.1} s ({ratio:.2} times the bare loop)",
        cold.as_secs_f64()
    );
    println!("operator: {cpu:.2} CPU-s, peak memory {peak:.0} MB");
    println!("the ConfigRepo: {} bytes", serde_json::to_vec(&repo).unwrap().len());

    tokio::time::sleep(SETTLES).await;
    println!("operator when all is quiet: {:.2} CPU-s", usage(pid).0);
    println!("requests to the API server until then: {:?}", requests(&client).await.since(&sent));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "team-0");
    let (mut times, before) = (Vec::new(), usage(pid).0);
    for change in 0..CHANGES {
        let word = format!("change-{change}");
        commit(&repository, &tree(overlays, files, Some(&word)));
        times.push(written(&maps, &word).await.as_secs_f64());
        tokio::time::sleep(SETTLES).await;
    }
    times.sort_by(f64::total_cmp);
    let cpu = (usage(pid).0 - before) / CHANGES as f64;
    println!(
        "one overlay changed, commit to write: {:.3} s {times:.3?}, {cpu:.3} CPU-s until all is quiet",
        times[CHANGES / 2]
    );

    let minute = Duration::from_secs(idle as u64);
    let (before, sent) = (usage(pid).0, requests(&client).await);
    tokio::time::sleep(minute).await;
    println!("nothing changes for {idle} s: {:.2} CPU-s", usage(pid).0 - before);
    println!("operator, peak memory in the end: {:.0} MB", usage(pid).1);
    let with = requests(&client).await.since(&sent);
    drop(operator);
    tokio::time::sleep(SETTLES).await;
    let sent = requests(&client).await;
    tokio::time::sleep(minute).await;
    let without = requests(&client).await.since(&sent);
    println!("requests meanwhile: {with:?}, and as long without the operator: {without:?}");
    let calls = with.total() - without.total();
    let object_hours = objects.len() as f64 * minute.as_secs_f64() / 3600.0;
    println!("API calls per object-hour: {:.3}", calls / object_hours);
}

/// Returns a root with overlays and extra files; `word` changes a value in the first overlay.
fn tree(overlays: usize, files: usize, word: Option<&str>) -> FileTree {
    let mut tree = FileTree::default();
    for n in 0..files {
        let text = format!("The page {n}.\n").repeat(40);
        tree.insert(format!("pages/{}/{n}.md", n / 100), text.into_bytes());
    }
    let mut add = |path: String, value: &Value| tree.insert(path, value.to_string().into_bytes());
    let labels = json!({"gitops.wheelwright.dev/operator-identity": "allowed"});
    for n in 0..NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{n}"), "labels": labels}});
        add(format!("namespaces/{n}.yaml"), &namespace);
    }
    let files: Vec<_> = (0..NAMESPACES).map(|n| format!("{n}.yaml")).collect();
    add("namespaces/kustomization.yaml".into(), &json!({"resources": files}));
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
    let base = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"word": "base", "mode": "production", "level": "info"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}, "data": {"start": "#!/bin/sh\nexec server --config /etc/server\n"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "server"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "server"}, "rules": [rule]}),
    ];
    for (n, object) in base.iter().enumerate() {
        add(format!("base/{n}.yaml"), object);
    }
    add("base/kustomization.yaml".into(), &json!({"resources": ["0.yaml", "1.yaml", "2.yaml", "3.yaml"]}));
    let mut roots = vec!["namespaces".to_owned()];
    for n in 0..overlays {
        let word = word.filter(|_| n == 0).map_or_else(|| format!("overlay-{n}"), str::to_owned);
        let patch = json!([{"op": "replace", "path": "/data/word", "value": word}]).to_string();
        let overlay = json!({
            "resources": ["../../base"], "namespace": format!("team-{}", n % NAMESPACES), "namePrefix": format!("app-{n}-"),
            "labels": [{"pairs": {"app": format!("app-{n}")}}],
            "patches": [{"target": {"kind": "ConfigMap", "name": "settings"}, "patch": patch}],
        });
        add(format!("overlays/app-{n}/kustomization.yaml"), &overlay);
        roots.push(format!("overlays/app-{n}"));
    }
    add("kustomization.yaml".into(), &json!({"resources": roots}));
    tree
}

/// Renders a tree; also returns the CPU seconds of this thread.
fn rendered(tree: &FileTree, memo: &mut RenderMemo) -> (Vec<std::sync::Arc<RenderedObject>>, f64) {
    let used = || {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        spent.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    let begin = used();
    let rendered = render_again(tree, "", &Parameters::default(), memo, &|| false).unwrap();
    (rendered.objects, used() - begin)
}

/// Commits a tree to the branch `main`.
fn commit(repository: &Path, tree: &FileTree) {
    let git = git2::Repository::init_bare(repository).unwrap();
    let mut index = git2::Index::new().unwrap();
    for (path, entry) in tree.below("") {
        let object::tree::TreeEntry::File(bytes) = entry else { panic!("{path} is no file") };
        let id = git.blob(bytes).unwrap();
        index.add(&wheelwright::git::entry(path.to_owned(), id)).unwrap();
    }
    let tree = git.find_tree(index.write_tree_to(&git).unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    let parent = git.refname_to_id("refs/heads/main").ok().map(|id| git.find_commit(id).unwrap());
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some("refs/heads/main"), &author, &author, "change", &tree, &parents).unwrap();
}

/// Applies the same objects under other names, namespaces first.
async fn bare_loop(client: &Client, objects: &[std::sync::Arc<RenderedObject>]) -> Duration {
    let renamed = |object: &Object| {
        let mut text = serde_json::to_string(object).unwrap();
        text = text.replace("team-", "bare-");
        serde_json::from_str::<Object>(&text).unwrap()
    };
    let objects: Vec<Object> = objects.iter().map(|rendered| renamed(&rendered.object)).collect();
    let (namespaces, others): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object.kind() == "Namespace");
    let begin = Instant::now();
    for stage in [namespaces, others] {
        let apply = |object: Object| {
            let Gvk { group, version, kind } = object.gvk();
            let resource = ApiResource::from_gvk(&GroupVersionKind { group, version, kind });
            let api: Api<DynamicObject> = match object.namespace() {
                "" => Api::all_with(client.clone(), &resource),
                namespace => Api::namespaced_with(client.clone(), namespace, &resource),
            };
            async move {
                api.patch(object.name(), &PatchParams::apply("bare").force(), &Patch::Apply(&object))
                    .await
                    .unwrap()
            }
        };
        stream::iter(stage).map(apply).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    }
    begin.elapsed()
}

/// Waits until the ConfigRepo has applied its commit.
async fn applied(client: &Client) -> ConfigRepo {
    let repos: Api<ConfigRepo> = Api::all(client.clone());
    let deadline = Instant::now() + WITHIN;
    loop {
        let list =
            repos.list(&::kube::api::ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let is_ready = |repo: &ConfigRepo| {
            let conditions = repo.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|condition| condition.type_ == "Ready" && condition.reason == "Applied")
        };
        if let Some(repo) = list.into_iter().find(is_ready) {
            return repo;
        }
        assert!(Instant::now() < deadline, "the first commit is not applied");
        tokio::time::sleep(POLL * 10).await;
    }
}

/// Waits until the object of the changed overlay contains a value.
async fn written(maps: &Api<ConfigMap>, word: &str) -> Duration {
    let begin = Instant::now();
    loop {
        let data = maps.get_opt("app-0-settings").await.unwrap().and_then(|map| map.data);
        if data.is_some_and(|data| data.get("word").is_some_and(|it| it == word)) {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < WITHIN, "the change is not written");
        tokio::time::sleep(POLL).await;
    }
}
