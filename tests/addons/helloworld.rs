//! `examples/helloworld`: ConfigMaps on the hub are copied to the cluster.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use wheelwright::pki::{Authority, Certificate, CertificateRequest, KeyPair, Usage, request};
use wheelwright::shell::now;

use super::hosted_agent::message as message_of;
use super::installed::{Installed, mount, start_manager};
use crate::kube::Kubectl;
use crate::published::hub::Hub;
use crate::wait::eventually;

const HUB: &str = include_str!("../../examples/helloworld/manifests/hub.yaml");
const NAME: &str = "helloworld";

fn image(hub: &Hub, installed: &Installed) -> String {
    let container = &installed.deployment(hub)["spec"]["template"]["spec"]["containers"][0];
    container["image"].as_str().unwrap_or_default().to_owned()
}

/// Checks that ConfigMaps in the cluster's namespace on the hub are copied, updated and deleted.
async fn copies(hub: &Hub, installed: &Installed) {
    let copies: Api<ConfigMap> = Api::namespaced(installed.spoke.clone(), NAME);
    let text = async || {
        let copy = copies.get_opt("greeting").await.unwrap();
        copy.and_then(|copy| copy.data?.remove("text"))
    };
    let on_hub = ["configmap", "greeting", "-n", installed.cluster];
    hub.kubectl.run(&[&["create"][..], &on_hub, &["--from-literal=text=hello"]].concat());
    eventually("the copy is there", async || text().await.as_deref() == Some("hello")).await;
    let change = json!({"data": {"text": "hello again"}}).to_string();
    hub.kubectl.run(&[&["patch"][..], &on_hub, &["--type=merge", "-p", &change]].concat());
    eventually("the copy changes", async || text().await.as_deref() == Some("hello again")).await;
    hub.kubectl.run(&[&["delete"][..], &on_hub].concat());
    eventually("the copy goes", async || text().await.is_none()).await;
}

/// Checks that a configuration for only this cluster is rolled out.
async fn has_an_own_configuration(hub: &Hub, installed: &Installed) {
    let group = "addon.open-cluster-management.io";
    let config = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "own", "namespace": NAME}, "spec": {"agentInstallNamespace": NAME},
    });
    hub.apply(&config.to_string());
    let own = json!({"group": group, "resource": "addondeploymentconfigs", "namespace": NAME, "name": "own"});
    let change = json!({"spec": {"configs": [own]}}).to_string();
    let addon = ["managedclusteraddon", NAME, "-n", installed.cluster, "--type=merge", "-p", &change];
    hub.kubectl.run(&[&["patch"][..], &addon].concat());
    eventually("the configuration of the cluster is rolled out", async || {
        let reference = &installed.on_hub(hub)["status"]["configReferences"][0];
        let desired = &reference["desiredConfig"];
        desired["name"] == "own"
            && desired["specHash"].as_str().is_some_and(|hash| !hash.is_empty())
            && reference["lastAppliedConfig"] == *desired
            && installed.reason(hub, "Progressing") == "Completed"
    })
    .await;
}

/// Checks the state that OCM's documentation shows for an add-on on a cluster.
async fn is_as_in_the_documents(hub: &Hub, installed: &Installed) {
    let addon = installed.on_hub(hub);
    let owner = &addon["metadata"]["ownerReferences"][0];
    let owner = json!([&owner["kind"], &owner["name"], &owner["controller"]]);
    assert_eq!(owner, json!(["ClusterManagementAddOn", NAME, true]));
    for (type_, reason, message) in [
        ("RegistrationApplied", "SetPermissionApplied", "Registration of the addon agent is configured"),
        ("ManifestApplied", "AddonManifestApplied", "manifests of addon are applied successfully"),
        ("ClusterCertificateRotated", "ClientCertificateUpdated", "client certificate rotated starting from"),
        ("Available", "ManagedClusterAddOnLeaseUpdated", "helloworld add-on is available."),
    ] {
        installed.says(hub, type_, reason).await;
        let reported = message_of(&installed.on_hub(hub), type_);
        assert!(reported.starts_with(message), "{reported}");
    }
    let status = &addon["status"];
    assert_eq!(status["namespace"], NAME);
    assert_eq!(status["registrations"].as_array().unwrap().len(), 1, "{status}");
    let config = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs"}]);
    assert_eq!(status["supportedConfigs"], config);
}

