//! The chart as rendered by helm: the operator runs with its arguments, environment, service account and
//! permissions, on a read-only root.

mod agent;
mod container;
mod kustomize;
mod packed;
mod profiles;
mod random_values;
mod remote;
mod render;
mod repository;
mod values;

use std::process::Command;
use std::time::Duration;

use ::kube::Api;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use axum::http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::kube::{Cluster, Directory, Process, free_port, helm};
use crate::offline::probe;
use crate::running::git_daemon;
use crate::wait::eventually;

/// Maximum wait for a request to the proxy, sized for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// The operator's permissions other than for OCM's kinds, its own kinds, and reading anything except Secrets. The
/// list is complete, so that every new permission shows up in review.
const REACHED: &[&str] = &[
    "apiextensions.k8s.io/customresourcedefinitions[clustermanagementaddons.addon.open-cluster-management.io,managedclusteraddons.addon.open-cluster-management.io]: patch",
    "apps/controllerrevisions: create,patch,delete",
    "authorization.k8s.io/subjectaccessreviews: create",
    "certificates.k8s.io/certificatesigningrequests/approval: patch",
    "certificates.k8s.io/certificatesigningrequests: create",
    "certificates.k8s.io/signers[kubernetes.io/kube-apiserver-client]: approve",
    "coordination.k8s.io/leases: create",
    "coordination.k8s.io/leases[managed-cluster-lease]: update",
    "core/events: create,patch,update",
    "core/namespaces: create,patch",
    "events.k8s.io/events: create,patch,update",
    "rbac.authorization.k8s.io/clusterrolebindings: create,patch,delete",
    "rbac.authorization.k8s.io/clusterroles: create,patch,delete",
    "rbac.authorization.k8s.io/rolebindings: create,patch,delete",
    "register.open-cluster-management.io/managedclusters/accept: update,renew",
    "register.open-cluster-management.io/managedclusters/clientcertificates: update,renew",
];

/// Additional permissions in the namespace of the release.
const REACHED_IN_RELEASE: &[&str] = &[
    "coordination.k8s.io/leases[wheelwright-operator]: update,patch",
    "core/secrets: create",
    "core/secrets: get",
    "core/secrets[wheelwright-sealing-key]: get",
    "core/secrets[wheelwright-webhook]: get,update",
];

/// Additional permissions in a namespace of `configNamespaces`.
const REACHED_IN_CONFIG: &[&str] = &["core/secrets: get"];

/// Additional permissions in such a namespace with `configSecrets`.
const REACHED_IN_CONFIG_WITH_SECRETS: &[&str] = &["core/secrets[git]: get"];

/// Additional permissions in all namespaces with `addonRoles`, `tokenAddOns` and `customSigners`.
const REACHED_WITH_VALUES: &[&str] = &[
    "certificates.k8s.io/certificatesigningrequests/status: patch",
    "certificates.k8s.io/signers[example.com/foo]: approve,sign",
    "core/serviceaccounts/token: subscribe",
    "core/serviceaccounts/token[signed-agent]: create",
    "core/serviceaccounts[signed-agent]: create,patch,delete",
    "rbac.authorization.k8s.io/clusterroles[agent]: bind",
    "rbac.authorization.k8s.io/roles[agent]: bind",
    "rbac.authorization.k8s.io/roles[signed-token-role]: create,patch,delete",
];

fn find<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("the chart has no {kind}"))
}

/// Returns a hub with all objects of the chart, and the objects.
async fn install(name: &str, values: &[&str]) -> (Cluster, Vec<Value>) {
    let hub = Cluster::start(name).await;
    let kubectl = hub.kubectl();
    kubectl.install(crds::hub().into_iter());
    for namespace in [helm::NAMESPACE, "team"] {
        kubectl.run(&["create", "namespace", namespace]);
    }
    let objects = helm::render("wheelwright", values).unwrap();
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    kubectl.run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));
    (hub, objects)
}

