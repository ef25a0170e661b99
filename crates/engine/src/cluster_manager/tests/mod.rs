//! Tests for specs, and for the resulting objects and conditions.

use api::operator::v1::ClusterManager;
use object::{Key, Object};
use serde_json::{Value, json};

use super::*;

fn manager(spec: &Value) -> ClusterManager {
    serde_json::from_value(json!({"metadata": {"name": "cluster-manager"}, "spec": spec})).unwrap()
}

#[test]
fn a_field_that_changes_nothing_is_named_and_one_that_cannot_be_honored_is_refused() {
    let gates = |names: &[&str], mode: &str| -> Value {
        names.iter().map(|name| json!({"feature": name, "mode": mode})).collect()
    };
    for (spec, ignored, unknown) in [
        (json!({}), vec![], vec![]),
        (
            json!({"deployOption": {"mode": "Default"}, "workConfiguration": {"workDriver": "kube"}}),
            vec![],
            vec![],
        ),
        (
            json!({"registrationImagePullSpec": "a", "workImagePullSpec": "b", "placementImagePullSpec": "c",
                "addOnManagerImagePullSpec": "d", "serverConfiguration": {"imagePullSpec": "e"}}),
            vec![
                "registrationImagePullSpec",
                "workImagePullSpec",
                "placementImagePullSpec",
                "addOnManagerImagePullSpec",
                "serverConfiguration",
            ],
            vec![],
        ),
        (
            json!({
                "registrationConfiguration": {"autoApproveUsers": ["u"], "featureGates": gates(&["DefaultClusterSet", "X"], "Disable")},
                "workConfiguration": {"featureGates": gates(&["ManifestWorkReplicaSet", "NilExecutorValidating"], "Enable")},
            }),
            vec![
                "registrationConfiguration.featureGates[DefaultClusterSet]",
                "registrationConfiguration.autoApproveUsers",
                "workConfiguration.featureGates[NilExecutorValidating]",
            ],
            vec!["registrationConfiguration: X"],
        ),
    ] {
        let settings = ClusterManagerSettings::read(&manager(&spec)).unwrap();
        let fields: Vec<_> = settings.ignored.iter().map(|text| text.split(": ").next().unwrap()).collect();
        assert_eq!(
            (fields, settings.unknown_gates),
            (ignored, unknown.into_iter().map(str::to_owned).collect()),
            "{spec}"
        );
    }
    let refused = |spec: Value| ClusterManagerSettings::read(&manager(&spec)).unwrap_err();
    assert_eq!(
        refused(json!({"deployOption": {"mode": "Hosted"}})),
        ClusterManagerRefusal::Mode("Hosted".into())
    );
    assert_eq!(
        refused(json!({"workConfiguration": {"workDriver": "mqtt"}})),
        ClusterManagerRefusal::Driver("mqtt".into())
    );
    let drivers = json!([{"authType": "csr"}, {"authType": "grpc"}]);
    let spec = json!({"registrationConfiguration": {"registrationDrivers": drivers}});
    assert_eq!(refused(spec), ClusterManagerRefusal::Driver("grpc".into()));
}

