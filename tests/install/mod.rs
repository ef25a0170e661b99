//! `wheelwright install`, `upgrade` and `uninstall` write the objects of the chart, and a real API server accepts
//! them.

mod agent;
mod ocm;
mod versions;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::golden;
use crate::kube::{Cluster, Kubectl, helm};
use crate::wait::eventually;

/// The namespace used to render `crates/engine/src/installation/operator.yaml`.
const PLACEHOLDER: &str = "release-namespace";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

fn wheelwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wheelwright")).args(arguments).output().unwrap()
}

/// Runs a command that must succeed; returns its output.
fn run(hub: &Cluster, arguments: &[&str]) -> String {
    let output = wheelwright(&[arguments, &["--kubeconfig", hub.kubeconfig.to_str().unwrap()]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must fail; returns its error and hint.
fn refused(hub: &Cluster, arguments: &[&str]) -> String {
    let output = wheelwright(&[arguments, &["--kubeconfig", hub.kubeconfig.to_str().unwrap()]].concat());
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("\nhint: "), "{error}");
    error
}

type Objects = BTreeMap<[String; 3], Value>;

fn by_name(objects: impl IntoIterator<Item = Value>) -> Objects {
    let name = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        [text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])]
    };
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

/// Returns the objects of `wheelwright install` that are also in the chart, without the command's labels.
fn installed(flags: &[&str]) -> Objects {
    let output = wheelwright(&[&["install", "--dry-run", "-o", "json"], flags].concat());
    let is_noted = String::from_utf8_lossy(&output.stderr).contains("needs --image");
    assert_eq!(is_noted, !flags.contains(&"--image"), "{flags:?}: {output:?}");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let objects = list["items"].as_array().unwrap().iter().cloned().map(|mut object| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("annotations");
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.remove(MANAGED_BY);
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        object
    });
    let mut objects = by_name(objects);
    objects.retain(|[kind, ..], _| kind != "CustomResourceDefinition" && kind != "Namespace");
    objects
}

/// Compares a chart's objects with the files embedded in the program.
fn check_rendered<const N: usize>(chart: &str, files: [(&str, Vec<Value>); N]) {
    golden::check(files.map(|(name, objects)| {
        let documents = objects.iter().map(|object| serde_saphyr::to_string(object).unwrap());
        let head = format!("# Rendered from charts/{chart} by helm; `make bless` writes it.\n");
        let text = documents.fold(head, |text, document| format!("{text}---\n{}\n", document.trim_end()));
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/engine/src/installation");
        (directory.join(format!("{name}.yaml")), text)
    }));
}

