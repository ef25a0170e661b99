use super::*;
use serde_json::{Value, json};

#[test]
fn a_stored_certificate_counts_only_with_the_requested_groups_and_units() {
    let asked = json!({"signerName": "example.com/foo", "subject": {"user": "u", "groups": ["g", "h"], "organizationUnit": ["o"]}});
    let addon = json!({"metadata": {"name": "a", "namespace": "c1"}, "spec": {}, "status": {"registrations": [asked]}});
    let registration =
        &registrations(&serde_json::from_value(addon).unwrap(), &KubeClientDriver::Csr, false)[0];
    let names = |groups: &[&str], unit: &str| pki::Subject {
        organizational_units: vec![unit.into()],
        ..pki::Subject::new("u", groups)
    };
    for (subject, wanted) in [
        (names(&["g", "h"], "o"), true),
        (names(&["h", "g"], "o"), true),
        (names(&["g"], "o"), false),
        (names(&["g", "h", "i"], "o"), false),
        (names(&["g", "h"], "p"), false),
    ] {
        assert_eq!(registration.is_named_by(&subject), wanted, "{subject:?}");
    }
}

#[test]
fn unset_fields_of_a_registration_default_as_in_ocm() {
    let registered = |spec: Value, status: Value| {
        let metadata = json!({"name": "a", "namespace": "c1"});
        registrations(
            &serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap(),
            &KubeClientDriver::Csr,
            false,
        )
        .pop()
    };
    let asked = json!([{"signerName": KUBE_CLIENT_SIGNER}]);
    let of_cluster = "system:open-cluster-management:cluster:c1:addon:a";
    let found = registered(json!({"installNamespace": "mine"}), json!({"registrations": asked})).unwrap();
    assert_eq!((found.namespace.as_str(), found.user), ("mine", format!("{of_cluster}:agent:a")));
    assert_eq!(found.groups, [of_cluster]);
    let found = registered(json!({}), json!({"registrations": asked, "namespace": "theirs"})).unwrap();
    assert_eq!(found.namespace, "theirs");
    assert_eq!(registered(json!({}), json!({"registrations": []})), None);
}

fn proof(status: Value, driver: &KubeClientDriver, signer: &str) -> Proof {
    let metadata = json!({"name": "a", "namespace": "c1"});
    let addon = json!({"metadata": metadata, "spec": {}, "status": status});
    let asked = RegistrationConfig { signer_name: signer.into(), ..RegistrationConfig::default() };
    Proof::new(&asked, &serde_json::from_value(addon).unwrap(), driver)
}

#[test]
fn a_token_waits_for_the_driver_and_for_the_account() {
    let (token, csr) = (&KubeClientDriver::Token, &KubeClientDriver::Csr);
    let ready = |status: &str| {
        let message = "ServiceAccount c1/a-agent (UID: u) is ready";
        json!({"kubeClientDriver": "token", "conditions": [{
            "type": "TokenInfrastructureReady", "status": status, "reason": "x", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})
    };
    let of_token = json!({"kubeClientDriver": "token"});
    for (status, driver, signer, wanted) in [
        (json!({}), token, KUBE_CLIENT_SIGNER, Proof::OtherDriver),
        (of_token.clone(), token, KUBE_CLIENT_SIGNER, Proof::NoAccount),
        (ready("False"), token, KUBE_CLIENT_SIGNER, Proof::NoAccount),
        (ready("True"), token, KUBE_CLIENT_SIGNER, Proof::Token("u".into())),
        (ready("True"), token, "example.com/foo", Proof::Certificate),
        (json!({}), csr, KUBE_CLIENT_SIGNER, Proof::Certificate),
        (of_token, csr, KUBE_CLIENT_SIGNER, Proof::OtherDriver),
    ] {
        assert_eq!(proof(status.clone(), driver, signer), wanted, "{status} {driver:?} {signer}");
    }
}
