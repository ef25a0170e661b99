//! API server clients: protocols, streams, proxies and certificates.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use axum::body::Body;
use axum::http::{Request, Response, Version};
use futures::future::join_all;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, copy_bidirectional,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use wheelwright::agent::{self, AgentOptions, Bootstrap};
use wheelwright::apiserver::{Server, ServerOptions, kubeconfig_yaml};
use wheelwright::pki::{Authority, Identity, Profile, Subject, Usage};
use wheelwright::shell::{self, now};

use crate::drop_in::send_work;
use crate::klusterlet::embedded_hub;
use crate::kube::{Cluster, Directory, Process, install_crypto};
use crate::trace::accept;
use crate::wait::eventually;

async fn config(kubeconfig: &str) -> kube::Config {
    install_crypto();
    let file = Kubeconfig::from_yaml(kubeconfig).unwrap();
    kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()
}

async fn client(kubeconfig: &str) -> kube::Client {
    shell::client(config(kubeconfig).await).unwrap()
}

fn get(path: &str) -> Request<kube::client::Body> {
    Request::get(path).body(kube::client::Body::empty()).unwrap()
}

async fn version(client: &kube::Client) -> Version {
    client.send(get("/version")).await.unwrap().version()
}

/// A server on the loopback address that only supports HTTP/1 and answers every request with `{}`.
struct Old {
    url: String,
    authority: Authority,
    serving: Identity,
    acceptor: TlsAcceptor,
}

impl Old {
    async fn start() -> Self {
        install_crypto();
        let authority = Authority::create("old", now()).unwrap();
        let profile = Profile {
            subject: Subject::new("old", &[]),
            names: &["127.0.0.1"],
            usage: Usage::Server,
            lifetime: Duration::from_secs(3600),
        };
        let serving = authority.issue(&profile, now()).unwrap();
        let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).unwrap();
        let tls = ServerConfig::builder().with_no_client_auth();
        let tls = tls.with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let accepting = acceptor.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = accepting.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = tower::service_fn(async |_: Request<hyper::body::Incoming>| {
                        Ok::<_, std::convert::Infallible>(Response::new(Body::from("{}")))
                    });
                    let service = TowerToHyperService::new(answer);
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { url, authority, serving, acceptor }
    }

    fn kubeconfig(&self, bundle: &str) -> String {
        kubeconfig_yaml(&self.url, bundle, &wheelwright::apiserver::Credential::Token("t".into()))
    }
}

#[tokio::test]
async fn http_2_is_used_if_the_server_offers_it() {
    let real = Cluster::start("protocol").await;
    let kubeconfig = std::fs::read_to_string(&real.kubeconfig).unwrap();
    assert_eq!(version(&client(&kubeconfig).await).await, Version::HTTP_2, "kube-apiserver");

    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let kubeconfig = hub.admin_kubeconfig_yaml().unwrap();
    assert_eq!(version(&client(&kubeconfig).await).await, Version::HTTP_2, "the embedded hub");

    let old = Old::start().await;
    let kubeconfig = old.kubeconfig(&old.authority.certificate_pem());
    assert_eq!(version(&client(&kubeconfig).await).await, Version::HTTP_11, "a server without HTTP/2");
}

/// kube-apiserver allows 100 streams per connection, and a watch is an endless stream.
#[tokio::test]
async fn many_watches_hold_up_no_request() {
    let real = Cluster::start("streams").await;
    let client = client(&std::fs::read_to_string(&real.kubeconfig).unwrap()).await;
    let watch = async |_| {
        let path = "/api/v1/configmaps?watch=true&timeoutSeconds=280";
        timeout(Duration::from_secs(60), client.send(get(path))).await.expect("the watch begins").unwrap()
    };
    let watches = join_all((0..150).map(watch)).await;
    let answered = timeout(Duration::from_secs(60), client.send(get("/version"))).await;
    assert_eq!(answered.expect("an answer beside 150 watches").unwrap().version(), Version::HTTP_2);
    assert!(watches.iter().all(|watch| watch.status().is_success()));
}

/// Starts a proxy that opens tunnels (RFC 9110, 9.3.6); returns its URL and the servers of the tunnels.
async fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    proxy_of(None, None).await
}

/// Starts a proxy that speaks TLS, or whose tunnels lead to a server other than the requested one.
pub(crate) async fn proxy_of(
    tls: Option<TlsAcceptor>,
    instead: Option<String>,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://user:p%40ss@{}", listener.local_addr().unwrap());
    let tunnels = Arc::new(Mutex::new(Vec::new()));
    let opened = Arc::clone(&tunnels);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (opened, tls, instead) = (Arc::clone(&opened), tls.clone(), instead.clone());
            tokio::spawn(async move {
                let Some(tls) = tls else { return tunnel(stream, instead, &opened).await };
                if let Ok(stream) = tls.accept(stream).await {
                    tunnel(stream, instead, &opened).await;
                }
            });
        }
    });
    (url, tunnels)
}

