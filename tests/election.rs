//! Leader election by Lease: one leader at a time, and a leader's last writes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use api::cluster::v1::ManagedCluster;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use api::work::v1::ManifestWork;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, ListParams};
use object::{Key, Object};
use reconcile::{Action, Controller, Plan, Read, Register as _, View, Watches};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::operator::{self, LeaderCandidate, OperatorOptions};
use wheelwright::shell::{
    Election, ElectionOptions, EnabledControllers, Shell, ShellOptions, leader_client, now,
};

use crate::fleet_commit::commit;
use crate::kube::{Cluster, free_port};
use crate::running::Running;
use crate::wait::eventually;

/// Returns a third of the production timings: short, but longer than the delays on a busy machine.
fn options(identity: &str) -> ElectionOptions {
    ElectionOptions {
        lease: Duration::from_secs(5),
        renew_deadline: Duration::from_secs(4),
        retry: Duration::from_millis(100),
        identity: identity.into(),
        ..ElectionOptions::new("default", "leader", identity)
    }
}

async fn holder(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.get_opt("leader").await.unwrap().and_then(|lease| lease.spec?.holder_identity)
}

#[tokio::test]
async fn the_lease_is_taken_when_it_is_given_back_or_has_expired_and_never_before() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let client = hub.client();
    let never = CancellationToken::new();
    let mut first = Election::new(client.clone(), options("first"));
    assert!(first.acquire(&never).await);

    let mut second = Election::new(client.clone(), options("second"));
    let stop = CancellationToken::new();
    let (leading, ()) = tokio::join!(timeout(Duration::from_secs(7), second.acquire(&never)), async {
        let _ = timeout(Duration::from_secs(7), first.renew(&stop)).await;
    });
    assert!(leading.is_err(), "the first renewed it all the time");
    first.release().await;
    assert_eq!(holder(&client).await, None);
    assert!(second.acquire(&never).await);

    // The second stops renewing; its lease is valid for 5 s.
    let mut third = Election::new(client.clone(), options("third"));
    assert!(third.acquire(&never).await);
    second.renew(&stop).await;
    second.release().await;
    assert_eq!(
        holder(&client).await.as_deref(),
        Some("third"),
        "a leader of the past frees nobody else's lease"
    );
}

/// The next leader reads the hub after its election and may miss a later write of the previous leader.
#[tokio::test]
async fn a_leader_that_stops_gives_the_lease_back_after_its_last_write() {
    let cluster = Cluster::start("handover").await;
    cluster.kubectl().install(crds::hub().into_iter());
    let client = cluster.client().await;

    // The hub delays every write except those to the lease.
    let (begun, written) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let slow = tower::service_fn({
        let (client, begun, written) = (client.clone(), Arc::clone(&begun), Arc::clone(&written));
        move |request: http::Request<kube::client::Body>| {
            let (client, begun, written) = (client.clone(), Arc::clone(&begun), Arc::clone(&written));
            async move {
                let path = (request.method() != http::Method::GET).then(|| request.uri().path().to_owned());
                if path.as_ref().is_some_and(|path| !path.contains("/leases")) {
                    begun.notify_one();
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                let response = client.send(request).await;
                written.lock().unwrap().extend(path);
                response
            }
        }
    });
    let slow = Client::new(slow, "default");
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator::run(
        OperatorOptions {
            controllers: EnabledControllers::parse("clusterset", &operator::controller_names()).unwrap(),
            election: Some(LeaderCandidate {
                election: Election::new(slow.clone(), options("first")),
                leader: slow.clone(),
            }),
            ..OperatorOptions::new(slow, dir.path())
        },
        stop.clone(),
    ));
    begun.notified().await;
    stop.cancel();
    running.await.unwrap();
    let written = written.lock().unwrap().clone();
    assert!(written.iter().any(|path| !path.contains("/leases")), "{written:?}");
    assert!(written.last().unwrap().ends_with("/leases/leader"), "{written:?}");
    assert_eq!(holder(&client).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_pushes_the_report_that_waits_before_it_gives_the_lease_back() {
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    let hub = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
    let client = hub.client();
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    let tip = {
        let repository = repository.clone();
        move |branch: &str| {
            let git = git2::Repository::open_bare(&repository).ok()?;
            let tip = git.find_reference(branch).ok()?.peel_to_commit().ok()?;
            Some((tip.id().to_string(), tip.message().ok()?.to_owned()))
        }
    };
    let head = {
        let tip = tip.clone();
        move || tip("refs/heads/main").unwrap().0
    };
    let is_reported = {
        let (tip, head) = (tip.clone(), head.clone());
        move || tip("refs/heads/wheelwright/status").is_some_and(|(_, message)| message.contains(&head()))
    };

    // For each write to the lease, true if the newest commit was reported before it.
    let writes: Arc<Mutex<Vec<bool>>> = Arc::default();
    let watched = tower::service_fn({
        let (client, writes, is_reported) = (client.clone(), Arc::clone(&writes), is_reported.clone());
        move |request: http::Request<kube::client::Body>| {
            if request.method() != http::Method::GET && request.uri().path().ends_with("/leases/leader") {
                writes.lock().unwrap().push(is_reported());
            }
            let client = client.clone();
            async move { client.send(request).await }
        }
    });
    let watched = Client::new(watched, "default");
    commit(&repository, "one");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config",
        "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&Default::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    let repos: Api<ConfigRepo> = Api::namespaced(client.clone(), "config");
    let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"namespace": "config", "name": "fleet"},
        "spec": {"url": repository, "ref": {"branch": "main"}, "report": {"interval": "24h"}}});
    repos.create(&Default::default(), &serde_json::from_value(repo).unwrap()).await.unwrap();

    let stop = CancellationToken::new();
    let election = Election::new(watched.clone(), options("first"));
    let running = tokio::spawn(operator::run(
        OperatorOptions {
            election: Some(LeaderCandidate { election, leader: watched.clone() }),
            ..OperatorOptions::new(watched, dir.path().join("cache"))
        },
        stop.clone(),
    ));
    eventually("the first commit is reported", async || is_reported()).await;
    commit(&repository, "two");
    eventually("the second commit is applied", async || {
        let status = repos.get("fleet").await.unwrap().status.unwrap();
        status.applied.is_some_and(|applied| applied.commit == head())
    })
    .await;
    assert!(!is_reported(), "the next report is due tomorrow");
    let renewals = writes.lock().unwrap().len();
    stop.cancel();
    running.await.unwrap();
    let after = writes.lock().unwrap()[renewals..].to_vec();
    assert!(after.last().unwrap(), "the lease was given back before the report: {after:?}");
    assert_eq!(holder(&client).await, None);
    let status = repos.get("fleet").await.unwrap().status.unwrap().report.unwrap();
    assert_eq!(status.commit, tip("refs/heads/wheelwright/status").unwrap().0);
}