/// Returns the identity with another certificate for the same subject, which expires in an hour.
fn aged(mut identity: Secret) -> Secret {
    let data = identity.data.as_mut().unwrap();
    let old = String::from_utf8(data["tls.crt"].0.clone()).unwrap();
    let (key, made) = (KeyPair::generate().unwrap(), now() - SignedDuration::from_hours(23));
    let subject = Certificate::from_pem(&old).unwrap().subject;
    let asked = CertificateRequest::parse(&request(&key, &subject, &[]).unwrap()).unwrap();
    let authority = Authority::create("hub", made).unwrap();
    let certificate = authority.sign(&asked, &[Usage::Client], made, Duration::from_hours(24)).unwrap();
    data.insert("tls.crt".into(), ByteString(certificate.into_bytes()));
    data.insert("tls.key".into(), ByteString(key.to_pem().into_bytes()));
    identity
}

/// Checks that a certificate is renewed before it expires, that the old one stays valid that long, and what both
/// may do.
async fn renews_its_identity(hub: &mut Hub, installed: &Installed) {
    let secrets: Api<Secret> = Api::namespaced(installed.spoke.clone(), NAME);
    let name = format!("{NAME}-hub-kubeconfig");
    let before = secrets.get(&name).await.unwrap();
    let aged = aged(before.clone());
    hub.restart_agent(installed.cluster, &[], async || {
        secrets.replace(&name, &PostParams::default(), &aged).await.unwrap();
    })
    .await;
    let mut after = aged.clone();
    eventually("the certificate is renewed", async || {
        after = secrets.get(&name).await.unwrap();
        after.data.as_ref().unwrap()["tls.crt"] != aged.data.as_ref().unwrap()["tls.crt"]
    })
    .await;
    for (dir, identity) in [("before", before), ("after", after)] {
        let agent = Kubectl::new(&mount(hub, dir, identity), hub.path("kubectl-home"));
        agent.run(&["get", "configmaps", "-n", installed.cluster]);
        let refused = agent.fails(&["get", "configmaps", "-n", "default"]);
        assert!(refused.contains("(Forbidden)"), "{refused}");
    }
}

pub(super) async fn lives_and_goes(hub: &mut Hub) {
    let installed = Installed::on(hub, NAME, "c3").await;
    hub.apply(HUB);
    let manager = start_manager(hub, NAME);
    eventually("the work has the image of the configuration", async || {
        image(hub, &installed) == "helloworld:latest"
    })
    .await;
    let _agent = installed.start_agent(hub, NAME).await;
    installed.says(hub, "Available", "ManagedClusterAddOnLeaseUpdated").await;
    installed.says(hub, "Progressing", "Completed").await;
    installed.says(hub, "RegistrationApplied", "SetPermissionApplied").await;
    copies(hub, &installed).await;
    is_as_in_the_documents(hub, &installed).await;
    renews_its_identity(hub, &installed).await;

    let variables = json!([{"name": "IMAGE", "value": "helloworld:2"}]);
    let change = json!({"spec": {"customizedVariables": variables}}).to_string();
    let config = ["addondeploymentconfig", NAME, "-n", NAME, "--type=merge", "-p", &change];
    hub.kubectl.run(&[&["patch"][..], &config].concat());
    eventually("the work has the changed value, and the rollout is complete", async || {
        let reference = &installed.on_hub(hub)["status"]["configReferences"][0];
        image(hub, &installed) == "helloworld:2"
            && reference["lastAppliedConfig"] == reference["desiredConfig"]
            && installed.reason(hub, "Progressing") == "Completed"
    })
    .await;

    // The next leader continues where the manager stopped.
    assert!(manager.terminate(Duration::from_secs(20)), "the manager ends when it is asked to");
    let values = json!({"IMAGE": "helloworld:3"}).to_string();
    let annotation = format!("addon.open-cluster-management.io/values={values}");
    hub.kubectl.run(&["annotate", "managedclusteraddon", NAME, "-n", installed.cluster, &annotation]);
    let _manager = start_manager(hub, NAME);
    eventually("the values of the annotation go before those of the configuration", async || {
        image(hub, &installed) == "helloworld:3"
    })
    .await;

    has_an_own_configuration(hub, &installed).await;

    hub.uninstall(NAME);
    installed.is_gone(hub, NAME).await;
}
