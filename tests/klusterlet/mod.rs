//! Klusterlets and ClusterManagers on a real API server: the objects that a registration operator creates for
//! them, and those that it takes over from OCM's. The operator is started as a kubelet would start it.

mod hosted;
mod hub;
pub(crate) mod pod;

use std::collections::BTreeSet;

use api::condition::Conditions as _;
use api::crds;
use api::operator::v1::Klusterlet;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use object::Object;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

use self::pod::{account_kubeconfig, assert_permitted, start_pod};
use crate::drop_in::send_work;
use crate::e2e::run_nodes;
use crate::kube::{Cluster, Directory, Kubectl, free_port, helm};
use crate::running::Running;
use crate::trace::{accept, client};
use crate::wait::eventually;

const NAMESPACE: &str = "open-cluster-management-agent";
const IMAGE: &str = concat!("registry.example.com/wheelwright-agent:", env!("CARGO_PKG_VERSION"));

fn klusterlet(spec: &Value) -> String {
    json!({"apiVersion": "operator.open-cluster-management.io/v1", "kind": "Klusterlet",
        "metadata": {"name": "klusterlet"}, "spec": spec})
    .to_string()
}

/// Checks that the API server accepts an example.
fn takes_example(kubectl: &Kubectl, name: &str) {
    let file = format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"));
    kubectl.run(&["apply", "--dry-run=server", "-f", &file]);
}

