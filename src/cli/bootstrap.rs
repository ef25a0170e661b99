//! The kubeconfig with which a cluster asks a hub to join it.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{CommandError, connect};

/// The address and credentials of a hub, for clusters that have not joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Bootstrap {
    /// The token of the bootstrap identity.
    pub(super) hub_token: String,
    /// The URL of the API server.
    pub(super) hub_apiserver: String,
    /// The CA certificates of the API server, as base64-encoded PEM. If empty, the system's CAs are used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) hub_ca_data: String,
}

impl Bootstrap {
    /// Returns the kubeconfig, with `proxy` as the proxy in front of the hub.
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

/// The bootstrap kubeconfig as the options of a command give it.
#[derive(Debug, clap::Args)]
pub(super) struct BootstrapArgs {
    /// Bootstrap kubeconfig of the hub, instead of a token, a URL and certificate authorities.
    #[arg(long, value_name = "FILE", required_unless_present = "hub_token", conflicts_with_all = ["hub_token", "hub_apiserver", "hub_ca_data", "ca_file"])]
    hub_kubeconfig: Option<PathBuf>,
    /// Token of the bootstrap identity.
    #[arg(long, value_name = "TOKEN", requires = "hub_apiserver")]
    hub_token: Option<String>,
    /// URL of the API server of the hub.
    #[arg(long, value_name = "URL", requires = "hub_token")]
    hub_apiserver: Option<String>,
    /// Certificate authorities of the hub, as base64-encoded PEM.
    #[arg(long, value_name = "BASE64", conflicts_with = "ca_file")]
    hub_ca_data: Option<String>,
    /// File with the certificate authorities of the hub, in PEM format.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// URL of the proxy in front of the hub.
    #[arg(long, value_name = "URL", conflicts_with = "hub_kubeconfig")]
    proxy_url: Option<String>,
}

impl BootstrapArgs {
    pub(super) fn kubeconfig(&self) -> Result<String, CommandError> {
        if let Some(file) = &self.hub_kubeconfig {
            let read = std::fs::read_to_string(file);
            let text = read.with_context(|| format!("cannot read {}", file.display()))?;
            return embedded(&text).map(|()| text);
        }
        let hub_ca_data = match &self.ca_file {
            Some(file) => STANDARD
                .encode(std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?),
            None => self.hub_ca_data.clone().unwrap_or_default(),
        };
        let bootstrap = Bootstrap {
            hub_token: self.hub_token.clone().unwrap_or_default(),
            hub_apiserver: self.hub_apiserver.clone().unwrap_or_default(),
            hub_ca_data,
        };
        Ok(serde_saphyr::to_string(&bootstrap.kubeconfig(self.proxy_url.as_deref()))?)
    }
}

/// Rejects a kubeconfig that refers to files or plugins, which the agent's pod does not have.
fn embedded(kubeconfig: &str) -> Result<(), CommandError> {
    let kubeconfig = connect::parse(kubeconfig)?;
    let clusters = kubeconfig.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    let users = || kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let mut files = clusters.filter_map(|cluster| cluster.certificate_authority.as_ref()).chain(
        users().flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]).flatten(),
    );
    let error = if let Some(file) = files.next() {
        anyhow!("the kubeconfig names {file}, which the agent's pod does not have")
    } else if users().any(|user| user.exec.is_some() || user.auth_provider.is_some()) {
        anyhow!("the kubeconfig runs a plugin for its credentials, which the agent's pod does not have")
    } else {
        return Ok(());
    };
    Err(CommandError::hinted(error, "wheelwright get token --output kubeconfig creates one for agents"))
}

/// Encodes certificates as kubeconfigs do: PEM in base64.
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
