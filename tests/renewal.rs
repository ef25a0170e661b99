//! Our agent with our hub side on a real API server: it renews its certificate, is denied and accepted again, and
//! outlives its hub.

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET, cluster_conditions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use object::Object;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wheelwright::operator::{self, OperatorOptions};

use crate::drop_in::send_work;
use crate::kube::{Cluster, Directory};
use crate::running::Running;
use crate::trace::accept;
use crate::wait::eventually;

/// A hub with its joined cluster `c1`.
struct Joined {
    hub: Cluster,
    on_hub: kube::Client,
    clusters: Api<ManagedCluster>,
    secrets: Api<Secret>,
    maps: Api<ConfigMap>,
}

impl Joined {
    async fn applies(&self, work: &str) {
        send_work(&self.on_hub, work).await;
        eventually(&format!("work {work} is applied"), async || {
            self.maps.get_opt(work).await.unwrap().is_some()
        })
        .await;
    }

    async fn requests(&self) -> usize {
        let requests: Api<CertificateSigningRequest> = Api::all(self.on_hub.clone());
        requests.list(&ListParams::default()).await.unwrap().items.len()
    }

    /// Returns the time since which the cluster has been available.
    async fn available_since(&self) -> Option<String> {
        let cluster = self.clusters.get("c1").await.unwrap();
        let available = cluster.condition(cluster_conditions::AVAILABLE)?;
        assert!(available.is_true(), "{available:?}");
        Some(format!("{:?}", available.last_transition_time))
    }

    /// Returns the agent's certificate.
    async fn certificate(&self) -> Vec<u8> {
        let secret = self.secrets.get(HUB_KUBECONFIG_SECRET).await.unwrap();
        secret.data.unwrap().remove("tls.crt").unwrap().0
    }

    /// Gives the agent a certificate for the same user, with nine tenths of its lifetime used up.
    async fn age(&self) -> Vec<u8> {
        let data = self.secrets.get(HUB_KUBECONFIG_SECRET).await.unwrap().data.unwrap();
        let name = String::from_utf8(data["agent-name"].0.clone()).unwrap();
        let group = "system:open-cluster-management:c1";
        let groups = [group, "system:open-cluster-management:managed-clusters"];
        let old = self.hub.old_certificate(&format!("{group}:{name}"), &groups);
        let data =
            json!({"tls.crt": STANDARD.encode(&old.certificate), "tls.key": STANDARD.encode(&old.key)});
        let patch = Patch::Merge(json!({"data": data}));
        self.secrets.patch(HUB_KUBECONFIG_SECRET, &PatchParams::default(), &patch).await.unwrap();
        old.certificate.into_bytes()
    }

    /// Accepts or denies the cluster, and waits until its agent can or cannot renew its lease.
    async fn set_accepted(&self, accepted: bool) {
        let patch = Patch::Merge(json!({"spec": {"hubAcceptsClient": accepted}}));
        self.clusters.patch("c1", &PatchParams::default(), &patch).await.unwrap();
        let lease = "leases.coordination.k8s.io/managed-cluster-lease";
        let asks = ["auth", "can-i", "update", lease, "-n", "c1", "--as=agent"];
        let group = "--as-group=system:open-cluster-management:c1";
        eventually("the hub has taken the decision in", async || {
            let mut command = self.hub.kubectl().command(&[&asks[..], &[group]].concat());
            command.output().unwrap().status.success() == accepted
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_ours_renews_its_certificate_is_denied_and_accepted_again_and_outlives_its_hub() {
    let (hub, dir, stop) =
        (Cluster::start("renewal").await, Directory::new("renewal-files"), CancellationToken::new());
    hub.kubectl().install(crds::hub().into_iter());
    let on_hub = hub.client().await;
    let operator =
        tokio::spawn(operator::run(OperatorOptions::new(on_hub.clone(), dir.path("git")), stop.clone()));
    let spoke = crate::cli::server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    std::fs::write(dir.path("spoke"), spoke.admin_kubeconfig_yaml().unwrap()).unwrap();
    let bootstrap = hub.kubeconfig_for("bootstrap", &["system:bootstrappers:managedcluster"]);
    let (bootstrap, kubeconfig) = (bootstrap.to_str().unwrap(), dir.path("spoke"));
    let args = ["agent", "--hub-kubeconfig", bootstrap, "--spoke-cluster-name", "c1", "--spoke-kubeconfig"];
    let args = [&args[..], &[kubeconfig.to_str().unwrap()]].concat();
    let start = || Running::start("agent", &dir.path(""), &args);
    let mut joined = Joined {
        clusters: Api::all(on_hub.clone()),
        secrets: Api::namespaced(spoke.client(), AGENT_NAMESPACE),
        maps: Api::namespaced(spoke.client(), "default"),
        hub,
        on_hub: on_hub.clone(),
    };

    let agent = start();
    accept(&on_hub, "c1").await;
    // Short, so that renewals come soon, but long enough for a restart on a busy machine.
    let lease = Patch::Merge(json!({"spec": {"leaseDurationSeconds": 20}}));
    joined.clusters.patch("c1", &PatchParams::default(), &lease).await.unwrap();
    joined.applies("one").await;
    eventually("the cluster is available", async || joined.available_since().await.is_some()).await;
    let (since, requests) = (joined.available_since().await, joined.requests().await);
    agent.kill_9();
    let old = joined.age().await;
    let agent = start();
    eventually("the agent has another certificate", async || joined.certificate().await != old).await;
    joined.applies("two").await;
    assert_eq!(joined.requests().await, requests + 1);
    assert_eq!(joined.available_since().await, since, "it was available all the time");
    eventually("the hub shows it", async || {
        let cluster = joined.clusters.get("c1").await.unwrap();
        cluster.condition("ClusterCertificateRotated").is_some_and(api::Condition::is_true)
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(on_hub.clone(), "c1");
    let renewed = async || {
        let lease = leases.get("managed-cluster-lease").await.unwrap();
        lease.spec.unwrap().renew_time.map(|time| time.0)
    };
    let before = renewed().await;
    eventually("the lease is renewed with it", async || renewed().await > before).await;

    joined.set_accepted(false).await;
    for name in ["one", "two"] {
        assert!(joined.maps.get_opt(name).await.unwrap().is_some(), "what is applied stays");
    }
    joined.set_accepted(true).await;
    let before = renewed().await;
    eventually("the lease is renewed again", async || renewed().await > before).await;
    joined.applies("three").await;

    joined.hub.kill_apiserver();
    joined.hub.restart_apiserver().await;
    joined.applies("four").await;
    drop(agent);
    stop.cancel();
    operator.await.unwrap();
}