/// Creates a hundred ConfigMaps in one step when a ConfigMap requests it.
struct Hundred;

impl Controller for Hundred {
    const NAME: &'static str = "hundred";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if key.name == "go" {
            plan.step((0..100).map(|i| {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{i}"), "namespace": "default"}});
                Action::create(Object::from_value(map).unwrap())
            }));
        }
        Ok(plan)
    }
}

#[tokio::test]
async fn no_write_leaves_after_the_deadline_of_a_leader() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let client = hub.client();
    // The hub delays every write by a second, and does not respond to renewals after the plan's first write.
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let slow = tower::service_fn({
        let (client, sent) = (client.clone(), Arc::clone(&sent));
        move |request: http::Request<kube::client::Body>| {
            let (client, sent) = (client.clone(), Arc::clone(&sent));
            async move {
                let is_write = request.method() == http::Method::POST;
                if request.uri().path().contains("/leases") {
                    if !sent.lock().unwrap().is_empty() {
                        std::future::pending::<()>().await;
                    }
                } else if is_write {
                    sent.lock().unwrap().push(Instant::now());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                client.send(request).await
            }
        }
    });
    let slow = Client::new(slow, "default");
    let deadline = Duration::from_secs(2);
    let options = ElectionOptions { renew_deadline: deadline, ..options("first") };
    let mut election = Election::new(slow.clone(), options);
    let (stop, leadership) = (CancellationToken::new(), election.leadership());
    assert!(election.acquire(&stop).await);
    let shell_options = ShellOptions { leadership: Some(leadership.clone()), ..ShellOptions::new(slow) };
    let shell = Shell::new(shell_options, |register| register.add::<Hundred>());
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut go = ConfigMap::default();
    go.metadata.name = Some("go".into());
    api.create(&Default::default(), &go).await.unwrap();

    let ended = tokio::join!(shell.run(stop.clone()), async {
        election.renew(&stop).await;
        let ended = Instant::now();
        stop.cancel();
        ended
    });
    let sent = sent.lock().unwrap().clone();
    assert!(!leadership.holds());
    assert!((1..100).contains(&sent.len()), "{} of a hundred began", sent.len());
    assert!(
        sent.iter().all(|at| *at <= ended.1),
        "{:?} after the deadline",
        sent.last().unwrap().duration_since(ended.1)
    );
    assert!(ended.1.elapsed() < Duration::from_secs(1), "nothing is waited for: {:?}", ended.1.elapsed());
}

