//! `wheelwright doctor` and `wheelwright events` on a real API server.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use ::kube::Api;
use ::kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use api::cluster::v1beta2::ManagedClusterSet;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::CONFIG_REPO_ANNOTATION;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use object::Metadata as _;
use serde_json::{Value, json};

use crate::kube::{Cluster, helm};
use crate::running::Running;
use crate::sources;
use crate::wait::eventually;

fn wheelwright(hub: &Cluster, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(arguments.split_whitespace()).arg("--kubeconfig").arg(&hub.kubeconfig).output().unwrap()
}

/// Returns the failed findings as `check: message`, and the advice for each.
fn problems(hub: &Cluster) -> (Vec<String>, Vec<String>) {
    let output = wheelwright(hub, "doctor -o json");
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let bad: Vec<&Value> = findings.iter().filter(|finding| finding["health"] != "Good").collect();
    let fails = bad.iter().any(|finding| finding["health"] != "Warning");
    assert_eq!(output.status.success(), !fails, "{findings:?}");
    assert!(bad.iter().all(|finding| !text(finding, "advice").is_empty()), "each has advice: {bad:?}");
    let messages =
        bad.iter().map(|finding| format!("{}: {}", text(finding, "check"), text(finding, "message")));
    (messages.collect(), bad.iter().map(|finding| text(finding, "advice")).collect())
}

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> String {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": helm::NAMESPACE}});
    json_patch::merge(&mut object, &rest);
    format!("{object}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_is_examined_and_each_finding_says_what_to_do() {
    let hub = Cluster::start("doctor").await;
    let kubectl = hub.kubectl();
    let (findings, advice) = problems(&hub);
    let missing =
        "definitions: 16 definitions are missing: managedclusters.cluster.open-cluster-management.io, ";
    assert!(findings.iter().any(|one| one.starts_with(missing)), "{findings:?}");
    assert!(!findings.iter().any(|one| one.contains("404")), "what is not defined is not asked for");
    assert!(!advice.iter().any(|one| one.contains("wheelwright doctor")), "{advice:?}");

    assert!(wheelwright(&hub, "install --wait 0").status.success());
    kubectl.run(&["label", "namespace", helm::NAMESPACE, "gitops.wheelwright.dev/operator-identity=allowed"]);
    let (findings, _) = problems(&hub);
    assert_eq!(
        findings,
        [
            "operator: 0 of 2 operators available, image wheelwright:0.1.0",
            "leader: no operator leads",
            "repositories: there is no ConfigRepo",
        ]
    );

    let placements = "cluster.open-cluster-management.io/v1beta1";
    let tracked = format!("a:cluster.open-cluster-management.io/Placement:{}/p", helm::NAMESPACE);
    let of_fleet = format!("{}/fleet", helm::NAMESPACE);
    let marks =
        json!({"argocd.argoproj.io/tracking-id": tracked, "gitops.wheelwright.dev/config-repo": of_fleet});
    let pod =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": pod});
    let documents = [
        object(placements, "Placement", "p", json!({"metadata": {"annotations": marks}, "spec": {}})),
        object("v1", "Namespace", "open-cluster-management-hub", json!({"metadata": {"namespace": null}})),
        object(
            "apps/v1",
            "Deployment",
            "cluster-manager-placement-controller",
            json!({"metadata": {"namespace": "open-cluster-management-hub"}, "spec": spec}),
        ),
        object(
            "gitops.wheelwright.dev/v1alpha1",
            "ConfigRepo",
            "fleet",
            json!({"spec": {"url": "https://git.example.com/f.git", "secretRef": {"name": "fleet-read"}}}),
        ),
        object(
            "gitops.wheelwright.dev/v1alpha1",
            "ConfigRepo",
            "elsewhere",
            json!({"metadata": {"namespace": "default"},
                "spec": {"url": "https://git.example.com/f.git", "secretRef": {"name": "read"}}}),
        ),
    ];
    kubectl.run_with(&["apply", "-f", "-"], &documents.concat());
    let uid =
        kubectl.run(&["get", "configrepo", "fleet", "-n", helm::NAMESPACE, "-o", "jsonpath={.metadata.uid}"]);
    let ours = "gitops.wheelwright.dev/v1alpha1";
    let owner = json!([{"apiVersion": ours, "kind": "ConfigRepo", "name": "fleet", "uid": uid.trim()}]);
    let placement = format!("cluster.open-cluster-management.io/Placement/{}/p", helm::NAMESPACE);
    let listed = json!({"metadata": {"ownerReferences": owner}, "spec": {"objects": {placement: "v1beta1"}}});
    kubectl.run_with(&["apply", "-f", "-"], &object(ours, "ConfigRepoInventory", "fleet-1", listed));
    let unreadable = object("v1", "Secret", "wheelwright-dashboard", json!({"stringData": {"tls.crt": "-"}}));
    kubectl.run_with(&["apply", "-f", "-"], &unreadable);
    let volume = json!([{"op": "add", "path": "/spec/template/spec/volumes/-",
        "value": {"name": "git-webhook", "secret": {"secretName": "git-tls"}}}]);
    let of_operator =
        ["patch", "deployment", "wheelwright-operator", "-n", helm::NAMESPACE, "--type=json", "-p"];
    kubectl.run(&[&of_operator[..], &[&volume.to_string()]].concat());
    kubectl.run(&["delete", "validatingadmissionpolicy", "wheelwright-manifestworks"]);
    kubectl.run(&["delete", "role", "wheelwright-election", "-n", helm::NAMESPACE]);
    kubectl.run(&[
        "patch",
        "clusterrole",
        "wheelwright-operator",
        "--type=json",
        "-p",
        r#"[{"op":"remove","path":"/rules/0"}]"#,
    ]);
    let column = r#"[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/verify"}]"#;
    kubectl.run(&["patch", "crd", "configrepos.gitops.wheelwright.dev", "--type=json", "-p", column]);
    let (findings, advice) = problems(&hub);
    let all = findings.join("\n");
    for part in [
        "configrepos.gitops.wheelwright.dev: the hub's v1alpha1 drops fields that this version reads: spec.verify",
        "admission: admission policies are missing: wheelwright-manifestworks",
        "certificates: the certificate of the dashboard cannot be read",
        "certificates: there is no Secret git-tls for the git webhook",
        "permissions: the operator may not get managedclusters.cluster.open-cluster-management.io,",
        "the operator may not update leases.coordination.k8s.io wheelwright-operator in wheelwright-system,",
        "permissions: the operator may not get secrets read in default",
        "ocm: cluster-manager-placement-controller (not available) and this operator make the same decisions",
        "argo cd: both Argo CD and a ConfigRepo apply Placement wheelwright-system/p",
        "repositories: wheelwright-system/fleet: there is no Secret wheelwright-system/fleet-read",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
    assert!(
        advice.iter().any(|one| one.ends_with("wheelwright upgrade --controllers='*,-placement'")),
        "{advice:?}"
    );
    // Following the advice fixes the problem.
    let upgrade = "upgrade --wait 0 --controllers=*,-placement --config-namespaces=default";
    assert!(wheelwright(&hub, upgrade).status.success());
    let (findings, _) = problems(&hub);
    let all = findings.join("\n");
    for part in ["spec.verify", "admission", "permissions", "ocm"] {
        assert!(!all.contains(part), "{part}\n{all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_git_server_of_each_repository_is_asked_for_its_reference() {
    let hub = sources::Hub::start().await;
    let url = hub.repository("config");
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), "default");
    for (name, branch) in [("fleet", "main"), ("gone", "prod")] {
        let spec = json!({"url": url, "ref": {"branch": branch}, "serviceAccountName": "tenant"});
        let repo = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        repos.create(&PostParams::default(), &repo).await.unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["doctor", "-o", "json", "--kubeconfig"]).arg(hub.dir.path().join("kubeconfig"));
    let output = command.output().unwrap();
    assert!(!output.status.success(), "a branch is missing");
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let asked: Vec<_> = findings.iter().filter(|finding| finding["check"] == "git servers").collect();
    let of = |number: usize, field: &str| asked[number][field].as_str().unwrap();
    assert_eq!(asked.len(), 2, "{findings:?}");
    assert_eq!(of(0, "health"), "Good");
    assert!(of(0, "message").starts_with("default/fleet: its git server has branch main at "), "{asked:?}");
    assert_eq!(of(1, "health"), "Bad");
    assert!(of(1, "message").contains("branch prod does not exist in "), "{asked:?}");
    assert_eq!(of(1, "advice"), "correct spec.ref, or push that reference");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_went_to_argo_cd_is_not_a_finding_and_takes_nothing_back() {
    let hub = sources::Hub::start().await;
    let url = hub.repository("config");
    sources::run(hub.dir.path(), "git", &["clone", "-q", "-b", "main", &url, "work"]);
    let work = hub.dir.path().join("work");
    let set = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": "blue"}});
    std::fs::write(work.join("set.yaml"), set.to_string()).unwrap();
    sources::run(&work, "git", &["add", "."]);
    let me = ["-c", "user.name=A User", "-c", "user.email=user@example.org"];
    sources::run(&work, "git", &[&me[..], &["commit", "-q", "-m", "set"]].concat());
    sources::run(&work, "git", &["push", "-q", "origin", "main"]);
    let _operator = hub.operator(&url);
    let sets: Api<ManagedClusterSet> = Api::all(hub.server.client());
    let mark =
        async || Some(sets.get_opt("blue").await.unwrap()?.annotation(CONFIG_REPO_ANNOTATION)?.to_owned());
    eventually("the set is applied", async || mark().await.is_some()).await;

    let shared = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(["doctor", "-o", "json", "--kubeconfig"]).arg(hub.dir.path().join("kubeconfig"));
        let findings: Vec<Value> = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        findings.into_iter().find(|finding| finding["check"] == "argo cd").unwrap()
    };
    let id = "shop:cluster.open-cluster-management.io/ManagedClusterSet:/blue";
    let tracked = json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": id}}});
    let argo_cd = PatchParams { field_manager: Some("argocd-controller".into()), ..PatchParams::default() };
    sets.patch("blue", &argo_cd, &Patch::Merge(tracked)).await.unwrap();
    assert_eq!(shared()["message"], "both Argo CD and a ConfigRepo apply ManagedClusterSet blue");

    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), sources::NAMESPACE);
    let set_mode = async |mode: &str| {
        let mode = Patch::Merge(json!({"spec": {"mode": mode}}));
        repos.patch("config", &PatchParams::default(), &mode).await.unwrap();
    };
    set_mode("Observe").await;
    eventually("the marks are gone", async || mark().await.is_none()).await;
    assert_eq!(shared()["health"], "Good");
    set_mode("Apply").await;
    eventually("the set stays that of Argo CD", async || {
        let status = repos.get("config").await.unwrap().status.unwrap_or_default();
        status.conditions.iter().any(|condition| condition.reason == "OwnedByArgo")
    })
    .await;
    assert_eq!(shared()["health"], "Good");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_the_operator_may_not_list_is_named_until_it_may() {
    let hub = sources::Hub::start().await;
    let url = hub.repository("config");
    let (dir, client) = (hub.dir.path(), hub.server.client());
    let wheelwright = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(arguments.split_whitespace()).arg("--kubeconfig").arg(dir.join("kubeconfig"));
        command.output().unwrap()
    };
    let printed: Value = serde_json::from_slice(&wheelwright("install --dry-run -o json").stdout).unwrap();
    let kinds = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    for kind in kinds {
        for object in printed["items"].as_array().unwrap().iter().filter(|object| object["kind"] == kind) {
            let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            let types = object.types.as_ref().unwrap();
            let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap());
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let name = object.metadata.name.as_deref().unwrap();
            api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&object)).await.unwrap();
        }
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = json!({"metadata": {"labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}});
    namespaces.patch(sources::NAMESPACE, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let account = format!("system:serviceaccount:{}:wheelwright-operator", sources::NAMESPACE);
    let kubeconfig = dir.join("operator.kubeconfig");
    std::fs::write(&kubeconfig, hub.server.kubeconfig_yaml(&account, &[]).unwrap()).unwrap();
    let args = ["operator", "--kubeconfig", kubeconfig.to_str().unwrap(), "--local-repositories"];
    let _operator = Running::start("operator", dir, &args);
    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), sources::NAMESPACE);
    let repo = json!({"metadata": {"name": "config"}, "spec": {"url": url, "ref": {"branch": "main"}}});
    repos.create(&PostParams::default(), &serde_json::from_value(repo).unwrap()).await.unwrap();

    eventually("the commit is refused", async || {
        let status = repos.get("config").await.unwrap().status.unwrap_or_default();
        status
            .conditions
            .iter()
            .any(|one| one.type_ == "Stalled" && one.is_true() && one.reason == "Forbidden")
    })
    .await;
    let findings: Vec<Value> = serde_json::from_slice(&wheelwright("doctor -o json").stdout).unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == "repositories").unwrap();
    let named = format!(
        "cannot read ConfigMap: configmaps is forbidden: User \"{account}\" cannot list resource \"configmaps\""
    );
    assert!(finding["message"].as_str().unwrap().contains(&named), "{finding}");
    assert!(finding["advice"].as_str().unwrap().contains("docs/permissions.md"), "{finding}");

    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = json!({"metadata": {"name": "fleet-kinds"}, "rules": rules});
    let subject =
        json!({"kind": "ServiceAccount", "name": "wheelwright-operator", "namespace": sources::NAMESPACE});
    let role_ref =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet-kinds"});
    let binding = json!({"metadata": {"name": "fleet-kinds"}, "roleRef": role_ref, "subjects": [subject]});
    let (roles, bindings) = (Api::<ClusterRole>::all(client.clone()), Api::<ClusterRoleBinding>::all(client));
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    eventually("the commit is applied", async || hub.exists("config").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_advice_for_a_hub_of_helm_corrects_it() {
    let hub = Cluster::start("doctor-helm").await;
    let kubectl = hub.kubectl();
    let helm = |verb: &str, options: &[&str]| {
        let mut command = Command::new(helm::program());
        command.args([verb, "wheelwright", concat!(env!("CARGO_MANIFEST_DIR"), "/charts/wheelwright")]);
        command.args(["--namespace", helm::NAMESPACE]).args(options);
        let output = command.arg("--kubeconfig").arg(&hub.kubeconfig).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    kubectl.run(&["create", "namespace", helm::NAMESPACE]);
    helm("install", &[]);
    kubectl.run(&["delete", "crd", "rolloutpolicies.gitops.wheelwright.dev"]);
    kubectl.run(&["delete", "validatingadmissionpolicy", "wheelwright-manifestworks"]);
    let first_rule = r#"[{"op":"remove","path":"/rules/0"}]"#;
    kubectl.run(&["patch", "clusterrole", "wheelwright-operator", "--type=json", "-p", first_rule]);
    let has = |findings: &[String], check: &str| findings.iter().any(|one| one.starts_with(check));
    let broken = ["definitions: ", "admission: ", "permissions: "];
    let (findings, advice) = problems(&hub);
    assert!(broken.iter().all(|check| has(&findings, check)), "{findings:?}");
    let definitions = "wheelwright crds | kubectl apply --server-side --force-conflicts -f -";
    assert!(advice.iter().any(|one| one == definitions), "{advice:?}");
    let upgrade = "helm upgrade wheelwright CHART -n wheelwright-system --reset-then-reuse-values, with helm 4 also --force-conflicts";
    assert_eq!(advice.iter().filter(|one| one.starts_with(upgrade)).count(), 2, "{advice:?}");
    assert!(!advice.iter().any(|one| one.contains("wheelwright upgrade")), "{advice:?}");

    let crds = Command::new(env!("CARGO_BIN_EXE_wheelwright")).arg("crds").output().unwrap().stdout;
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl.run_with(&apply, &String::from_utf8(crds).unwrap());
    helm("upgrade", &["--reset-then-reuse-values"]);
    let (findings, _) = problems(&hub);
    assert!(!broken.iter().any(|check| has(&findings, check)), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_that_cannot_be_read_name_the_pods() {
    let hub = Cluster::start("logs").await;
    let refused = |arguments: &str| {
        let output = wheelwright(&hub, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        String::from_utf8(output.stderr).unwrap()
    };
    let none = refused("logs registration-operator -n default");
    assert!(
        none.contains("app.kubernetes.io/name=wheelwright-registration-operator in the namespace default"),
        "{none}"
    );
    let pod = |name: &str| {
        let spec =
            json!({"nodeName": "gone", "containers": [{"name": "agent", "image": "wheelwright-agent:1"}]});
        let metadata =
            json!({"namespace": "default", "labels": {"app.kubernetes.io/name": "wheelwright-agent"}});
        object("v1", "Pod", name, json!({"metadata": metadata, "spec": spec}))
    };
    hub.kubectl().run_with(&["create", "-f", "-"], &[pod("one"), pod("two")].concat());
    let unread = refused("logs agent -n default");
    for name in ["one", "two"] {
        assert!(unread.contains(&format!("cannot read the log of pod default/{name}: ")), "{unread}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_about_the_fleet_are_shown_and_others_are_not() {
    let hub = Cluster::start("events").await;
    let kubectl = hub.kubectl();
    let event = |name: &str, type_: &str, api_version: &str, kind: &str| {
        object(
            "events.k8s.io/v1",
            "Event",
            name,
            json!({
                "metadata": {"namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": type_,
                "reason": "Reason", "action": "Act", "note": format!("note of {name}"), "reportingController": "c",
                "reportingInstance": "i", "regarding": {"apiVersion": api_version, "kind": kind, "name": "x", "namespace": "default"},
            }),
        )
    };
    let (ours, cluster) = ("gitops.wheelwright.dev/v1alpha1", "cluster.open-cluster-management.io/v1");
    let documents = [
        event("one", "Normal", ours, "ConfigRepo"),
        event("two", "Warning", cluster, "ManagedCluster"),
        event("three", "Normal", "apps/v1", "Deployment"),
        event("csr", "Normal", "certificates.k8s.io/v1", "CertificateSigningRequest"),
        event("klusterlet", "Normal", "operator.open-cluster-management.io/v1", "Klusterlet"),
    ];
    kubectl.run_with(&["create", "-f", "-"], &documents.concat());
    let findings = |arguments: &str| {
        let output = wheelwright(&hub, arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        ["one", "two", "three", "csr", "klusterlet"]
            .into_iter()
            .filter(|name| text.contains(&format!("note of {name}")))
            .collect::<Vec<_>>()
    };
    assert_eq!(findings("events"), ["one", "two", "csr", "klusterlet"]);
    assert_eq!(findings("events --warnings"), ["two"]);
    assert_eq!(findings("events --for configrepo/x -o json"), ["one"]);
    assert_eq!(findings("events -n elsewhere"), Vec::<&str>::new());
    assert_eq!(findings("events -n default"), ["one", "two", "csr", "klusterlet"]);
    assert!(
        String::from_utf8_lossy(&wheelwright(&hub, "events --for fleet").stderr)
            .contains("hint: for example")
    );

    let mut watch = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    watch.args(["events", "--watch", "--kubeconfig"]).arg(&hub.kubeconfig).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("note of two")), "those that there are come first");
    kubectl.run_with(&["create", "-f", "-"], &event("four", "Normal", ours, "ConfigRepo"));
    assert!(lines.next().unwrap().ends_with("note of four"));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