#[tokio::test]
async fn the_dashboard_runs_as_the_chart_says_on_a_read_only_root() {
    let address = format!("127.0.0.1:{}", free_port());
    let listen = format!("dashboard.listen=\"{address}\"");
    let (hub, objects) = install("chart-dashboard", &["dashboard.enabled=true", &listen]).await;
    let is_it = |object: &&Value| {
        object["kind"] == "Deployment" && object["metadata"]["name"] == "wheelwright-dashboard"
    };
    let deployment = objects.iter().find(is_it).unwrap();
    let dir = Directory::new("chart-dashboard");
    let mut dashboard = container::start("dashboard", &hub, deployment, &dir);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for kind in ["livenessProbe", "readinessProbe"] {
        let request = &container[kind]["httpGet"];
        let url = format!("{}://{address}", request["scheme"].as_str().unwrap().to_lowercase());
        eventually("the probe succeeds", async || {
            dashboard.assert_running();
            probe(&url, request["path"].as_str().unwrap()).await == "ok"
        })
        .await;
    }
    hub.kubectl().run(&["get", "secret", "wheelwright-dashboard", "-n", helm::NAMESPACE]);
    container::assert_permitted(&dashboard);
}

/// Serves a repository with one commit with git's own daemon.
fn serve_repository(dir: &Directory, port: u16) -> Process {
    let path = dir.path("fleet.git");
    let repository = git2::Repository::init_bare(&path).unwrap();
    let set = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {name: team}\n";
    let mut index = git2::Index::new().unwrap();
    for (file, text) in [("app/kustomization.yaml", "resources: [set.yaml]\n"), ("app/set.yaml", set)] {
        let id = repository.blob(text.as_bytes()).unwrap();
        index.add(&wheelwright::git::entry(file.to_owned(), id)).unwrap();
    }
    let tree = repository.find_tree(index.write_tree_to(&repository).unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    repository.commit(Some("refs/heads/main"), &author, &author, "set", &tree, &[]).unwrap();
    Process::start("git-daemon", git_daemon(path.parent().unwrap(), port), dir)
}

#[tokio::test]
async fn the_operator_runs_as_the_chart_says_on_a_read_only_root() {
    let port = free_port();
    let listen = format!("listen=\"127.0.0.1:{port}\"");
    let webhook = format!("conversionWebhook.listen=\"127.0.0.1:{}\"", free_port());
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = format!("http://{}", proxy.local_addr().unwrap());
    let env = json!([{"name": "HTTPS_PROXY", "value": through}, {"name": "NO_PROXY", "value": "127.0.0.1,localhost"}]);
    let env = format!("env={env}");
    let values = [&listen, &webhook, &env, "clusterProfiles=true", "extraArgs=[\"--local-repositories\"]"];
    let (hub, objects) = install("chart", &values).await;
    let kubectl = hub.kubectl();
    let dir = Directory::new("chart");
    let git = free_port();
    let mut daemon = serve_repository(&dir, git);
    let mut operator = container::start("operator", &hub, find(&objects, "Deployment"), &dir);
    kubectl.run(&["label", "namespace", helm::NAMESPACE, "gitops.wheelwright.dev/operator-identity=allowed"]);
    let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "fleet", "namespace": helm::NAMESPACE},
        "spec": {"url": format!("git://127.0.0.1:{git}/fleet.git"), "path": "app", "interval": "5s"}});
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": true}});
    let mut beyond = repo.clone();
    beyond["metadata"]["name"] = json!("beyond");
    beyond["spec"]["url"] = json!("https://git.example.com/fleet.git");
    kubectl.run_with(&["apply", "-f", "-"], &format!("{repo}\n{cluster}\n{beyond}"));

    let repos: Api<ConfigRepo> = Api::namespaced(hub.client().await, helm::NAMESPACE);
    eventually("the commit is applied", async || {
        daemon.assert_running();
        operator.assert_running();
        let status = repos.get_status("fleet").await.unwrap().status;
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().find(|one| one.type_ == "Ready");
        ready.is_some_and(|one| one.status == api::condition::ConditionStatus::True)
    })
    .await;
    kubectl.run(&["get", "managedclusterset", "team"]);
    eventually("the definition names the Service of the webhook", async || {
        let of = ["crd", "managedclusteraddons.addon.open-cluster-management.io"];
        let service = "jsonpath={.spec.conversion.webhook.clientConfig.service.name}";
        kubectl.run(&[&["get"][..], &of, &["-o", service]].concat()) == "wheelwright-webhook"
    })
    .await;
    eventually("the cluster has its permissions and its lease", async || {
        let bound = ["clusterrolebinding", "open-cluster-management:managedcluster:c1"];
        let lease = ["lease", "managed-cluster-lease", "-n", "c1"];
        [&bound[..], &lease].iter().all(|what| {
            let get = kubectl.command(&[&["get"], *what].concat()).output().unwrap();
            get.status.success()
        })
    })
    .await;
    let label = "jsonpath={.metadata.labels.cluster\\.open-cluster-management\\.io/clusterset}";
    assert_eq!(kubectl.run(&["get", "managedcluster", "c1", "-o", label]), "default");
    profiles::assert_published(&kubectl).await;
    let (asked, _) = tokio::time::timeout(WITHIN, proxy.accept()).await.unwrap().unwrap();
    let mut line = String::new();
    BufReader::new(asked).read_line(&mut line).await.unwrap();
    assert_eq!(line.trim(), "CONNECT git.example.com:443 HTTP/1.1");
    container::assert_probes(&objects, port).await;
    let fetches = ["wheelwright_fetch_duration_seconds_count", "wheelwright_git_received_bytes_total"];
    container::assert_counted(port, &fetches).await;
    container::assert_counted(
        port,
        &["wheelwright_cached_objects{kind=\"ConfigRepo.gitops.wheelwright.dev\"}"],
    )
    .await;
    container::assert_permitted(&operator);
}

