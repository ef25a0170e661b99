//! A ConfigRepo that renders each directory that matches a pattern, with git, the operator and the command line.

use std::process::Command;

use api::gitops::v1alpha1::ConfigRepo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use crate::running::Running;
use crate::sources::{Hub, NAMESPACE, run};
use crate::wait::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wheelwright");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_come_and_go_with_commits_alone() {
    let hub = Hub::start().await;
    let url = hub.repository("fleet");
    let (dir, work) = (hub.dir.path(), hub.dir.path().join("work"));
    let kubeconfig = dir.join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    run(dir, "git", &["clone", "-q", "-b", "main", &url, "work"]);
    let git = |args: &[&str]| run(&work, "git", args);
    let add = |name: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
        std::fs::create_dir_all(work.join("clusters").join(name)).unwrap();
        std::fs::write(work.join(format!("clusters/{name}/map.yaml")), map.to_string()).unwrap();
    };
    let commit = || {
        git(&["add", "--all"]);
        git(&["-c", "user.name=A User", "-c", "user.email=user@example.org", "commit", "-q", "-m", "change"]);
    };
    let push = || {
        commit();
        git(&["push", "-q", "origin", "main"]);
    };
    let follow = ["operator", "--kubeconfig", kubeconfig, "--local-repositories", "--repo", &url];
    let _operator = Running::start(
        "operator",
        dir,
        &[&follow[..], &["--path", "clusters/*", "--path", "other"]].concat(),
    );

    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let status = async || repos.get_opt("fleet").await.unwrap().and_then(|it| it.status).unwrap_or_default();
    let is_refused = async || {
        let expected = "no directory in the repository matches \"clusters/*\"";
        status().await.conditions.iter().any(|condition| condition.message.contains(expected))
    };
    let has_rows = async |expected: &[&str]| {
        let rows = status().await.paths;
        rows.iter().map(|row| format!("{} {}", row.path, row.objects)).eq(expected.iter().copied())
    };
    eventually("the pattern without a match is named", async || is_refused().await).await;
    assert!(!hub.exists("fleet-other").await, "the commit is rejected as a whole");

    add("eu");
    add("us");
    push();
    let rows = ["clusters/eu 1", "clusters/us 1", "other 1"];
    eventually("each directory has a row", async || has_rows(&rows).await).await;

    add("sa");
    std::fs::remove_dir_all(work.join("clusters/us")).unwrap();
    git(&["checkout", "-q", "-b", "next"]);
    commit();
    let plan = Command::new(PROGRAM)
        .args(["plan", "--kubeconfig", kubeconfig, "--config-repo", &format!("{NAMESPACE}/fleet")])
        .current_dir(&work)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&plan.stdout);
    assert_eq!(plan.status.code(), Some(10), "{plan:?}");
    assert!(shown.contains("1 object created, 0 changed, 1 deleted"), "{shown}");
    git(&["checkout", "-q", "main"]);

    let maps: Api<ConfigMap> = Api::namespaced(hub.server.client(), "default");
    let uid = async || maps.get("eu").await.unwrap().metadata.uid;
    let before = uid().await;
    git(&["mv", "clusters/eu", "clusters/emea"]);
    push();
    let rows = ["clusters/emea 1", "clusters/us 1", "other 1"];
    eventually("the renamed directory has a row", async || has_rows(&rows).await).await;
    assert_eq!(uid().await, before, "a rename keeps the objects");

    let shown = run(dir, PROGRAM, &["repo", "get", "fleet", "--kubeconfig", kubeconfig]);
    let table = "DIRECTORY       OBJECTS\nclusters/emea   1\nclusters/us     1\nother           1";
    assert!(shown.ends_with(table), "{shown}");
    let page = run(dir, PROGRAM, &["status", "--kubeconfig", kubeconfig]);
    assert!(
        page.contains("  directories: clusters/emea (1 object), clusters/us (1 object), other"),
        "{page}"
    );
    for revision in [&[][..], &["--revision", "main"]] {
        let render = ["render", "clusters/*", "--output", "names"];
        assert_eq!(
            run(&work, PROGRAM, &[&render[..], revision].concat()),
            "ConfigMap default/eu\nConfigMap default/us"
        );
    }

    git(&["rm", "-q", "-r", "clusters"]);
    push();
    eventually("the last directory that matches is missed", async || is_refused().await).await;
    assert!(hub.exists("eu").await && hub.exists("us").await && has_rows(&rows).await);
}
