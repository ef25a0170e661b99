//! Signers of templates: an agent gets certificates only for the subject of its registration.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};
use wheelwright::pki::{Certificate, KeyPair, Subject, request};

use super::hub::Hub;
use crate::wait::eventually;

const SIGNER: &str = "example.com/foo";
const SPOKE: &str = "c3";

fn subject() -> Subject {
    Subject { organizational_units: vec!["unit".into()], ..Subject::new("reader", &["readers"]) }
}

/// Returns an authority with an RSA key, a template that names it, and the add-on on one cluster.
fn objects() -> String {
    let addons = "addon.open-cluster-management.io/v1alpha1";
    let authority = json!({
        "tls.crt": include_str!("../../src/pki/tests/rsa-ca.crt"), "tls.key": include_str!("../../src/pki/tests/rsa-ca.key"),
    });
    let place = "wheelwright-system";
    let named = json!({"user": "reader", "groups": ["readers"], "organizationUnit": ["unit"]});
    let custom =
        json!({"signerName": SIGNER, "subject": named, "signingCA": {"name": "foo-ca", "namespace": place}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "open-cluster-management-agent-addon"}});
    let template = json!({
        "addonName": "signed", "agentSpec": {"workload": {"manifests": [namespace]}},
        "registration": [{"type": "CustomSigner", "customSigner": custom}],
    });
    let config = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": "signed"}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foo-ca", "namespace": place}, "type": "kubernetes.io/tls", "stringData": authority}),
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

/// Sends a request as the agent of the cluster, and approves it as the administrator.
fn ask(hub: &Hub, name: &str, subject: &Subject, usage: &str) {
    let agent = [
        "--as=system:open-cluster-management:c3:agent",
        "--as-group=system:open-cluster-management:c3",
        "--as-group=system:open-cluster-management:managed-clusters",
    ];
    hub.kubectl.run_with(&[&["create", "-f", "-"][..], &agent].concat(), &csr(name, subject, usage));
    hub.kubectl.run(&["certificate", "approve", name]);
}

/// Waits for the condition of the add-on about its certificate.
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
    // Requests of others do not keep the agent from its own. See docs/hazards.md#requests-of-others.
    let waiting: Vec<String> = (0..10).map(|number| format!("waiting-{number}")).collect();
    let requests: Vec<String> = waiting.iter().map(|name| csr(name, &subject(), "client auth")).collect();
    hub.apply(&requests.join("\n---\n"));
    hub.apply(&objects());
    let secrets: Api<Secret> = Api::namespaced(spoke, "open-cluster-management-agent-addon");
    let name = "signed-example.com-foo-client-cert";
    let mut held = None;
    eventually("the agent keeps the certificate", async || {
        held = secrets.get_opt(name).await.unwrap();
        held.is_some()
    })
    .await;
    let data = held.unwrap().data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["cluster-name", "tls.crt", "tls.key"]);
    assert_eq!(data["cluster-name"].0, SPOKE.as_bytes());
    let certificate = String::from_utf8(data["tls.crt"].0.clone()).unwrap();
    assert_eq!(Certificate::from_pem(&certificate).unwrap().subject, subject());
    says(hub, "ClientCertificateUpdated").await;

    // An approval by a person must not give an agent another identity, or the certificate of a server. The
    // last request is signed after the others were checked.
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
