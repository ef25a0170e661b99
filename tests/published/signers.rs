//! Signers of templates: an agent gets certificates only for the subject of its registration.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use wheelwright::pki::{
    Authority, Certificate, CertificateRequest, Identity, KeyPair, Subject, Usage, request,
};
use wheelwright::shell::now;

use super::hub::Hub;
use crate::wait::eventually;

const SIGNER: &str = "example.com/foo";
const SPOKE: &str = "c3";

fn subject() -> Subject {
    Subject { organizational_units: vec!["unit".into()], ..Subject::new("reader", &["readers"]) }
}

/// The namespace of the authority.
const PLACE: &str = "wheelwright-system";
const NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Returns an authority with an RSA key.
fn authority() -> Authority {
    let certificate = include_str!("../../src/pki/tests/rsa-ca.crt").to_owned();
    let key = include_str!("../../src/pki/tests/rsa-ca.key").to_owned();
    Authority::load(&Identity { certificate, key }).unwrap()
}

/// Returns the authority's secret.
fn secret_of_authority() -> String {
    let data = json!({
        "tls.crt": include_str!("../../src/pki/tests/rsa-ca.crt"), "tls.key": include_str!("../../src/pki/tests/rsa-ca.key"),
    });
    let metadata = json!({"name": "foo-ca", "namespace": PLACE});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "stringData": data})
        .to_string()
}

/// Returns the secret that the agent has kept for 23 hours, with a certificate that expires in an hour.
fn nearly_expired(name: &str) -> Secret {
    let made = now() - jiff::SignedDuration::from_hours(23);
    let key = KeyPair::generate().unwrap();
    let asked = CertificateRequest::parse(&request(&key, &subject(), &[]).unwrap()).unwrap();
    let day = Duration::from_hours(24);
    let certificate = authority().sign(&asked, &[Usage::Client], made, day).unwrap();
    let data = [("tls.crt", certificate), ("tls.key", key.to_pem()), ("cluster-name", SPOKE.to_owned())];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Secret { metadata, data: Some(data.into()), ..Secret::default() }
}

/// Checks a certificate like a server that trusts the authority.
fn is_trusted(pem: &str) -> bool {
    let leaf = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(authority().certificate_der())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    verifier.verify_client_cert(&leaf, &[], UnixTime::now()).is_ok()
}

/// Returns a template that references the authority, and the add-on on one cluster.
fn objects() -> String {
    let addons = "addon.open-cluster-management.io/v1alpha1";
    let named = json!({"user": "reader", "groups": ["readers"], "organizationUnit": ["unit"]});
    let custom =
        json!({"signerName": SIGNER, "subject": named, "signingCA": {"name": "foo-ca", "namespace": PLACE}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let template = json!({
        "addonName": "signed", "agentSpec": {"workload": {"manifests": [namespace]}},
        "registration": [{"type": "CustomSigner", "customSigner": custom}],
    });
    let config = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": "signed"}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}}),
        json!({"apiVersion": addons, "kind": "AddOnTemplate", "metadata": {"name": "signed"}, "spec": template}),
        json!({"apiVersion": addons, "kind": "ClusterManagementAddOn", "metadata": {"name": "signed"}, "spec": {"supportedConfigs": [config]}}),
        json!({"apiVersion": addons, "kind": "ManagedClusterAddOn", "metadata": {"name": "signed", "namespace": SPOKE}, "spec": {}}),
    ];
    objects.map(|object| object.to_string()).join("\n---\n")
}

fn csr(name: &str, subject: &Subject, usage: &str) -> String {
    let pem = request(&KeyPair::generate().unwrap(), subject, &[]).unwrap();
    let labels = json!({"open-cluster-management.io/cluster-name": SPOKE, "open-cluster-management.io/addon-name": "signed"});
    let usages = ["digital signature", "key encipherment", usage];
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name, "labels": labels},
        "spec": {"request": STANDARD.encode(pem), "signerName": SIGNER, "usages": usages, "expirationSeconds": 600},
    });
    csr.to_string()
}

/// Sends a request as the cluster's agent and approves it as the administrator.
fn ask(hub: &Hub, name: &str, subject: &Subject, usage: &str) {
    let agent = [
        "--as=system:open-cluster-management:c3:agent",
        "--as-group=system:open-cluster-management:c3",
        "--as-group=system:open-cluster-management:managed-clusters",
    ];
    hub.kubectl.run_with(&[&["create", "-f", "-"][..], &agent].concat(), &csr(name, subject, usage));
    hub.kubectl.run(&["certificate", "approve", name]);
}

