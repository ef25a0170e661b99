//! The clients for API servers. Every client of the process is created here.
//!
//! kube's own clients use HTTP/1 and have no time limit. These clients differ:
//! - With HTTP/2, they use one connection for requests and others for watches, so that watches never use up the
//!   streams that a server allows on a connection (`connections.rs`).
//! - They ping connections, so that a dead one ends with its watches within half a minute.
//! - Requests have a time limit, and responses a size limit (`answers.rs`).
//! - `Retry-After` is included in kube's errors (`answers.rs`).
//! - Kubeconfigs are parsed with less code (`kubeconfig.rs`).
//! - Proxies and certificates are chosen as in Go's clients (`proxy.rs`, `trust.rs`).

mod answers;
mod connections;
mod fenced;
mod kubeconfig;
mod proxy;
mod trust;

use std::io;
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::{Client, Config, Error};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};
use tower_http::decompression::DecompressionLayer;

use answers::Answers;
pub(super) use answers::{is_too_large, retry_after};
use connections::Connections;
use fenced::{Fenced, Stream};
pub use kubeconfig::{config, parse_kubeconfig, read_kubeconfig};
use proxy::Proxy;

use super::election::Leadership;

/// The time limit for connecting, including the TLS handshake and the proxy.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for the peer to acknowledge the bytes of a leader. The next leader starts writing at least this
/// much later than this one stops. Without the limit, the system would retry for 15 minutes.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(4);

/// Creates a client for a cluster.
///
/// # Errors
/// Returns an error if the configuration is unusable: a certificate does not parse, a URL has no host, or a proxy
/// has an unknown scheme.
pub fn client(config: Config) -> kube::Result<Client> {
    client_with(config, None)
}

/// Creates a client whose connections send nothing without this leadership.
///
/// # Errors
/// Returns the errors of [`client`].
pub fn leader_client(config: Config, leadership: Leadership) -> kube::Result<Client> {
    client_with(config, Some(leadership))
}

fn client_with(config: Config, leadership: Option<Leadership>) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(leadership.as_ref().map(|_| ACKNOWLEDGED_WITHIN));
    let connector = match proxy::of(&config)? {
        None => connector(tcp, leadership),
        Some(Proxy::Socks5 { url, user: None }) => connector(SocksV5::new(url, tcp), leadership),
        Some(Proxy::Socks5 { url, user: Some((name, password)) }) => {
            connector(SocksV5::new(url, tcp).with_auth(name, password), leadership)
        }
        Some(Proxy::Http { url, authorization }) => {
            connector(with_authorization(Tunnel::new(url, tcp), authorization), leadership)
        }
        Some(Proxy::Https { url, authorization }) => {
            let tls = HttpsConnectorBuilder::new().with_tls_config(trust::tls_config(&config)?);
            let tunnel = Tunnel::new(url, tls.https_only().enable_http1().wrap_connector(tcp));
            connector(with_authorization(tunnel, authorization), leadership)
        }
    };
    connected_by(config, connector)
}

fn with_authorization<C>(tunnel: Tunnel<C>, authorization: Option<http::HeaderValue>) -> Tunnel<C> {
    match authorization {
        Some(value) => tunnel.with_auth(value),
        None => tunnel,
    }
}

/// Connects to a server or through a proxy. A trait object, so that TLS, HTTP/1 and HTTP/2 are compiled once, not for
/// each kind of proxy.
type Connector = BoxCloneSyncService<http::Uri, Fenced, io::Error>;

fn connector<C>(inner: C, leadership: Option<Leadership>) -> Connector
where
    C: Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: Stream + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    BoxCloneSyncService::new(tower::service_fn(move |url: http::Uri| {
        let (connecting, leadership) = (inner.clone().oneshot(url), leadership.clone());
        async move {
            let inner = Box::new(connecting.await.map_err(io::Error::other)?);
            Ok(Fenced { inner, leadership })
        }
    }))
}

fn connected_by(config: Config, connector: Connector) -> kube::Result<Client> {
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(trust::tls_config(&config)?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|e| Error::Service(Box::new(e)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = builder.enable_http1().enable_http2().wrap_connector(connector);
    let in_time = tower::service_fn(move |url: http::Uri| {
        let connecting = https.clone().oneshot(url);
        Box::pin(async move { tokio::time::timeout(CONNECT_TIMEOUT, connecting).await? })
    });
    let connections = Connections::new(in_time);
    let transport = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().no_br().no_deflate().no_zstd().gzip(!config.disable_compression))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service_fn(move |request| connections.clone().send(request));
    Ok(ClientBuilder::new(Answers::new(transport), config.default_namespace).build())
}
