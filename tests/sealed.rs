//! Secrets that are encrypted for their clusters, from the user's view: an encrypted file in git, the operator as a
//! process, a real API server as the hub, and an agent.

use std::path::Path;

use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use api::work::v1::ManifestWork;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use object::{Metadata as _, Object};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::e2e::Repository;
use crate::kube as real;
use crate::running::Running;
use crate::secrets::{branch, printed, text, wheelwright};
use crate::sources::NAMESPACE;
use crate::trace::{accept, client};
use crate::wait::eventually;

const CLUSTER: &str = "c1";
/// The start of all values, plain and in base64.
const CANARIES: [&str; 2] = ["canary-", "Y2FuYXJ5L"];
/// The secret of the agent.
const IDENTITY: &str = "hub-kubeconfig-secret-sealing-identity";
const KUSTOMIZATION: &str = "resources: [base.yaml]\nhelmCharts: [{name: web, releaseName: web, namespace: team, valuesFile: values.yaml}]\n";
const BASE: &str = "apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: team}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all, namespace: team}
spec: {tolerations: [{operator: Exists}]}
";
/// A set with 2,000 values, which all start with the encrypted value `canary`.
const SET: &str = r#"apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: settings, namespace: team}
spec:
  placementRefs: [{name: all, rolloutStrategy: {type: All}}]
  manifestWorkTemplate:
    workload:
      manifests:
      {{- range $secret := until 2 }}
      - apiVersion: v1
        kind: Secret
        metadata: {name: "s{{ $secret }}", namespace: default}
        stringData:
          {{- range $value := until 1000 }}
          v{{ $value }}: "{{ $.Values.password_secret }}-{{ $secret }}-{{ $value }}"
          {{- end }}
      {{- end }}
"#;

/// An add-on with an encrypted value.
const ADDON: &str = r#"apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: web-1}
spec:
  addonName: web
  agentSpec:
    workload:
      manifests:
      - apiVersion: v1
        kind: Namespace
        metadata: {name: web}
      - apiVersion: v1
        kind: Secret
        metadata: {name: login, namespace: web}
        stringData: {password: "{{ .Values.password_secret }}-addon"}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: web}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: web-1}}
  installStrategy:
    type: Placements
    placements: [{name: all, namespace: team, rolloutStrategy: {type: All}}]
"#;

fn repository(dir: &Path) -> Repository {
    let mut repository = Repository::empty(dir);
    for (path, text) in [
        ("kustomization.yaml", KUSTOMIZATION),
        ("base.yaml", BASE),
        ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
        ("charts/web/templates/set.yaml", SET),
        ("charts/web/templates/addon.yaml", ADDON),
        ("values.yaml", &text("corpus/encrypted_suffix.yaml")),
    ] {
        repository.write(path, text);
    }
    repository
}

#[track_caller]
fn assert_hidden(what: &str, text: &str) {
    assert!(!text.is_empty(), "{what} is empty");
    assert!(CANARIES.iter().all(|canary| !text.contains(canary)), "{what} contains a value");
}

