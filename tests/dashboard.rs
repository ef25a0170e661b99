//! The dashboard for users with hub tokens: what each visitor sees and may change, on both hubs and with the
//! chart's role.

mod oidc;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ::kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use ::kube::{Api, Client};
use api::crds;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use object::Object;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wheelwright::apiserver::{Credential, kubeconfig_yaml};

use crate::cli::server;
use crate::kube::{Cluster, Directory, Kubectl, helm};
use crate::rollout::load;
use crate::wait::eventually;
use crate::webhook::write_certificates;

const ADD_ON: &str = "managed-serviceaccount";
const PAUSE: &str = "verb=pause&subject=managed-serviceaccount";

/// The start of a button that makes a change.
const BUTTON: &str = "<button class=\"go\" id=";

/// A tenant with one namespace who sees the add-ons of one cluster, and an administrator.
pub(crate) const VISITORS: &str = include_str!("dashboard/visitors.yaml");

/// A dashboard process.
pub(crate) struct Dashboard {
    child: Child,
    pub(crate) port: u16,
    tls: TlsConnector,
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Killing a process that has already exited is harmless.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A response with its body, or the part that was read.
pub(crate) struct Answer(String);

impl Answer {
    fn status(&self) -> &str {
        self.0.split(' ').nth(1).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let head = self.0.split("\r\n\r\n").next().unwrap();
        head.lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wheelwright"))
}

/// Starts a dashboard with additional arguments; returns its process and port.
fn spawn(mut command: Command, kubeconfig: &Path, arguments: &[&str]) -> (Child, u16) {
    command.args(["dashboard", "--listen", "127.0.0.1:0", "--namespace", helm::NAMESPACE]);
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
    (child, port)
}

/// Returns a client that trusts an authority.
fn trusting(authority: &str) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

impl Dashboard {
    /// Starts the dashboard with an identity, and trusts the authority stored in its Secret.
    pub(crate) async fn start(hub: &Client, kubeconfig: &Path) -> Self {
        Self::start_with(program(), hub, kubeconfig).await
    }

    /// Starts the dashboard like [`Self::start`], with the given command.
    pub(crate) async fn start_with(command: Command, hub: &Client, kubeconfig: &Path) -> Self {
        let (child, port) = spawn(command, kubeconfig, &[]);
        let secrets: Api<Secret> = Api::namespaced(hub.clone(), helm::NAMESPACE);
        let mut authority = String::new();
        eventually("the certificate is in the Secret", async || {
            let secret = secrets.get_opt("wheelwright-dashboard").await.unwrap();
            let data = secret.and_then(|secret| secret.data).unwrap_or_default();
            authority =
                data.get("ca.crt").map(|pem| String::from_utf8(pem.0.clone()).unwrap()).unwrap_or_default();
            !authority.is_empty()
        })
        .await;
        Self { child, port, tls: trusting(&authority) }
    }

    async fn connect(&self) -> Option<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await.ok()
    }

    /// Sends a request with headers, each on its own line, and reads until `end` or the end of the response.
    async fn send(&self, request: &str, headers: &str, body: &str, end: &str) -> Answer {
        let mut stream = None;
        // The dashboard starts using the Secret's certificate a moment after it is written.
        eventually("the page is served", async || {
            stream = self.connect().await;
            stream.is_some()
        })
        .await;
        let mut stream = stream.unwrap();
        let form =
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
        let form = if body.is_empty() { String::new() } else { form };
        let text = format!("{request} HTTP/1.1\r\nHost: localhost\r\n{headers}{form}\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            seen.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&seen).into_owned();
            if read == 0 || (!end.is_empty() && text.contains(end)) {
                return Answer(text);
            }
        }
    }

    pub(crate) async fn page(&self, token: &str) -> Answer {
        self.send("GET /", &format!("Authorization: Bearer {token}\r\n"), "", "").await
    }

