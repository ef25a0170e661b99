//! An agent whose hub is unavailable continues with the works cached on its cluster, or moves to another hub. It
//! also continues while nobody approves its renewal, and returns to a hub with a new authority.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use api::work::v1::ManifestWork;
use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use object::Object;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::serve::Listen;
use wheelwright::shell::{EnabledControllers, now};

use crate::drop_in::send_work;
use crate::kube::free_port;
use crate::trace::client;
use crate::wait::eventually;

fn admin(server: &Server) -> Kubeconfig {
    server.kubeconfig("admin", &["system:masters"]).unwrap()
}

/// One of our processes, as a task that ends gracefully.
pub(crate) struct Task {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Task {
    pub(crate) fn operator(hub: ::kube::Client, cache: &Path) -> Self {
        Self::operator_with(EnabledControllers::default(), hub, cache)
    }

    fn operator_with(controllers: EnabledControllers, hub: ::kube::Client, cache: &Path) -> Self {
        let stop = CancellationToken::new();
        let options = OperatorOptions { controllers, ..OperatorOptions::new(hub, cache) };
        Self { task: tokio::spawn(operator::run(options, stop.clone())), stop }
    }

    fn agent(hubs: &[&Kubeconfig], spoke: ::kube::Client, health: SocketAddr) -> Self {
        let mut hubs = hubs.iter().map(|hub| Bootstrap::Given(Box::new(Kubeconfig::clone(hub))));
        let first = hubs.next().unwrap();
        Self::agent_with(AgentOptions {
            other_hubs: hubs.collect(),
            hub_timeout: Duration::from_secs(15),
            listen: Some(Listen { address: health, tls: true }),
            ..AgentOptions::new(first, spoke, "c1")
        })
    }

