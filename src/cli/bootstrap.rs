//! The kubeconfig with which a cluster asks a hub to join it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Address and credentials with which clusters that have not joined reach a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Bootstrap {
    /// The token of the bootstrap identity.
    pub(super) hub_token: String,
    /// The URL of the API server.
    pub(super) hub_apiserver: String,
    /// The certificate authorities of the API server, PEM in base64. Empty means those of the system.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) hub_ca_data: String,
}

impl Bootstrap {
    /// Returns the kubeconfig, with a proxy in front of the hub where one is named.
    pub(super) fn kubeconfig(&self, proxy: Option<&str>) -> Value {
        let mut cluster = Map::from_iter([("server".to_owned(), json!(self.hub_apiserver))]);
        if !self.hub_ca_data.is_empty() {
            cluster.insert("certificate-authority-data".into(), json!(self.hub_ca_data));
        }
        if let Some(proxy) = proxy {
            cluster.insert("proxy-url".into(), json!(proxy));
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bootstrap",
            "clusters": [{"name": "hub", "cluster": cluster}],
            "users": [{"name": "bootstrap", "user": {"token": self.hub_token}}],
            "contexts": [{"name": "bootstrap", "context": {"cluster": "hub", "user": "bootstrap", "namespace": "default"}}],
        })
    }
}

/// Encodes PEM certificates in base64, as kubeconfigs have them.
pub(super) fn ca_data(certificates: &[Vec<u8>]) -> String {
    let pem = |der: &Vec<u8>| {
        let text = STANDARD.encode(der);
        let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
        let body: String = lines.map(|line| format!("{line}\n")).collect();
        format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
    };
    match certificates {
        [] => String::new(),
        certificates => STANDARD.encode(certificates.iter().map(pem).collect::<String>()),
    }
}
