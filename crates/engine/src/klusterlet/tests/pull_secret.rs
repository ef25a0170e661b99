//! Tests for copies of the image pull secret.

use api::names::OCM_NAMESPACE;
use serde_json::{Value, json};

use super::super::*;
use super::settings;

fn secret(namespace: &str, type_: &str, text: &str) -> Object {
    let metadata = json!({"name": PULL_SECRET, "namespace": namespace});
    let data = json!({".dockerconfigjson": text});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": data});
    Object::from_value(secret).unwrap()
}

fn original(text: &str) -> Object {
    secret(OCM_NAMESPACE, "kubernetes.io/dockerconfigjson", text)
}

fn copied(original: &Object, live: Option<&Object>) -> Object {
    match pull_secret_change(Some(original), live, "agent") {
        Some(PullSecretChange::Apply(copy)) => copy,
        other => panic!("{other:?}"),
    }
}

/// Returns a copy in the form that the API server stores after an apply.
fn applied(copy: &Object) -> Object {
    let mut live = copy.clone();
    let fields = json!({
        "f:metadata": {"f:annotations": {"f:gitops.wheelwright.dev/applied-digest": {}}},
        "f:type": {}, "f:data": {"f:.dockerconfigjson": {}},
    });
    let entry = json!({"manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields});
    live.metadata_mut().insert("managedFields".into(), json!([entry]));
    live
}

#[test]
fn a_copy_of_the_pull_secret_follows_the_original_and_is_deleted_with_it() {
    let copy = copied(&original("YQ=="), None);
    assert_eq!((copy.namespace(), copy.name()), ("agent", PULL_SECRET));
    assert_eq!(copy.at(&["type"]).unwrap(), "kubernetes.io/dockerconfigjson");
    assert_eq!(copy.at(&["data"]).unwrap(), &json!({".dockerconfigjson": "YQ=="}));
    let live = applied(&copy);
    assert_eq!(pull_secret_change(Some(&original("YQ==")), Some(&live), "agent"), None);
    let newer = copied(&original("Yg=="), Some(&live));
    assert_eq!(newer.at(&["data"]).unwrap(), &json!({".dockerconfigjson": "Yg=="}));
    assert_eq!(pull_secret_change(None, Some(&live), "agent"), Some(PullSecretChange::Delete));
}

#[test]
fn a_pull_secret_of_a_person_is_replaced_by_an_original_only() {
    let theirs = secret("agent", "kubernetes.io/dockerconfigjson", "Yg==");
    assert_eq!(pull_secret_change(None, Some(&theirs), "agent"), None);
    assert_eq!(pull_secret_change(None, None, "agent"), None);
    assert_eq!(copied(&original("YQ=="), Some(&theirs)).at(&["data"]), original("YQ==").at(&["data"]));
    let opaque = secret("agent", "Opaque", "Yg==");
    let change = pull_secret_change(Some(&original("YQ==")), Some(&opaque), "agent");
    assert_eq!(change, Some(PullSecretChange::Delete), "the type of a secret cannot change");
    let own = original("YQ==");
    assert_eq!(pull_secret_change(Some(&own), Some(&own), OCM_NAMESPACE), None);
}

#[test]
fn the_service_accounts_of_every_agent_name_the_pull_secret() {
    for mode in ["Default", "Singleton", "Hosted", "SingletonHosted"] {
        let access = access(&settings(&json!({"deployOption": {"mode": mode}})));
        let accounts = access.objects.iter().filter(|one| one.kind() == "ServiceAccount");
        let named: Vec<&Value> = accounts.map(|one| one.at(&["imagePullSecrets"]).unwrap()).collect();
        let wanted = json!([{"name": PULL_SECRET}]);
        assert_eq!(named, [&wanted, &wanted], "{mode}");
    }
}
