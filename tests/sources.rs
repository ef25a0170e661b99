//! The operator as a process, an embedded hub, and repositories that change or do not answer.

use std::net::TcpListener;
use std::time::Duration;

use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use git2::{Index, Repository, Signature};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use object::Object;
use serde_json::json;
use wheelwright::apiserver::{Options, Server};
use wheelwright::shell::now;

use crate::running::Running;
use crate::wait::eventually;

const NAMESPACE: &str = "wheelwright-system";

struct Hub {
    server: Server,
    dir: tempfile::TempDir,
}

impl Hub {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let objects = crds::hub().iter().map(Object::from_typed).collect();
        let server = Server::start(Options { objects, ..Options::new(now) }).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubeconfig"), server.admin_kubeconfig_yaml().unwrap()).unwrap();
        Self { server, dir }
    }

    fn operator(&self, repo: &str) -> Running {
        let kubeconfig = self.dir.path().join("kubeconfig");
        let kubeconfig = kubeconfig.to_str().unwrap();
        let args = ["operator", "--kubeconfig", kubeconfig, "--local-repositories", "--repo", repo];
        Running::start("operator", self.dir.path(), &args)
    }

    /// A repository with a ConfigMap of a name at its root, and one at `other/`.
    fn repository(&self, name: &str) -> String {
        let path = self.dir.path().join(format!("{name}.git"));
        let repo = Repository::init_bare(&path).unwrap();
        let mut index = Index::new().unwrap();
        for (path, name) in [("map.yaml", name.to_owned()), ("other/map.yaml", format!("{name}-other"))] {
            let metadata = json!({"name": name, "namespace": "default"});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
            index.add(&wheelwright::git::entry(path.into(), repo.blob(map.as_bytes()).unwrap())).unwrap();
        }
        let tree = repo.find_tree(index.write_tree_to(&repo).unwrap()).unwrap();
        let me = Signature::now("Test", "test@example.com").unwrap();
        repo.commit(Some("refs/heads/main"), &me, &me, name, &tree, &[]).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.server.client(), "default")
    }

    async fn exists(&self, name: &str) -> bool {
        self.maps().get_opt(name).await.unwrap().is_some()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_url_is_followed_without_an_approval_and_never_with_the_old_tree() {
    let hub = Hub::start().await;
    let (a, b) = (hub.repository("a"), hub.repository("b"));
    let _operator = hub.operator(&a);
    eventually("the first repository is applied", async || hub.exists("a").await).await;
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let edit = json!({"spec": {"url": b, "path": "other"}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the second repository is applied", async || hub.exists("b-other").await).await;
    eventually("the objects of the first one are pruned", async || !hub.exists("a").await).await;
    assert!(!hub.exists("a-other").await, "the old tree is not applied at the new path");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_stuck_fetch_ends_when_it_is_asked_to() {
    let hub = Hub::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let operator = hub.operator(&format!("git://{}/x.git", silent.local_addr().unwrap()));
    let _connection = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
    assert!(operator.terminate(Duration::from_secs(10)), "it ends by itself");
}