#[test]
fn the_objects_that_install_writes_are_those_that_helm_renders() {
    let rendered = helm::render_in(PLACEHOLDER, "wheelwright", &[]).unwrap();
    let mut dashboard = helm::render_in(PLACEHOLDER, "wheelwright", &["dashboard.enabled=true"]).unwrap();
    dashboard.retain(|object| !rendered.contains(object));
    check_rendered("wheelwright", [("operator", rendered), ("dashboard", dashboard)]);
    if golden::is_blessing() {
        return; // The program still contains the old content of the file.
    }
    for (namespace, flags, values) in [
        (helm::NAMESPACE, "", &[][..]),
        ("elsewhere", "--namespace elsewhere", &[][..]),
        (
            helm::NAMESPACE,
            "--image example.com/w:2",
            &["image={\"repository\":\"example.com/w\",\"tag\":\"2\"}"],
        ),
        (helm::NAMESPACE, "--replicas 1", &["replicas=1"]),
        (
            helm::NAMESPACE,
            "--replicas 3 --controllers *,-placement",
            &["replicas=3", "controllers=\"*,-placement\""],
        ),
        (helm::NAMESPACE, "--git-hosts a.example,*.b.example", &["gitHosts=[\"a.example\",\"*.b.example\"]"]),
        (
            helm::NAMESPACE,
            "--otlp-endpoint http://otel:4318 --extra-arg=-v",
            &["tracing.endpoint=\"http://otel:4318\"", "extraArgs=[\"-v\"]"],
        ),
        (
            helm::NAMESPACE,
            "--dashboard --image example.com/w:2",
            &["dashboard.enabled=true", "image={\"repository\":\"example.com/w\",\"tag\":\"2\"}"],
        ),
        (
            "elsewhere",
            "--namespace elsewhere --config-namespaces a,b,elsewhere --service-accounts a/one,b/two,a/three",
            &[
                "configNamespaces=[\"a\",\"b\"]",
                "serviceAccounts=[{\"namespace\":\"a\",\"names\":[\"one\",\"three\"]},{\"namespace\":\"b\",\"names\":[\"two\"]}]",
            ],
        ),
        (helm::NAMESPACE, "--profile ocm", &["profile=\"ocm\""]),
        (helm::NAMESPACE, "--addon-roles agent,other", &["addonRoles=[\"agent\",\"other\"]"]),
        (
            helm::NAMESPACE,
            "--cluster-profiles --git-hosts a.example",
            &["clusterProfiles=true", "gitHosts=[\"a.example\"]"],
        ),
        (
            helm::NAMESPACE,
            "--dashboard --env HTTPS_PROXY=http://p:1?a=b --env NO_PROXY=10.96.0.1,.svc",
            &[
                "dashboard.enabled=true",
                "env=[{\"name\":\"HTTPS_PROXY\",\"value\":\"http://p:1?a=b\"},{\"name\":\"NO_PROXY\",\"value\":\"10.96.0.1,.svc\"}]",
            ],
        ),
        (
            helm::NAMESPACE,
            "--custom-signers example.com/foo --token-addons a,b",
            &["customSigners=[\"example.com/foo\"]", "tokenAddOns=[\"a\",\"b\"]"],
        ),
        (helm::NAMESPACE, "--extra-arg=-v --extra-arg=--x=y", &["extraArgs=[\"-v\",\"--x=y\"]"]),
    ] {
        let mut wanted = by_name(helm::render_in(namespace, "wheelwright", values).unwrap());
        wanted.retain(|[kind, ..], _| kind != "CustomResourceDefinition");
        let found = installed(&flags.split_whitespace().collect::<Vec<_>>());
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{flags}");
        for (name, object) in wanted {
            assert_eq!(found[&name], object, "{flags} {name:?}");
        }
    }
}

/// Sets the Deployment's status as if its pods ran, because there is no kubelet.
async fn run_pods(kubectl: &Kubectl) {
    let deployment = ["-n", helm::NAMESPACE, "deployment", "wheelwright-operator"];
    eventually("the Deployment is there", async || {
        kubectl.command(&[&["get"][..], &deployment].concat()).output().unwrap().status.success()
    })
    .await;
    let status = json!({"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2}});
    kubectl.run(
        &[&["patch", "--subresource=status", "--type=merge", "-p", &status.to_string()][..], &deployment]
            .concat(),
    );
}

/// Sets the operator's webhook in the CRD of an add-on kind, as the operator does.
pub(crate) fn convert(kubectl: &Kubectl) -> [&'static str; 2] {
    let definition = ["crd", "managedclusteraddons.addon.open-cluster-management.io"];
    let service = json!({"namespace": helm::NAMESPACE, "name": "wheelwright-webhook", "path": "/convert"});
    let webhook = json!({"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]});
    let patch = json!([
        {"op": "add", "path": "/spec/conversion", "value": {"strategy": "Webhook", "webhook": webhook}},
        {"op": "replace", "path": "/spec/versions/1/served", "value": true},
    ]);
    kubectl.run(&[&["patch", "--type=json", "-p", &patch.to_string()][..], &definition].concat());
    definition
}

const REPO: &str = "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: ConfigRepo\n\
    metadata: {name: fleet, namespace: wheelwright-system}\nspec: {url: 'https://git.example.com/fleet.git'}\n";

/// Returns an add-on that the removal budget holds.
fn held(name: &str) -> String {
    format!(
        "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\n\
         metadata: {{name: {name}, finalizers: [gitops.wheelwright.dev/addon-removal]}}\nspec: {{}}\n"
    )
}

/// Creates add-ons on a cluster, with the owners that the operator sets.
fn own(kubectl: &Kubectl, add_ons: &[&str]) {
    kubectl.run(&["create", "namespace", "c1"]);
    let cluster = "apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: c1}\nspec: {}\n";
    kubectl.run_with(&["apply", "-f", "-"], cluster);
    let uid = |kind: &str, name: &str| kubectl.run(&["get", kind, name, "-o", "jsonpath={.metadata.uid}"]);
    for name in add_ons {
        let add_on = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": name, "namespace": "c1", "ownerReferences": [
                {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
                    "name": name, "uid": uid("clustermanagementaddon", name), "controller": true},
                {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                    "name": "c1", "uid": uid("managedcluster", "c1")},
            ]},
            "spec": {},
        });
        kubectl.run_with(&["apply", "-f", "-"], &add_on.to_string());
    }
}