/// Waits for the add-on's certificate condition.
async fn says(hub: &Hub, reason: &str) {
    eventually(reason, async || {
        let addon: Value = hub.get(&["managedclusteraddon", "signed", "-n", SPOKE]);
        let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "ClusterCertificateRotated" && one["reason"] == reason)
    })
    .await;
}

/// Returns the certificate of a request, if one was issued.
fn issued(hub: &Hub, name: &str) -> Option<Certificate> {
    let request: Value = hub.get(&["csr", name]);
    let pem = STANDARD.decode(request["status"]["certificate"].as_str()?).unwrap();
    Some(Certificate::from_pem(&String::from_utf8(pem).unwrap()).unwrap())
}

pub(super) async fn an_agent_gets_certificates_of_the_signer_of_its_template(hub: &mut Hub) {
    let spoke = hub.join_with_agent(SPOKE, &[]).await;
    // Foreign requests do not keep the agent from sending its own. See docs/hazards-clusters.md#requests-of-others.
    let waiting: Vec<String> = (0..10).map(|number| format!("waiting-{number}")).collect();
    let requests: Vec<String> = waiting.iter().map(|name| csr(name, &subject(), "client auth")).collect();
    hub.apply(&requests.join("\n---\n"));
    let namespaces: Api<Namespace> = Api::all(spoke.clone());
    eventually("the agent makes the namespace of add-ons", async || {
        namespaces.get_opt(NAMESPACE).await.unwrap().is_some()
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(spoke, NAMESPACE);
    let name = "signed-example.com-foo-client-cert";
    secrets.create(&PostParams::default(), &nearly_expired(name)).await.unwrap();
    let mut stored = secrets.get(name).await.unwrap();
    let before = stored.data.clone().unwrap();

    hub.apply(&objects());
    eventually("the add-on has the event that its authority is missing", async || {
        let events =
            hub.get(&["events.events.k8s.io", "-n", SPOKE])["items"].as_array().cloned().unwrap_or_default();
        let of_addon = |event: &Value| event["regarding"]["name"] == "signed";
        events.iter().any(|event| of_addon(event) && event["reason"] == "SigningFailed")
    })
    .await;
    says(hub, "ClientCertificateUpdateFailed").await;
    stored = secrets.get(name).await.unwrap();
    assert_eq!(stored.data.as_ref(), Some(&before), "the old certificate stays until there is a new one");
    hub.apply(&secret_of_authority());
    eventually("the agent keeps a new certificate before the old one has ended", async || {
        stored = secrets.get(name).await.unwrap();
        stored.data.as_ref() != Some(&before)
    })
    .await;
    let data = stored.data.unwrap();
    assert!(data["tls.key"] != before["tls.key"]);
    assert_eq!(data.keys().collect::<Vec<_>>(), ["cluster-name", "tls.crt", "tls.key"]);
    assert_eq!(data["cluster-name"].0, SPOKE.as_bytes());
    let certificate = String::from_utf8(data["tls.crt"].0.clone()).unwrap();
    assert_eq!(Certificate::from_pem(&certificate).unwrap().subject, subject());
    assert!(is_trusted(&certificate));
    says(hub, "ClientCertificateUpdated").await;

    // An approval by a person must not give an agent another identity or a server certificate. The last request is
    // signed after the others were checked.
    ask(hub, "forged", &Subject::new("admin", &["system:masters"]), "client auth");
    ask(hub, "for-a-server", &subject(), "server auth");
    ask(hub, "honest", &subject(), "client auth");
    eventually("the honest request is signed", async || issued(hub, "honest").is_some()).await;
    let honest = issued(hub, "honest").unwrap();
    let life = Duration::from_secs(
        u64::try_from(honest.not_after.as_second() - honest.not_before.as_second()).unwrap(),
    );
    assert!(
        life <= Duration::from_secs(600 + 300),
        "{life:?} with the five minutes for clocks that run behind"
    );
    assert_eq!((issued(hub, "forged"), issued(hub, "for-a-server")), (None, None));

    hub.kubectl.run(&["delete", "managedclusteraddon", "signed", "-n", SPOKE]);
    eventually("the certificate goes with the add-on", async || {
        secrets.get_opt(name).await.unwrap().is_none()
    })
    .await;
}
