//! The user commands, against an embedded hub and an agent's cluster.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ::kube::Api;
use ::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1alpha1::ClusterClaim;
use api::cluster::v1beta1::Placement;
use api::crds;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET, KEPT_WORK_LABEL, KEPT_WORK_TYPE};
use api::work::v1::{AppliedManifestWork, ManifestWork};
use controllers::agent_identity;
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use object::{Key, Object};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, OperatorOptions};
use wheelwright::shell::now;

use crate::trace::client;
use crate::wait::eventually;

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default}\n";

/// Runs commands against an API server.
pub(crate) struct Cli {
    pub(crate) kubeconfig: PathBuf,
}

impl Cli {
    pub(crate) fn new(dir: &Path, name: &str, server: &Server) -> Self {
        Self::for_user(dir, name, server, &["system:masters"])
    }

    /// Returns a command line for the user `name`, a member of some groups.
    pub(crate) fn for_user(dir: &Path, name: &str, server: &Server, groups: &[&str]) -> Self {
        let kubeconfig = dir.join(name);
        let text = serde_json::to_string(&server.kubeconfig(name, groups).unwrap()).unwrap();
        std::fs::write(&kubeconfig, text).unwrap();
        Self { kubeconfig }
    }

    pub(crate) fn output(&self, line: &str, input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(line.split_whitespace()).arg("--kubeconfig").arg(&self.kubeconfig);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a command that must succeed; returns its output.
    pub(crate) fn run(&self, line: &str) -> String {
        self.run_with(line, "")
    }

    fn run_with(&self, line: &str, input: &str) -> String {
        let output = self.output(line, input);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail; returns its error and hint.
    pub(crate) fn refused(&self, line: &str) -> String {
        let output = self.output(line, CONFIG_MAP);
        assert!(!output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("\nhint: "), "{line}: {error}");
        error
    }
}

pub(crate) async fn server(definitions: Vec<Object>) -> Server {
    Server::start(ServerOptions { objects: definitions, ..ServerOptions::new(now) }).await.unwrap()
}

/// Runs an operator, and an agent that joins with the token from `wheelwright get token`; returns the agent.
async fn start(
    dir: &Path,
    hub: &Server,
    spoke: &Server,
    on_hub: &Cli,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let admin = |server: &Server| server.kubeconfig("admin", &["system:masters"]).unwrap();
    let options = OperatorOptions::new(client(&admin(hub)).await, dir.join("cache"));
    tokio::spawn(operator::run(options, stop.clone()));
    let bootstrap = dir.join("bootstrap");
    std::fs::write(&bootstrap, on_hub.run("get token --output kubeconfig")).unwrap();
    let bootstrap = Bootstrap::File(bootstrap);
    let options = AgentOptions::new(bootstrap, client(&admin(spoke)).await, "c1");
    tokio::spawn(agent::run(options, stop.clone()))
}

fn a_token_names_an_address_that_clusters_reach(hub: &Cli) {
    let warnings = |line: &str| String::from_utf8(hub.output(line, "").stderr).unwrap();
    assert_eq!(warnings("get token"), "", "the agents of an embedded hub reach it on this machine");
    let line = "get token --hub-apiserver https://hub.example.com:6443/";
    assert_eq!(warnings(line), "");
    let printed = hub.run(line);
    assert!(printed.contains(" --hub-apiserver https://hub.example.com:6443 "), "{printed}");
}

fn people_write(hub: &Cli) {
    a_token_names_an_address_that_clusters_reach(hub);
    assert_eq!(hub.run("clusterset create team"), "Clusterset team is created\n");
    assert_eq!(hub.run("clusterset create team"), "Clusterset team is already created\n");
    let moved = hub.run("clusterset set team --clusters c1");
    assert!(moved.starts_with("Cluster c1 is set") && moved.ends_with("to Clusterset team\n"), "{moved}");
    assert_eq!(hub.run("clusterset set team --clusters c1"), "Cluster c1 is already in Clusterset team\n");
    assert_eq!(hub.run("clusterset bind team"), "Clusterset team is bound to Namespace default\n");
    let sets = hub.run("get clustersets team");
    assert!(sets.contains("BoundNamespace: default") && sets.contains("Clusters: c1"), "{sets}");
    let by_labels = hub.refused("clusterset set global --clusters c1");
    assert!(by_labels.contains("Clusterset global selects its clusters by their labels: {}"), "{by_labels}");
    let sets = hub.run("get clustersets global");
    assert!(sets.contains("Clusters: c1"), "{sets}");
    assert!(hub.refused("clusterset bind nowhere").contains("there is no ManagedClusterSet nowhere"));

    hub.run("taint c1 gpu=yes:NoSelect");
    assert!(hub.run("get clusters c1").contains("gpu=yes:NoSelect"));
    hub.run("taint c1 gpu-");
    assert!(!hub.run("get clusters c1").contains("gpu=yes"));
    assert!(hub.refused("taint c1 gpu-").contains("there is no taint gpu"));
    assert!(
        hub.refused("addon enable --names nothing --clusters c1").contains("ClusterManagementAddOn nothing")
    );

    let line = "work create w -f - --clusters c1";
    let output = hub.run_with(&format!("{line} --dry-run"), CONFIG_MAP);
    assert_eq!(output, "create work w in cluster c1 (dry run)\n");
    assert_eq!(hub.run("get works -o name"), "", "a dry run writes nothing");
    let name = hub.run_with(&format!("{line} -o name"), CONFIG_MAP);
    assert_eq!(name, "manifestwork.work.open-cluster-management.io/w\n");
    assert!(hub.refused(line).contains("work w in cluster c1 already exists"));
    let output = hub.run_with(&format!("{line} --overwrite"), CONFIG_MAP);
    assert_eq!(output, "update work w in cluster c1\n");

    // The output matches clusteradm's.
    let output = hub.run_with("create work w -f - --clusters c1 --overwrite", CONFIG_MAP);
    assert_eq!(output, "update work w in cluster c1\n");
    assert_eq!(hub.run("create clusterset team"), "Clusterset team is already created\n");
    // An agent may apply the work between two commands, so the text after the names varies.
    let work = "<ManifestWork>\n└── c1\n    └── w\n        ├── Manifests: 1\n";
    for line in ["get works w --cluster c1", "get work w -c c1 -otree", "get works w -n c1"] {
        let output = hub.run(line);
        assert!(output.starts_with(work), "{line}: {output}");
    }
    let table = hub.run("get works -otable");
    let row = table.lines().nth(1).unwrap().split_whitespace().take(3);
    assert!(table.starts_with("CLUSTER ") && row.eq(["c1", "w", "1"]), "{table}");
    assert!(hub.run("get works --cluster c2").contains("no ManifestWork found"));
}

#[test]
fn the_version_of_the_program_needs_no_kubeconfig() {
    let home = tempfile::tempdir().unwrap();
    let version = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.arg("version").args(args).env("HOME", home.path());
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    };
    let output = version(&[]);
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{error}");
    assert_eq!(out, format!("client: {}\n", env!("CARGO_PKG_VERSION")));
    assert!(error.contains("--kubeconfig names a hub"), "{error}");
    let output = version(&["--kubeconfig", home.path().join("missing").to_str().unwrap()]);
    assert!(!output.status.success(), "a kubeconfig that is named must be there");
}

async fn addons_are_listed_enabled_and_disabled(on_hub: &Cli, hub: &Server) {
    let names = ["application-manager", "cluster-proxy", "mesh", "policy", "serviceaccounts", "submariner"];
    let addons: Api<ClusterManagementAddOn> = Api::all(hub.client());
    for name in names {
        let addon = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}})).unwrap();
        addons.create(&PostParams::default(), &addon).await.unwrap();
    }
    let all = names.map(|name| format!("clustermanagementaddon.addon.open-cluster-management.io/{name}\n"));
    assert_eq!(on_hub.run("get addons -o name"), all.concat());
    assert!(!on_hub.run("get addons").contains("c1"), "no cluster has one");

    let which = "--names submariner --clusters c1";
    let output = on_hub.run(&format!("addon enable {which} --namespace mine"));
    assert_eq!(output, "add-on submariner is enabled on cluster c1\n");
    let on_cluster: Api<ManagedClusterAddOn> = Api::namespaced(hub.client(), "c1");
    assert_eq!(on_cluster.get("submariner").await.unwrap().spec.install_namespace, "mine");
    let output = on_hub.run(&format!("addon enable {which}"));
    assert_eq!(output, "add-on submariner is already enabled on cluster c1\n");
    assert!(on_hub.run("get addons submariner").contains("c1"));
    assert!(!on_hub.run("get addons mesh").contains("c1"));
    let output = on_hub.run(&format!("addon disable {which}"));
    assert_eq!(output, "add-on submariner is disabled on cluster c1\n");
    eventually("it is gone", async || on_cluster.get_opt("submariner").await.unwrap().is_none()).await;
    let output = on_hub.run(&format!("addon disable {which}"));
    assert_eq!(output, "add-on submariner is not enabled on cluster c1\n");
}