/// Installs the profile `ocm`, whose rules doctor lists, tightens one rule and removes the profile.
async fn the_profile_of_ocm_comes_and_goes(hub: &Cluster) {
    const POLICY: &str = "RolloutPolicy.gitops.wheelwright.dev wheelwright-ocm-profile";
    let doctor = || {
        let output = wheelwright(&["doctor", "--kubeconfig", hub.kubeconfig.to_str().unwrap()]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!doctor().contains("the profile ocm"));
    let printed = run(hub, &["upgrade", "--profile", "ocm", "--wait", "0"]);
    assert!(printed.contains(&format!("{POLICY} created\n")), "{printed}");
    let printed = run(hub, &["upgrade", "--wait", "0"]);
    assert!(printed.contains(&format!("{POLICY} unchanged\n")), "the profile is remembered: {printed}");
    let looser =
        "the profile ocm leaves rules looser than the defaults: success, defaultDeadline, unreachableBudget";
    let printed = doctor();
    assert!(printed.contains(&format!("{looser}, removalBudget\n")), "{printed}");
    let tighter = "apiVersion: gitops.wheelwright.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {name: tighter}\nspec: {removalBudget: 2%}\n";
    hub.kubectl().run_with(&["apply", "-f", "-"], tighter);
    let printed = doctor();
    assert!(printed.contains(&format!("{looser}\n")), "{printed}");
    let printed = run(hub, &["upgrade", "--profile", "default", "--wait", "0"]);
    assert!(printed.contains(&format!("{POLICY} deleted\n")), "{printed}");
    eventually("the profile is gone", async || !doctor().contains("the profile ocm")).await;
    hub.kubectl().run(&["delete", "rolloutpolicy", "tighter"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_is_installed_upgraded_and_uninstalled_and_its_fleet_stays() {
    let hub = Cluster::start("install").await;
    let kubectl = hub.kubectl();
    let printed = run(&hub, &["install", "--dry-run"]);
    assert!(
        printed.contains("Deployment.apps wheelwright-system/wheelwright-operator created (dry run)\n"),
        "{printed}"
    );
    let error = refused(&hub, &["install"]);
    assert!(error.contains("--image is required") && error.contains("make image"), "{error}");
    assert!(kubectl.fails(&["get", "namespace", helm::NAMESPACE]).contains("NotFound"));

    let mut install = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    install.args(["install", "--image", "example.com/w:1", "--git-hosts", "git.example.com", "--wait", "1m"]);
    install.arg("--kubeconfig").arg(&hub.kubeconfig).stdout(Stdio::piped()).stderr(Stdio::piped());
    let install = install.spawn().unwrap();
    run_pods(&kubectl).await;
    let output = install.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        printed.contains(
            "CustomResourceDefinition.apiextensions.k8s.io configrepos.gitops.wheelwright.dev created"
        ),
        "{printed}"
    );
    assert!(printed.contains("2 operators available in namespace wheelwright-system\n"), "{printed}");
    kubectl.run_with(&["apply", "-f", "-"], REPO);

    let definition = convert(&kubectl);
    let column = json!([{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]).to_string();
    kubectl.run(&["patch", "crd", "configrepos.gitops.wheelwright.dev", "--type=json", "-p", &column]);
    let old = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: old\n  namespace: {}\n  labels: {{{MANAGED_BY}: wheelwright-cli}}\n",
        helm::NAMESPACE
    );
    kubectl.run_with(&["apply", "-f", "-"], &old);
    let printed = run(&hub, &["upgrade", "--image", "example.com/w:2", "--wait", "0"]);
    assert!(printed.contains("configrepos.gitops.wheelwright.dev configured\n"), "{printed}");
    let printed_token = run(&hub, &["get", "token"]);
    assert!(printed_token.contains(" --image example.com/w:2 --cluster-name "), "{printed_token}");
    assert!(
        printed.contains("Deployment.apps wheelwright-system/wheelwright-operator configured\n"),
        "{printed}"
    );
    assert!(printed.contains("ServiceAccount wheelwright-system/old deleted\n"), "{printed}");
    assert!(printed.ends_with("\nNext: wheelwright doctor checks the hub.\n"), "{printed}");
    assert_eq!(printed.matches(" configured\n").count(), 2, "the rest is unchanged: {printed}");
    let pod =
        ["-o", "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].args}"];
    let pod = kubectl
        .run(&[&["get", "-n", helm::NAMESPACE, "deployment", "wheelwright-operator"], &pod[..]].concat());
    assert!(pod.starts_with("example.com/w:2 ") && pod.contains("--git-hosts=git.example.com"), "{pod}");
    let strategy = ["-o", "jsonpath={.spec.conversion.strategy} {.spec.versions[1].served}"];
    let strategy = || kubectl.run(&[&["get"], &definition[..], &strategy].concat());
    assert_eq!(strategy(), "Webhook true");
    let printed = run(&hub, &["install", "--wait", "0"]);
    assert!(!printed.contains("configured") && !printed.contains("created"), "{printed}");

    the_profile_of_ocm_comes_and_goes(&hub).await;
    let dashboard = "Deployment.apps wheelwright-system/wheelwright-dashboard";
    let printed = run(&hub, &["install", "--dashboard", "--wait", "0"]);
    assert!(printed.contains(&format!("{dashboard} created\n")), "{printed}");
    let printed = run(&hub, &["upgrade", "--wait", "0"]);
    assert!(
        printed.contains("The operator keeps the image example.com/w:2; --image names that of version"),
        "{printed}"
    );
    assert!(printed.contains(&format!("{dashboard} unchanged\n")), "{printed}");
    let printed = run(&hub, &["install", "--dashboard=false", "--wait", "0"]);
    assert!(printed.contains(&format!("{dashboard} deleted\n")), "{printed}");

    let deleted = run(&hub, &["uninstall", "--dry-run", "--output", "json"]);
    let deleted: Value = serde_json::from_str(&deleted).unwrap();
    let named = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "wheelwright-operator", "namespace": helm::NAMESPACE}});
    assert!(deleted["items"].as_array().unwrap().contains(&named), "{deleted}");
    kubectl.run_with(&["apply", "-f", "-"], &format!("{}---\n{}", held("living"), held("going")));
    kubectl.run(&["delete", "clustermanagementaddon", "going", "--wait=false"]);
    own(&kubectl, &["living", "going"]);
    let printed = run(&hub, &["uninstall"]);
    assert!(
        printed.contains("Deployment.apps wheelwright-system/wheelwright-operator deleted\n"),
        "{printed}"
    );
    let install = "wheelwright install --image=example.com/w:2 --profile=default --git-hosts=git.example.com --dashboard=false";
    assert!(printed.ends_with(&format!("\nManage it again with: {install}\n")), "{printed}");
    let names = "jsonpath={range .items[*]}{.metadata.name}={.metadata.finalizers} {end}";
    let names = kubectl.run(&["get", "clustermanagementaddons", "-o", names]);
    assert_eq!(
        names.trim(),
        "going=[\"gitops.wheelwright.dev/addon-removal\"] living=",
        "no cluster loses it"
    );
    assert_eq!(strategy(), "None false");
    let owners = "jsonpath={range .items[*]}{.metadata.name}={.metadata.ownerReferences[*].kind} {end}";
    let owners = kubectl.run(&["get", "managedclusteraddons", "--namespace=c1", "-o", owners]);
    let going = "going=ClusterManagementAddOn ManagedCluster";
    assert_eq!(owners.trim(), format!("{going} living=ClusterManagementAddOn"), "as in OCM");
    kubectl.run(&["get", "configrepo", "fleet", "-n", helm::NAMESPACE]);
    let left = kubectl.run(&[
        "get",
        "clusterroles,validatingadmissionpolicies,deployments,roles",
        "-A",
        "-l",
        MANAGED_BY,
        "-o",
        "name",
    ]);
    assert_eq!(left, "");
    kubectl.run(&["create", "secret", "generic", "wheelwright-webhook", "-n", helm::NAMESPACE]);
    let printed = run(&hub, &["uninstall"]);
    let secret = "Secret wheelwright-system/wheelwright-webhook deleted\n";
    assert!(printed.contains(secret) && !printed.contains("nothing is installed"), "{printed}");
    eventually("nothing is left", async || run(&hub, &["uninstall"]).starts_with("nothing is installed\n"))
        .await;
    assert!(refused(&hub, &["uninstall", "--delete-definitions"]).contains("the hub has 1 ConfigRepo"));
    kubectl.run(&["delete", "configrepo", "fleet", "-n", helm::NAMESPACE]);
    kubectl.run(&["delete", "managedcluster", "c1"]);
    kubectl.install([api::crds::cluster_profiles()].into_iter());
    let profiles = "customresourcedefinition.apiextensions.k8s.io/clusterprofiles.multicluster.x-k8s.io";
    kubectl.run(&["label", profiles, &format!("{MANAGED_BY}=wheelwright-cli")]);
    run(&hub, &["uninstall", "--delete-definitions"]);
    eventually("only the definition that other cluster managers use is left", async || {
        kubectl.run(&["get", "crd", "-o", "name"]).trim() == profiles
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_installations_are_left_alone_or_need_a_confirmation() {
    let hub = Cluster::start("install-others").await;
    let kubectl = hub.kubectl();
    assert!(
        refused(&hub, &["upgrade"])
            .contains("there is no Deployment wheelwright-system/wheelwright-operator")
    );
    kubectl.install(api::crds::hub().into_iter().filter(|crd| crd.spec.names.kind == "Placement"));
    kubectl.run(&[
        "create",
        "clusterrole",
        "open-cluster-management:bootstrap",
        "--verb=get",
        "--resource=pods",
    ]);
    kubectl.run(&["create", "clusterrole", "wheelwright-operator", "--verb=get", "--resource=pods"]);
    let reason = refused(&hub, &["install", "--wait", "0"]);
    assert!(reason.contains("ClusterRole.rbac.authorization.k8s.io wheelwright-operator exists"), "{reason}");
    assert!(kubectl.fails(&["get", "namespace", helm::NAMESPACE]).contains("NotFound"), "nothing is written");
    kubectl.run(&["delete", "clusterrole", "wheelwright-operator"]);
    let error = refused(&hub, &["install", "--wait", "0", "--config-namespaces", "team-a"]);
    assert!(
        error.contains("there is no namespace team-a") && error.contains("kubectl create namespace team-a")
    );
    assert!(kubectl.fails(&["get", "namespace", helm::NAMESPACE]).contains("NotFound"), "nothing is written");

    let printed = run(&hub, &["install", "--wait", "0"]);
    let left = "left unchanged: another component of Open Cluster Management owns it\n";
    assert!(printed.contains(&format!("placements.cluster.open-cluster-management.io {left}")), "{printed}");
    assert!(printed.contains(&format!("open-cluster-management:bootstrap {left}")), "{printed}");
    for command in [&["install"][..], &["install", "--dry-run"]] {
        let elsewhere = ["--wait", "0", "--image", "example.com/w:2", "--namespace", "elsewhere"];
        let error = refused(&hub, &[command, &elsewhere].concat());
        assert!(error.contains("installed in the namespace wheelwright-system"), "{error}");
    }
    let printed = run(&hub, &["install", "--wait", "0", "--take-ownership"]);
    assert!(printed.contains("placements.cluster.open-cluster-management.io configured\n"), "{printed}");
    kubectl.run(&[
        "label",
        "--overwrite",
        "clusterrole",
        "wheelwright-operator",
        &format!("{MANAGED_BY}=Helm"),
    ]);
    kubectl.run(&["annotate", "clusterrole", "wheelwright-operator", "meta.helm.sh/release-name=ww"]);
    assert!(refused(&hub, &["upgrade"]).contains("belongs to the helm release ww"));

    run(&hub, &["uninstall"]);
    kubectl.run(&["create", "deployment", "wheelwright-operator", "-n", "default", "--image=example.com/w"]);
    let of_helm = ["deployment", "wheelwright-operator", "-n", "default"];
    kubectl.run(&[&["label"], &of_helm[..], &["app.kubernetes.io/managed-by=Helm"]].concat());
    let release = ["meta.helm.sh/release-name=ww", "meta.helm.sh/release-namespace=default"];
    kubectl.run(&[&["annotate"], &of_helm[..], &release].concat());
    assert!(refused(&hub, &["uninstall"]).contains("helm uninstall ww -n default"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_hub_runs_its_operator_next_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let hub = crate::cli::server(Vec::new()).await;
    let cli = crate::cli::Cli::new(dir.path(), "hub", &hub);
    assert!(cli.refused("install").contains("run the operator next to it: wheelwright operator"));
}
