//! A running server: listens, accepts connections, and stops.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::authn::{self, Peer};
use super::connections::{Connection, Connections, TimeoutStream};
use super::handler;
use super::hub::{Hub, Parts};
use super::journal::{self, Journal, Stores};
use super::keys::Keys;
use super::lock::DirectoryLock;
use super::signals::Signals;
use super::start_error::StartError;
use super::token::TokenKey;
use super::{Credential, controllers, defaults, kubeconfig, tls};
use crate::pki::{self, Identity, Profile, Subject, Usage};
use object::Object;
use store::rbac::MASTERS;
use store::{ApiError, Patch, Restoration, Store, User, WriteOptions};

/// The lifetime of client certificates from [`Server::kubeconfig`], the same as the authority's.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
/// The administrator's certificate is renewed this many seconds before it expires: 30 days.
const RENEWAL: i64 = 30 * 24 * 3600;
/// The time for open requests to finish when the server stops.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
/// The time for a request head to arrive before the connection is closed. Clients close idle connections after
/// 90 s at the latest, so the server never closes a connection that a client is about to use.
const HEAD: Duration = Duration::from_secs(120);
/// The fractions of the memory for objects (a quarter), and for past objects for watchers (a sixteenth).
/// Requests and responses use the rest.
const OBJECTS: usize = 4;
const HISTORY: usize = 16;
/// The maximum number of concurrent requests on an HTTP/2 connection, as in kube-apiserver.
const STREAMS: u32 = 100;
/// A peer, such as a watcher, that does not read for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// A handshake that takes longer is aborted, so that idle connections use no resources.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The address to listen on. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The data directory. Without it, all data is lost when the server stops.
    pub data: Option<PathBuf>,
    /// Names and addresses of the server in addition to the loopback addresses. The first one is in
    /// kubeconfigs.
    pub names: Vec<String>,
    /// Objects to apply at each start, such as definitions of kinds.
    pub objects: Vec<Object>,
    /// The bytes of memory that the process may use. Objects get a quarter. `None` means no limit.
    pub memory: Option<usize>,
    /// Bearer tokens that are valid while the server runs, with their users.
    pub tokens: BTreeMap<String, User>,
    pub clock: fn() -> Timestamp,
}

impl ServerOptions {
    /// Returns the options for an in-memory server on a free loopback port.
    pub fn new(clock: fn() -> Timestamp) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen,
            data: None,
            names: Vec::new(),
            objects: Vec::new(),
            memory: None,
            tokens: BTreeMap::new(),
            clock,
        }
    }
}

/// A running server. It stops when dropped, or with [`Server::stop`] after open requests have finished.
#[derive(Debug)]
pub struct Server {
    /// The URL: `https://host:port`.
    pub url: String,
    /// The certificate of the authority that signed the server's certificate, in PEM.
    pub ca_pem: String,
    hub: Arc<Hub>,
    tasks: TaskTracker,
}