#[test]
fn an_annotation_has_the_options_of_the_installation_and_another_one_the_image() {
    let read = |annotations: Value| {
        let manager =
            json!({"metadata": {"name": "cluster-manager", "annotations": annotations}, "spec": {}});
        ClusterManagerSettings::read(&serde_json::from_value(manager).unwrap())
            .map(|settings| settings.options)
    };
    let (image, options) = ("gitops.wheelwright.dev/image", "gitops.wheelwright.dev/install-options");
    let given = json!({"image": "a", "gitHosts": ["git.example.com"], "replicas": null}).to_string();
    let read_options = read(json!({options: given, image: "b"})).unwrap();
    assert_eq!(read_options.git_hosts.unwrap(), ["git.example.com"]);
    assert_eq!(read_options.image.unwrap(), "b");
    for (given, says) in [
        (r#"{"gitHost": ["git.example.com"]}"#, r#"unknown option "gitHost""#),
        (r#"{"gitHosts": "git.example.com"}"#, "expected a sequence at line 1 column 30"),
        ("gitHosts: []", "expected value at line 1 column 1"),
    ] {
        let refusal = read(json!({options: given})).unwrap_err().to_string();
        assert!(
            refusal.starts_with(&format!("the annotation {options}: ")) && refusal.contains(says),
            "{refusal}"
        );
    }
}

#[test]
fn users_join_automatically_only_if_the_gate_is_on() {
    let bindings = |mode: &str| {
        let gates = json!([{"feature": "ManagedClusterAutoApproval", "mode": mode}]);
        let drivers = json!([{"authType": "csr", "csr": {"autoApprovedIdentities": ["b"]}}]);
        let spec = json!({"registrationConfiguration":
            {"autoApproveUsers": ["a"], "featureGates": gates, "registrationDrivers": drivers}});
        let all = objects(&ClusterManagerSettings::read(&manager(&spec)).unwrap()).unwrap();
        let binding = all.iter().find(|one| one.name() == api::names::AUTO_APPROVE_BINDING);
        binding.map(|one| one.at(&["subjects"]).unwrap().to_string())
    };
    let users = bindings("Enable").unwrap();
    assert!(users.contains(r#""a""#) && users.contains(r#""b""#), "{users}");
    assert_eq!(bindings("Disable"), None);
}

#[test]
fn clusters_are_published_only_if_the_gate_is_on() {
    let profiles = |mode: &str| {
        let gates = json!([{"feature": "ClusterProfile", "mode": mode}]);
        let spec = json!({"registrationConfiguration": {"featureGates": gates}});
        let settings = ClusterManagerSettings::read(&manager(&spec)).unwrap();
        assert_eq!(settings.ignored, [""; 0]);
        let all = objects(&settings).unwrap();
        let arguments = all.last().unwrap().at(&["spec", "template", "spec", "containers"]).unwrap();
        let is_on = arguments[0]["args"].as_array().unwrap().contains(&json!("--cluster-profiles"));
        let of_profiles = all.iter().filter(|one| one.name().contains("profiles"));
        (is_on, of_profiles.map(Object::kind).collect::<Vec<_>>().join(" "))
    };
    let kinds = "CustomResourceDefinition ClusterRole ClusterRoleBinding";
    assert_eq!(profiles("Enable"), (true, kinds.to_owned()));
    assert_eq!(profiles("Disable"), (false, String::new()));
}

#[test]
fn only_our_webhook_is_taken_out_of_a_definition() {
    let definition = |namespace: &str| {
        let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": namespace}}}});
        let versions = json!([{"name": "a", "served": true, "storage": true}, {"name": "b", "served": true, "storage": false}]);
        Object::from_value(json!({"kind": "K", "spec": {"conversion": conversion, "versions": versions}}))
            .unwrap()
    };
    assert_eq!(without_webhook(&definition("other")), None);
    let patch = Value::Object(without_webhook(&definition(NAMESPACE)).unwrap());
    assert_eq!(patch["spec"]["conversion"], json!({"strategy": "None", "webhook": null}));
    assert_eq!(
        (&patch["spec"]["versions"][0]["served"], &patch["spec"]["versions"][1]["served"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn only_the_webhook_of_ocms_hub_side_is_replaced_by_ours() {
    let named = |namespace: &str, name: &str| {
        let service = json!({"namespace": namespace, "name": name, "path": "/convert"});
        let conversion = json!({"webhook": {"clientConfig": {"service": service}}});
        let definition =
            Object::from_value(json!({"kind": "K", "spec": {"conversion": conversion}})).unwrap();
        let ours = Key::namespaced("elsewhere", api::names::WEBHOOK);
        with_our_webhook(&ours, &definition).map(Value::Object)
    };
    let patch = named(NAMESPACE, "cluster-manager-addon-webhook").unwrap();
    let client = &patch["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(*client, json!({"service": {"namespace": "elsewhere", "name": api::names::WEBHOOK}}));
    assert_eq!(named(NAMESPACE, "wheelwright-webhook"), None);
    assert_eq!(named("other", "cluster-manager-addon-webhook"), None);
}

#[test]
fn conditions_follow_the_deployment() {
    let observed = |deployment: Option<Value>| -> Vec<String> {
        let deployment = deployment.map(|value| Object::from_value(value).unwrap());
        let all = conditions(&ClusterManagerSettings::default(), deployment.as_ref());
        all[1..4].iter().map(|one| format!("{} {}", one.status, one.reason)).collect()
    };
    let deployment = |seen: i64, ready: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "spec": {"replicas": 2}, "status": {"observedGeneration": seen, "updatedReplicas": 2, "readyReplicas": ready}})
    };
    for (deployment, wanted) in [
        (
            None,
            [
                "True ClusterManagerDeploymentRolling",
                "True GetRegistrationDeploymentFailed",
                "True GetPlacementDeploymentFailed",
            ],
        ),
        (
            Some(deployment(1, 1)),
            [
                "True ClusterManagerDeploymentRolling",
                "True UnavailableRegistrationPod",
                "True UnavailablePlacementPod",
            ],
        ),
        (
            Some(deployment(2, 2)),
            ["False ClusterManagerUpToDate", "False RegistrationFunctional", "False PlacementFunctional"],
        ),
    ] {
        assert_eq!(observed(deployment), wanted);
    }
}