/// Renders an overlay with a chart by running the program as a process.
fn rendered_chart(dir: &Path) -> String {
    let overlay = dir.join("web");
    for (path, text) in [
        ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("charts/web/values.yaml", "replicas: 1\n"),
        (
            "charts/web/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {replicas: '{{ .Values.replicas }}'}\n",
        ),
        (
            "kustomization.yaml",
            "helmCharts: [{name: web, releaseName: shop-web, valuesInline: {replicas: 3}}]\nresources: [namespace.yaml]\n",
        ),
        ("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"),
    ] {
        let file = overlay.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("render").arg(overlay).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn a_rendered_chart_reaches_the_cluster(on_hub: &Cli, dir: &Path, hub: &Server, spoke: &Server) {
    let objects = rendered_chart(dir);
    let line = "work create web -f - --namespace shop --clusters c1";
    assert_eq!(on_hub.run_with(line, &objects), "create work web in cluster c1\n");
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "shop");
    eventually("its objects are on the cluster", async || {
        let map = maps.get_opt("shop-web").await.unwrap();
        map.and_then(|map| map.data).is_some_and(|data| data["replicas"] == "3")
    })
    .await;

    let placement = json!({"metadata": {"name": "all", "namespace": "default"}, "spec": {}});
    let placements: Api<Placement> = Api::namespaced(hub.client(), "default");
    placements.create(&PostParams::default(), &serde_json::from_value(placement).unwrap()).await.unwrap();
    let line = "work create web -f - --namespace shop --placement default/all --dry-run -o yaml";
    let printed: serde_json::Value = serde_saphyr::from_str(&on_hub.run_with(line, &objects)).unwrap();
    assert_eq!(printed["kind"], "ManifestWorkReplicaSet");
    let metadata = json!({"name": "web", "namespace": "default"});
    assert_eq!(printed["metadata"], metadata, "a repository can have it");
    let manifests = &printed["spec"]["manifestWorkTemplate"]["workload"]["manifests"];
    assert_eq!(manifests.as_array().unwrap().len(), 2, "{printed}");

    let works: Api<ManifestWork> = Api::namespaced(hub.client(), "c1");
    works.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("the work is gone", async || works.get_opt("web").await.unwrap().is_none()).await;
    placements.delete("all", &DeleteParams::default()).await.unwrap();
}

fn claim_name() -> String {
    agent_identity::claim_name(&Key::namespaced(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET))
}

async fn a_work_that_the_hub_lost_is_listed_on_the_cluster(on_spoke: &Cli, spoke: &Server) {
    assert_eq!(
        on_spoke.run("get works --orphans"),
        "no AppliedManifestWork found\n",
        "the hub has the other one"
    );
    let claims: Api<ClusterClaim> = Api::all(spoke.client());
    let claim = claims.get(&claim_name()).await.unwrap().spec.value;
    let [_, agent, hub] = claim.split('/').collect::<Vec<_>>()[..] else { panic!("{claim}") };
    let name = format!("{hub}-lost");
    let map =
        json!({"version": "v1", "resource": "configmaps", "namespace": "default", "name": "x", "uid": "u"});
    let lost: AppliedManifestWork = serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"hubHash": hub, "manifestWorkName": "lost", "agentID": agent},
        "status": {"appliedResources": [map]},
    }))
    .unwrap();
    let applied: Api<AppliedManifestWork> = Api::all(spoke.client());
    applied.create(&PostParams::default(), &lost).await.unwrap();
    let status = Patch::Merge(json!({"status": lost.status}));
    applied.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
    eventually("the work is missed", async || on_spoke.run("get works --orphans").contains("Work: lost"))
        .await;
    let marked = applied.get(&name).await.unwrap().status.unwrap().eviction_start_time.unwrap().0;
    let shown = on_spoke.run("get works --orphans");
    let deleted = marked + SignedDuration::from_hours(1);
    for line in [
        format!("MissingSince: {marked}"),
        format!("DeletedNotBefore: {deleted}"),
        "configmaps default/x".into(),
    ] {
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    let names = on_spoke.run("get works --orphans -o name");
    assert_eq!(names, format!("appliedmanifestwork.work.open-cluster-management.io/{name}\n"));
    applied.delete(&name, &DeleteParams::default()).await.unwrap();
    eventually("it is gone", async || applied.get_opt(&name).await.unwrap().is_none()).await;
}