    async fn press(&self, token: &str, form: &str) -> Answer {
        let headers = format!("Authorization: Bearer {token}\r\nSec-Fetch-Site: same-origin\r\n");
        self.send("POST /act", &headers, form, "").await
    }
}

/// Returns the roles and bindings of the dashboard from the chart.
fn roles() -> Vec<Value> {
    let mut objects = helm::render("wheelwright", &["dashboard.enabled=true"]).unwrap();
    objects.retain(|object| {
        let kind = object["kind"].as_str().unwrap();
        let is_role =
            ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"].contains(&kind);
        is_role && object["metadata"]["name"].as_str().unwrap().starts_with("wheelwright-dashboard")
    });
    assert_eq!(objects.len(), 7);
    objects
}

/// Checks the dashboard page of a hub. `kubectl` acts as an administrator.
async fn check(url: &str, authority: &str, client: Client, kubectl: &Kubectl, dir: &Directory) {
    kubectl.run(&["create", "namespace", helm::NAMESPACE]);
    load(&client, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain/rollout.yaml")).await;
    let roles: Vec<String> = roles().iter().map(Value::to_string).collect();
    let documents = VISITORS.to_owned() + "\n---\n" + &roles.join("\n---\n");
    kubectl.run_with(&["apply", "-f", "-"], &documents);
    // The work of an add-on, which the dashboard does not watch.
    let work = serde_json::json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "addon-managed-serviceaccount-deploy-0", "namespace": "aws-1"},
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}});
    kubectl.run_with(&["apply", "-f", "-"], &work.to_string());
    let token = |account: &str, namespace: &str| {
        kubectl.run(&["create", "token", account, "-n", namespace]).trim().to_owned()
    };
    let kubeconfig = dir.path("dashboard.kubeconfig");
    let credential = Credential::Token(token("wheelwright-dashboard", helm::NAMESPACE));
    std::fs::write(&kubeconfig, kubeconfig_yaml(url, authority, &credential)).unwrap();
    let dashboard = Dashboard::start(&client, &kubeconfig).await;
    let (tenant, admin) = (token("tenant", "team"), token("admin", "team"));

    strangers_see_nothing(&dashboard, &admin).await;
    a_tenant_sees_what_it_may_list(&dashboard, &tenant, &client).await;
    an_administrator_logs_in_and_changes_the_fleet(&dashboard, &admin, &client).await;
    the_roles_of_the_chart_are_enough(&dashboard, &token("viewer", "team"), &token("on-call", "team")).await;

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "team");
    accounts.delete("admin", &DeleteParams::default()).await.unwrap();
    eventually("a token that was withdrawn opens nothing", async || {
        dashboard.page(&admin).await.status() == "401"
    })
    .await;
}

