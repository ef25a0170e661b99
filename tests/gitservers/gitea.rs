//! gitea, with the features that a Git service adds to a git server: tokens, deploy keys, protected branches,
//! webhooks and commit statuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Follower, STATUS, from};
use crate::kube::{built, free_port};
use crate::running::Running;
use crate::sources::{Hub, NAMESPACE, commit_map, run, tip};
use crate::wait::eventually;
use crate::webhook::write_certificates;

const LOGIN: &str = "fleet:rolling stock";

/// gitea with a user `fleet` and its private repository `config`.
struct Gitea {
    dir: PathBuf,
    port: u16,
    ssh: u16,
    _process: Running,
}

impl Gitea {
    async fn start(dir: &Path) -> Self {
        write_certificates(dir);
        let files = built("tests/gitservers/gitea/build");
        let (port, ssh, directory) = (free_port(), free_port(), dir.display());
        let config = format!(
            "RUN_USER = {}\nRUN_MODE = prod\nWORK_PATH = {directory}\nI_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true\n\
             [server]\nPROTOCOL = https\nCERT_FILE = {directory}/tls.crt\nKEY_FILE = {directory}/tls.key\n\
             HTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = https://127.0.0.1:{port}/\nSTATIC_ROOT_PATH = {}\n\
             START_SSH_SERVER = true\nBUILTIN_SSH_SERVER_USER = git\nSSH_LISTEN_HOST = 127.0.0.1\nSSH_PORT = {ssh}\n\
             [database]\nDB_TYPE = sqlite3\n[security]\nINSTALL_LOCK = true\n\
             [webhook]\nALLOWED_HOST_LIST = loopback\nSKIP_TLS_VERIFY = true\n[actions]\nENABLED = false\n[log]\nLEVEL = Warn\n",
            run(dir, "id", &["-un"]),
            files.display()
        );
        fs::write(dir.join("app.ini"), config).unwrap();
        let program = files.join("gitea");
        let (user, password) = LOGIN.split_once(':').unwrap();
        run(dir, program.to_str().unwrap(), &["migrate", "--config", "app.ini"]);
        let account = ["--username", user, "--password", password, "--email", "fleet@example.com"];
        let create = ["admin", "user", "create", "--config", "app.ini", "--must-change-password=false"];
        run(dir, program.to_str().unwrap(), &[&create[..], &account].concat());
        let mut web = Command::new(&program);
        web.arg("web").arg("--config").arg(dir.join("app.ini"));
        let gitea =
            Self { dir: dir.into(), port, ssh, _process: Running::spawn(&mut web, "gitea", dir, dir) };
        for port in [port, ssh] {
            let listens = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            eventually("gitea listens", listens).await;
        }
        gitea.api("POST", "user/repos", json!({"name": "config", "private": true}));
        gitea
    }

    /// Calls the API as the user.
    fn api(&self, method: &str, path: &str, body: Value) -> Value {
        let url = format!("https://127.0.0.1:{}/api/v1/{path}", self.port);
        let (body, json) = (body.to_string(), "Content-Type: application/json");
        let quiet = ["-sSk", "--fail-with-body", "-u", LOGIN];
        let request = ["-X", method, "-H", json, "-d", &body, &url];
        let printed = run(&self.dir, "curl", &[&quiet[..], &request].concat());
        if printed.is_empty() { Value::Null } else { serde_json::from_str(&printed).unwrap() }
    }

    /// Returns the data of a Secret with a new token.
    fn token(&self, scope: &str) -> Value {
        let token = self.api("POST", "users/fleet/tokens", json!({"name": scope, "scopes": [scope]}));
        let ca = fs::read_to_string(self.dir.join("ca.crt")).unwrap();
        json!({"ca.crt": ca, "username": "fleet", "token": token["sha1"]})
    }

    /// Returns the data of a Secret with a new deploy key.
    fn deploy_key(&self, name: &str, read_only: bool) -> Value {
        run(&self.dir, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]);
        let file = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap();
        let key = json!({"title": name, "key": file(&format!("{name}.pub")), "read_only": read_only});
        self.api("POST", "repos/fleet/config/keys", key);
        let known = run(&self.dir, "ssh-keyscan", &["-p", &self.ssh.to_string(), "127.0.0.1"]);
        json!({"ssh-privatekey": file(name), "known_hosts": known})
    }

    /// Commits a ConfigMap and pushes it as a person would.
    fn commit(&self, name: &str) {
        let path = self.dir.join("config.git");
        if name != "config" {
            commit_map(&path, name);
        }
        let url = format!("https://127.0.0.1:{}/fleet/config.git", self.port);
        let login = LOGIN.replace(' ', "%20");
        let url = url.replace("https://", &format!("https://{login}@"));
        run(&path, "git", &["-c", "http.sslVerify=false", "push", "-q", &url, "main"]);
    }

    /// Returns the path of the repository on gitea's disk.
    fn repository(&self) -> PathBuf {
        self.dir.join("data/gitea-repositories/fleet/config.git")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "gitea takes five minutes of a core to build; `make neighbors` runs it"]
