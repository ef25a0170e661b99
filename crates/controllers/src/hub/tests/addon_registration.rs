//! Tests which add-ons' agents get a client certificate for the hub.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::custom_signer::{GROUP, defaults, hashed, place, progression, replace, supported};
use crate::hub::csr::CsrController;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_LIFECYCLE_ANNOTATION, INSTALLED_BY_ANNOTATION, KUBE_CLIENT_SIGNER};
use object::Key;
use reconcile::{Caches, Controller as _, Plan};

/// A request from the agent of the add-on `a` on `c1`.
const PEM: &str = include_str!("addon.csr");

/// Returns a hub with an add-on whose template `client` registers a client certificate and whose template
/// `nothing` registers none. `cma` is the ClusterManagementAddOn.
fn hub(cma: &Value, installed: &Value) -> Caches {
    let mut caches = Caches::default();
    let template = |hash: &str, registration: Value| {
        let spec = json!({"addonName": "a", "agentSpec": {"workload": {}}, "registration": registration});
        json!({
            "metadata": {"namespace": "wheelwright-system", "name": format!("a.addontemplates.{hash}")},
            "data": {"spec": spec}, "revision": 1,
        })
    };
    let client = template("client", json!([{"type": "KubeClient"}]));
    replace::<ControllerRevision>(&mut caches, &[client, template("nothing", json!([]))]);
    replace::<ClusterManagementAddOn>(&mut caches, std::slice::from_ref(cma));
    replace::<ManagedClusterAddOn>(&mut caches, std::slice::from_ref(installed));
    let cluster = json!({"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": true}});
    replace::<ManagedCluster>(&mut caches, &[cluster]);
    let labels = json!({"open-cluster-management.io/cluster-name": "c1", "open-cluster-management.io/addon-name": "a"});
    let request = json!({
        "metadata": {"name": "r", "labels": labels},
        "spec": {"request": ByteString(PEM.into()), "signerName": KUBE_CLIENT_SIGNER,
            "username": "system:open-cluster-management:c1:agent", "usages": ["client auth"]},
    });
    replace::<CertificateSigningRequest>(&mut caches, &[request]);
    place(&mut caches);
    caches
}

/// Returns the add-on on `c1` with an assigned template. Its status requests a client certificate, as the agent
/// may have written it.
fn installed(assigned: &str) -> Value {
    let assigned = json!([{"group": GROUP, "resource": "addontemplates", "name": "t", "desiredConfig": hashed(assigned)}]);
    let status = json!({"configReferences": assigned, "registrations": [{"signerName": KUBE_CLIENT_SIGNER}]});
    json!({"metadata": {"namespace": "c1", "name": "a"}, "spec": {}, "status": status})
}

fn cma(status: &Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": supported(), "status": status})
}

fn planned(cma: &Value, installed: &Value) -> Plan {
    CsrController::plan(&Key::cluster("r"), &hub(cma, installed), Timestamp::UNIX_EPOCH).unwrap()
}

fn is_approved(cma: &Value, installed: &Value) -> bool {
    !planned(cma, installed).steps.is_empty()
}

#[test]
fn an_addon_with_its_own_manager_decides_on_its_agents_requests() {
    let installed = &installed("client");
    assert!(is_approved(&cma(&defaults("client")), installed));
    let mut itself = cma(&defaults("client"));
    itself["metadata"]["annotations"] = json!({ADDON_LIFECYCLE_ANNOTATION: "self"});
    assert!(!is_approved(&itself, installed), "the add-on manages itself");
    let mut without_template = cma(&json!({}));
    without_template["spec"] = json!({});
    assert!(!is_approved(&without_template, installed), "a program makes its works");
}

#[test]
fn an_agent_gets_no_client_certificate_that_no_template_registers() {
    assert!(!is_approved(&cma(&defaults("nothing")), &installed("client")));
    assert!(is_approved(&cma(&defaults("client")), &installed("nothing")));
    let mut of_placement = defaults("client");
    of_placement["installProgressions"] = json!([progression("p", "nothing", "nothing")]);
    assert!(!is_approved(&cma(&of_placement), &installed("client")));
    of_placement["installProgressions"] = json!([progression("p", "nothing", "client")]);
    assert!(is_approved(&cma(&of_placement), &installed("client")));
}

#[test]
fn an_addon_whose_removal_is_held_keeps_the_certificates_of_its_template() {
    let mut status = defaults("nothing");
    status["installProgressions"] = json!([progression("q", "nothing", "nothing")]);
    let mut cma = cma(&status);
    cma["spec"]["installStrategy"] = json!({"type": "Placements"});
    let mut addon = installed("client");
    assert!(!is_approved(&cma, &addon), "a person installed it, so it has the default");
    addon["metadata"]["annotations"] = json!({INSTALLED_BY_ANNOTATION: "true"});
    assert!(is_approved(&cma, &addon));
}

#[test]
fn a_request_that_no_template_allows_is_reported_on_the_addon() {
    let plan = planned(&cma(&defaults("nothing")), &installed("client"));
    let refusals: Vec<_> =
        plan.events.iter().map(|event| (event.regarding.to_string(), &*event.message)).collect();
    let message = "the certificate request r for kubernetes.io/kube-apiserver-client is not approved, because no template of \
        the add-on allows it";
    assert_eq!(refusals, [("ManagedClusterAddOn.addon.open-cluster-management.io c1/a".to_owned(), message)]);
    let mut of_a_manager = cma(&json!({}));
    of_a_manager["spec"] = json!({});
    assert_eq!(planned(&of_a_manager, &installed("client")), Plan::nothing(), "its manager decides");
}