/// Returns what the operator may do in a namespace, one line per resource of a rule.
async fn reached(hub: &Cluster, namespace: &str) -> Vec<String> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace}});
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews")
        .header("content-type", "application/json")
        .header("impersonate-user", format!("system:serviceaccount:{}:wheelwright-operator", helm::NAMESPACE))
        .header("impersonate-group", "system:serviceaccounts")
        .header("impersonate-group", "system:authenticated")
        .body(review.to_string().into_bytes())
        .unwrap();
    let answer = hub.client().await.request::<Value>(request).await.unwrap();
    let mut reached: Vec<String> = Vec::new();
    for rule in answer["status"]["resourceRules"].as_array().unwrap() {
        let texts = |field: &str| -> Vec<&str> {
            rule[field].as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
        };
        let names = texts("resourceNames").join(",");
        let names = if names.is_empty() { names } else { format!("[{names}]") };
        for group in texts("apiGroups") {
            let own = ["cluster", "work", "addon"].map(|group| format!("{group}.open-cluster-management.io"));
            let own = own.iter().any(|one| one == group) || group == "gitops.wheelwright.dev";
            let group = if group.is_empty() { "core" } else { group };
            for resource in texts("resources").into_iter().filter(|_| !own) {
                let counts =
                    |verb: &&str| resource == "secrets" || !matches!(*verb, "get" | "list" | "watch");
                let verbs: Vec<&str> = texts("verbs").into_iter().filter(counts).collect();
                if !verbs.is_empty() {
                    reached.push(format!("{group}/{resource}{names}: {}", verbs.join(",")));
                }
            }
        }
    }
    // Every authenticated identity may review its own access.
    reached.retain(|line| !line.contains("/self"));
    reached.sort_unstable();
    reached.dedup();
    reached
}

fn beyond(reached: Vec<String>, known: &[&str]) -> Vec<String> {
    assert!(known.iter().all(|line| reached.iter().any(|one| one == line)), "{reached:?}");
    reached.into_iter().filter(|line| !known.contains(&line.as_str())).collect()
}