async fn tunnel<S>(stream: S, instead: Option<String>, opened: &Mutex<Vec<String>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut stream = BufReader::new(stream);
    let (mut request, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).await.unwrap() > 2 {
        request.push_str(&std::mem::take(&mut line));
    }
    let target = request.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
    // The credentials are "user:p@ss".
    assert!(request.to_lowercase().contains("proxy-authorization: basic dxnlcjpwqhnz"), "{request}");
    let mut server = TcpStream::connect(instead.as_deref().unwrap_or(target)).await.unwrap();
    opened.lock().unwrap().push(target.to_owned());
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut server).await;
}

#[tokio::test]
async fn a_client_goes_through_the_proxy_of_its_kubeconfig() {
    let (proxy, tunnels) = proxy().await;
    let real = Cluster::start("proxy").await;
    let mut file = Kubeconfig::read_from(&real.kubeconfig).unwrap();
    file.clusters[0].cluster.as_mut().unwrap().proxy_url = Some(proxy);
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    let client = shell::client(config).unwrap();
    assert_eq!(version(&client).await, Version::HTTP_2);
    assert_eq!(version(&client).await, Version::HTTP_2);
    assert_eq!(tunnels.lock().unwrap().len(), 1, "one connection carries both");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_joins_and_works_through_the_proxy_of_its_bootstrap_kubeconfig() {
    let (dir, stop) = (Directory::new("agent-proxy"), CancellationToken::new());
    let (proxy, tunnels) = proxy().await;
    let hub = embedded_hub(&dir, &stop).await;
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    let mut bootstrap = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let on_hub = client(&hub.admin_kubeconfig_yaml().unwrap()).await;
    bootstrap.clusters[0].cluster.as_mut().unwrap().proxy_url = Some(proxy.clone());
    let bootstrap = Bootstrap::Given(Box::new(bootstrap));
    let agent = agent::run(AgentOptions::new(bootstrap, spoke.client(), "c1"), stop.clone());
    let agent = tokio::spawn(agent);
    accept(&on_hub, "c1").await;
    send_work(&on_hub, "one").await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;
    assert!(tunnels.lock().unwrap().len() >= 2, "the bootstrap identity and its own both use the proxy");
    let secrets: Api<Secret> = Api::namespaced(spoke.client(), AGENT_NAMESPACE);
    let stored = secrets.get(HUB_KUBECONFIG_SECRET).await.unwrap().data.unwrap();
    let stored = Kubeconfig::from_yaml(std::str::from_utf8(&stored["kubeconfig"].0).unwrap()).unwrap();
    assert_eq!(
        stored.clusters[0].cluster.as_ref().unwrap().proxy_url,
        Some(proxy),
        "its restart uses it too"
    );
    stop.cancel();
    agent.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_uses_the_proxy_of_its_environment_for_the_hub_and_not_for_its_cluster() {
    let (dir, stop) = (Directory::new("agent-proxy-environment"), CancellationToken::new());
    let (proxy, tunnels) = proxy().await;
    let hub = embedded_hub(&dir, &stop).await;
    let spoke = Server::start(ServerOptions::new(now)).await.unwrap();
    // Different host names distinguish the hub from the cluster, because NO_PROXY ignores ports.
    let bootstrap = hub.admin_kubeconfig_yaml().unwrap();
    let on_hub = client(&bootstrap).await;
    let bootstrap = bootstrap.replace("https://127.0.0.1:", "https://localhost:");
    let (bootstrap_file, spoke_file) = (dir.path("bootstrap.kubeconfig"), dir.path("spoke.kubeconfig"));
    std::fs::write(&bootstrap_file, bootstrap).unwrap();
    std::fs::write(&spoke_file, spoke.admin_kubeconfig_yaml().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["agent", "--spoke-cluster-name", "c1", "--bootstrap-kubeconfig"]).arg(&bootstrap_file);
    command.arg("--spoke-kubeconfig").arg(&spoke_file);
    command.env("HTTPS_PROXY", &proxy).env("NO_PROXY", "127.0.0.1");
    let _agent = Process::start("agent", command, &dir);
    accept(&on_hub, "c1").await;
    send_work(&on_hub, "one").await;
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "default");
    eventually("the work is applied", async || maps.get_opt("one").await.unwrap().is_some()).await;
    let servers = tunnels.lock().unwrap().clone();
    let is_hub = |server: &String| server.starts_with("localhost:");
    assert!(servers.len() >= 2 && servers.iter().all(is_hub), "the agent joins and works so: {servers:?}");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn git_uses_the_proxy_of_the_environment_except_for_excluded_hosts() {
    let (proxy, tunnels) = proxy().await;
    let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let target = format!("localhost:{}", server.local_addr().unwrap().port());
    // The server closes each connection, so every plan ends with an error.
    let from = Arc::new(Mutex::new(0));
    let count = Arc::clone(&from);
    tokio::spawn(async move {
        while let Ok(accepted) = server.accept().await {
            *count.lock().unwrap() += 1;
            drop(accepted);
        }
    });
    let plan = |excepted: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let url = format!("https://{target}/fleet.git");
        command.args(["plan", "--repo", &url, "--head", "main", "--snapshot", "/nonexistent"]);
        command.env("HTTPS_PROXY", &proxy).env("NO_PROXY", excepted);
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(&format!("cannot reach https://{target}/fleet.git")), "{message}");
        (*from.lock().unwrap(), tunnels.lock().unwrap().clone())
    };
    assert_eq!(plan("git.example,127.0.0.1"), (1, vec![target.clone()]), "by a tunnel");
    assert_eq!(plan("git.example,localhost"), (2, vec![target.clone()]), "without one");
}

