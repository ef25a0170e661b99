//! The agent's objects on a cluster that other agents use too.

use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;

use std::collections::BTreeMap;

use super::*;
use crate::agent::definitions::install_definitions;
use crate::agent::hub::Bootstrap;
use crate::agent::join::{create_cluster, write_addresses};
use crate::apiserver::{Server, ServerOptions};
use crate::shell::now;
use api::cluster::v1::{ClientConfig, ManagedCluster};
use api::crds;
use controllers::agent_identity::eviction_grace;

async fn cluster() -> Server {
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    install_definitions(&server.client(), crds::spoke()).await.unwrap();
    server
}

/// Returns an agent that stores its identity in a namespace.
pub(in crate::agent) fn agent(
    spoke: &Server,
    hub: &str,
    namespace: &str,
) -> (AgentOptions, BootstrapHub, AgentIdentity) {
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: h, user: u}}}}],
          clusters: [{{name: h, cluster: {{server: '{hub}'}}}}], users: [{{name: u, user: {{token: t}}}}]}}"
    );
    let bootstrap = || Bootstrap::Given(Box::new(kube::config::Kubeconfig::from_yaml(&kubeconfig).unwrap()));
    let options = AgentOptions::new(bootstrap(), spoke.client(), "c1");
    let options = AgentOptions { secret: Key::namespaced(namespace, "identity"), ..options };
    let hub = BootstrapHub::read(&bootstrap()).unwrap();
    let identity = AgentIdentity::parse(&format!("c1/a/{}", hub.hash())).unwrap();
    (options, hub, identity)
}

#[tokio::test]
async fn the_addresses_of_a_cluster_are_written_once_and_other_addresses_stay() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    install_definitions(&hub.client(), crds::hub()).await.unwrap();
    let (mut options, ..) = agent(&hub, "https://one:6443", "ns-one");
    let address = |url: &str| ClientConfig {
        url: url.to_owned(),
        ca_bundle: Some("Y2E=".to_owned()),
        ..ClientConfig::default()
    };
    let clusters = Api::<ManagedCluster>::all(hub.client());
    let addresses = async || clusters.get("c1").await.unwrap().spec.managed_cluster_client_configs;
    options.client_configs = vec![address("https://a:6443")];
    create_cluster(&hub.client(), &options).await.unwrap();
    assert_eq!(addresses().await, [address("https://a:6443")]);
    options.client_configs = vec![address("https://b:6443"), address("https://a:6443")];
    for _ in 0..2 {
        write_addresses(&hub.client(), &options).await.unwrap();
        assert_eq!(addresses().await, ["https://a:6443", "https://b:6443"].map(address));
    }
}

#[test]
fn stored_kubeconfigs_of_agents_and_addons_name_the_proxy() {
    let mut kubeconfig = kube::config::Kubeconfig::from_yaml(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: h, user: u}}],
          clusters: [{name: h, cluster: {server: 'https://hub:6443'}}], users: [{name: u, user: {token: t}}]}",
    )
    .unwrap();
    kubeconfig.clusters[0].cluster.as_mut().unwrap().proxy_url = Some("http://proxy:3128".into());
    let hub = BootstrapHub::read(&Bootstrap::Given(Box::new(kubeconfig))).unwrap();
    for stored in [hub.stored_kubeconfig(), hub.stored_kubeconfig_of_token()] {
        let stored = kube::config::Kubeconfig::from_yaml(&stored.unwrap()).unwrap();
        let cluster = stored.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy:3128"));
    }
}

/// Returns the claims of the agents of a cluster.
async fn claims(spoke: &Server) -> BTreeMap<String, ClusterClaim> {
    let claims = Api::<ClusterClaim>::all(spoke.client()).list(&ListParams::default()).await.unwrap();
    claims.into_iter().map(|claim| (claim.name().to_owned(), claim)).collect()
}

#[tokio::test]
async fn a_new_cluster_has_the_labels_of_its_agent_and_one_that_exists_keeps_its_own() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    install_definitions(&hub.client(), crds::hub()).await.unwrap();
    let (mut options, ..) = agent(&hub, "https://one:6443", "ns-one");
    for cloud in ["aws", "gcp"] {
        options.cluster_labels = [("cloud".to_owned(), cloud.to_owned())].into();
        create_cluster(&hub.client(), &options).await.unwrap();
        let cluster = Api::<ManagedCluster>::all(hub.client()).get("c1").await.unwrap();
        assert_eq!(cluster.metadata.labels.unwrap()["cloud"], "aws");
    }
}