impl Server {
    /// Starts a server, and returns when it accepts requests.
    ///
    /// # Errors
    /// Fails with a [`StartError`] that names the failed attempt.
    pub async fn start(options: ServerOptions) -> Result<Self, StartError> {
        // Bind first: a server that cannot listen changes no data.
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|source| StartError::Listen { address: options.listen, source })?;
        let hub = Arc::new(open(&options)?);
        let address =
            listener.local_addr().map_err(|source| StartError::Listen { address: options.listen, source })?;
        let own =
            if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
        let host = options.names.first().cloned().unwrap_or(own.clone());
        let mut names = vec!["localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc", own.as_str()];
        names.extend(options.names.iter().map(String::as_str));
        let profile = Profile {
            subject: Subject::new("wheelwright-apiserver", &[]),
            names: &names,
            usage: Usage::Server,
            lifetime: LIFETIME,
        };
        let serving = hub.authority.issue(&profile, (hub.clock)())?;
        let acceptor = tls::acceptor(&hub.authority, &serving)?;
        let tasks = TaskTracker::new();
        controllers::spawn(&hub, &tasks);
        tasks.spawn(accept(listener, acceptor, hub.clone(), tasks.clone()));
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Self {
            url: format!("https://{host}:{}", address.port()),
            ca_pem: hub.authority.certificate_pem(),
            hub,
            tasks,
        })
    }

    /// Returns a kubeconfig for a user, with a new client certificate.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<Kubeconfig, pki::Error> {
        Ok(kubeconfig(&self.url, &self.ca_pem, &self.credential(user, groups)?))
    }

    /// Returns [`Server::kubeconfig`] as YAML text.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn kubeconfig_yaml(&self, user: &str, groups: &[&str]) -> Result<String, pki::Error> {
        Ok(super::kubeconfig_yaml(&self.url, &self.ca_pem, &self.credential(user, groups)?))
    }

    /// Returns the administrator's kubeconfig as YAML text.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn admin_kubeconfig_yaml(&self) -> Result<String, pki::Error> {
        self.kubeconfig_yaml("admin", &[MASTERS])
    }

    /// Returns the administrator's kubeconfig with the certificate of an earlier one, if that is still valid.
    /// Certificates cannot be revoked, so no more are issued than needed.
    ///
    /// # Errors
    /// Fails if the system has no randomness.
    pub fn admin_kubeconfig_again(&self, before: &str) -> Result<String, pki::Error> {
        let reusable = super::kubeconfig::identity_in(before).filter(|identity| self.is_good(identity));
        let credential = match reusable {
            Some(identity) => Credential::Certificate(identity),
            None => self.credential("admin", &[MASTERS])?,
        };
        Ok(super::kubeconfig_yaml(&self.url, &self.ca_pem, &credential))
    }

    /// Returns true if this server issued a client certificate that does not expire soon.
    fn is_good(&self, identity: &Identity) -> bool {
        let Ok(leaf) = CertificateDer::from_pem_slice(identity.certificate.as_bytes()) else { return false };
        let then = (self.hub.clock)().as_second().saturating_add(RENEWAL);
        let then = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(then).unwrap_or_default()));
        self.hub.verifier.verify_client_cert(&leaf, &[], then).is_ok()
    }

    fn credential(&self, user: &str, groups: &[&str]) -> Result<Credential, pki::Error> {
        let profile = Profile {
            subject: Subject::new(user, groups),
            names: &[],
            usage: Usage::Client,
            lifetime: LIFETIME,
        };
        Ok(Credential::Certificate(self.hub.authority.issue(&profile, (self.hub.clock)())?))
    }

    /// Returns a client for the administrator that calls the server in process, without TLS, connections or
    /// retries.
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin())
    }

    /// Returns an in-process client for any user.
    pub fn client_as(&self, user: User) -> kube::Client {
        let (hub, peer) = (self.hub.clone(), Peer::Trusted(Arc::new(user)));
        let service = tower::service_fn(move |request: axum::http::Request<kube::client::Body>| {
            handler::handle(hub.clone(), peer.clone(), request.map(Body::new))
        });
        kube::Client::new(service, "default")
    }

    /// Reads or changes the store without authorization. Watchers see the changes.
    pub fn with_store<T>(&self, change: impl FnOnce(&mut Store, Timestamp) -> T) -> T {
        // Nothing waits for the disk here, but later writes only become durable after this one.
        self.hub.write_unsettled(change).0
    }

    /// Ends all watches, lets open requests finish, and stops.
    pub async fn stop(self) {
        self.hub.stop.cancel();
        self.tasks.close();
        // Requests that take longer end with the runtime.
        drop(tokio::time::timeout(GRACE_PERIOD, self.tasks.wait()).await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hub.stop.cancel();
        self.tasks.close();
    }
}

/// Loads the state of a server from disk, or creates it.
fn open(options: &ServerOptions) -> Result<Hub, StartError> {
    let now = (options.clock)();
    let lock = options.data.as_deref().map(DirectoryLock::acquire).transpose()?;
    let keys = match &options.data {
        Some(dir) => Keys::open(dir, now)?,
        None => Keys::create(now)?,
    };
    let mut restoration = Restoration::new(keys.seed()?);
    let end = match &options.data {
        Some(dir) => journal::read(dir, |entry| restoration.replay(entry))?,
        None => journal::End::default(),
    };
    let mut store = defaults::converting(restoration.finish(end.reserved, now));
    store.keep_journal();
    let applied = defaults::objects().into_iter().chain(options.objects.iter().cloned());
    for object in applied {
        apply(&mut store, object, now)?;
    }
    let since = store.take_journal();
    if let Some(memory) = options.memory {
        store.set_quota(memory / OBJECTS);
        store.set_history(memory / HISTORY);
    }
    let signals = Arc::new(Signals::default());
    let (stores, journal) = match (options.data.as_deref(), lock) {
        (Some(dir), Some(lock)) => {
            let stores = Arc::new(Stores::on_disk(store));
            let before = journal::Before { end, since };
            let journal = Journal::start(dir, stores.clone(), signals.clone(), (lock, before))?;
            (stores, Some(journal))
        }
        (_, _) => (Arc::new(Stores::in_memory(store)), None),
    };
    let tokens = TokenKey::load(&keys.tokens)?;
    let verifier = tls::verifier(&keys.authority)?;
    let static_tokens =
        options.tokens.iter().map(|(token, user)| (authn::digest(token), Arc::new(user.clone()))).collect();
    let (clock, authority, memory) = (options.clock, keys.authority, options.memory);
    let parts = Parts { stores, signals, journal, clock, authority, verifier, tokens, static_tokens, memory };
    Ok(Hub::new(parts))
}