/// A process may be suspended between the check before a request and the request itself.
#[tokio::test]
async fn a_connection_of_a_former_leader_sends_nothing() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let received = Arc::new(Mutex::new(0));
    let count = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                *count.lock().unwrap() += length;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
            }
        }
    });
    let term = ElectionOptions { renew_deadline: Duration::from_secs(1), ..options("first") };
    let mut election = Election::new(hub.client(), term);
    let client = leader_client(kube::Config::new(url), election.leadership()).unwrap();
    let ask = async || client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await;

    let stranger = ask().await.unwrap_err();
    assert_eq!(*received.lock().unwrap(), 0, "not elected yet: {stranger}");
    assert!(election.acquire(&CancellationToken::new()).await);
    assert_eq!(ask().await.unwrap(), "{}");
    let sent = *received.lock().unwrap();
    assert!(sent > 0);
    election.leadership().ended().await;
    let former = ask().await.unwrap_err();
    assert_eq!(*received.lock().unwrap(), sent, "{former}");
}

/// Returns the values in the works, and the versions of the works.
async fn works(client: &Client) -> Vec<(String, String)> {
    let works: Api<ManifestWork> = Api::all(client.clone());
    let listed = works.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    let word = |work: &ManifestWork| {
        let spec = serde_json::to_value(&work.spec).unwrap();
        spec["workload"]["manifests"][0]["data"]["word"].as_str().unwrap_or_default().to_owned()
    };
    listed.iter().map(|work| (word(work), work.metadata.resource_version.clone().unwrap())).collect()
}

fn signal(process: &Running, name: &str) {
    let sent = std::process::Command::new("kill").arg(name).arg(process.id().to_string()).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn a_suspended_leader_writes_nothing_when_it_resumes() {
    const CLUSTERS: usize = 60;
    let hub = Cluster::start("stopped").await;
    hub.kubectl().install(crds::hub().into_iter());
    let client = hub.client().await;
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "one");
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    for i in 0..CLUSTERS {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": format!("cluster-{i:03}")}, "spec": {"hubAcceptsClient": true},
        });
        clusters.create(&Default::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    }
    let start = |name: &str| {
        let cache = dir.path().join(name);
        let repo = repository.to_str().unwrap();
        let kubeconfig = hub.kubeconfig.to_str().unwrap();
        let args = ["operator", "--kubeconfig", kubeconfig, "--repo", repo, "--local-repositories"];
        let args: Vec<&str> = args.into_iter().chain(["--cache-dir", cache.to_str().unwrap()]).collect();
        Running::start(name, dir.path(), &args)
    };
    let all = async |word: &str| {
        let works = works(&client).await;
        works.len() == CLUSTERS && works.iter().all(|(found, _)| found == word)
    };
    let mut first = start("first");
    eventually("the first version on all clusters", async || all("one").await).await;
    let _second = start("second");

    // Stop the process in the middle of its writes.
    commit(&repository, "two");
    eventually("the second version on some", async || {
        works(&client).await.iter().any(|(word, _)| word == "two")
    })
    .await;
    signal(&first, "-STOP");
    let stopped = Instant::now();
    eventually("the second version on all clusters", async || all("two").await).await;
    commit(&repository, "three");
    eventually("the third version on all clusters", async || all("three").await).await;
    let before = works(&client).await;
    assert!(stopped.elapsed() > Duration::from_secs(8), "another leads only after the deadline of the first");

    signal(&first, "-CONT");
    eventually("the first ends", async || !first.is_running()).await;
    assert_eq!(works(&client).await, before, "a leader of the past wrote");
}

#[tokio::test]
async fn an_operator_with_probes_that_starts_while_the_api_server_is_down_waits_for_it() {
    let mut hub = Cluster::start("away-at-start").await;
    let kubectl = hub.kubectl();
    kubectl.install(crds::hub().into_iter());
    kubectl.run(&["create", "namespace", "wheelwright-system"]);
    hub.kill_apiserver();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = hub.kubeconfig.to_str().unwrap();
    let without_probes = std::process::Command::new(env!("CARGO_BIN_EXE_wheelwright"))
        .args(["operator", "--kubeconfig", kubeconfig])
        .output()
        .unwrap();
    let error = String::from_utf8(without_probes.stderr).unwrap();
    assert!(error.contains("cannot reach https://127.0.0.1:"), "a person sees the mistake at once: {error}");

    let address = format!("127.0.0.1:{}", free_port());
    let args = ["operator", "--kubeconfig", kubeconfig, "--listen", &address];
    let mut operator = Running::start("operator", dir.path(), &args);
    let answers = async || {
        let Ok(mut connection) = TcpStream::connect(&address).await else { return false };
        connection.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer.starts_with("HTTP/1.1 200")
    };
    eventually("/livez answers", answers).await;
    assert!(operator.is_running());
    hub.restart_apiserver().await;
    let lease = "jsonpath={.spec.holderIdentity}";
    let lease = [
        "get",
        "lease",
        "wheelwright-operator",
        "-n",
        "wheelwright-system",
        "-o",
        lease,
        "--ignore-not-found",
    ];
    eventually("the operator leads", async || !kubectl.run(&lease).is_empty()).await;
    assert!(operator.is_running() && answers().await);
}