async fn gitea_serves_a_config_repo_with_tokens_keys_protection_webhooks_and_statuses() {
    let hub = Hub::start().await;
    hub.repository("config");
    let (dir, gitea) = (hub.dir.path(), Gitea::start(hub.dir.path()).await);
    gitea.commit("config");
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (port, url) = (free_port(), format!("https://127.0.0.1:{}/fleet/config.git", gitea.port));
    let (kubeconfig, listen) = (file("kubeconfig"), format!("127.0.0.1:{port}"));
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let mut args = vec!["operator", "--kubeconfig", &kubeconfig, "--local-repositories", "--repo", &url];
    args.extend(["--git-webhook-listen", &listen, "--git-webhook-cert", &cert, "--git-webhook-key", &key]);
    let _operator = Running::start("operator", dir, &args);
    let follower = Follower::new(&hub);
    eventually("the ConfigRepo exists", async || follower.repos.get_opt("config").await.unwrap().is_some())
        .await;

    // Tokens and commit statuses.
    let (read, write) = (gitea.token("read:repository"), gitea.token("write:repository"));
    let stranger = json!({"ca.crt": read["ca.crt"], "token": "0123456789012345678901234567890123456789"});
    let hook = json!({"token": "a secret of enough bytes"});
    for (name, data) in [("read", &stranger), ("write", &write), ("statuses", &write), ("hook", &hook)] {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        follower.secrets.create(&PostParams::default(), &from(secret)).await.unwrap();
    }
    let statuses = json!({"type": "gitea", "secretRef": {"name": "statuses"}});
    let report =
        json!({"branch": STATUS, "secretRef": {"name": "write"}, "interval": "1s", "commitStatus": statuses});
    follower.edit(json!({"interval": "1s", "secretRef": {"name": "read"}, "report": report})).await;
    follower.becomes("Ready", "SourceUnauthorized", "").await;
    let secret = json!({"stringData": read});
    follower.secrets.patch("read", &PatchParams::default(), &Patch::Merge(secret)).await.unwrap();
    eventually("the first commit is applied", async || hub.exists("config").await).await;
    let server = gitea.repository();
    follower.has_reported(&server).await;
    eventually("the commit has the state success", async || {
        let status = gitea.api("GET", "repos/fleet/config/commits/main/status", Value::Null);
        status["state"] == "success"
    })
    .await;

    // gitea's own webhook triggers a fetch.
    let webhook = json!({"interval": "24h", "webhook": {"secretRef": {"name": "hook"}}});
    follower.edit(webhook).await;
    let generation = follower.repos.get("config").await.unwrap().metadata.generation;
    eventually("the spec is read", async || {
        follower.status().await["observedGeneration"] == json!(generation)
    })
    .await;
    let to = format!("https://127.0.0.1:{port}/webhooks/{NAMESPACE}/config");
    let config = json!({"url": to, "content_type": "json", "secret": hook["token"]});
    let webhook = json!({"type": "gitea", "active": true, "events": ["push"], "config": config});
    gitea.api("POST", "repos/fleet/config/hooks", webhook);
    gitea.commit("pushed");
    eventually("a pushed commit is applied", async || hub.exists("pushed").await).await;
    follower.has_reported(&server).await;
    let log = fs::read_to_string(dir.join("operator.log")).unwrap();
    assert!(log.contains("received a webhook"), "{log}");

    // A protected branch rejects the report.
    let protection = json!({"rule_name": STATUS, "enable_push": false});
    gitea.api("POST", "repos/fleet/config/branch_protections", protection);
    let reported = tip(&server, STATUS);
    gitea.commit("protected");
    follower.becomes("Reported", "StatusPushRejected", "protected branch").await;
    assert_eq!(tip(&server, STATUS), reported);
    gitea.api("DELETE", "repos/fleet/config/branch_protections/wheelwright%2Fstatus", Value::Null);
    follower.edit(json!({"report": {"interval": "2s"}})).await;
    follower.has_reported(&server).await;

    // A read-only deploy key cannot report; a writable one can.
    for (name, data) in
        [("reader", gitea.deploy_key("reader", true)), ("writer", gitea.deploy_key("writer", false))]
    {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        follower.secrets.create(&PostParams::default(), &from(secret)).await.unwrap();
    }
    let second = json!({"metadata": {"name": "reader-2"}, "stringData": follower.secret("reader").await});
    follower.secrets.create(&PostParams::default(), &from(second)).await.unwrap();
    let url = format!("ssh://git@127.0.0.1:{}/fleet/config.git", gitea.ssh);
    let api = format!("https://127.0.0.1:{}/api/v1", gitea.port);
    let report = json!({"secretRef": {"name": "reader-2"}, "commitStatus": {"address": api}});
    follower
        .edit(json!({"url": url, "interval": "1s", "secretRef": {"name": "reader"}, "report": report}))
        .await;
    gitea.commit("by-key");
    eventually("a commit is fetched with a deploy key", async || hub.exists("by-key").await).await;
    follower.becomes("Reported", "StatusPushRejected", "write").await;
    follower.edit(json!({"report": {"secretRef": {"name": "writer"}}})).await;
    follower.has_reported(&server).await;
}