/// Installs the chart and starts the container of its Deployment.
pub(crate) fn start_operator(spoke: &Cluster, dir: &Directory, component: &str) -> Running {
    let kubectl = spoke.kubectl();
    kubectl.run(&["create", "namespace", helm::NAMESPACE]);
    let listen = format!("listen=\"127.0.0.1:{}\"", free_port());
    let component = format!("component=\"{component}\"");
    let image = "image.repository=\"registry.example.com/wheelwright\"";
    let objects = helm::render("wheelwright-registration-operator", &[&listen, &component, image]).unwrap();
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));
    let deployment = objects.iter().find(|one| one["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let kubeconfig = dir.path("operator.kubeconfig");
    std::fs::write(&kubeconfig, account_kubeconfig(spoke, account, helm::NAMESPACE)).unwrap();
    let args = pod["containers"][0]["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let args: Vec<&str> = args.chain(["--kubeconfig", kubeconfig.to_str().unwrap()]).collect();
    Running::start("registration-operator", &dir.path(""), &args)
}

/// Returns `status reason` of a condition of the only Klusterlet.
async fn condition(klusterlets: &Api<Klusterlet>, type_: &str) -> String {
    let found = klusterlets.list(&ListParams::default()).await.unwrap().items.remove(0);
    found.condition(type_).map(|one| format!("{} {}", one.status, one.reason)).unwrap_or_default()
}

async fn becomes(klusterlets: &Api<Klusterlet>, type_: &str, wanted: &str) {
    eventually(&format!("{type_} {wanted}"), async || condition(klusterlets, type_).await == wanted).await;
}

pub(crate) fn exists(kubectl: &Kubectl, target: &[&str]) -> bool {
    kubectl.command(&[&["get"], target].concat()).output().unwrap().status.success()
}

/// Checks that registry credentials are copied to the namespaces of the agent and of add-ons, and deleted with the
/// original.
async fn check_pull_secret(kubectl: &Kubectl) {
    const NAME: &str = "open-cluster-management-image-pull-credentials";
    let read = |namespace: &str| {
        let args = ["get", "secret", NAME, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.data}"];
        kubectl.run(&args)
    };
    let copies = || [NAMESPACE, "open-cluster-management-agent-addon"].map(read);
    assert_eq!(copies(), ["", ""]);
    kubectl.run(&["create", "namespace", "open-cluster-management"]);
    let create = ["create", "secret", "docker-registry", NAME, "-n", "open-cluster-management"];
    let login = ["--docker-server=registry.example.com", "--docker-username=u", "--docker-password=p"];
    kubectl.run(&[&create[..], &login].concat());
    let original = read("open-cluster-management");
    assert!(original.contains(".dockerconfigjson"), "{original}");
    eventually("the secret is copied", async || copies().iter().all(|copy| *copy == original)).await;
    kubectl.run(&["delete", "secret", NAME, "-n", "open-cluster-management"]);
    eventually("the copies go with it", async || copies().iter().all(String::is_empty)).await;
}

fn deployments(kubectl: &Kubectl) -> Vec<Value> {
    let list = kubectl.run(&["get", "deployments", "-n", NAMESPACE, "-o", "json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn names(deployments: &[Value]) -> Vec<&str> {
    deployments.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

/// Starts a hub with our operator.
pub(crate) async fn embedded_hub(dir: &Directory, stop: &CancellationToken) -> Server {
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    let hub = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
    let options = OperatorOptions::new(
        client(&hub.kubeconfig("admin", &["system:masters"]).unwrap()).await,
        dir.path("git"),
    );
    tokio::spawn(operator::run(options, stop.clone()));
    hub
}

#[tokio::test(flavor = "multi_thread")]
async fn a_klusterlet_installs_an_agent_that_joins_with_its_own_permissions_and_is_deleted_with_it() {
    let (dir, stop) = (Directory::new("klusterlet"), CancellationToken::new());
    let spoke = Cluster::start("klusterlet-spoke").await;
    let hub = embedded_hub(&dir, &stop).await;
    let bootstrap = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let (on_hub, on_spoke, kubectl) = (client(&bootstrap).await, spoke.client().await, spoke.kubectl());
    let newer = "registry.example.com/agent:2";
    let nodes = run_nodes(on_spoke.clone(), BTreeSet::from([IMAGE, newer].map(str::to_owned)));
    let operator = start_operator(&spoke, &dir, "klusterlet");
    eventually("the kind is served", async || exists(&kubectl, &["klusterlets"])).await;
    for example in ["klusterlet.yaml", "klusterlet-hosted.yaml"] {
        takes_example(&kubectl, example);
    }
    kubectl.run_with(&["create", "-f", "-"], &klusterlet(&json!({"clusterName": "c1"})));

    let klusterlets: Api<Klusterlet> = Api::all(on_spoke.clone());
    becomes(&klusterlets, "Applied", "True KlusterletApplied").await;
    let missing = "True BootstrapSecretMissing,HubKubeConfigSecretMissing";
    becomes(&klusterlets, "HubConnectionDegraded", missing).await;
    let text = serde_saphyr::to_string(&bootstrap).unwrap();
    std::fs::write(dir.path("bootstrap"), text).unwrap();
    let file = format!("--from-file=kubeconfig={}", dir.path("bootstrap").display());
    kubectl.run(&["create", "secret", "generic", "bootstrap-hub-kubeconfig", "-n", NAMESPACE, &file]);
    let waits = "True BootstrapSecretFunctional,HubKubeConfigSecretMissing";
    becomes(&klusterlets, "HubConnectionDegraded", waits).await;
    let replicas: Vec<i64> =
        deployments(&kubectl).iter().map(|one| one["spec"]["replicas"].as_i64().unwrap()).collect();
    assert_eq!(replicas, [1, 0], "the work agent waits for the identity");

    let registration = start_pod(&spoke, &dir, NAMESPACE, "klusterlet-registration-agent");
    accept(&on_hub, "c1").await;
    becomes(&klusterlets, "HubConnectionDegraded", "False HubConnectionFunctional").await;
    becomes(&klusterlets, "WorkDesiredDegraded", "False DeploymentsFunctional").await;
    becomes(&klusterlets, "Available", "True KlusterletAvailable").await;
    let work = start_pod(&spoke, &dir, NAMESPACE, "klusterlet-work-agent");
    send_work(&on_hub, "one").await;
    let maps: Api<ConfigMap> = Api::namespaced(on_spoke.clone(), "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;

    let before = deployments(&kubectl);
    let image = json!({"spec": {"registrationImagePullSpec": newer}}).to_string();
    kubectl.run(&["patch", "klusterlet", "klusterlet", "--type=merge", "-p", &image]);
    check_pull_secret(&kubectl).await;
    let image = |one: &Value| one["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    eventually("the image changes", async || image(&deployments(&kubectl)[0]) == newer).await;
    let after = deployments(&kubectl);
    assert_eq!(
        after[0]["metadata"]["uid"], before[0]["metadata"]["uid"],
        "the Deployment is changed in place"
    );
    assert_eq!(after[0]["spec"]["strategy"], json!({"type": "Recreate"}), "no two agents run at once");
    assert_eq!(image(&after[1]), IMAGE, "the other Deployment stays as it is");

    for (pod, name) in [(registration, "klusterlet-registration-agent"), (work, "klusterlet-work-agent")] {
        assert_permitted(&dir, name);
        pod.kill_9();
    }
    let mode = json!({"spec": {"deployOption": {"mode": "Singleton"}}}).to_string();
    kubectl.run(&["patch", "klusterlet", "klusterlet", "--type=merge", "-p", &mode]);
    eventually("one Deployment replaces two", async || names(&deployments(&kubectl)) == ["klusterlet-agent"])
        .await;
    let agent = start_pod(&spoke, &dir, NAMESPACE, "klusterlet-agent");
    send_work(&on_hub, "two").await;
    eventually("the next work is applied", async || maps.get_opt("two").await.unwrap().is_some()).await;
    let requests: Api<CertificateSigningRequest> = Api::all(on_hub);
    let asked = requests.list(&ListParams::default()).await.unwrap().items.len();
    assert_eq!(asked, 1, "nobody asked for another identity");
    agent.kill_9();

    kubectl.run(&["delete", "klusterlet", "klusterlet", "--timeout=60s"]);
    eventually("the namespace goes", async || !exists(&kubectl, &["namespace", NAMESPACE])).await;
    for kind in ["clusterroles", "clusterrolebindings"] {
        let all = kubectl.run(&["get", kind, "-o", "name"]);
        assert!(!all.contains("klusterlet-"), "{all}");
    }
    let applied = ["get", "appliedmanifestworks", "-o", "jsonpath={.items[*].metadata.finalizers}"];
    assert_eq!(kubectl.run(&applied), "", "nobody is left who would remove a finalizer");
    for name in ["one", "two"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "the objects of works stay");
    }
    let log = std::fs::read_to_string(dir.path("registration-operator.log")).unwrap();
    assert!(!log.contains(" WARN "), "{log}");
    drop(operator);
    nodes.abort();
    stop.cancel();
}

/// Returns a Deployment as OCM's registration operator writes it, with another strategy and container and without
/// our mark.
fn ocms(name: &str, label: &str) -> Value {
    let container = json!({"name": "controller", "image": "quay.io/open-cluster-management/registration:v1",
        "args": ["/registration", "agent"], "env": [{"name": "THEIRS", "value": "1"}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": label, "createdBy": "klusterlet"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": label}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"metadata": {"labels": {"app": label}}, "spec": {"containers": [container]}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_of_ocms_registration_operator_is_taken_over_and_given_back() {
    let dir = Directory::new("klusterlet-hand-over");
    let spoke = Cluster::start("klusterlet-hand-over-spoke").await;
    let (on_spoke, kubectl) = (spoke.client().await, spoke.kubectl());
    kubectl.install(crds::operator().into_iter().chain(crds::spoke()));
    kubectl.run(&["create", "namespace", NAMESPACE]);
    let image = "quay.io/open-cluster-management/registration:v1";
    let spec = json!({"clusterName": "c1", "registrationImagePullSpec": image, "workImagePullSpec": image});
    let mut left: Value = serde_json::from_str(&klusterlet(&spec)).unwrap();
    left["metadata"]["finalizers"] = json!(["operator.open-cluster-management.io/klusterlet-cleanup"]);
    kubectl.run_with(&["create", "-f", "-"], &left.to_string());
    let uid = kubectl.run(&["get", "klusterlet", "klusterlet", "-o", "jsonpath={.metadata.uid}"]);
    let identity = ["kubeconfig", "cluster-name", "agent-name", "tls.crt", "tls.key"]
        .map(|key| format!("--from-literal={key}=theirs"));
    let identity: Vec<&str> = identity.iter().map(String::as_str).collect();
    let create = ["create", "secret", "generic", "-n", NAMESPACE];
    kubectl.run(&[&create[..], &["hub-kubeconfig-secret"], &identity].concat());
    kubectl.run(&[&create[..], &["bootstrap-hub-kubeconfig", "--from-literal=kubeconfig=theirs"]].concat());
    let applied = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
        "metadata": {"name": "hash-one", "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]},
        "spec": {"hubHash": "hash", "manifestWorkName": "one", "agentID": uid}});
    kubectl.run_with(&["create", "-f", "-"], &applied.to_string());
    let theirs = [
        ocms("klusterlet-registration-agent", "klusterlet-registration-agent"),
        ocms("klusterlet-work-agent", "klusterlet-manifestwork-agent"),
    ];
    for deployment in &theirs {
        let create = ["create", "--field-manager=registration-operator", "-f", "-"];
        kubectl.run_with(&create, &deployment.to_string());
    }
    let version = |target: &[&str]| {
        kubectl.run(
            &[&["get"], target, &["-n", NAMESPACE, "-o", "jsonpath={.metadata.resourceVersion}"]].concat(),
        )
    };
    let kept: [&[&str]; 2] = [&["secret", "hub-kubeconfig-secret"], &["appliedmanifestwork", "hash-one"]];
    let before = kept.map(version);
    let uids = |all: &[Value]| all.iter().map(|one| one["metadata"]["uid"].clone()).collect::<Vec<_>>();
    let old = uids(&deployments(&kubectl));

    let operator = start_operator(&spoke, &dir, "klusterlet");
    let klusterlets: Api<Klusterlet> = Api::all(on_spoke.clone());
    becomes(&klusterlets, "Applied", "False KlusterletApplyFailed").await;
    eventually("their pods are to end", async || {
        deployments(&kubectl).iter().all(|one| one["spec"]["replicas"] == 0)
    })
    .await;
    assert_eq!(uids(&deployments(&kubectl)), old, "ours do not start before theirs have ended");
    let nodes = run_nodes(on_spoke, BTreeSet::from([image.to_owned()]));
    becomes(&klusterlets, "Applied", "True KlusterletApplied").await;
    becomes(&klusterlets, "Available", "True KlusterletAvailable").await;
    let ours = deployments(&kubectl);
    assert_eq!(names(&ours), ["klusterlet-registration-agent", "klusterlet-work-agent"]);
    for one in &ours {
        assert!(!old.contains(&one["metadata"]["uid"]), "{one}");
        assert_eq!(one["spec"]["strategy"], json!({"type": "Recreate"}));
        let container = &one["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image, "the image is that of the Klusterlet, whoever made it");
        assert!(!container["env"].to_string().contains("THEIRS"));
    }
    assert_eq!(kept.map(version), before, "identity and works stay as they are");

    drop(operator);
    nodes.abort();
    for deployment in &theirs {
        let replace = ["replace", "--field-manager=registration-operator", "-f", "-"];
        kubectl.run_with(&replace, &deployment.to_string());
    }
    let back = deployments(&kubectl);
    assert_eq!(uids(&back), uids(&ours), "the selectors are theirs, so they need not delete anything");
    assert_eq!(back[0]["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(kept.map(version), before);
}
