//! Kubeconfig files, as kubectl reads them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::pki::Identity;

/// The credential of a client.
#[derive(Clone, Debug)]
pub enum Credential {
    /// A client certificate and its key.
    Certificate(Identity),
    /// A bearer token.
    Token(String),
}

/// Returns a kubeconfig for one server and one user. Everything is inline, so the file can be moved.
pub fn kubeconfig(url: &str, ca_pem: &str, credential: &Credential) -> Kubeconfig {
    serde_json::from_value(document(url, ca_pem, credential))
        .expect("the document has the fields of a kubeconfig")
}

/// Returns the same kubeconfig as YAML text.
pub fn kubeconfig_yaml(url: &str, ca_pem: &str, credential: &Credential) -> String {
    serde_saphyr::to_string(&document(url, ca_pem, credential))
        .expect("a JSON document can be written as YAML")
}

/// Returns the client certificate and key in a kubeconfig from [`kubeconfig_yaml`].
pub(super) fn identity_in(text: &str) -> Option<Identity> {
    let document: Value = serde_saphyr::from_str(text).ok()?;
    let user = |field: &str| {
        let encoded = document.pointer("/users/0/user")?.get(field)?.as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    Some(Identity { certificate: user("client-certificate-data")?, key: user("client-key-data")? })
}

fn document(url: &str, ca_pem: &str, credential: &Credential) -> Value {
    const NAME: &str = "wheelwright";
    let user = match credential {
        Credential::Certificate(identity) => json!({
            "client-certificate-data": STANDARD.encode(&identity.certificate),
            "client-key-data": STANDARD.encode(&identity.key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca_pem)}}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    })
}
