//! The operator as a process during a long rendering, and after it was killed in the middle of one.

use std::path::Path;

use api::gitops::v1alpha1::ConfigRepo;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::kube::free_port;
use crate::running::Running;
use crate::slow_commit;
use crate::sources::{Hub, NAMESPACE};
use crate::wait::eventually;

/// Number of crashes during a rendering after which the operator refuses to render it.
const MAX_ENDS: usize = 3;
/// Number of ConfigMaps in the slow repository. Rendering them takes minutes.
const OBJECTS: usize = 100;

/// Returns the record of the running or killed rendering.
fn record(attempts: &Path) -> Option<String> {
    let file = attempts.read_dir().ok()?.next()?.ok()?;
    std::fs::read_to_string(file.path()).ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendering_that_kills_the_operator_is_finally_refused_and_delays_no_other() {
    let hub = Hub::start().await;
    let (dir, client) = (hub.dir.path(), hub.server.client());
    let (slow, good) = (dir.join("slow.git"), hub.repository("good"));
    slow_commit::commit(&slow, OBJECTS);
    let (kubeconfig, cache) = (dir.join("kubeconfig"), dir.join("mirrors"));
    let health = format!("127.0.0.1:{}", free_port());
    let paths = [&kubeconfig, &cache, &slow].map(|path| path.to_str().unwrap());
    // Without leader election, so that a new process does not wait for the lease of a killed one.
    let alone = ["operator", "--leader-elect=false", "--local-repositories"];
    let args = [&alone[..], &["--listen", &health, "--kubeconfig", paths[0]]].concat();
    let args = [&args[..], &["--cache-dir", paths[1], "--repo", paths[2]]].concat();
    let start = || Running::start("operator", dir, &args);
    let is_rendering = |ends: usize| record(&cache.join("attempts")).is_some_and(|n| n == ends.to_string());
    let is_ready = async || {
        let mut config = kube::Config::new(format!("http://{health}").parse().unwrap());
        config.default_retry = false;
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        kube::Client::try_from(config).unwrap().request_text(request).await.is_ok()
    };

    for ends in 1..=MAX_ENDS {
        let operator = start();
        eventually("the commit is rendered", async || is_rendering(ends)).await;
        eventually("the operator is ready", is_ready).await;
        assert!(is_rendering(ends), "the operator answered only after the rendering");
        operator.kill_9();
    }
    let _operator = start();
    let repos: Api<ConfigRepo> = Api::namespaced(client, NAMESPACE);
    let conditions = async || {
        let status = repos.get("slow").await.unwrap().status.unwrap_or_default();
        status.conditions.into_iter().map(|c| format!("{} {}: {}", c.type_, c.reason, c.message))
    };
    let refused = format!("the process died {MAX_ENDS} times while computing it");
    eventually("a condition says why", async || {
        conditions().await.any(|text| text.starts_with("Ready RenderFailed") && text.contains(&refused))
    })
    .await;
    let other = json!({"metadata": {"name": "good"}, "spec": {"url": good, "ref": {"branch": "main"}}});
    repos.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    eventually("another repository is applied", async || hub.exists("good").await).await;
}
