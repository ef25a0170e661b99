//! The hub in the bootstrap kubeconfig, and connections to it under the bootstrap identity or the agent's
//! identity.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::credentials::Credentials;
use super::error::JoinError;
use crate::shell;
use object::hex;
use object::text::first_line;

/// The interval between reads of the bootstrap kubeconfig. The kubelet takes up to a minute to show a changed
/// Secret to a pod.
const READ_PERIOD: Duration = Duration::from_secs(10);

/// The way to reach the hub until the agent has its own identity.
#[derive(Clone, Debug)]
pub enum Bootstrap {
    /// A kubeconfig that never changes.
    Given(Box<Kubeconfig>),
    /// A file that is read at intervals, so that a new token, CA or hub needs no restart.
    File(PathBuf),
}

impl Bootstrap {
    fn read(&self) -> Result<Kubeconfig, JoinError> {
        match self {
            Self::Given(kubeconfig) => Ok(Kubeconfig::clone(kubeconfig)),
            Self::File(path) => {
                let read = shell::read_kubeconfig(path);
                read.map_err(|error| JoinError::Kubeconfig(first_line(&error.to_string()).to_owned()))
            }
        }
    }
}

/// The identity of a hub: the fields that OCM's agent compares before it uses a stored identity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    server: String,
    proxy: Option<String>,
    /// The CA bundle in base64, or the path of its file.
    authority: Option<String>,
    /// The name of the entry. A reinstalled hub may keep its URL and CA, but gets another name.
    entry: String,
}

/// The hub that a bootstrap kubeconfig names.
pub(super) struct BootstrapHub {
    /// The URL exactly as in the kubeconfig, because names of objects on the spoke contain its hash.
    pub(super) server: String,
    entry: String,
    cluster: Cluster,
    bootstrap: Kubeconfig,
}

impl BootstrapHub {
    /// Reads the hub from the current bootstrap kubeconfig.
    pub(super) fn read(bootstrap: &Bootstrap) -> Result<Self, JoinError> {
        Self::from_kubeconfig(&bootstrap.read()?)
    }

    /// Returns true if a stored kubeconfig is for this hub. The text may differ, because OCM's agent formats it
    /// differently.
    pub(super) fn is_named_by(&self, kubeconfig: &str) -> bool {
        Self::parse(kubeconfig).is_ok_and(|hub| hub.address() == self.address())
    }

    /// Returns true if a stored kubeconfig is for this hub. The CA and the proxy may differ, because an
    /// identity stays valid when they change. If it is another hub after all, that hub rejects the identity.
    pub(super) fn has_name_of(&self, kubeconfig: &str) -> bool {
        let name = |hub: &Self| (hub.server.clone(), hub.entry.clone());
        Self::parse(kubeconfig).is_ok_and(|hub| name(&hub) == name(self))
    }

    fn parse(kubeconfig: &str) -> Result<Self, JoinError> {
        let parsed = shell::parse_kubeconfig(kubeconfig);
        Self::from_kubeconfig(&parsed.map_err(|error| JoinError::Kubeconfig(error.to_string()))?)
    }

    /// Returns true if this hub issued the identity to an agent of this cluster.
    pub(super) fn has_issued(&self, identity: &Credentials, cluster: &str) -> bool {
        identity.is_of(cluster) && self.has_name_of(&identity.kubeconfig)
    }