/// Adds a server's certificate authority to a configuration's bundle.
fn trust(config: &mut kube::Config, server: &Old) {
    let certificate = CertificateDer::from_pem_slice(server.authority.certificate_pem().as_bytes()).unwrap();
    config.root_cert.as_mut().unwrap().push(certificate.to_vec());
}

#[tokio::test]
async fn a_proxy_over_https_is_trusted_by_the_bundle_of_the_kubeconfig() {
    let old = Old::start().await;
    let (proxy, tunnels) = proxy_of(Some(old.acceptor.clone()), None).await;
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let mut config = config(&hub.admin_kubeconfig_yaml().unwrap()).await;
    config.proxy_url = Some(proxy.parse().unwrap());
    let refused = shell::client(config.clone()).unwrap().send(get("/version")).await;
    assert!(refused.is_err() && tunnels.lock().unwrap().is_empty(), "nobody knows the proxy");
    trust(&mut config, &old);
    let target = config.cluster_url.authority().unwrap().to_string();
    assert_eq!(version(&shell::client(config).unwrap()).await, Version::HTTP_2);
    assert_eq!(*tunnels.lock().unwrap(), [target]);
}

#[tokio::test]
async fn a_proxy_that_ends_tls_is_refused_unless_the_kubeconfig_has_its_authority() {
    let old = Old::start().await;
    let (proxy, tunnels) = proxy_of(None, Some(old.url.replace("https://", ""))).await;
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let mut config = config(&hub.admin_kubeconfig_yaml().unwrap()).await;
    config.proxy_url = Some(proxy.parse().unwrap());
    let refused = shell::client(config.clone()).unwrap().send(get("/version")).await;
    assert!(refused.is_err(), "the token of the client would go to the proxy");
    assert_eq!(tunnels.lock().unwrap().len(), 1, "the proxy was asked");
    trust(&mut config, &old);
    assert_eq!(version(&shell::client(config).unwrap()).await, Version::HTTP_11, "the proxy answers");
}

#[tokio::test]
async fn a_proxy_of_an_unknown_scheme_is_refused() {
    let hub = Server::start(ServerOptions::new(now)).await.unwrap();
    let mut config = config(&hub.admin_kubeconfig_yaml().unwrap()).await;
    config.proxy_url = Some("ftp://127.0.0.1:1".parse().unwrap());
    let refused = shell::client(config).err().expect("the proxy must not be ignored").to_string();
    assert!(refused.contains("ftp://127.0.0.1:1"), "{refused}");
}

#[tokio::test]
async fn a_bundle_may_contain_the_servers_own_certificate() {
    let old = Old::start().await;
    let kubeconfig = old.kubeconfig(&old.serving.certificate);
    assert_eq!(version(&client(&kubeconfig).await).await, Version::HTTP_11);

    // The certificate of another server is not the server's authority.
    let other = Old::start().await;
    let stranger = client(&old.kubeconfig(&other.serving.certificate)).await;
    assert!(stranger.send(get("/version")).await.is_err());

    // The certificate is for 127.0.0.1 only.
    let kubeconfig = old.kubeconfig(&old.serving.certificate).replace("127.0.0.1", "localhost");
    assert!(client(&kubeconfig).await.send(get("/version")).await.is_err());
}
