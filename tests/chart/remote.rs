//! Remote charts: helm pushes them to a registry of the distribution project, and nginx serves a classic repository.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wheelwright::shell::now;

use super::packed::{run, write};
use crate::kube::built;
use crate::oci::{LOGIN, start_registry};
use crate::running::Running;
use crate::sources::{Hub, NAMESPACE};
use crate::wait::eventually;
use crate::webhook::free_port;

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}', namespace: default}\n\
    data: {v: '{{ .Values.v }}', ignored: '{{ .Files.Get \"ignored\" }}'}\n";

/// A registry and a classic repository, with one chart in both.
struct Repositories {
    dir: PathBuf,
    helm: PathBuf,
    registry: String,
    classic: String,
    _servers: [Running; 2],
}

impl Repositories {
    async fn start(dir: &Path) -> Self {
        Self::start_with(dir, false).await
    }

    /// Starts both, and requires [`LOGIN`] if they are private.
    async fn start_with(dir: &Path, is_private: bool) -> Self {
        let (registry, port) = start_registry(dir, is_private).await;
        let [user, password] = LOGIN;
        write(dir, &[("classic.users", &format!("{user}:{{PLAIN}}{password}\n"))]);
        let realm = if is_private { "charts" } else { "off" };
        let (classic, directory) = (free_port(), dir.display());
        let nginx = format!(
            "daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\n\
             access_log off; client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2;\n\
             fastcgi_temp_path {directory}/t3; uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;\n\
             server {{ listen 127.0.0.1:{classic} ssl; root {directory}/classic;\n\
             auth_basic {realm}; auth_basic_user_file {directory}/classic.users;\n\
             ssl_certificate {directory}/tls.crt; ssl_certificate_key {directory}/tls.key; }} }}\n"
        );
        write(dir, &[("nginx.conf", &nginx)]);
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf"));
        let nginx = Running::spawn(&mut nginx, "nginx", dir, dir);
        let listens = async || tokio::net::TcpStream::connect(("127.0.0.1", classic)).await.is_ok();
        eventually("the repository of charts listens", listens).await;
        let repositories = Self {
            dir: dir.to_owned(),
            helm: built("tests/kustomize/build").join("helm"),
            registry: format!("oci://127.0.0.1:{port}/charts"),
            classic: format!("https://127.0.0.1:{classic}"),
            _servers: [registry, nginx],
        };
        repositories.publish("one");
        repositories
    }

    /// Publishes version 1.2.3 of the chart `web` with this value.
    fn publish(&self, value: &str) {
        let value = format!("v: {value}\n");
        let files = [
            ("web/Chart.yaml", "{apiVersion: v2, name: web, version: 1.2.3}"),
            ("web/values.yaml", value.as_str()),
            ("web/.helmignore", "ignored\n"),
            ("web/ignored", "ignored"),
            ("web/templates/a.yaml", TEMPLATE),
            ("web/crds/a.yaml", "kind: CustomResourceDefinition\nmetadata: {name: a}\n"),
        ];
        write(&self.dir, &files);
        std::fs::create_dir_all(self.dir.join("classic")).unwrap();
        run(&self.helm, &["package", "web", "--destination", "classic"], &self.dir);
        run(&self.helm, &["repo", "index", "classic"], &self.dir);
        let push = ["push", "classic/web-1.2.3.tgz", &self.registry, "--ca-file", "ca.crt"];
        let login = ["--username", LOGIN[0], "--password", LOGIN[1]];
        run(&self.helm, &[&push[..], &login].concat(), &self.dir);
    }
}

fn kustomization(repo: &str, version: &str) -> String {
    format!(
        "helmCharts:\n- {{name: web, repo: '{repo}', version: {version}, releaseName: shop, valuesInline: {{w: 2}}}}\n"
    )
}

/// Commits a kustomization to a repository.
fn commit(dir: &Path, url: &str, kustomization: &str) {
    let (git, work) = (Path::new("git"), dir.join("work"));
    run(git, &["clone", "-q", "-b", "main", url, "work"], dir);
    write(&work, &[("kustomization.yaml", kustomization)]);
    run(git, &["add", "-A"], &work);
    let who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    run(git, &[&who[..], &["commit", "-qm", "chart"]].concat(), &work);
    run(git, &["push", "-q", "origin", "main"], &work);
}

fn render(dir: &Path, authorities: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["render", "fleet", "--git-secret", authorities]).current_dir(dir).stdin(Stdio::null());
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_charts_render_as_in_kustomize() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let repositories = Repositories::start(dir).await;
    let authority = std::fs::read_to_string(dir.join("ca.crt")).unwrap();
    write(dir, &[("secret/ca.crt", &authority)]);
    let kustomize = built("tests/kustomize/build").join("kustomize");
    let helm = repositories.helm.display().to_string();
    // kustomize pulls a chart to this directory, if it is not there.
    write(dir, &[("local/kustomization.yaml", &kustomization("oci://registry.invalid", "1.2.3"))]);
    let pulled = "local/charts/web-1.2.3";
    std::fs::create_dir_all(dir.join(pulled)).unwrap();
    run(Path::new("tar"), &["-xzf", "classic/web-1.2.3.tgz", "-C", pulled], dir);
    let expected = run(&kustomize, &["build", "--enable-helm", "--helm-command", &helm, "local"], dir);
    assert!(expected.contains("v: one"), "{expected}");
    for repo in [&repositories.registry, &repositories.classic] {
        write(dir, &[("fleet/kustomization.yaml", &kustomization(repo, "1.2.3"))]);
        let output = render(dir, "secret");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{repo}");
    }
    for (repo, version, expected) in [
        (&repositories.registry, "1.2.4", "HTTP status 404"),
        (&repositories.classic, "1.2.4", "index.yaml has no version 1.2.4 of the chart web"),
        (&repositories.registry, "^1.2.3", "must be exact"),
    ] {
        write(dir, &[("fleet/kustomization.yaml", &kustomization(repo, version))]);
        let output = render(dir, "secret");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
        assert!(error.contains("fleet/kustomization.yaml:2"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_repo_applies_a_chart_of_a_registry_and_refuses_swapped_content() {
    let hub = Hub::start().await;
    let dir = hub.dir.path();
    let repositories = Repositories::start(dir).await;
    let url = hub.repository("a");
    commit(dir, &url, &kustomization(&repositories.registry, "1.2.3"));

    let operator = hub.operator(&url);
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let status = async || -> ConfigRepoStatus {
        repos.get_opt("a").await.unwrap().and_then(|repo| repo.status).unwrap_or_default()
    };
    let says =
        async |part: &str| status().await.conditions.iter().any(|condition| condition.message.contains(part));
    eventually("the authority is unknown", async || says("issued by an unknown authority").await).await;
    let authority = std::fs::read_to_string(dir.join("ca.crt")).unwrap();
    let secret = json!({"metadata": {"name": "charts"}, "stringData": {"ca.crt": authority}});
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let edit = json!({"spec": {"secretRef": {"name": "charts"}, "interval": "1s"}});
    repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    eventually("the chart is applied", async || hub.exists("shop").await).await;
    eventually("its digest is recorded", async || status().await.charts[0].digest.starts_with("sha256:"))
        .await;
    write(dir, &[("secret/ca.crt", &authority)]);
    let plan =
        ["plan", "--repo", &url, "--head", "main", "--git-secret", "secret", "--kubeconfig", "kubeconfig"];
    // It exits with 0 only if nothing changes.
    run(Path::new(env!("CARGO_BIN_EXE_wheelwright")), &plan, dir);

    drop(operator);
    std::fs::remove_dir_all(dir.join("cache/wheelwright/mirrors/charts")).unwrap();
    repositories.publish("two");
    let _operator = hub.operator(&url);
    eventually("the swap is noticed", async || says("its content was swapped").await).await;
    assert!(hub.exists("shop").await);
}

/// A private registry and a private classic repository, with the releases `shop` and `store` of their chart.
struct Private {
    repositories: Repositories,
    kustomization: String,
}

impl Private {
    async fn start(dir: &Path) -> Self {
        let repositories = Repositories::start_with(dir, true).await;
        let classic = kustomization(&repositories.classic, "1.2.3").replace("shop", "store");
        let classic = classic.trim_start_matches("helmCharts:\n");
        let kustomization = format!("{}{classic}", kustomization(&repositories.registry, "1.2.3"));
        Self { repositories, kustomization }
    }

    /// Returns a configuration of docker with a login for both servers.
    fn logins(&self, password: &str) -> String {
        let Repositories { registry, classic, .. } = &self.repositories;
        let login = json!({"username": LOGIN[0], "password": password});
        json!({"auths": {registry: login, classic: login}}).to_string()
    }
}

/// Fails if a text contains the password or the login.
fn assert_hidden(text: &str) {
    for secret in [LOGIN[1], "bWU6aHVudGVyMjI=", "another22"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_charts_render_with_the_logins_of_helm() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let private = Private::start(dir).await;
    let authority = std::fs::read_to_string(dir.join("ca.crt")).unwrap();
    write(dir, &[("secret/ca.crt", &authority), ("fleet/kustomization.yaml", &private.kustomization)]);
    for (logins, expected) in [
        (None, "requires a login\n"),
        (Some("another22"), "refuses the login: HTTP status 401 Unauthorized\n"),
    ] {
        if let Some(password) = logins {
            write(dir, &[("secret/.dockerconfigjson", &private.logins(password))]);
        }
        let output = render(dir, "secret");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
        assert!(
            error.contains("fleet/kustomization.yaml:2") && error.contains("--git-secret DIR"),
            "{error}"
        );
        assert_hidden(&error);
    }
    write(dir, &[("secret/.dockerconfigjson", &private.logins(LOGIN[1]))]);
    let output = render(dir, "secret");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rendered = String::from_utf8(output.stdout).unwrap();
    assert!(rendered.contains("name: shop") && rendered.contains("name: store"), "{rendered}");

    let Repositories { helm, registry, .. } = &private.repositories;
    let host = registry.split('/').nth(2).unwrap();
    let login =
        ["registry", "login", host, "--ca-file", "ca.crt", "--username", LOGIN[0], "--password", LOGIN[1]];
    run(helm, &login, dir);
    std::fs::copy(dir.join(".config/helm/registry/config.json"), dir.join("secret/.dockerconfigjson"))
        .unwrap();
    write(dir, &[("fleet/kustomization.yaml", &kustomization(registry, "1.2.3"))]);
    let output = render(dir, "secret");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A hub with a ConfigRepo `a` that refers to private charts.
struct PrivateFleet {
    hub: Hub,
    private: Private,
    url: String,
    _operator: Running,
}

impl PrivateFleet {
    async fn start() -> Self {
        let hub = Hub::start().await;
        let private = Private::start(hub.dir.path()).await;
        let url = hub.repository("a");
        commit(hub.dir.path(), &url, &private.kustomization);
        let _operator = hub.operator(&url);
        Self { hub, private, url, _operator }
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.hub.server.client(), namespace)
    }

    async fn create<K>(&self, namespace: &str, object: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + DeserializeOwned + Serialize + Clone + Debug,
        K::DynamicType: Default,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>(namespace).create(&PostParams::default(), &object).await.unwrap();
    }

    /// Creates the Secret `authority` with the authority of both servers.
    async fn trust(&self, namespace: &str) {
        let authority = std::fs::read_to_string(self.hub.dir.path().join("ca.crt")).unwrap();
        let secret = json!({"metadata": {"name": "authority"}, "stringData": {"ca.crt": authority}});
        self.create::<Secret>(namespace, secret).await;
    }

    /// Returns the Secret that `kubectl create secret docker-registry logins` creates.
    fn logins(&self, password: &str) -> Value {
        let data = json!({".dockerconfigjson": self.private.logins(password)});
        json!({"metadata": {"name": "logins"}, "type": "kubernetes.io/dockerconfigjson", "stringData": data})
    }

    async fn patch(&self, namespace: &str, name: &str, patch: &Value) {
        let repos = self.api::<ConfigRepo>(namespace);
        repos.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn status(&self, namespace: &str, name: &str) -> ConfigRepoStatus {
        let repo = self.api::<ConfigRepo>(namespace).get_opt(name).await.unwrap();
        repo.and_then(|repo| repo.status).unwrap_or_default()
    }

    /// Waits until a ConfigRepo has a condition with a reason and a part of a message.
    async fn says(&self, namespace: &str, name: &str, expected: (&str, &str)) {
        let (reason, part) = expected;
        let says = async || {
            let conditions = self.status(namespace, name).await.conditions;
            conditions.iter().any(|one| one.reason == reason && one.message.contains(part))
        };
        eventually(&format!("{namespace}/{name} says {reason}: {part}"), says).await;
    }

    /// Requests a fetch, and waits until it is done.
    async fn fetch(&self, namespace: &str, name: &str) {
        let at = now().to_string();
        let annotations = json!({"gitops.wheelwright.dev/reconcile-at": at});
        self.patch(namespace, name, &json!({"metadata": {"annotations": annotations}})).await;
        let is_done = async || self.status(namespace, name).await.last_handled_reconcile_at == at;
        eventually("the fetch is done", is_done).await;
    }

    /// Creates a ConfigRepo of another tenant with the same repository and no login, and claims the digests of its
    /// charts.
    async fn another_tenant_gets_no_private_chart(&self) {
        let charts = self.status(NAMESPACE, "a").await.charts;
        assert!(charts.len() == 2 && charts.iter().all(|one| !one.digest.is_empty()), "{charts:?}");
        let labels = json!({"gitops.wheelwright.dev/operator-identity": "allowed"});
        let namespace = json!({"metadata": {"name": "team-b", "labels": labels}});
        let namespaces: Api<Namespace> = Api::all(self.hub.server.client());
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        self.trust("team-b").await;
        let reference = json!({"branch": "main"});
        let spec =
            json!({"url": self.url, "ref": reference, "secretRef": {"name": "authority"}, "interval": "1h"});
        self.create::<ConfigRepo>("team-b", json!({"metadata": {"name": "b"}, "spec": spec})).await;
        let refused = ("ChartUnauthorized", "requires a login");
        self.says("team-b", "b", refused).await;
        let claim = json!({"status": {"charts": charts}});
        let repos = self.api::<ConfigRepo>("team-b");
        repos.patch_status("b", &PatchParams::default(), &Patch::Merge(claim)).await.unwrap();
        self.fetch("team-b", "b").await;
        self.says("team-b", "b", refused).await;
        assert_eq!(self.status("team-b", "b").await.charts, charts, "the claim was not undone");
        assert_eq!(self.status("team-b", "b").await.applied, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_charts_are_applied_with_the_logins_in_a_secret_of_their_tenant() {
    let fleet = PrivateFleet::start().await;
    let (hub, dir) = (&fleet.hub, fleet.hub.dir.path());
    fleet.says(NAMESPACE, "a", ("HostKeyMismatch", "issued by an unknown authority")).await;
    fleet.trust(NAMESPACE).await;
    let spec = json!({"secretRef": {"name": "authority"}, "interval": "1h"});
    fleet.patch(NAMESPACE, "a", &json!({"spec": spec})).await;
    fleet
        .says(NAMESPACE, "a", ("ChartUnauthorized", "requires a login; check the login for 127.0.0.1:"))
        .await;
    let spec = json!({"charts": {"secretRef": {"name": "logins"}}});
    fleet.patch(NAMESPACE, "a", &json!({"spec": spec})).await;
    let absent = ("InvalidCredentials", "the Secret wheelwright-system/logins: it does not exist; create it");
    fleet.says(NAMESPACE, "a", absent).await;
    fleet.create::<Secret>(NAMESPACE, fleet.logins("another22")).await;
    let refused = "refuses the login: HTTP status 401 Unauthorized; check the login for 127.0.0.1:";
    fleet.says(NAMESPACE, "a", ("ChartUnauthorized", refused)).await;
    assert!(!hub.exists("shop").await && !hub.exists("store").await);
    let secrets = fleet.api::<Secret>(NAMESPACE);
    let right = Patch::Merge(fleet.logins(LOGIN[1]));
    secrets.patch("logins", &PatchParams::default(), &right).await.unwrap();
    eventually("both charts are applied", async || hub.exists("shop").await && hub.exists("store").await)
        .await;

    fleet.another_tenant_gets_no_private_chart().await;
    secrets.delete("logins", &DeleteParams::default()).await.unwrap();
    fleet.fetch(NAMESPACE, "a").await;
    fleet.says(NAMESPACE, "a", absent).await;
    assert!(hub.exists("shop").await && hub.exists("store").await, "what was applied stays");

    assert_hidden(&std::fs::read_to_string(dir.join("operator.log")).unwrap());
    for namespace in [NAMESPACE, "team-b"] {
        let repos = fleet.api::<ConfigRepo>(namespace).list(&ListParams::default()).await.unwrap();
        assert_hidden(&serde_json::to_string(&repos).unwrap());
        let events = fleet.api::<Event>(namespace).list(&ListParams::default()).await.unwrap();
        assert!(!events.items.is_empty(), "{namespace}");
        assert_hidden(&serde_json::to_string(&events).unwrap());
    }
}