    /// Returns true if a newer read of the bootstrap kubeconfig has the same hub and bootstrap identity.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let value = |hub: &Self| serde_json::to_value(&hub.bootstrap).ok();
        value(self) == value(other)
    }

    fn address(&self) -> Address {
        let Cluster { proxy_url, certificate_authority, certificate_authority_data, .. } = &self.cluster;
        Address {
            server: self.server.clone(),
            proxy: proxy_url.clone().filter(|proxy| !proxy.is_empty()),
            authority: certificate_authority_data.clone().or_else(|| certificate_authority.clone()),
            entry: self.entry.clone(),
        }
    }

    /// Reads the hub of the current context.
    fn from_kubeconfig(bootstrap: &Kubeconfig) -> Result<Self, JoinError> {
        let missing = |what: &str| JoinError::Kubeconfig(format!("it has no {what}"));
        let current = bootstrap
            .current_context
            .clone()
            .or_else(|| bootstrap.contexts.first().map(|context| context.name.clone()));
        let current = current.ok_or_else(|| missing("context"))?;
        let context = bootstrap
            .contexts
            .iter()
            .find(|context| context.name == current)
            .and_then(|context| context.context.as_ref());
        let entry =
            context.map(|context| context.cluster.clone()).ok_or_else(|| missing("current context"))?;
        let cluster = bootstrap
            .clusters
            .iter()
            .find(|cluster| cluster.name == entry)
            .and_then(|cluster| cluster.cluster.clone());
        let cluster = cluster.ok_or_else(|| missing("cluster of its current context"))?;
        let server = cluster.server.clone().ok_or_else(|| missing("server"))?;
        Ok(Self { server, entry, cluster, bootstrap: bootstrap.clone() })
    }

    /// Returns the SHA-256 of the URL in hexadecimal digits, as in the names that OCM's agent gives to
    /// AppliedManifestWorks.
    pub(super) fn hash(&self) -> String {
        hex(Sha256::digest(self.server.as_bytes()))
    }

    /// Returns a label value for the hub: the first half of the hash, because label values have at most 63
    /// characters.
    pub(super) fn label(&self) -> String {
        self.hash().chars().take(32).collect()
    }

    /// Returns a connection under the bootstrap identity.
    pub(super) async fn bootstrap_client(&self) -> Result<kube::Client, JoinError> {
        connect(self.bootstrap.clone()).await
    }

    /// Returns a connection under the agent's identity.
    pub(super) async fn client_with(&self, credentials: &Credentials) -> Result<kube::Client, JoinError> {
        let auth = AuthInfo {
            client_certificate_data: Some(STANDARD.encode(&credentials.certificate)),
            client_key_data: Some(STANDARD.encode(&credentials.key).into()),
            ..AuthInfo::default()
        };
        connect(self.kubeconfig_with(auth)).await
    }

    /// Returns the kubeconfig that is stored with certificate and key, in the format of OCM's agent.
    pub(super) fn stored_kubeconfig(&self) -> Result<String, JoinError> {
        self.stored(AuthInfo {
            client_certificate: Some("tls.crt".into()),
            client_key: Some("tls.key".into()),
            ..AuthInfo::default()
        })
    }

    /// Returns the kubeconfig that is stored with a token.
    pub(super) fn stored_kubeconfig_of_token(&self) -> Result<String, JoinError> {
        self.stored(AuthInfo { token_file: Some("token".into()), ..AuthInfo::default() })
    }

    fn stored(&self, auth: AuthInfo) -> Result<String, JoinError> {
        serde_saphyr::to_string(&self.kubeconfig_with(auth))
            .map_err(|error| JoinError::Kubeconfig(error.to_string()))
    }

    fn kubeconfig_with(&self, auth: AuthInfo) -> Kubeconfig {
        const USER: &str = "default-auth";
        const CONTEXT: &str = "default-context";
        let context = Context {
            cluster: self.entry.clone(),
            user: Some(USER.into()),
            namespace: Some("configuration".into()),
            ..Context::default()
        };
        Kubeconfig {
            clusters: vec![NamedCluster {
                name: self.entry.clone(),
                cluster: Some(self.cluster.clone()),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: USER.into(),
                auth_info: Some(auth),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: CONTEXT.into(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(CONTEXT.into()),
            kind: Some("Config".into()),
            api_version: Some("v1".into()),
            ..Kubeconfig::default()
        }
    }
}

/// Waits until the bootstrap kubeconfig changes. Read errors do not count as a change.
pub(super) async fn bootstrap_changes(bootstrap: &Bootstrap, hub: &BootstrapHub) {
    loop {
        sleep(READ_PERIOD).await;
        if BootstrapHub::read(bootstrap).is_ok_and(|read| !read.is_same(hub)) {
            return;
        }
    }
}

async fn connect(kubeconfig: Kubeconfig) -> Result<kube::Client, JoinError> {
    let refused = |error: kube::config::KubeconfigError| JoinError::Kubeconfig(error.to_string());
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(refused)?;
    shell::client(config)
        .map_err(|source| JoinError::Api { attempt: "use the kubeconfig of the hub", source })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    const BOOTSTRAP: &str = "apiVersion: v1
kind: Config
current-context: bootstrap
contexts: [{name: bootstrap, context: {cluster: hub, user: bootstrap, namespace: a}}]
clusters:
- {name: hub, cluster: {server: 'https://hub:6443', proxy-url: 'http://p:1', certificate-authority-data: QUJD}}
users: [{name: bootstrap, user: {token: first}}]
";

    /// Fuzzes the kubeconfig of a bootstrap secret, and the agent's identity secret.
    #[test]
    fn any_bytes_are_a_kubeconfig_or_refused() {
        let other = BOOTSTRAP.replace("current-context: bootstrap\n", "").replace("QUJD", "'no base64'");
        let json = r#"{"clusters": [{"name": "", "cluster": {"server": ""}}], "contexts": [{"name": "", "context": {"cluster": ""}}]}"#;
        let certificate = include_str!("../pki/tests/p384-ca.crt");
        let seeds = [BOOTSTRAP, &other, json, certificate].map(|text| text.as_bytes().to_vec());
        let run = |bytes: &[u8]| {
            let data = ["tls.crt", "tls.key", "kubeconfig"].map(|key| (key.into(), ByteString(bytes.into())));
            let secret = Secret { data: Some(data.into()), ..Secret::default() };
            if let Some(credentials) = Credentials::from_secret(&secret) {
                assert!(credentials.renew_at() <= credentials.expires(), "it is renewed when it has expired");
            }
            let Ok(kubeconfig) = shell::parse_kubeconfig(&String::from_utf8_lossy(bytes)) else { return };
            let Ok(hub) = BootstrapHub::read(&Bootstrap::Given(Box::new(kubeconfig))) else { return };
            assert!(hub.is_same(&hub), "a hub is the same as itself");
            for stored in [hub.stored_kubeconfig(), hub.stored_kubeconfig_of_token()] {
                let stored = stored.expect("what was read is written");
                assert!(hub.is_named_by(&stored) && hub.has_name_of(&stored), "{stored}");
            }
        };
        let words = [
            "clusters:",
            "contexts:",
            "users:",
            "current-context:",
            "certificate-authority-data:",
            "server:",
            "cluster:",
            "- name:",
            "extensions:",
            "\n---\n",
            "&a ",
            "*a",
            "<<: *a",
            "!!binary ",
            "\\u0000",
            "'",
            "\"",
            "|\n",
        ];
        crate::fuzz::Target { name: "kubeconfig", run: &run, seeds: &seeds, words: &words }.fuzz();
    }
}