/// Returns the bytes of all files below a directory.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(bytes_below(&entry.path())),
            false => all.extend(std::fs::read(entry.path()).unwrap()),
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_commit_reach_their_cluster_and_the_hub_has_only_their_ciphertext() {
    let hub = real::Cluster::start("hub").await;
    let definitions: String = crds::hub()
        .iter()
        .map(|crd| format!("---\n{}\n", serde_json::to_string(&Object::from_typed(crd)).unwrap()))
        .collect();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &definitions);
    let admin = hub.client().await;
    let dir = tempfile::tempdir().unwrap();
    let mut repository = repository(dir.path());
    repository.commit("one");
    let url = repository.path.to_str().unwrap().to_owned();
    let kubeconfig = hub.kubeconfig.to_str().unwrap().to_owned();
    let args = ["operator", "--kubeconfig", &kubeconfig, "--local-repositories", "--repo", &url];
    let _operator = Running::start("operator", dir.path(), &args);
    let stop = CancellationToken::new();
    let spoke = spoke().await;
    let bootstrap = Bootstrap::Given(Box::new(Kubeconfig::read_from(&hub.kubeconfig).unwrap()));
    let agent = AgentOptions::new(
        bootstrap,
        client(&spoke.kubeconfig("admin", &["system:masters"]).unwrap()).await,
        CLUSTER,
    );
    tokio::spawn(agent::run(agent, stop.clone()));
    accept(&admin, CLUSTER).await;

    let repos: Api<ConfigRepo> = Api::namespaced(admin.clone(), NAMESPACE);
    eventually("the ConfigRepo exists", async || repos.get_opt("fleet").await.unwrap().is_some()).await;
    let report = json!({"branch": "reports", "snapshot": true, "interval": "1s"});
    let decryption = json!({"secretRef": {"name": "sops-keys"}});
    let edit = async |spec: Value| {
        repos.patch("fleet", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    };
    edit(json!({"interval": "1s", "report": report, "decryption": decryption})).await;
    let args = ["plan", "--repo", &url, "--head", "main", "--hub", &kubeconfig, "-o", "json"];
    let plan = printed(&wheelwright(dir.path(), &args, Some("keys/team.agekey")));
    let names = "2 objects in plaintext: AddOnTemplate web-1, ManifestWorkReplicaSet team/settings; set";
    assert!(plan.contains(names), "{plan}");
    assert_hidden("the plan without encryption", &plan);
    edit(json!({"secrets": "Sealed"})).await;
    let keys =
        json!({"metadata": {"name": "sops-keys"}, "stringData": {"team.agekey": text("keys/team.agekey")}});
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(keys).unwrap()).await.unwrap();

    let spoke = client(&spoke.kubeconfig("admin", &["system:masters"]).unwrap()).await;
    let applied: Api<Secret> = Api::namespaced(spoke.clone(), "default");
    let of_addon: Api<Secret> = Api::namespaced(spoke.clone(), "web");
    let value = async |secrets: &Api<Secret>, secret: &str, key: &str| {
        let secret = secrets.get_opt(secret).await.unwrap()?;
        String::from_utf8(secret.data?.get(key)?.0.clone()).ok()
    };
    eventually("the cluster has the plaintext", async || {
        value(&applied, "s0", "v0").await.as_deref() == Some("canary-0-0")
            && value(&applied, "s1", "v999").await.as_deref() == Some("canary-1-999")
            && value(&of_addon, "login", "password").await.as_deref() == Some("canary-addon")
    })
    .await;
    let works: Api<ManifestWork> = Api::namespaced(admin.clone(), CLUSTER);
    let works = async || works.list(&Default::default()).await.unwrap().items;
    let are_applied =
        |works: &[ManifestWork]| works.len() == 2 && works.iter().all(|work| work.holds("Applied"));
    eventually("the works are applied", async || are_applied(&works().await)).await;
    let generations =
        |works: &[ManifestWork]| works.iter().map(|work| work.metadata.generation).collect::<Vec<_>>();
    let before = works().await;

    // Another key of the agent rolls nothing out.
    let clusters: Api<ManagedCluster> = Api::all(admin.clone());
    let recipient = async || {
        let claims = clusters.get(CLUSTER).await.unwrap().status.unwrap_or_default().cluster_claims;
        claims.into_iter().find(|claim| claim.name == "recipient.wheelwright.dev").map(|claim| claim.value)
    };
    let first = recipient().await;
    let identities: Api<Secret> = Api::namespaced(spoke, api::names::AGENT_NAMESPACE);
    identities.delete(IDENTITY, &DeleteParams::default()).await.unwrap();
    eventually("the agent publishes another key", async || {
        recipient().await.is_some_and(|it| Some(&it) != first.as_ref())
    })
    .await;
    let second = recipient().await.unwrap();
    let keys = |work: &ManifestWork| {
        work.annotation("gitops.wheelwright.dev/sealed-keys").unwrap_or_default().to_owned()
    };
    eventually("the works have their keys for it", async || {
        works().await.iter().all(|work| keys(work).starts_with(&second))
    })
    .await;
    let after = works().await;
    assert_eq!((generations(&before), are_applied(&after)), (generations(&after), true));

    repository
        .write("more.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: default}}");
    repository.edit("kustomization.yaml", "[base.yaml]", "[base.yaml, more.yaml]");
    let commit = repository.commit("two");
    let plan = printed(&wheelwright(dir.path(), &args, None));
    assert!(!plan.contains("in plaintext"), "{plan}");
    assert_hidden("the plan", &plan);
    eventually("the commit is reported", async || {
        branch(&repository.path, "reports").is_some_and(|text| text.contains(&commit))
    })
    .await;
    assert_hidden("the report", &branch(&repository.path, "reports").unwrap());
    assert_hidden("the log", &std::fs::read_to_string(dir.path().join("operator.log")).unwrap());
    stop.cancel();
    // The write-ahead log has every write that the hub has ever made, including those of deleted objects.
    let stored = bytes_below(&hub.path("etcd"));
    let stored = String::from_utf8_lossy(&stored);
    assert!(
        ["ManifestWorkReplicaSet", "v999", "AddOnTemplate", "login"].iter().all(|text| stored.contains(text)),
        "the search finds what is there"
    );
    assert_hidden("etcd", &stored);
}

async fn spoke() -> Server {
    let objects = crds::spoke().iter().map(Object::from_typed).collect();
    Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap()
}
