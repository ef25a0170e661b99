//! The Secrets with which Argo CD registers clusters.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use api::names::argo::ARGO_SECRET_TYPE_LABEL;
use api::names::{MANAGED_SERVICE_ACCOUNT_LABEL, PLACEMENTS_ANNOTATION};
use object::{Key, Metadata as _};

/// The address and credentials with which Argo CD connects to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterAccess {
    /// The address of the API server.
    server: String,
    /// The token and certificate authority; `None` if Argo CD does not connect.
    config: Option<String>,
}

impl ClusterAccess {
    /// The keys of the Secret's data.
    pub const VALUES: [&str; 3] = ["name", "server", "config"];

    /// Returns the access for the pull model, in which Argo CD does not connect. The address is the same as in
    /// argocd-pull-integration. The cluster must not choose it, because Argo CD uses its own credentials for
    /// some addresses.
    pub fn none(cluster: &str) -> Self {
        Self { server: format!("https://{cluster}-control-plane:6443"), config: None }
    }

    /// Returns the access with the token of a ManagedServiceAccount. `authority` is the server's certificate
    /// authority, as base64-encoded PEM. It defaults to the authority of the account.
    ///
    /// # Errors
    /// Fails if a cluster may not choose the address, or if the Secret has no token of such an account.
    pub fn with_token(server: &str, authority: Option<&str>, account: &Secret) -> Result<Self, String> {
        if let Some(reason) = refusal(server) {
            return Err(format!("the address {server:?} of the cluster {reason}"));
        }
        if account.label(MANAGED_SERVICE_ACCOUNT_LABEL) != Some("true") {
            return Err(format!(
                "the Secret {} does not belong to a ManagedServiceAccount",
                Key::of(account)
            ));
        }
        let value = |name: &str| account.data.as_ref()?.get(name).map(|value| value.0.as_slice());
        let token = value("token").and_then(|token| std::str::from_utf8(token).ok());
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            return Err(format!("the Secret {} has no token", Key::of(account)));
        };
        let own = value("ca.crt")
            .map(|pem| serde_json::to_value(ByteString(pem.to_vec())))
            .and_then(Result::ok)
            .and_then(|base64| base64.as_str().map(str::to_owned));
        let mut tls = json!({"insecure": false});
        if let Some(authority) = authority.map(str::to_owned).or(own) {
            tls = json!({"insecure": false, "caData": authority});
        }
        let config = json!({"bearerToken": token, "tlsClientConfig": tls}).to_string();
        Ok(Self { server: server.to_owned(), config: Some(config) })
    }

    /// Returns the Secret of a cluster for the placements in a namespace that select it.
    pub fn secret(&self, namespace: &str, cluster: &str, placements: &BTreeSet<String>) -> Secret {
        let values =
            [("name", Some(cluster)), ("server", Some(&self.server)), ("config", self.config.as_deref())];
        let data = values
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), ByteString(value?.as_bytes().to_vec()))));
        let placements = placements.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        Secret {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(cluster_secret_name(cluster)),
                labels: Some([(ARGO_SECRET_TYPE_LABEL.to_owned(), "cluster".to_owned())].into()),
                annotations: Some([(PLACEMENTS_ANNOTATION.to_owned(), placements)].into()),
                ..ObjectMeta::default()
            },
            data: Some(data.collect::<BTreeMap<_, _>>()),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }
}

/// Returns the name of a cluster's Secret.
pub fn cluster_secret_name(cluster: &str) -> String {
    format!("{cluster}-cluster-secret")
}

