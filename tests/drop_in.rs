//! Runs the two parts of an agent as separate processes, using the identity in the secret that OCM's agents share.

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use api::work::v1::ManifestWork;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use object::Object;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::{EnabledControllers, now};

use crate::cli::Cli;
use crate::trace::{accept, apply, client};
use crate::wait::eventually;

const REGISTRATION: &str = "*,-work-agent,-unmanaged-applied-work";
const WORK: &str = "work-agent,unmanaged-applied-work";

fn admin(server: &Server) -> Kubeconfig {
    server.kubeconfig("admin", &["system:masters"]).unwrap()
}

async fn server(definitions: Vec<Object>) -> Server {
    Server::start(ServerOptions { objects: definitions, ..ServerOptions::new(now) }).await.unwrap()
}

/// Runs the controllers of an agent until the token is canceled.
async fn run(hub: &Server, spoke: &Kubeconfig, controllers: &str, stop: &CancellationToken) {
    let controllers = EnabledControllers::parse(controllers, &agent::controller_names()).unwrap();
    let bootstrap = Bootstrap::Given(Box::new(admin(hub)));
    let spoke = client(spoke).await;
    let options = AgentOptions { controllers, ..AgentOptions::new(bootstrap, spoke, "c1") };
    tokio::spawn(agent::run(options, stop.clone()));
}

/// Returns a kubeconfig with the cluster permissions that OCM 1.2.0 grants to its registration agent.
async fn registration_of_ocm(spoke: &Server) -> Kubeconfig {
    let all = ["create", "get", "list", "update", "watch", "patch", "delete"];
    let rules = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": &all[..6]},
        {"apiGroups": ["cluster.open-cluster-management.io"], "resources": ["clusterclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": all},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": &all[..6]},
    ]);
    permitted(spoke, "registration-of-ocm", rules).await
}

/// Returns the kubeconfig of a user with these rules.
async fn permitted(server: &Server, user: &str, rules: serde_json::Value) -> Kubeconfig {
    let admin = client(&admin(server)).await;
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    for object in [role, binding] {
        apply(&admin, &Object::from_value(object).unwrap()).await;
    }
    server.kubeconfig(user, &[]).unwrap()
}

/// Creates a work on the hub once the operator has created the cluster's namespace.
pub(crate) async fn send_work(hub: &::kube::Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    let exists = async || namespaces.get_opt("c1").await.unwrap().is_some();
    eventually("the cluster has its namespace", exists).await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "c1"}, "spec": {"workload": {"manifests": [map]}},
    });
    apply(hub, &Object::from_value(work).unwrap()).await;
}

/// Rewrites the identity's kubeconfig in the format of OCM's registration agent, with another field order and
/// other fields.
async fn rewrite_as_ocm(secrets: &Api<Secret>) {
    let secret = secrets.get(HUB_KUBECONFIG_SECRET).await.unwrap();
    let data = secret.data.unwrap();
    let keys: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    let ours = Kubeconfig::from_yaml(std::str::from_utf8(&data["kubeconfig"].0).unwrap()).unwrap();
    let cluster = ours.clusters[0].cluster.clone().unwrap();
    let (ca, url) = (cluster.certificate_authority_data.unwrap(), cluster.server.unwrap());
    let entry = &ours.clusters[0].name;
    let text = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {url}\n  name: {entry}\n\
         contexts:\n- context:\n    cluster: {entry}\n    namespace: configuration\n    user: default-auth\n  name: default-context\n\
         current-context: default-context\nkind: Config\npreferences: {{}}\n\
         users:\n- name: default-auth\n  user:\n    client-certificate: tls.crt\n    client-key: tls.key\n"
    );
    let patch = Patch::Merge(json!({"stringData": {"kubeconfig": text}}));
    secrets.patch(HUB_KUBECONFIG_SECRET, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn either_half_of_an_agent_uses_the_identity_that_the_other_renews() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let spoke = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let (on_hub, on_spoke) = (client(&admin(&hub)).await, client(&admin(&spoke)).await);
    let options = OperatorOptions::new(on_hub.clone(), dir.path());
    tokio::spawn(operator::run(options, stop.clone()));
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(on_spoke, AGENT_NAMESPACE);
    let requests: Api<CertificateSigningRequest> = Api::all(on_hub.clone());
    let leases: Api<Lease> = Api::namespaced(on_hub.clone(), "c1");

    let (work, registration) = (admin(&spoke), registration_of_ocm(&spoke).await);
    let first = stop.child_token();
    run(&hub, &work, WORK, &first).await;
    run(&hub, &registration, REGISTRATION, &first).await;
    accept(&on_hub, "c1").await;
    eventually("the identity is kept", async || {
        secrets.get_opt(HUB_KUBECONFIG_SECRET).await.unwrap().is_some()
    })
    .await;
    send_work(&on_hub, "one").await;
    eventually("the work half applies", async || maps.get_opt("one").await.unwrap().is_some()).await;
    first.cancel();

    rewrite_as_ocm(&secrets).await;
    let renewed =
        async || leases.get_opt("managed-cluster-lease").await.unwrap().and_then(|l| l.spec?.renew_time);
    let before = renewed().await;
    run(&hub, &registration, REGISTRATION, &stop).await;
    run(&hub, &work, WORK, &stop).await;
    send_work(&on_hub, "two").await;
    eventually("the work half goes on", async || maps.get_opt("two").await.unwrap().is_some()).await;
    eventually("the registration half goes on", async || renewed().await != before).await;
    let clusters: Api<ManagedCluster> = Api::all(on_hub.clone());
    eventually("the registration half reports", async || {
        clusters.get("c1").await.unwrap().holds("ManagedClusterConditionAvailable")
    })
    .await;
    let asked = requests.list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(asked, 1, "nobody asked for another identity");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_names_the_kind_that_its_agent_may_not_list_and_continues_once_the_rules_are_computed() {
    let (dir, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let spoke = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let (on_hub, on_spoke) = (client(&admin(&hub)).await, client(&admin(&spoke)).await);
    tokio::spawn(operator::run(OperatorOptions::new(on_hub.clone(), dir.path()), stop.clone()));
    run(&hub, &admin(&spoke), REGISTRATION, &stop).await;
    accept(&on_hub, "c1").await;

    let own = json!([
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
    ]);
    let narrow = permitted(&spoke, "work-agent", own.clone()).await;
    run(&hub, &narrow, WORK, &stop).await;
    send_work(&on_hub, "one").await;
    let works: Api<ManifestWork> = Api::namespaced(on_hub.clone(), "c1");
    let applied = async || {
        let manifests = works.get("one").await.unwrap().status.unwrap_or_default().resource_status.manifests;
        let condition =
            manifests.iter().flat_map(|one| &one.conditions).find(|c| c.type_ == "Applied").cloned();
        condition.map(|condition| (condition.is_true(), condition.message)).unwrap_or_default()
    };
    eventually("the work says why it waits", async || {
        let (is_applied, message) = applied().await;
        !is_applied && message.contains("configmaps is forbidden")
    })
    .await;

    let values = Cli::new(dir.path(), "hub", &hub).run("work rules --cluster c1");
    let values: serde_json::Value = serde_saphyr::from_str(&values).unwrap();
    let rules = [own.as_array().unwrap().as_slice(), values["rules"].as_array().unwrap()].concat();
    permitted(&spoke, "work-agent", json!(rules)).await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke, "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;
    eventually("and says so", async || applied().await.0).await;
    stop.cancel();
}