async fn strangers_see_nothing(dashboard: &Dashboard, admin: &str) {
    assert_eq!(dashboard.send("GET /livez", "", "", "").await.status(), "200");
    for (request, headers, body) in [
        ("GET /", "", ""),
        ("GET /events", "", ""),
        ("GET /placement?of=fleet/aws", "", ""),
        ("GET /cluster?of=aws-1", "", ""),
        ("GET /rollout?of=managed-serviceaccount", "", ""),
        ("GET /clusters", "", ""),
        ("GET /repository?of=team/app", "", ""),
        ("GET /conditions", "", ""),
        ("GET /", "Authorization: Bearer nonsense\r\n", ""),
        ("GET /", "Cookie: __Host-wheelwright=nonsense\r\n", ""),
        ("POST /act", "Sec-Fetch-Site: same-origin\r\n", PAUSE),
        ("POST /login", "Sec-Fetch-Site: same-origin\r\n", "token=nonsense"),
    ] {
        let answer = dashboard.send(request, headers, body, "").await;
        assert_eq!(answer.status(), "401", "{request} {headers}: {}", answer.0);
        assert!(answer.has("Token of the hub") && !answer.has("aws-1"), "{}", answer.0);
        assert!(answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    }
    // A form submitted from another site, with a cookie that a browser would not send.
    for headers in ["Sec-Fetch-Site: cross-site\r\n", "Origin: https://evil.example\r\n", ""] {
        let headers = format!("{headers}Cookie: __Host-wheelwright={admin}\r\n");
        let answer = dashboard.send("POST /act", &headers, PAUSE, "").await;
        assert_eq!(answer.status(), "403", "{}", answer.0);
    }
}

async fn a_tenant_sees_what_it_may_list(dashboard: &Dashboard, tenant: &str, client: &Client) {
    let mut page = dashboard.page(tenant).await;
    eventually("the fleet is read", async || {
        page = dashboard.page(tenant).await;
        page.has("team/app")
    })
    .await;
    assert_eq!(page.status(), "200");
    for shown in ["team/app", ADD_ON, "aws-2", "0 of 1 cluster done", "system:serviceaccount:team:tenant"] {
        assert!(page.has(shown), "{shown}: {}", page.0);
    }
    for hidden in ["fleet/fleet", "aws-1", "aws-3", "fleet/aws", "of 3", BUTTON] {
        assert!(!page.has(hidden), "{hidden}: {}", page.0);
    }
    assert!(page.has("You may not list managedclusters"), "{}", page.0);
    let bearer = format!("Authorization: Bearer {tenant}\r\n");
    let refused = dashboard.send("GET /placement?of=fleet/aws", &bearer, "", "").await;
    assert!(refused.status() == "403" && !refused.has("aws-1"), "{}", refused.0);
    let cluster =
        async |name: &str| dashboard.send(&format!("GET /cluster?of={name}"), &bearer, "", "").await;
    let own = cluster("aws-2").await;
    assert!(
        own.status() == "200" && own.has(ADD_ON) && own.has("You may not get this managedcluster"),
        "{}",
        own.0
    );
    assert!(!own.has("ManagedClusterAvailable"), "{}", own.0);
    for path in ["rollout?of=managed-serviceaccount", "clusters", "clusters?rollout=managed-serviceaccount"] {
        let answer = dashboard.send(&format!("GET /{path}"), &bearer, "", "").await;
        assert!(answer.status() == "200" && answer.has("aws-2"), "{path}: {}", answer.0);
        assert!(!answer.has("aws-1") && !answer.has("aws-3") && !answer.has(BUTTON), "{path}: {}", answer.0);
    }
    let own = dashboard.send("GET /repository?of=team/app", &bearer, "", "").await;
    assert!(own.status() == "200" && !own.has(BUTTON), "{}", own.0);
    for path in ["rollout?of=none", "repository?of=fleet/fleet"] {
        let missing = dashboard.send(&format!("GET /{path}"), &bearer, "", "").await;
        assert!(missing.status() == "404" && missing.has("that you may see"), "{path}: {}", missing.0);
    }
    let labels = dashboard.send("GET /clusters?label=cloud%3Daws", &bearer, "", "").await;
    assert!(
        labels.has("No cluster matches."),
        "labels are those of clusters that it may not list: {}",
        labels.0
    );
    let (foreign, missing) = (cluster("aws-1").await, cluster("aws-9").await);
    assert_eq!((foreign.status(), missing.status()), ("404", "404"), "{}", foreign.0);
    assert!(foreign.has("There is no cluster aws-1"), "{}", foreign.0);
    let page_of = |answer: &Answer| answer.0.split("\r\n\r\n").nth(1).unwrap().to_owned();
    assert_eq!(page_of(&foreign).replace("aws-1", "aws-9"), page_of(&missing));
    let refused = dashboard.press(tenant, PAUSE).await;
    assert!(refused.status() == "403" && refused.has("forbidden"), "{}", refused.0);
    let refused = dashboard.press(tenant, "verb=suspend-repository&subject=team%2Fapp").await;
    assert!(refused.status() == "403" && refused.has("forbidden"), "{}", refused.0);
    let policies: Api<RolloutPolicy> = Api::all(client.clone());
    assert!(policies.get_opt(ADD_ON).await.unwrap().is_none());
}

async fn the_roles_of_the_chart_are_enough(dashboard: &Dashboard, viewer: &str, on_call: &str) {
    for token in [viewer, on_call] {
        let page = dashboard.page(token).await;
        for shown in ["team/app", "fleet/fleet", ADD_ON, "aws-1", "aws-3", "of 3 available"] {
            assert!(page.has(shown), "{shown}: {}", page.0);
        }
        assert_eq!(page.has(BUTTON), token == on_call, "{}", page.0);
        let bearer = format!("Authorization: Bearer {token}\r\n");
        let reasons = dashboard.send("GET /placement?of=fleet/aws", &bearer, "", "").await;
        assert_eq!(reasons.status(), "200", "{}", reasons.0);
        let cluster = dashboard.send("GET /cluster?of=aws-1", &bearer, "", "").await;
        assert!(cluster.status() == "200" && cluster.has("ManagedClusterAvailable"), "{}", cluster.0);
        assert!(cluster.has("Progressing is True") && !cluster.has("ProbeAvailable"), "{}", cluster.0);
        assert_eq!(cluster.has("You may not list manifestworks"), token == viewer, "{}", cluster.0);
        assert_eq!(cluster.has("addon-managed-serviceaccount-deploy-0"), token == on_call, "{}", cluster.0);
    }
    let changes = [
        PAUSE,
        "verb=resume&subject=managed-serviceaccount",
        "verb=suspend-repository&subject=team%2Fapp",
        "verb=resume-repository&subject=team%2Fapp",
    ];
    for change in changes {
        let refused = dashboard.press(viewer, change).await;
        assert!(refused.status() == "403" && refused.has("forbidden"), "{change}: {}", refused.0);
        let made = dashboard.press(on_call, change).await;
        assert_eq!(made.status(), "303", "{change}: {}", made.0);
    }
    let bearer = format!("Authorization: Bearer {on_call}\r\n");
    let page = dashboard.send("GET /rollout?of=managed-serviceaccount", &bearer, "", "").await;
    let (_, form) = page.0.split_once("value=\"undo\"").unwrap();
    let (_, token) = form.split_once("name=\"token\" value=\"").unwrap();
    let token = token.split('"').next().unwrap();
    let undo = |token: &str| format!("verb=undo&subject=managed-serviceaccount&token={token}");
    let stale = dashboard.press(on_call, &undo("fleet/aws@before")).await;
    assert!(
        stale.status() == "409" && stale.has("its rollout has changed since the page was loaded"),
        "{}",
        stale.0
    );
    let refused = dashboard.press(viewer, &undo(token)).await;
    assert!(refused.status() == "403" && refused.has("forbidden"), "{}", refused.0);
    let made = dashboard.press(on_call, &undo(token)).await;
    assert_eq!(made.status(), "303", "{}", made.0);
    eventually("the rollout is taken back", async || {
        let page = dashboard.send("GET /rollout?of=managed-serviceaccount", &bearer, "", "").await;
        page.has("is quarantined") && !page.has("value=\"undo\"")
    })
    .await;
}

async fn an_administrator_logs_in_and_changes_the_fleet(dashboard: &Dashboard, admin: &str, client: &Client) {
    let own = "Origin: https://localhost\r\n";
    let answer = dashboard.send("POST /login", own, &format!("token={admin}"), "").await;
    assert_eq!((answer.status(), answer.header("location")), ("303", Some("./")));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; Secure; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let page = dashboard.send("GET /", &cookie, "", "").await;
    for shown in
        ["team/app", "fleet/fleet", "aws-1", "aws-3", "fleet/aws", "0 of 3 clusters done", "Pause managed-"]
    {
        assert!(page.has(shown), "{shown}: {}", page.0);
    }
    let reasons = dashboard.send("GET /placement?of=fleet/aws", &cookie, "", "").await;
    assert!(reasons.status() == "200" && reasons.has("aws-1") && reasons.has("Reason"), "{}", reasons.0);
    let missing = dashboard.send("GET /placement?of=fleet/none", &cookie, "", "").await;
    assert_eq!(missing.status(), "404", "{}", missing.0);
    let press = async |form: &str| {
        let answer = dashboard.send("POST /act", &format!("{own}{cookie}"), form, "").await;
        assert_eq!((answer.status(), answer.header("location")), ("303", Some("./")), "{}", answer.0);
    };
    let stream = dashboard.send("GET /events", &cookie, "", "Resume managed-");
    let pause = async {
        press("verb=pause&subject=managed-serviceaccount&token=").await;
    };
    let (stream, ()) = tokio::join!(stream, pause);
    assert!(stream.has("Resume managed-serviceaccount"), "the open page follows: {}", stream.0);
    let policies: Api<RolloutPolicy> = Api::all(client.clone());
    let policy = policies.get(ADD_ON).await.unwrap();
    assert!(policy.spec.paused);
    let managers = policy.metadata.managed_fields.unwrap_or_default();
    assert!(
        managers.iter().any(|one| one.manager.as_deref() == Some("wheelwright-dashboard")),
        "{managers:?}"
    );
    press("verb=resume&subject=managed-serviceaccount&token=").await;
    press("verb=approve&subject=managed-serviceaccount&token=abc%2F%231").await;
    let spec = policies.get(ADD_ON).await.unwrap().spec;
    assert_eq!((spec.paused, spec.approved), (false, vec!["abc/#1".to_owned()]));

    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), "team");
    press("verb=suspend-repository&subject=team%2Fapp").await;
    assert!(repos.get("app").await.unwrap().spec.suspend);
    press("verb=approve-deletions&subject=team%2Fapp&token=0123").await;
    let approved = repos.get("app").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(approved.get("gitops.wheelwright.dev/approve-deletions").map(String::as_str), Some("0123"));
    press("verb=approve-plan&subject=team%2Fapp&token=c0de").await;
    let approved = repos.get("app").await.unwrap().metadata.annotations.unwrap_or_default();
    assert_eq!(approved.get("gitops.wheelwright.dev/approve-plan").map(String::as_str), Some("c0de"));
    press("verb=resume-repository&subject=team%2Fapp").await;
    assert!(!repos.get("app").await.unwrap().spec.suspend);
    for foreign in ["..%2Fapp", "team%2Fapp%3Fx=y", "team%2F..", ""] {
        let form = format!("verb=suspend-repository&subject={foreign}");
        let answer = dashboard.send("POST /act", &format!("{own}{cookie}"), &form, "").await;
        assert!(answer.has("there is nothing with the name"), "{foreign}: {}", answer.0);
    }
    let other = serde_json::json!({"metadata": {"name": "taken"}, "spec": {"addOns": ["other"]}});
    policies.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    let form = "verb=pause&subject=taken&token=";
    let answer = dashboard.send("POST /act", &format!("{own}{cookie}"), form, "").await;
    assert_eq!(answer.status(), "409", "{}", answer.0);
    assert!(answer.has("RolloutPolicy taken exists and is not for taken"), "{}", answer.0);
    // The page shows a change that another client makes.
    let patch = serde_json::json!({"spec": {"suspend": true}});
    repos.patch("app", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let stream =
        dashboard.send("GET /events?view=repository&of=team/app", &cookie, "", "Resume team/app").await;
    assert!(stream.has("Resume team/app"), "{}", stream.0);
    let left = dashboard.send("POST /logout", &format!("{own}{cookie}"), "", "").await;
    assert!(left.header("set-cookie").unwrap().starts_with("__Host-wheelwright=; Max-Age=0; "), "{}", left.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_of_the_embedded_hub_see_and_change_what_it_lets_them() {
    let dir = Directory::new("dashboard-embedded");
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let admin = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let kubeconfig = dir.path("admin.kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(&admin).unwrap()).unwrap();
    let client = crate::trace::client(&admin).await;
    let cluster = &admin.clusters[0].cluster.as_ref().unwrap();
    let authority = cluster.certificate_authority_data.as_ref().unwrap();
    let authority = String::from_utf8(STANDARD.decode(authority).unwrap()).unwrap();
    let kubectl = Kubectl::new(&kubeconfig, dir.path("kubectl-home"));
    check(cluster.server.as_ref().unwrap(), &authority, client, &kubectl, &dir).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_with_its_own_certificate_serves_it_and_creates_none() {
    let dir = Directory::new("dashboard-certificate");
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let admin = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let kubeconfig = dir.path("admin.kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(&admin).unwrap()).unwrap();
    let files = tempfile::tempdir().unwrap();
    write_certificates(files.path());
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (child, port) =
        spawn(program(), &kubeconfig, &["--cert", &file("tls.crt"), "--key", &file("tls.key")]);
    let authority = std::fs::read_to_string(files.path().join("ca.crt")).unwrap();
    let dashboard = Dashboard { child, port, tls: trusting(&authority) };
    assert_eq!(dashboard.send("GET /livez", "", "", "").await.status(), "200");
    let secrets: Api<Secret> = Api::namespaced(crate::trace::client(&admin).await, helm::NAMESPACE);
    assert_eq!(secrets.get_opt("wheelwright-dashboard").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_of_a_real_hub_see_and_change_what_it_lets_them() {
    let dir = Directory::new("dashboard-real");
    let hub = Cluster::start("dashboard").await;
    let kubectl = hub.kubectl();
    kubectl.install(crds::hub().into_iter());
    check(&hub.url, &hub.ca_pem(), hub.client().await, &kubectl, &dir).await;
}
