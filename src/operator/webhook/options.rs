//! The options of the webhook.

use std::net::SocketAddr;

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    ServiceReference, WebhookClientConfig,
};

use crate::serve::conversion::PATH;

/// The address of the webhook for API servers.
#[derive(Clone, Debug)]
pub enum WebhookAddress {
    /// A Service in the operator's namespace, port 443.
    Service(String),
    /// `https://host:port`, without a path.
    Url(String),
}

/// The options of the webhook.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address for API servers.
    pub address: WebhookAddress,
    /// The namespace of the Secret with the certificate, and of the Service.
    pub namespace: String,
}

impl WebhookOptions {
    /// Returns the host name in the certificate.
    pub(super) fn host(&self) -> String {
        match &self.address {
            WebhookAddress::Service(name) => format!("{name}.{}.svc", self.namespace),
            WebhookAddress::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
                host.trim_matches(['[', ']']).to_owned()
            }
        }
    }

    /// Returns the webhook configuration for a definition.
    pub(super) fn client_config(&self, authorities: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(authorities.as_bytes().to_vec()));
        match &self.address {
            WebhookAddress::Service(name) => {
                let service = ServiceReference {
                    name: name.clone(),
                    namespace: self.namespace.clone(),
                    path: Some(PATH.into()),
                    port: Some(443),
                };
                WebhookClientConfig { ca_bundle, service: Some(service), url: None }
            }
            WebhookAddress::Url(url) => {
                let url = Some(format!("{}{PATH}", url.trim_end_matches('/')));
                WebhookClientConfig { ca_bundle, service: None, url }
            }
        }
    }
}