/// Returns the reason that Argo CD must not connect to an address that a cluster reports for itself. Argo CD
/// uses its own credentials for the address of its own cluster, so an application for the cluster would reach
/// the hub.
fn refusal(server: &str) -> Option<&'static str> {
    let Some(rest) = server.strip_prefix("https://") else { return Some("is not https") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    if authority.contains('@') {
        return Some("has a user name");
    }
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let host = host.trim_end_matches('.');
    let is_local = match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback() || address.is_unspecified(),
        Err(_) => {
            host.is_empty()
                || host == "localhost"
                || host == "kubernetes"
                || host.starts_with("kubernetes.default")
                || host.ends_with(".svc")
                || host.ends_with(".cluster.local")
        }
    };
    is_local.then_some("is an address inside the hub")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(label: &str, values: &[(&str, &str)]) -> Secret {
        let data =
            values.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret {
            metadata: ObjectMeta {
                namespace: Some("c1".into()),
                name: Some("argocd".into()),
                labels: Some([(MANAGED_SERVICE_ACCOUNT_LABEL.to_owned(), label.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    fn value(secret: &Secret, name: &str) -> String {
        let data = secret.data.as_ref().unwrap().get(name);
        data.map(|value| String::from_utf8(value.0.clone()).unwrap()).unwrap_or_default()
    }

    #[test]
    fn a_secret_has_the_token_and_the_authority_of_its_account_or_neither() {
        let account = account("true", &[("token", "t"), ("ca.crt", "PEM")]);
        let placements = ["fleet".to_owned()].into();
        for (authority, data) in [(None, "UEVN"), (Some("b3RoZXI="), "b3RoZXI=")] {
            let access =
                ClusterAccess::with_token("https://c1.example.com:6443", authority, &account).unwrap();
            let secret = access.secret("argocd", "c1", &placements);
            assert_eq!(Key::of(&secret), Key::namespaced("argocd", "c1-cluster-secret"));
            assert_eq!(
                (secret.label(ARGO_SECRET_TYPE_LABEL), secret.annotation(PLACEMENTS_ANNOTATION)),
                (Some("cluster"), Some("fleet"))
            );
            assert_eq!(
                (access.server(), secret.type_.as_deref()),
                ("https://c1.example.com:6443", Some("Opaque"))
            );
            assert_eq!(
                (value(&secret, "name"), value(&secret, "server")),
                ("c1".into(), "https://c1.example.com:6443".into())
            );
            let config: serde_json::Value = serde_json::from_str(&value(&secret, "config")).unwrap();
            let tls = json!({"insecure": false, "caData": data});
            assert_eq!(config, json!({"bearerToken": "t", "tlsClientConfig": tls}));
        }
        let blank = ClusterAccess::none("c1").secret("argocd", "c1", &placements);
        assert_eq!(
            (value(&blank, "server"), value(&blank, "config")),
            ("https://c1-control-plane:6443".into(), String::new())
        );
    }

    #[test]
    fn a_token_of_anything_but_a_managed_service_account_is_refused() {
        let server = "https://c1.example.com";
        let reason = |account: &Secret| ClusterAccess::with_token(server, None, account).unwrap_err();
        assert_eq!(
            reason(&account("", &[("token", "t")])),
            "the Secret c1/argocd does not belong to a ManagedServiceAccount"
        );
        assert_eq!(reason(&account("true", &[("token", "")])), "the Secret c1/argocd has no token");
    }

    #[test]
    fn an_address_inside_the_hub_is_refused() {
        let account = account("true", &[("token", "t")]);
        for server in [
            "http://c1.example.com",
            "https://kubernetes.default.svc",
            "https://KUBERNETES.default.svc.:443/x",
            "https://kubernetes",
            "https://kubernetes.default",
            "https://api.team.svc",
            "https://team.cluster.local",
            "https://api.team.svc.cluster.local",
            "https://localhost:6443",
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "https://[::ffff:127.0.0.1]:6443",
            "https://0.0.0.0",
            "https://c1.example.com@kubernetes.default.svc",
            "https://",
        ] {
            assert!(ClusterAccess::with_token(server, None, &account).is_err(), "{server}");
        }
        for server in ["https://c1.example.com", "https://10.0.0.7:6443", "https://[2001:db8::1]:6443/prefix"]
        {
            assert!(ClusterAccess::with_token(server, None, &account).is_ok(), "{server}");
        }
    }
}
