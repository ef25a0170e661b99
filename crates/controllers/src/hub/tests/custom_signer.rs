//! Tests which templates decide about a certificate from a custom signer.

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use crate::hub::csr::custom_signer::signing;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use engine::addon::spec_hash::spec_hash;
use object::{Kind, Object};
use reconcile::{Caches, Site};

/// A request from the agent `agent` of the cluster `c1`.
const PEM: &str = include_str!("agent.csr");
const AGENT: &str = "system:open-cluster-management:c1:agent";
pub(super) const GROUP: &str = "addon.open-cluster-management.io";

pub(super) fn replace<K: Kind>(caches: &mut Caches, objects: &[Value]) {
    let typed = |object: &Value| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!("1");
        serde_json::from_value(object).unwrap()
    };
    caches.replace::<K>(Site::Hub, objects.iter().map(typed).collect(), "1");
}

fn template(hash: &str, groups: &[&str]) -> Value {
    let subject = json!({"user": AGENT, "groups": groups});
    let custom = json!({"signerName": "example.com/foo", "subject": subject, "signingCA": {"name": hash}});
    let registration = json!([{"type": "CustomSigner", "customSigner": custom}]);
    let spec = json!({"addonName": "a", "agentSpec": {"workload": {}}, "registration": registration});
    json!({
        "metadata": {"namespace": "wheelwright-system", "name": format!("a.addontemplates.{hash}")},
        "data": {"spec": spec}, "revision": 1,
    })
}

/// Returns a template that the cluster's own add-on names.
fn own() -> Object {
    Object::from_value(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": "own", "resourceVersion": "1"}, "spec": {"addonName": "a"},
    }))
    .unwrap()
}

pub(super) fn hashed(hash: &str) -> Value {
    json!({"name": "t", "specHash": hash})
}

/// Returns the spec of an add-on with templates.
pub(super) fn supported() -> Value {
    json!({"supportedConfigs": [{"group": GROUP, "resource": "addontemplates"}]})
}

/// Makes the placement `p` select `c1`, and `q` select `c2`.
pub(super) fn place(caches: &mut Caches) {
    let placement = |name: &str| {
        let satisfied = json!({"type": "PlacementSatisfied", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        json!({"metadata": {"namespace": "default", "name": name}, "spec": {}, "status": {"numberOfSelectedClusters": 1, "conditions": [satisfied]}})
    };
    let decision = |name: &str, cluster: &str| {
        let labels = json!({"cluster.open-cluster-management.io/placement": name});
        json!({"metadata": {"namespace": "default", "name": name, "labels": labels}, "status": {"decisions": [{"clusterName": cluster, "reason": ""}]}})
    };
    replace::<Placement>(caches, &[placement("p"), placement("q")]);
    replace::<PlacementDecision>(caches, &[decision("p", "c1"), decision("q", "c2")]);
}

/// Returns the hub's caches after the agent set the status of its add-on to `assigned`. `configs` are in the spec
/// of that add-on, and `status` is the ClusterManagementAddOn's status.
fn hub(assigned: &str, configs: &Value, status: &Value) -> Caches {
    let mut caches = Caches::default();
    let cluster = "system:open-cluster-management:c1";
    let wide = &[cluster, "system:open-cluster-management:managed-clusters"];
    let templates =
        [template("wide", wide), template("narrow", &[cluster]), template(&spec_hash(&own()), wide)];
    replace::<ControllerRevision>(&mut caches, &templates);
    let assigned = json!([{"group": GROUP, "resource": "addontemplates", "name": "t", "desiredConfig": hashed(assigned)}]);
    let installed = json!({"metadata": {"namespace": "c1", "name": "a"}, "spec": {"configs": configs}, "status": {"configReferences": assigned}});
    replace::<ManagedClusterAddOn>(&mut caches, &[installed]);
    let cma = json!({"metadata": {"name": "a"}, "spec": supported(), "status": status});
    replace::<ClusterManagementAddOn>(&mut caches, &[cma]);
    place(&mut caches);
    caches
}

/// Returns the CA that signs for the agent. The template `narrow` does not allow its request.
fn authority(caches: &Caches) -> Option<String> {
    let labels = json!({"open-cluster-management.io/cluster-name": "c1", "open-cluster-management.io/addon-name": "a"});
    let request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "r", "labels": labels},
        "spec": {"request": ByteString(PEM.into()), "signerName": "example.com/foo", "username": AGENT,
            "usages": ["client auth"]},
    }))
    .unwrap();
    signing(&request, caches).unwrap().map(|signing| signing.authority.name)
}

fn check(assigned: &str, status: &Value, want: Option<&str>) {
    assert_eq!(authority(&hub(assigned, &json!([]), status)).as_deref(), want, "{status}");
}

pub(super) fn defaults(hash: &str) -> Value {
    json!({"defaultconfigReferences": [{"group": GROUP, "resource": "addontemplates", "desiredConfig": hashed(hash)}]})
}

pub(super) fn progression(placement: &str, desired: &str, good: &str) -> Value {
    let reference = json!({
        "group": GROUP, "resource": "addontemplates",
        "desiredConfig": hashed(desired), "lastKnownGoodConfig": hashed(good),
    });
    json!({"namespace": "default", "name": placement, "configReferences": [reference]})
}

#[test]
fn an_agent_that_sets_its_status_to_an_older_template_gets_no_certificate_for_it() {
    check("wide", &defaults("wide"), Some("wide"));
    check("wide", &defaults("narrow"), None);
    check("wide", &json!({}), None);
    let installed = |progressions: &[Value]| {
        let mut status = defaults("wide");
        status["installProgressions"] = json!(progressions);
        status
    };
    check("wide", &installed(&[progression("p", "narrow", "narrow")]), None);
    check("wide", &installed(&[progression("p", "narrow", "wide")]), Some("wide"));
    let of_another = progression("q", "wide", "wide");
    check("wide", &installed(&[progression("p", "narrow", "narrow"), of_another]), None);
}

#[test]
fn an_agent_keeps_its_certificate_while_its_cluster_waits_for_a_template_with_the_same_subject() {
    check("forgotten", &defaults("wide"), Some("wide"));
}

#[test]
fn the_clusters_own_template_replaces_the_default() {
    let configs = json!([{"group": GROUP, "resource": "addontemplates", "name": "own"}]);
    let mut caches = hub("narrow", &configs, &defaults("narrow"));
    caches.replace_observed(&own().gvk(), vec![own()], "1");
    assert_eq!(authority(&caches), Some(spec_hash(&own())));
    let mut caches = hub("wide", &configs, &defaults("wide"));
    caches.replace_observed(&own().gvk(), Vec::<Object>::new(), "1");
    assert_eq!(authority(&caches), None, "there is no such template");
}
