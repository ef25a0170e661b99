//! The tutorial, from `wheelwright install` to a change that has reached the clusters: the operator runs as its
//! Deployment specifies, git's own server serves the repository, and two agents join.

use std::path::Path;

use object::Object;

use super::{Block, ROOT, blocks, link_programs, outcome, run_pods};
use crate::e2e::{image, images, run_nodes, running};
use crate::klusterlet::pod::{account_kubeconfig, start_operator};
use crate::kube::{Cluster, free_port, helm};
use crate::running::Running;
use crate::wait::eventually;

const PAGE: &str = "docs/tutorial.md";
/// The repository in the tutorial.
const URL: &str = "https://git.example.com/platform/fleet.git";
const CLUSTERS: [&str; 2] = ["aws-1", "aws-2"];

/// A reader who follows the tutorial on a hub.
struct Reader<'t> {
    hub: &'t Cluster,
    dir: &'t Path,
    /// The repository that replaces the tutorial's.
    url: String,
}

impl Reader<'_> {
    /// Runs the block that begins with `start`; returns its output.
    fn runs(&self, start: &str) -> String {
        let of_page = blocks(PAGE).into_iter().find(|block| block.text.starts_with(start));
        self.types(&of_page.unwrap_or_else(|| panic!("{PAGE} has no block {start:?}")).text)
    }

    /// Runs commands; returns their output.
    fn types(&self, commands: &str) -> String {
        let text = commands.replace(URL, &self.url);
        let block = Block { page: PAGE.into(), language: String::new(), text };
        let (succeeds, printed) = outcome(self.hub, self.dir, "", &block);
        assert!(succeeds, "{commands}\n{printed}");
        printed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_tutorial_has_clusters_that_follow_a_repository() {
    let (hub, temporary) = (Cluster::start("tutorial").await, tempfile::tempdir().unwrap());
    let (dir, git_port) = (temporary.path(), free_port());
    let reader = Reader { hub: &hub, dir, url: format!("git://127.0.0.1:{git_port}/fleet.git") };
    link_programs(dir);
    std::fs::copy(&hub.kubeconfig, dir.join("hub.kubeconfig")).unwrap();
    let pods = tokio::spawn(run_pods(hub.client().await));

    reader.runs("wheelwright install");
    let account = dir.join("operator.kubeconfig");
    std::fs::write(&account, account_kubeconfig(&hub, "wheelwright-operator", helm::NAMESPACE)).unwrap();
    let _operator = start_operator(&hub.kubectl(), &account, dir, free_port(), &["--local-repositories"]);
    reader.types(&format!("cp -r {ROOT}/examples-repo examples-repo"));
    reader.runs("cp -r examples-repo fleet");
    reader.types("git clone --quiet --bare fleet served/fleet.git");
    let _daemon = Running::git_daemon(&dir.join("served"), git_port);
    reader.runs("kubectl apply -f fleet/bootstrap");

    reader.types("wheelwright get token --output kubeconfig > bootstrap.kubeconfig");
    let (mut spokes, mut agents, mut clients) = (Vec::new(), Vec::new(), Vec::new());
    for name in CLUSTERS {
        let spoke = crate::cli::server(api::crds::spoke().iter().map(Object::from_typed).collect()).await;
        let kubeconfig = format!("{name}.kubeconfig");
        std::fs::write(dir.join(&kubeconfig), spoke.admin_kubeconfig_yaml().unwrap()).unwrap();
        let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
        let (bootstrap, kubeconfig) = (file("bootstrap.kubeconfig"), file(&kubeconfig));
        let args = ["agent", "--bootstrap-kubeconfig", &bootstrap, "--spoke-kubeconfig", &kubeconfig];
        agents.push(Running::start(name, dir, &[&args[..], &["--spoke-cluster-name", name]].concat()));
        clients.push(spoke.client());
        spokes.push(spoke);
    }
    let nodes: Vec<_> = clients.iter().cloned().map(|spoke| run_nodes(spoke, images())).collect();
    reader.runs("wheelwright accept");
    eventually("0.9.0 runs on both", async || running(&clients).await == [image("v0.9.0"), image("v0.9.0")])
        .await;
    let ready = "kubectl wait configrepo fleet -n wheelwright-system --for=condition=Ready --timeout=120s";
    reader.types(ready);

    let plan = reader.runs("git -C fleet switch");
    assert!(plan.contains("managed-serviceaccount") && plan.contains("aws-1"), "{plan}");
    reader.types("git -C fleet push --quiet ../served/fleet.git my-change:main");
    reader.runs("wheelwright repo reconcile");
    eventually("0.10.0 runs on both", async || {
        running(&clients).await == [image("v0.10.0"), image("v0.10.0")]
    })
    .await;
    let status = || reader.runs("wheelwright status");
    eventually("the status says so", async || status().contains("2 of 2 clusters done")).await;
    nodes.iter().chain([&pods]).for_each(tokio::task::JoinHandle::abort);
}