    pub(crate) fn agent_with(options: AgentOptions) -> Self {
        let stop = CancellationToken::new();
        Self { task: tokio::spawn(agent::run(options, stop.clone())), stop }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Probes a server URL like a kubelet: accepts any certificate and sends one request.
pub(crate) async fn probe(url: &str, path: &str) -> String {
    let mut config = ::kube::Config::new(url.parse().unwrap());
    (config.accept_invalid_certs, config.default_retry) = (true, false);
    let client = ::kube::Client::try_from(config).unwrap();
    match client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(text) => text,
        Err(error) => error.to_string(),
    }
}

fn free() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_starts_while_its_hub_is_down_corrects_drift() {
    let dir = tempfile::tempdir().unwrap();
    let definitions: Vec<Object> = crds::hub().iter().map(Object::from_typed).collect();
    let options = || ServerOptions {
        objects: definitions.clone(),
        data: Some(dir.path().join("hub")),
        ..ServerOptions::new(now)
    };
    let hub = Server::start(options()).await.unwrap();
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (bootstrap, on_spoke) = (admin(&hub), client(&admin(&spoke)).await);
    let on_hub = client(&bootstrap).await;
    let operator = Task::operator(on_hub.clone(), dir.path());
    let health = free();
    let agent = Task::agent(&[&bootstrap], on_spoke.clone(), health);
    let_in(&on_hub).await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    let works: Api<ManifestWork> = Api::namespaced(on_hub.clone(), "c1");
    let secrets: Api<Secret> = Api::namespaced(on_spoke.clone(), AGENT_NAMESPACE);
    let stored_works = async || {
        let all = secrets.list(&ListParams::default()).await.unwrap().items;
        all.iter().filter(|one| one.type_.as_deref() == Some("gitops.wheelwright.dev/kept-work")).count()
    };
    for name in ["stays", "goes"] {
        send_work(&on_hub, name).await;
        eventually("the work is applied", async || maps.get_opt(name).await.unwrap().is_some()).await;
    }
    eventually("the works are kept", async || stored_works().await == 2).await;
    eventually("the agent is ready", async || probe(&format!("https://{health}"), "/readyz").await == "ok")
        .await;
    agent.end().await;
    works.delete("goes", &DeleteParams::default()).await.unwrap();
    let mut changed = works.get("stays").await.unwrap();
    changed.spec.workload.manifests[0].insert("data".into(), json!({"v": "2"}));
    works.replace("stays", &PostParams::default(), &changed).await.unwrap();
    operator.end().await;
    let address = hub.url.strip_prefix("https://").unwrap().parse().unwrap();
    hub.stop().await;

    for name in ["stays", "goes"] {
        maps.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let health = free();
    let agent = Task::agent(&[&bootstrap], on_spoke.clone(), health);
    for name in ["stays", "goes"] {
        eventually("what somebody deleted comes back", async || maps.get_opt(name).await.unwrap().is_some())
            .await;
    }
    maps.delete("stays", &DeleteParams::default()).await.unwrap();
    eventually("and again", async || maps.get_opt("stays").await.unwrap().is_some()).await;

    assert_eq!(probe(&format!("https://{health}"), "/livez").await, "ok");
    assert_ne!(
        probe(&format!("https://{health}"), "/readyz").await,
        "ok",
        "it has not read what its other controllers need"
    );
    let hub = Server::start(ServerOptions { listen: address, ..options() }).await.unwrap();
    let operator = Task::operator(client(&admin(&hub)).await, dir.path());
    eventually("a work that was deleted meanwhile is removed", async || {
        maps.get_opt("goes").await.unwrap().is_none()
    })
    .await;
    eventually("and is not kept any more", async || stored_works().await == 1).await;
    eventually("a work that was changed meanwhile is applied", async || {
        maps.get("stays").await.unwrap().data.is_some_and(|data| data["v"] == "2")
    })
    .await;
    agent.end().await;
    operator.end().await;
}

/// Accepts the cluster and approves each of its requests until it has joined.
async fn let_in(hub: &::kube::Client) {
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let requests: Api<CertificateSigningRequest> = Api::all(hub.clone());
    eventually("the cluster asks to join", async || clusters.get_opt("c1").await.unwrap().is_some()).await;
    let spec = json!({"spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 1}});
    clusters.patch("c1", &PatchParams::default(), &Patch::Merge(spec)).await.unwrap();
    eventually("it has joined, and renews its lease", async || {
        for request in requests.list(&ListParams::default()).await.unwrap().items {
            if request.status.is_none_or(|status| status.conditions.is_none()) {
                let approved =
                    json!({"type": "Approved", "status": "True", "reason": "Test", "message": "yes"});
                let approval = json!({"status": {"conditions": [approved]}});
                let name = request.metadata.name.unwrap();
                requests
                    .patch_approval(&name, &PatchParams::default(), &Patch::Merge(approval))
                    .await
                    .unwrap();
            }
        }
        clusters.get("c1").await.unwrap().holds("ManagedClusterConditionAvailable")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_switches_to_its_other_hub_if_the_first_denies_it_or_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let definitions: Vec<Object> = crds::hub().iter().map(Object::from_typed).collect();
    let options = |name: &str| ServerOptions {
        objects: definitions.clone(),
        data: Some(dir.path().join(name)),
        ..ServerOptions::new(now)
    };
    let (first, second) =
        (Server::start(options("one")).await.unwrap(), Server::start(options("two")).await.unwrap());
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let hubs = [admin(&first), admin(&second)];
    let (on_first, on_second) = (client(&hubs[0]).await, client(&hubs[1]).await);
    let operator = Task::operator(on_first.clone(), &dir.path().join("cache-one"));
    let _other = Task::operator(on_second.clone(), &dir.path().join("cache-two"));
    let agent = Task::agent(&[&hubs[0], &hubs[1]], client(&admin(&spoke)).await, free());
    let_in(&on_first).await;

    operator.end().await;
    let address = first.url.strip_prefix("https://").unwrap().parse().unwrap();
    first.stop().await;
    let_in(&on_second).await;

    let first = Server::start(ServerOptions { listen: address, ..options("one") }).await.unwrap();
    let _operator = Task::operator(client(&admin(&first)).await, &dir.path().join("cache-one"));
    let denied = Patch::Merge(json!({"spec": {"hubAcceptsClient": false}}));
    let clusters: Api<ManagedCluster> = Api::all(on_second.clone());
    clusters.patch("c1", &PatchParams::default(), &denied).await.unwrap();
    let clusters: Api<ManagedCluster> = Api::all(on_first.clone());
    eventually("the first hub says that it does not know how the cluster is", async || {
        let cluster = clusters.get("c1").await.unwrap();
        !cluster.holds("ManagedClusterConditionAvailable")
    })
    .await;
    let_in(&on_first).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_renewal_nobody_approves_renews_its_lease_and_applies_works() {
    let dir = tempfile::tempdir().unwrap();
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    // By this clock, a certificate of 100,000 s has 19,000 s left, so the agent renews it at once.
    let slow = || now().checked_sub(SignedDuration::from_secs(81_000)).unwrap();
    let hub = Server::start(ServerOptions { objects, ..ServerOptions::new(slow) }).await.unwrap();
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (on_hub, on_spoke) = (client(&admin(&hub)).await, client(&admin(&spoke)).await);
    let nobody = EnabledControllers::parse("*,-csr", &["csr"]).unwrap();
    let operator = Task::operator_with(nobody, on_hub.clone(), dir.path());
    let bootstrap = Bootstrap::Given(Box::new(admin(&hub)));
    let agent = Task::agent_with(AgentOptions {
        certificate_seconds: Some(100_000),
        ..AgentOptions::new(bootstrap, on_spoke.clone(), "c1")
    });
    let_in(&on_hub).await;

    let requests: Api<CertificateSigningRequest> = Api::all(on_hub.clone());
    let waiting = async || {
        let all = requests.list(&ListParams::default()).await.unwrap().items;
        let undecided =
            all.into_iter().filter(|one| one.status.as_ref().is_none_or(|s| s.conditions.is_none()));
        undecided.filter_map(|one| one.metadata.uid).collect::<Vec<_>>()
    };
    eventually("a renewal waits", async || !waiting().await.is_empty()).await;
    let renewal = waiting().await;
    let secrets: Api<Secret> = Api::namespaced(on_spoke.clone(), AGENT_NAMESPACE);
    let identity = async || secrets.get(HUB_KUBECONFIG_SECRET).await.unwrap().data;
    let identity_before = identity().await;
    let leases: Api<Lease> = Api::namespaced(on_hub.clone(), "c1");
    let renewed =
        async || leases.get("managed-cluster-lease").await.unwrap().spec.and_then(|spec| spec.renew_time);
    for _ in 0..2 {
        let before = renewed().await;
        eventually("the lease is renewed", async || renewed().await > before).await;
    }
    send_work(&on_hub, "meanwhile").await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    eventually("a work is applied", async || maps.get_opt("meanwhile").await.unwrap().is_some()).await;
    let clusters: Api<ManagedCluster> = Api::all(on_hub.clone());
    eventually("the hub shows that the renewal waits", async || {
        let cluster = clusters.get("c1").await.unwrap();
        let rotated = cluster.condition("ClusterCertificateRotated").cloned();
        rotated.is_some_and(|one| one.is_false() && one.message.contains("approve and sign"))
    })
    .await;
    assert_eq!((waiting().await, identity().await), (renewal, identity_before), "the renewal still waits");
    agent.end().await;
    operator.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_recovers_without_a_restart_when_its_hub_has_a_new_authority() {
    let dir = tempfile::tempdir().unwrap();
    let (data, bootstrap) = (dir.path().join("hub"), dir.path().join("bootstrap.kubeconfig"));
    let definitions: Vec<Object> = crds::hub().iter().map(Object::from_typed).collect();
    let options = || ServerOptions {
        objects: definitions.clone(),
        data: Some(data.clone()),
        ..ServerOptions::new(now)
    };
    let hub = Server::start(options()).await.unwrap();
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let (on_hub, on_spoke) = (client(&admin(&hub)).await, client(&admin(&spoke)).await);
    let operator = Task::operator(on_hub.clone(), dir.path());
    std::fs::write(&bootstrap, hub.admin_kubeconfig_yaml().unwrap()).unwrap();
    let file = Bootstrap::File(bootstrap.clone());
    let agent = Task::agent_with(AgentOptions::new(file, on_spoke.clone(), "c1"));
    let_in(&on_hub).await;
    operator.end().await;
    let address = hub.url.strip_prefix("https://").unwrap().parse().unwrap();
    hub.stop().await;

    std::fs::remove_file(data.join("ca.crt")).unwrap();
    let hub = Server::start(ServerOptions { listen: address, ..options() }).await.unwrap();
    let on_hub = client(&admin(&hub)).await;
    let operator = Task::operator(on_hub.clone(), dir.path());
    let clusters: Api<ManagedCluster> = Api::all(on_hub.clone());
    eventually("the hub does not hear of the cluster", async || {
        !clusters.get("c1").await.unwrap().holds("ManagedClusterConditionAvailable")
    })
    .await;
    std::fs::write(&bootstrap, hub.admin_kubeconfig_yaml().unwrap()).unwrap();
    let_in(&on_hub).await;
    send_work(&on_hub, "after").await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    eventually("a work is applied", async || maps.get_opt("after").await.unwrap().is_some()).await;
    agent.end().await;
    operator.end().await;
}
