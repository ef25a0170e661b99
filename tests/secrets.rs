//! Files that are encrypted with SOPS, from the user's view: git, the operator as a process and the command line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use api::gitops::v1alpha1::ConfigRepo;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::e2e::Repository;
use crate::kube::Kubectl;
use crate::sources::{Hub, NAMESPACE};
use crate::wait::eventually;

/// The plaintext of the encrypted values, plain and in base64.
const CANARIES: [&str; 2] = ["canary", "Y2FuYXJ5"];

fn recorded(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sops").join(path)
}

pub(crate) fn text(path: &str) -> String {
    std::fs::read_to_string(recorded(path)).unwrap()
}

pub(crate) fn wheelwright(dir: &Path, args: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(args).env("HOME", dir).env_remove("SOPS_AGE_KEY").env_remove("SOPS_AGE_KEY_FILE");
    command.envs(key.map(|key| ("SOPS_AGE_KEY_FILE", recorded(key)))).output().unwrap()
}

pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn assert_hidden(what: &str, text: &str) {
    assert!(!text.is_empty(), "{what} is empty");
    for canary in CANARIES {
        let line = text.lines().find(|line| line.contains(canary));
        assert!(line.is_none(), "{what} contains {canary}: {line:?}");
    }
}

/// Returns the text of all files on a branch.
pub(crate) fn branch(repository: &Path, name: &str) -> Option<String> {
    let git = git2::Repository::open(repository).unwrap();
    let tip = git.find_reference(&format!("refs/heads/{name}")).ok()?.peel_to_tree().ok()?;
    let mut text = String::new();
    let read = |_: &str, entry: &git2::TreeEntry<'_>| {
        let blob = git.find_blob(entry.id()).ok();
        text += &blob.map(|blob| String::from_utf8_lossy(blob.content()).into_owned()).unwrap_or_default();
        git2::TreeWalkResult::Ok
    };
    tip.walk(git2::TreeWalkMode::PreOrder, read).ok()?;
    Some(text)
}

