//! Exports spans to a collector over OTLP/HTTP with protobuf bodies.
//!
//! Nothing waits for a collector. If the queue is full or the collector rejects a batch, the spans are dropped,
//! and this is logged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use prost::Message as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::message::{
    ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans, Span,
};
use api::names::OPERATOR;

/// The maximum number of queued spans. A rollout to 1,000 clusters creates about 6,000 in total.
const QUEUE: usize = 8192;
/// The maximum number of spans in a request, of about 300 bytes each.
const BATCH: usize = 512;
/// The time that a batch waits for more spans.
const DELAY: Duration = Duration::from_secs(1);
/// The timeout of a request, the default in the specification.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a collector, and the attributes of the spans.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    endpoint: Uri,
    headers: HeaderMap,
    resource: BTreeMap<String, String>,
}

/// The supported environment variables of the OpenTelemetry specification.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

impl TraceOptions {
    /// Reads the options from the environment, with the base URL from a flag if given. Returns `None` without a
    /// collector.
    ///
    /// # Errors
    /// Fails if a value is invalid, or the environment requests another protocol.
    pub fn read(
        endpoint: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let of_base = |base: &str| format!("{}/v1/traces", base.trim_end_matches('/'));
        let (name, endpoint) = match (endpoint, variable(TRACES_ENDPOINT), variable(ENDPOINT)) {
            (Some(base), _, _) => ("--otlp-endpoint", of_base(base)),
            (None, Some(endpoint), _) => (TRACES_ENDPOINT, endpoint),
            (None, None, Some(base)) => (ENDPOINT, of_base(&base)),
            (None, None, None) => return Ok(None),
        };
        let uri: Uri = endpoint.parse().with_context(|| format!("cannot read {name}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            bail!("{name} is not the URL of a collector, such as http://collector.monitoring:4318");
        }
        if let Some(protocol) = variable(PROTOCOL).filter(|protocol| protocol != "http/protobuf") {
            bail!("{PROTOCOL} is {protocol:?}; traces are sent with http/protobuf only");
        }
        let mut headers = HeaderMap::new();
        for (name, value) in pairs(HEADERS, &variable(HEADERS).unwrap_or_default())? {
            // No message contains the value, which may be confidential.
            let wrong = || anyhow!("{HEADERS}: {name} is no header");
            let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
        }
        let mut resource = pairs(RESOURCE_ATTRIBUTES, &variable(RESOURCE_ATTRIBUTES).unwrap_or_default())?;
        if let Some(service) = variable(SERVICE_NAME) {
            resource.insert("service.name".into(), service);
        }
        resource.entry("service.name".into()).or_insert_with(|| OPERATOR.into());
        resource.entry("service.version".into()).or_insert_with(|| env!("CARGO_PKG_VERSION").into());
        Ok(Some(Self { endpoint: uri, headers, resource }))
    }
}

/// Parses `key=value,key=value` with percent-encoded values.
fn pairs(name: &str, text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) =
                part.split_once('=').ok_or_else(|| anyhow!("{name}: write key=value,key=value"))?;
            let value = percent_decode_str(value.trim())
                .decode_utf8()
                .map_err(|_| anyhow!("{name}: the value of {key} is not UTF-8"))?;
            Ok((key.trim().to_owned(), value.into_owned()))
        })
        .collect()
}

/// The queue of spans to export.
#[derive(Clone)]
pub(super) struct SpanQueue {
    pub(super) spans: mpsc::Sender<Span>,
    pub(super) lost: Arc<AtomicU64>,
}

impl SpanQueue {
    pub(super) fn add(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Exports the spans in a queue.
pub(crate) struct Exporter {
    options: TraceOptions,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    spans: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
    /// True if the last request failed.
    is_failing: bool,
}

impl Exporter {
    /// Returns a queue and its exporter.
    pub(super) fn new(options: TraceOptions) -> (SpanQueue, Self) {
        let (sender, spans) = mpsc::channel(QUEUE);
        let lost = Arc::<AtomicU64>::default();
        let mut roots = RootCertStore::empty();
        if options.endpoint.scheme_str() == Some("https") {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let queue = SpanQueue { spans: sender, lost: Arc::clone(&lost) };
        (queue, Self { options, client, spans, lost, is_failing: false })
    }

    /// Exports spans until `stop`, and then the queued ones.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let first = tokio::select! {
                span = self.spans.recv() => span,
                () = stop.cancelled(), if !self.spans.is_closed() => {
                    self.spans.close();
                    continue;
                }
            };
            let Some(first) = first else { return };
            let mut batch = vec![first];
            let gather = async {
                while batch.len() < BATCH {
                    match self.spans.recv().await {
                        Some(span) => batch.push(span),
                        None => break,
                    }
                }
            };
            tokio::select! {
                _ = timeout(DELAY, gather) => {}
                () = stop.cancelled() => {}
            }
            self.export(batch).await;
        }
    }

    async fn export(&mut self, spans: Vec<Span>) {
        let count = spans.len();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(count = lost, "dropped spans: the collector does not keep up");
        }
        let sent = match timeout(REQUEST_TIMEOUT, self.send(spans)).await {
            Ok(sent) => sent,
            Err(_) => Err(anyhow!("the collector does not respond")),
        };
        let endpoint = &self.options.endpoint;
        match &sent {
            Err(error) if !self.is_failing => {
                warn!(%endpoint, error = format!("{error:#}"), count, "cannot send spans; they are lost");
            }
            Ok(()) if self.is_failing => info!(%endpoint, "spans are sent again"),
            Ok(()) | Err(_) => {}
        }
        self.is_failing = sent.is_err();
    }

    async fn send(&self, spans: Vec<Span>) -> anyhow::Result<()> {
        let TraceOptions { endpoint, headers, resource } = &self.options;
        let attributes = resource.iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        let scope =
            InstrumentationScope { name: "wheelwright".into(), version: env!("CARGO_PKG_VERSION").into() };
        let spans = ResourceSpans {
            resource: Some(Resource { attributes }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        };
        let body = ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, endpoint.clone());
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let status = self.client.request(request).await?.status();
        if status.is_success() { Ok(()) } else { Err(anyhow!("the collector returned {status}")) }
    }
}

#[cfg(test)]
#[path = "tests/export.rs"]
mod tests;