fn apply(store: &mut Store, object: Object, now: Timestamp) -> Result<(), StartError> {
    let reference = object.reference();
    let refused = |reason: ApiError| StartError::Object { object: reference.to_string(), reason };
    let target = store.target(&reference).ok_or_else(|| refused(ApiError::no_such_path()))?;
    // Apply the objects, so that fields added by users survive the next start.
    let options = WriteOptions::manager("wheelwright-hub").forced();
    store.patch(&target, &Patch::Apply(object.into_value()), &options, now).map_err(refused)?;
    Ok(())
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, hub: Arc<Hub>, tasks: TaskTracker) {
    let connections = Connections::new(open_files());
    loop {
        let stream = tokio::select! {
            () = hub.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => {
                // Watch events are small and must not wait for more data.
                drop(stream.set_nodelay(true));
                let (connection, evicted) = connections.enter();
                let (acceptor, hub) = (acceptor.clone(), hub.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = serve(stream, acceptor, hub, connection) => {}
                        () = evicted.cancelled() => {}
                    }
                });
            }
            Err(error) => {
                // The process has probably run out of file descriptors. Connections that end will release
                // theirs.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Returns the maximum number of open files and connections.
fn open_files() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    acceptor: TlsAcceptor,
    hub: Arc<Hub>,
    connection: Arc<Connection>,
) {
    let Ok(Ok(stream)) =
        tokio::time::timeout(HANDSHAKE, acceptor.accept(TimeoutStream::new(stream, WRITE_TIMEOUT))).await
    else {
        return;
    };
    let (_, session) = stream.get_ref();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let peer = tls::peer(&hub, session, &connection);
    let stop = hub.stop.clone();
    let service = tower::service_fn(move |request: axum::http::Request<hyper::body::Incoming>| {
        handler::handle(hub.clone(), peer.clone(), request.map(Body::new))
    });
    // The handshake negotiated the protocol, so the server does not need to detect it from the first bytes.
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEAD)).max_concurrent_streams(STREAMS);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    // A broken connection is closed.
    tokio::select! {
        ended = connection.as_mut() => drop(ended),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The start of an HTTP/2 connection.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    /// The start of a HEADERS frame with 20 bytes, of which only 4 follow.
    const HEADERS: &[u8] = b"\0\0\x14\x01\x05\0\0\0\x01half";

    /// A time at which the certificates are valid.
    #[derive(Debug)]
    struct Then;

    impl rustls::time_provider::TimeProvider for Then {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(1_000_000_000)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_half_a_head_is_closed() {
        let hub = Arc::new(open(&ServerOptions::new(|| Timestamp::constant(1_000_000_000, 0))).unwrap());
        let names = Profile {
            subject: Subject::new("server", &[]),
            names: &["localhost"],
            usage: Usage::Server,
            lifetime: LIFETIME,
        };
        let acceptor =
            tls::acceptor(&hub.authority, &hub.authority.issue(&names, (hub.clock)()).unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(hub.authority.certificate_der())).unwrap();
        let head_of_http_1 = b"GET /version HTTP/1.1\r\nHost: half".to_vec();
        for (protocol, half) in [("http/1.1", head_of_http_1), ("h2", [PREFACE, HEADERS].concat())] {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let client = rustls::ClientConfig::builder_with_details(provider, Arc::new(Then));
            let client = client.with_safe_default_protocol_versions().unwrap();
            let mut client = client.with_root_certificates(roots.clone()).with_no_client_auth();
            client.alpn_protocols = vec![protocol.into()];
            let (near, far) = tokio::io::duplex(1 << 16);
            let (connection, _) = Connections::new(1_024).enter();
            tokio::spawn(serve(far, acceptor.clone(), hub.clone(), connection));
            let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = connector.connect(name, near).await.unwrap();
            stream.write_all(&half).await.unwrap();
            let start = tokio::time::Instant::now();
            let mut answer = Vec::new();
            // The stream may end without a TLS close.
            drop(stream.read_to_end(&mut answer).await);
            let taken = start.elapsed();
            assert!(taken >= HEAD && taken < 2 * HEAD, "{protocol}: {taken:?}");
        }
    }
}