#[tokio::test]
async fn the_operators_identity_reaches_what_the_list_says_and_no_more() {
    let (hub, _) = install("reach", &["configNamespaces=[\"team\"]"]).await;
    // In a cluster's namespace, the operator has no more permissions than in the namespace of the hub's
    // components.
    hub.kubectl().run(&["create", "namespace", "c1"]);
    for namespace in ["kube-system", "c1"] {
        assert_eq!(reached(&hub, namespace).await, REACHED, "{namespace}");
    }
    assert_eq!(beyond(reached(&hub, helm::NAMESPACE).await, REACHED), REACHED_IN_RELEASE);
    assert_eq!(beyond(reached(&hub, "team").await, REACHED), REACHED_IN_CONFIG);

    let values = [
        "configNamespaces=[\"team\"]",
        "configSecrets={\"team\":[\"git\"]}",
        "addonRoles=[\"agent\"]",
        "tokenAddOns=[\"signed\"]",
        "customSigners=[\"example.com/foo\"]",
    ];
    let documents = helm::render("wheelwright", &values).unwrap();
    let documents: Vec<String> = documents.iter().map(ToString::to_string).collect();
    hub.kubectl().run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));
    let in_team = [REACHED_IN_CONFIG_WITH_SECRETS, REACHED_WITH_VALUES].concat();
    eventually("the roles of the values are in force", async || {
        let mut in_team = in_team.clone();
        in_team.sort_unstable();
        beyond(reached(&hub, "kube-system").await, REACHED) == REACHED_WITH_VALUES
            && beyond(reached(&hub, "team").await, REACHED) == in_team
    })
    .await;
    let places =
        [(helm::NAMESPACE, REACHED_IN_RELEASE), ("team", REACHED_IN_CONFIG_WITH_SECRETS), ("c1", &[])];
    for (namespace, expected) in places {
        let mut more = beyond(reached(&hub, namespace).await, REACHED);
        more.retain(|line| !REACHED_WITH_VALUES.contains(&line.as_str()));
        assert_eq!(more, expected, "{namespace}");
    }
}

