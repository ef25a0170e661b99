//! Remote charts: helm pushes them to a registry of the distribution project, and nginx serves a classic repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::packed::{run, write};
use crate::kube::built;
use crate::oci::start_registry;
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
        let (registry, port) = start_registry(dir).await;
        let (classic, directory) = (free_port(), dir.display());
        let nginx = format!(
            "daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\n\
             access_log off; client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2;\n\
             fastcgi_temp_path {directory}/t3; uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;\n\
             server {{ listen 127.0.0.1:{classic} ssl; root {directory}/classic;\n\
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
        run(&self.helm, &push, &self.dir);
    }
}

fn kustomization(repo: &str, version: &str) -> String {
    format!(
        "helmCharts:\n- {{name: web, repo: '{repo}', version: {version}, releaseName: shop, valuesInline: {{w: 2}}}}\n"
    )
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
    run(Path::new("git"), &["clone", "-q", "-b", "main", &url, "work"], dir);
    write(&dir.join("work"), &[("kustomization.yaml", &kustomization(&repositories.registry, "1.2.3"))]);
    let work = dir.join("work");
    run(Path::new("git"), &["add", "-A"], &work);
    let who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    run(Path::new("git"), &[&who[..], &["commit", "-qm", "chart"]].concat(), &work);
    run(Path::new("git"), &["push", "-q", "origin", "main"], &work);

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

    drop(operator);
    std::fs::remove_dir_all(dir.join("cache/wheelwright/mirrors/charts")).unwrap();
    repositories.publish("two");
    let _operator = hub.operator(&url);
    eventually("the swap is noticed", async || says("its content was swapped").await).await;
    assert!(hub.exists("shop").await);
}