/// Returns a repository with an encrypted Secret, an encrypted file for a generator, and encrypted values of a chart.
fn repository(dir: &Path) -> Repository {
    let mut repository = Repository::empty(dir);
    let kustomization = "namespace: default\nresources: [secret.yaml]\nsecretGenerator: [{name: app, envs: [app.env]}]\nhelmCharts: [{name: web, releaseName: web, valuesFile: values.yaml}]\n";
    let template = "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {p: '{{ .Values.password_secret }}'}\n";
    for (path, text) in [
        ("kustomization.yaml", kustomization),
        ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
        ("charts/web/templates/a.yaml", template),
        ("secret.yaml", &text("corpus/secret.yaml")),
        ("app.env", &text("corpus/app.env")),
        ("values.yaml", &text("corpus/encrypted_suffix.yaml")),
    ] {
        repository.write(path, text);
    }
    repository
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_files_become_secrets_and_their_plaintext_is_nowhere_else() {
    let hub = Hub::start().await;
    let dir = hub.dir.path();
    let mut repository = repository(dir);
    repository.commit("one");
    let url = repository.path.to_str().unwrap().to_owned();
    let _operator = hub.operator(&url);
    let repos: Api<ConfigRepo> = Api::namespaced(hub.server.client(), NAMESPACE);
    let says = async |part: &str| {
        let status = repos.get_opt("fleet").await.unwrap().and_then(|repo| repo.status).unwrap_or_default();
        let mut ready = status.conditions.iter().filter(|one| one.type_ == "Ready");
        ready.any(|one| one.reason == "RenderFailed" && one.message.contains(part))
    };
    let edit = async |spec: serde_json::Value| {
        repos.patch("fleet", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    };
    let refused =
        "\"secret.yaml\" is encrypted with SOPS: there is no key to decrypt it; hint: set spec.decryption";
    eventually("without keys, the commit is refused", async || says(refused).await).await;
    let report = json!({"branch": "reports", "snapshot": true, "interval": "1s"});
    edit(json!({"interval": "1s", "report": report, "decryption": {"secretRef": {"name": "sops-keys"}}}))
        .await;
    let refused = "the Secret wheelwright-system/sops-keys with the keys does not exist; create it";
    eventually("without the Secret, it is refused", async || says(refused).await).await;

    let keys =
        json!({"metadata": {"name": "sops-keys"}, "stringData": {"team.agekey": text("keys/team.agekey")}});
    let secrets: Api<Secret> = Api::namespaced(hub.server.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(keys).unwrap()).await.unwrap();
    let made: Api<Secret> = Api::namespaced(hub.server.client(), "default");
    let value = async |name: &str, key: &str| {
        let secret = made.get_opt(name).await.unwrap()?;
        String::from_utf8(secret.data?.get(key)?.0.clone()).ok()
    };
    eventually("the Secret has its plaintext", async || {
        value("shop", "password").await.as_deref() == Some("canary-b3Blbg")
    })
    .await;
    eventually("so has the one of the chart", async || value("web", "p").await.as_deref() == Some("canary"))
        .await;
    let kubeconfig = dir.join("kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, dir.join("kubectl"));
    let generated = kubectl.run(&["get", "secrets", "-n", "default", "-o", "name"]);
    assert!(generated.lines().any(|name| name.starts_with("secret/app-")), "{generated}");

    // Another commit adds a Secret. The rule of this file leaves its name to the author.
    let more = text("corpus/mac_only_encrypted.yaml").replace("name: shop", "name: more");
    repository.write("more.yaml", &more);
    repository.edit("kustomization.yaml", "[secret.yaml]", "[secret.yaml, more.yaml]");
    edit(json!({"planApproval": "Required"})).await;
    let second = repository.commit("two");
    for output in ["text", "markdown", "json"] {
        let args = [
            "plan",
            "--repo",
            &url,
            "--head",
            "main",
            "--hub",
            kubeconfig.to_str().unwrap(),
            "--output",
            output,
        ];
        let plan = printed(&wheelwright(dir, &args, None));
        assert!(plan.contains("Secret default/more"), "{plan}");
        assert_hidden("the plan", &plan);
    }
    let held = [
        "get",
        "configrepo",
        "fleet",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.status.heldChanges}{.status.seen.commit}",
    ];
    eventually("the commit waits for approval", async || {
        let held = kubectl.run(&held);
        held.contains("(hidden)") && held.contains("more") && held.contains(&second)
    })
    .await;
    assert_hidden("the plan that waits", &kubectl.run(&held));
    edit(json!({"planApproval": "NotRequired"})).await;
    eventually("the next commit is applied", async || {
        value("more", "password").await.as_deref() == Some("canary-b3Blbg")
    })
    .await;
    eventually("it is reported", async || {
        branch(&repository.path, "reports").is_some_and(|text| text.contains(&second))
    })
    .await;
    assert_hidden("the report", &branch(&repository.path, "reports").unwrap());
    assert_hidden("the log", &std::fs::read_to_string(dir.join("operator.log")).unwrap());
    let kinds = "configrepos,configrepoinventories,events,controllerrevisions.apps,manifestworks";
    assert_hidden("an object", &kubectl.run(&["get", kinds, "-A", "-o", "yaml"]));
}

#[test]
fn the_command_line_decrypts_with_the_variables_of_sops() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::copy(recorded("corpus/secret.yaml"), dir.join("secret.yaml")).unwrap();
    let args = ["render", dir.to_str().unwrap()];
    let refused = wheelwright(dir, &args, None);
    assert!(!refused.status.success());
    let message = printed(&refused);
    assert!(message.contains("\"secret.yaml\" is encrypted with SOPS: there is no key"), "{message}");
    assert!(message.contains("SOPS_AGE_KEY_FILE"), "{message}");
    let other = printed(&wheelwright(dir, &args, Some("keys/other.agekey")));
    assert!(other.contains("no key opens the SOPS file; it is encrypted for age1"), "{other}");
    let rendered = wheelwright(dir, &args, Some("keys/team.agekey"));
    assert!(
        rendered.status.success() && printed(&rendered).contains("password: canary-b3Blbg"),
        "{rendered:?}"
    );
    let absent = wheelwright(dir, &args, Some("keys/absent"));
    assert!(printed(&absent).contains("from SOPS_AGE_KEY_FILE"), "{absent:?}");
}