#[tokio::test]
async fn the_notes_of_a_chart_say_what_comes_next_with_the_given_values() {
    let hub = Cluster::start("notes").await;
    let kubectl = hub.kubectl();
    kubectl.install(crds::hub().into_iter());
    kubectl.run(&["create", "namespace", helm::NAMESPACE]);
    let values = [
        "image.repository=\"example.com/w\"",
        "gitHosts=[\"*.git.example.org\"]",
        "controllers=\"*,-placement\"",
        "dashboard.enabled=true",
        "serviceAccounts=[{\"namespace\":\"team\",\"names\":[\"deployer\"]}]",
    ];
    let notes = helm::notes(&hub.kubeconfig, "wheelwright", &values);
    for part in [
        "the image example.com/w:",
        "*,-placement",
        "https://git.example.org/",
        "team can act as deployer",
        "9445",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert!(!notes.contains("No registry"), "{notes}");
    let object = notes.split_once("<<END\n").and_then(|(_, rest)| rest.split_once("\nEND\n")).unwrap().0;
    kubectl.run_with(&["apply", "--dry-run=server", "-f", "-"], object);
    let notes = helm::notes(&hub.kubeconfig, "wheelwright", &[]);
    assert!(notes.contains("No registry has this image") && !notes.contains("9445"), "{notes}");
    for (chart, value, part) in [
        ("wheelwright-agent", "clusterName=\"c1\"", "\nwheelwright accept --clusters c1 --wait 1m\n"),
        ("wheelwright-registration-operator", "component=\"klusterlet\"", " -f examples/klusterlet.yaml\n"),
        ("wheelwright-registration-operator", "component=\"hub\"", " -f examples/cluster-manager.yaml\n"),
    ] {
        let notes = helm::notes(&hub.kubeconfig, chart, &[value]);
        assert!(notes.contains(part), "{chart} with {value}: {notes}");
    }
}

#[tokio::test]
async fn the_example_repository_needs_no_permission_that_the_operator_lacks() {
    let (hub, _) = install("examples", &[]).await;
    let kubectl = hub.kubectl();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples-repo");
    kubectl.run(&["apply", "-f", &format!("{examples}/bootstrap/managed-serviceaccount.yaml")]);
    // A dry run does not create the namespaces that later objects need.
    kubectl.run(&["create", "namespace", "fleet"]);
    kubectl.run(&["create", "namespace", "aws-1"]);
    let operator = format!("--as=system:serviceaccount:{}:wheelwright-operator", helm::NAMESPACE);
    for overlay in ["prod", "staging"] {
        let mut render = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let rendered = render.arg("render").arg(format!("{examples}/overlays/{overlay}")).output().unwrap();
        assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
        let apply = ["apply", "--server-side", "--dry-run=server", &operator, "-f", "-"];
        kubectl.run_with(&apply, &String::from_utf8(rendered.stdout).unwrap());
    }
    // A commit may remove what a repository holds.
    for kind in
        ["placements", "clustermanagementaddons", "manifestworkreplicasets", "rolloutpolicies", "configrepos"]
    {
        assert_eq!(kubectl.run(&["auth", "can-i", "delete", kind, &operator]).trim(), "yes", "{kind}");
    }
    let bind = ["auth", "can-i", "bind", "clusterroles/managed-serviceaccount-addon-agent"];
    assert_eq!(kubectl.run(&[&bind[..], &[&operator]].concat()).trim(), "yes");
}

#[test]
fn only_resources_that_values_request_are_rendered() {
    let count = |values: &[&str], kind: &str| {
        let objects = helm::render("wheelwright", values).unwrap();
        objects.iter().filter(|object| object["kind"] == kind).count()
    };
    for (kind, default, values, with) in [
        ("PodDisruptionBudget", 1, "replicas=1", 0),
        ("NetworkPolicy", 1, "networkPolicy.enabled=false", 0),
        ("ValidatingAdmissionPolicy", 14, "admissionPolicies=false", 0),
        ("ClusterRole", 3, "addonRoles=[\"agent\"]", 4),
        ("ClusterRole", 3, "tokenAddOns=[\"signed\"]", 4),
        ("ClusterRole", 3, "customSigners=[\"example.com/foo\"]", 4),
        ("ClusterRole", 3, "clusterProfiles=true", 4),
        ("CustomResourceDefinition", 0, "clusterProfiles=true", 1),
        (
            "ClusterRole",
            3,
            "extraRules=[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\"]}]",
            4,
        ),
        ("Service", 1, "conversionWebhook.enabled=false", 0),
        ("Service", 1, "dashboard.enabled=true", 2),
        ("Deployment", 1, "dashboard.enabled=true", 2),
        ("NetworkPolicy", 1, "dashboard.enabled=true", 2),
        ("Role", 4, "conversionWebhook.enabled=false", 3),
        ("ServiceMonitor", 0, "serviceMonitor.enabled=true", 1),
        ("PrometheusRule", 0, "prometheusRule.enabled=true", 1),
        ("ConfigMap", 0, "grafanaDashboard.enabled=true", 1),
        ("ConfigMap", 0, "argocd.enabled=true", 2),
        ("Role", 4, "argocd.enabled=true", 5),
        ("Role", 4, "argocd.refresh=true", 5),
        ("Role", 4, "argocd.clusterSecrets=true", 5),
        ("Role", 4, "argocd.pullModel=true", 5),
        ("ClusterRole", 3, "argocd={\"clusterSecrets\":true,\"managedServiceAccount\":\"argocd\"}", 4),
        ("Role", 4, "configNamespaces=[\"team\"]", 5),
        ("Role", 4, "serviceAccounts=[{\"namespace\":\"team\",\"names\":[\"deployer\"]}]", 5),
    ] {
        assert_eq!((count(&[], kind), count(&[values], kind)), (default, with), "{kind} with {values}");
    }
}

#[test]
fn only_those_that_are_named_reach_the_conversion_webhook() {
    let senders = |values: &[&str]| {
        let objects = helm::render("wheelwright", values).unwrap();
        let policy = objects.into_iter().find(|object| object["kind"] == "NetworkPolicy").unwrap();
        let rules = policy["spec"]["ingress"].as_array().unwrap().clone();
        let rule = rules.into_iter().find(|rule| rule["ports"][0]["port"] == 9443).unwrap();
        rule["from"].clone()
    };
    assert_eq!(senders(&[]), Value::Null);
    let named = json!([{"ipBlock": {"cidr": "192.0.2.0/28"}}]);
    assert_eq!(senders(&[&format!("conversionWebhook.from={named}")]), named);
}
