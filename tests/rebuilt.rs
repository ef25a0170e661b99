//! A hub is lost and rebuilt at the same address, on a real API server: its cluster rejoins and keeps what it
//! runs.
//!
//! The bootstrap kubeconfig of the new hub names the hub differently, which lets an agent tell apart two hubs at
//! one address, as OCM's agent does. Without a new name, the agent discards its identity after the hub has
//! rejected it for a while; the tests of `src/agent/life.rs` show that in virtual time.

use std::time::{Duration, Instant};

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::names::cluster_conditions;
use api::work::v1::{AppliedManifestWork, ManifestWork};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use object::Object;
use serde_json::Value;
use wheelwright::agent::{AgentOptions, Bootstrap};

use crate::cli::server;
use crate::drop_in::send_work;
use crate::kube::{Cluster, Directory};
use crate::mix::wheelwright;
use crate::offline::Task;
use crate::switch_hub::replace;
use crate::trace::{accept, client};
use crate::wait::eventually;

/// The time for which the agent keeps the objects of a lost work.
const GRACE: Duration = Duration::from_secs(10);

/// Our hub side, running on a hub.
struct HubSide {
    client: Client,
    operator: Task,
}

impl HubSide {
    /// Installs the CRDs, starts an operator, and writes the bootstrap kubeconfig with a name for the hub.
    async fn start(hub: &Cluster, name: &str, dir: &Directory) -> Self {
        hub.kubectl().install(crds::hub().into_iter());
        let client = hub.client().await;
        let operator = Task::operator(client.clone(), &dir.path("git"));
        let text = wheelwright(hub, "get token --output kubeconfig").await;
        let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
        kubeconfig["clusters"][0]["name"] = name.into();
        kubeconfig["contexts"][0]["context"]["cluster"] = name.into();
        replace(&dir.path("bootstrap"), kubeconfig.to_string().as_bytes());
        Self { client, operator }
    }

    /// Accepts the cluster and waits until its agent reports.
    async fn accept(&self) {
        accept(&self.client, "c1").await;
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        eventually("the cluster is available", async || {
            clusters.get("c1").await.unwrap().holds(cluster_conditions::AVAILABLE)
        })
        .await;
    }
}

/// Rebuilds a hub under a running agent, with one of the two works from the former hub.
async fn check(name: &str, with_authority: bool) {
    let dir = Directory::new(&format!("{name}-files"));
    let mut hub = Cluster::start(name).await;
    let spoke = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let on_spoke = client(&spoke.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    let side = HubSide::start(&hub, "first", &dir).await;
    let bootstrap = Bootstrap::File(dir.path("bootstrap"));
    let eviction_grace = Some(SignedDuration::try_from(GRACE).unwrap());
    let options = AgentOptions { eviction_grace, ..AgentOptions::new(bootstrap, on_spoke.clone(), "c1") };
    let agent = Task::agent_with(options);
    side.accept().await;
    let mut uids = Vec::new();
    for work in ["kept", "lost"] {
        send_work(&side.client, work).await;
        eventually("the work is applied", async || maps.get_opt(work).await.unwrap().is_some()).await;
        uids.push(maps.get(work).await.unwrap().metadata.uid);
    }

    side.operator.end().await;
    hub.rebuild(with_authority).await;
    let side = HubSide::start(&hub, "rebuilt", &dir).await;
    side.accept().await;
    let inventories: Api<AppliedManifestWork> = Api::all(on_spoke);
    eventually("people see that both works are missing", async || {
        let all = inventories.list(&ListParams::default()).await.unwrap().items;
        let marked = all
            .iter()
            .filter(|one| one.status.as_ref().is_some_and(|status| status.eviction_start_time.is_some()));
        (all.len(), marked.count()) == (2, 2)
    })
    .await;
    for (work, uid) in ["kept", "lost"].iter().zip(&uids) {
        assert_eq!(maps.get(work).await.unwrap().metadata.uid, *uid, "it was neither deleted nor made again");
    }

    let began = Instant::now();
    send_work(&side.client, "kept").await;
    let works: Api<ManifestWork> = Api::namespaced(side.client.clone(), "c1");
    eventually("the hub has the work again", async || works.get("kept").await.unwrap().holds("Applied"))
        .await;
    eventually("what it does not have again goes", async || maps.get_opt("lost").await.unwrap().is_none())
        .await;
    assert!(began.elapsed() >= GRACE, "it goes after the grace period: {:?}", began.elapsed());
    assert_eq!(maps.get("kept").await.unwrap().metadata.uid, uids[0]);
    agent.end().await;
    side.operator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_rebuilt_with_its_authority_is_joined_again_and_its_works_stay_on_the_cluster() {
    check("rebuilt", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_rebuilt_with_another_authority_is_joined_again_and_its_works_stay_on_the_cluster() {
    check("rebuilt-authority", true).await;
}