async fn a_cluster_of_one_hub_is_not_joined_to_another_in_passing(cli: &Cli, dir: &Path, spoke: &Server) {
    let other = dir.join("other-bootstrap");
    let text = std::fs::read_to_string(dir.join("bootstrap")).unwrap();
    let mut kubeconfig: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = json!("https://other.example.com:6443");
    std::fs::write(&other, kubeconfig.to_string()).unwrap();
    let line = format!("join --cluster-name c1 --hub-kubeconfig {}", other.display());
    let refused = cli.refused(&line);
    assert!(refused.contains("cannot join https://other.example.com:6443"), "{refused}");
    assert!(refused.contains("as cluster c1") && refused.contains("switch-hub"), "{refused}");
    let bootstrap = dir.join("bootstrap");
    let refused = cli.refused(&format!("join --cluster-name c2 --hub-kubeconfig {}", bootstrap.display()));
    assert!(refused.contains("as cluster c2") && refused.contains("--cluster-name c1 again"), "{refused}");
    assert!(cli.refused("unjoin --cluster-name c2").contains("belongs to cluster c1"));

    cli.run(&format!("{line} --namespace second --image-pull-secret registry"));
    let agents: Api<Deployment> = Api::namespaced(spoke.client(), "second");
    let pod = agents.get("wheelwright-agent").await.unwrap().spec.template.spec.unwrap();
    assert_eq!(pod.image_pull_secrets.unwrap()[0].name, "registry");
    let bindings: Api<ClusterRoleBinding> = Api::all(spoke.client());
    let subjects =
        async |name: &str| bindings.get_opt(name).await.unwrap().and_then(|binding| binding.subjects);
    let switch = format!("switch-hub --hub-kubeconfig {}", dir.join("bootstrap").display());
    assert!(cli.refused(&format!("{switch} --namespace second")).contains("has not joined a hub yet"));
    let of_second = subjects("wheelwright-agent:second").await.unwrap();
    assert_eq!(of_second[0].namespace.as_deref(), Some("second"));
    let label = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}});
    agents.patch("wheelwright-agent", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    assert!(cli.refused(&format!("{line} --namespace second")).contains("belongs to a helm release"));

    // The work on the cluster belongs to the other agent, and this one has a claim for another hub.
    let secret = Key::namespaced("second", HUB_KUBECONFIG_SECRET);
    let claim = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
        "metadata": {"name": agent_identity::claim_name(&secret)}, "spec": {"value": "c1/id/other"},
    });
    let claims: Api<ClusterClaim> = Api::all(spoke.client());
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    cli.run("unjoin --cluster-name c1 --namespace second");
    assert!(agents.get_opt("wheelwright-agent").await.unwrap().is_none());
    assert!(subjects("wheelwright-agent:second").await.is_none(), "nothing may use its rights");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_run_by_commands_from_the_token_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let spoke = server(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let (on_hub, on_spoke) = (Cli::new(dir.path(), "hub", &hub), Cli::new(dir.path(), "spoke", &spoke));
    let stop = CancellationToken::new();
    assert!(on_hub.refused("accept --clusters c1").contains("cluster c1 has not asked to join"));
    let agent = start(dir.path(), &hub, &spoke, &on_hub, &stop).await;

    let output = on_hub.run("accept --clusters c1 --wait 2m");
    assert!(output.contains(" approved\nset hubAcceptsClient to true for managed cluster c1\n"), "{output}");
    let is = |command: &str, fact: &str| on_hub.run(command).contains(fact);
    eventually("the cluster joins", async || is("get clusters -o tree", "Joined: True")).await;
    let output = on_hub.run("accept --clusters c1");
    assert_eq!(output, "hubAcceptsClient already set for managed cluster c1\n", "it can be repeated");
    people_write(&on_hub);
    addons_are_listed_enabled_and_disabled(&on_hub, &hub).await;
    eventually("the work arrives", async || is("get works -o tree", "configmaps default/m: True")).await;
    a_rendered_chart_reaches_the_cluster(&on_hub, dir.path(), &hub, &spoke).await;
    a_work_that_the_hub_lost_is_listed_on_the_cluster(&on_spoke, &spoke).await;

    let bootstrap = dir.path().join("bootstrap");
    let join = format!("join --cluster-name c1 --hub-kubeconfig {}", bootstrap.display());
    let manifests = on_spoke.run(&format!("{join} --dry-run -o yaml"));
    assert!(manifests.contains("--spoke-cluster-name=c1"), "{manifests}");
    a_cluster_of_one_hub_is_not_joined_to_another_in_passing(&on_spoke, dir.path(), &spoke).await;
    assert!(on_spoke.run(&join).contains("wheelwright accept --clusters c1"));
    assert_eq!(on_spoke.run(&format!("{join} --wait 1m")), "Cluster c1 is available\n");
    let line = "join --cluster-name c9 --namespace third --wait 1 --hub-kubeconfig";
    let refused = on_spoke.refused(&format!("{line} {}", bootstrap.display()));
    assert!(refused.contains("cluster c9 has not asked the hub to join after 1s"), "{refused}");
    assert!(on_spoke.refused("unjoin --cluster-name c1").contains("still has 1 applied work"));

    let works: Api<ManifestWork> = Api::namespaced(hub.client(), "c1");
    works.delete("w", &DeleteParams::default()).await.unwrap();
    let applied: Api<AppliedManifestWork> = Api::all(spoke.client());
    let none = async || applied.list(&ListParams::default()).await.unwrap().items.is_empty();
    eventually("the work is gone", none).await;
    stop.cancel();
    agent.await.unwrap();
    let claims: Api<ClusterClaim> = Api::all(spoke.client());
    assert!(claims.get_opt(&claim_name()).await.unwrap().is_some());
    // An agent that stops before it sees the end of a work leaves its cached copy behind.
    let secrets: Api<Secret> = Api::namespaced(spoke.client(), AGENT_NAMESPACE);
    let work =
        json!({"metadata": {"name": "kept", "labels": {KEPT_WORK_LABEL: "hub"}}, "type": KEPT_WORK_TYPE});
    secrets.create(&PostParams::default(), &serde_json::from_value(work).unwrap()).await.unwrap();
    let output = on_spoke.run("unjoin --cluster-name c1");
    assert!(secrets.get_opt("kept").await.unwrap().is_none());
    assert!(output.contains("Removed the agent and its identity from cluster c1"), "{output}");
    assert!(claims.get_opt(&claim_name()).await.unwrap().is_none(), "another agent of the hub may come");
    assert_eq!(on_spoke.run("unjoin --cluster-name c1"), "There is no agent on cluster c1\n");
}