#[tokio::test]
async fn a_cluster_has_one_agent_of_each_hub() {
    let spoke = cluster().await;
    let (first, hub, identity) = agent(&spoke, "https://one:6443", "ns-one");
    write_claim(&first, &hub, &identity).await.unwrap();
    let (second, other, stranger) = agent(&spoke, "https://two:6443", "ns-two");
    assert!(refuse_second(&second, &other).await.unwrap(), "claims may be read");
    write_claim(&second, &other, &stranger).await.unwrap();
    let values = async || -> Vec<(String, String)> {
        claims(&spoke).await.into_iter().map(|(name, claim)| (name, claim.spec.value)).collect()
    };
    let [of_first, of_second] = ["ns-one", "ns-two"].map(|ns| format!("{ns}.identity.agent.wheelwright.dev"));
    assert_eq!(values().await, [(of_first.clone(), identity.value()), (of_second.clone(), stranger.value())]);

    // The second agent moves to the first agent's hub. The first agent keeps running.
    let (moved, hub, stranger) = agent(&spoke, "https://one:6443", "ns-two");
    let refused = refuse_second(&moved, &hub).await.unwrap_err();
    assert!(refused.to_string().contains(&of_first), "{refused}");
    let refused = write_claim(&moved, &hub, &stranger).await.unwrap_err();
    assert!(refused.to_string().contains(&of_first), "{refused}");
    write_claim(&first, &hub, &identity).await.unwrap();

    // The first agent moves to another hub, and makes room.
    let (moved, other, identity) = agent(&spoke, "https://three:6443", "ns-one");
    write_claim(&moved, &other, &identity).await.unwrap();
    assert_eq!(values().await[0], (of_first, identity.value()));
    let (second, hub, stranger) = agent(&spoke, "https://one:6443", "ns-two");
    write_claim(&second, &hub, &stranger).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_may_not_write_its_claim_runs_without_it() {
    use crate::agent::life::tests::{client, refusal};
    let spoke = cluster().await;
    let (options, hub, _) = agent(&spoke, "https://one:6443", "ns-one");
    let identity = AgentIdentity { is_claimed: false, ..AgentIdentity::parse("c1/a/hash").unwrap() };
    for code in [403, 503] {
        let options = AgentOptions { spoke: client(move |_| refusal(code)), ..options.clone() };
        let written = write_claim(&options, &hub, &identity).await;
        assert_eq!(written.ok(), (code == 403).then_some(false), "{code}");
        let may_read = refuse_second(&options, &hub).await.ok();
        assert_eq!(may_read, (code == 403).then_some(false), "{code}");
    }
}

#[tokio::test]
async fn the_half_of_an_agent_that_evicts_reports_the_time() {
    use crate::shell::EnabledControllers;
    let spoke = cluster().await;
    let (options, hub, identity) = agent(&spoke, "https://one:6443", "ns-one");
    let part = |controllers: &str, minutes: Option<i64>| AgentOptions {
        controllers: EnabledControllers::parse(controllers, &crate::agent::controller_names()).unwrap(),
        eviction_grace: minutes.map(jiff::SignedDuration::from_mins),
        ..options.clone()
    };
    let registration = part("*,-work-agent,-unmanaged-applied-work", None);
    let work = |minutes| part("work-agent,unmanaged-applied-work", minutes);
    let halves = [(registration.clone(), 60), (work(Some(90)), 90), (registration, 90), (work(None), 60)];
    for (half, minutes) in halves {
        write_claim(&half, &hub, &identity).await.unwrap();
        let claim = claims(&spoke).await.into_values().next().unwrap();
        assert_eq!(eviction_grace(&claim), jiff::SignedDuration::from_mins(minutes));
    }
}

#[tokio::test]
async fn a_definition_that_another_client_keeps_is_not_replaced() {
    let spoke = cluster().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(spoke.client());
    let name = "clusterclaims.cluster.open-cluster-management.io";
    let schema = |definition: &CustomResourceDefinition| {
        let version = serde_json::to_value(&definition.spec.versions[0]).unwrap();
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].clone()
    };
    let mut newer = definitions.get(name).await.unwrap();
    let property = json!({"type": "string"});
    let patch = json!([{ "op": "add", "value": property,
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/newer" }]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).unwrap());
    newer = definitions.patch(name, &PatchParams::default(), &patch).await.unwrap_or(newer);
    assert_eq!(schema(&newer)["newer"], property);

    install_definitions(&spoke.client(), crds::spoke()).await.unwrap();
    assert_eq!(schema(&definitions.get(name).await.unwrap())["newer"], property);
}

#[tokio::test(start_paused = true)]
async fn an_agent_does_not_start_without_its_definitions() {
    let began = tokio::time::Instant::now();
    let never = tower::service_fn(|request: http::Request<Body>| async move {
        let code = if request.method() == "GET" && request.uri().query().is_none() { 200 } else { 201 };
        let definition = serde_json::to_vec(&crds::spoke()[0]).unwrap();
        let answer = http::Response::builder().status(code).body(Full::new(Bytes::from(definition)));
        Ok::<_, std::convert::Infallible>(answer.unwrap())
    });
    let refused = install_definitions(&kube::Client::new(never, "default"), crds::spoke()).await.unwrap_err();
    assert!(matches!(refused, JoinError::NotEstablished(_)), "{refused}");
    assert!(began.elapsed() >= std::time::Duration::from_secs(30));
}

#[tokio::test]
async fn an_agent_that_may_not_read_definitions_starts_if_they_are_served() {
    let install = async |plurals: &'static [&'static str]| {
        let cluster = tower::service_fn(move |request: http::Request<Body>| async move {
            let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "K", "verbs": []});
            let resources: Vec<_> = plurals.iter().map(resource).collect();
            let (code, answer) = if request.uri().path().starts_with("/apis/apiextensions.k8s.io") {
                (
                    403,
                    json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}),
                )
            } else {
                (200, json!({"kind": "APIResourceList", "groupVersion": "g/v", "resources": resources}))
            };
            let body = Full::new(Bytes::from(answer.to_string()));
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(code).body(body).unwrap())
        });
        install_definitions(&kube::Client::new(cluster, "default"), crds::spoke()).await
    };
    install(&["clusterclaims", "appliedmanifestworks"]).await.unwrap();
    assert!(install(&["clusterclaims"]).await.is_err());
}
