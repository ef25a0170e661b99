use super::*;

#[test]
fn deployments_of_ocms_operator_and_ours_are_distinguished() {
    let entry =
        |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
    let spec = |field: &str| json!({"f:spec": {field: {}}});
    let pods = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}});
    let restarted = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": {}}}}});
    for (entries, wanted) in [
        (vec![entry(MANAGER, spec("f:selector"))], false),
        (vec![entry(MANAGER, spec("f:selector")), entry("kubectl", spec("f:replicas"))], false),
        (vec![entry(MANAGER, spec("f:selector")), entry("kubectl-rollout", restarted)], false),
        (vec![entry(MANAGER, spec("f:selector")), entry("kubectl-edit", pods)], true),
        // Caches store the fields as text.
        (vec![entry("registration-operator", json!(spec("f:selector").to_string()))], true),
        (vec![entry("registration-operator", spec("f:selector"))], true),
    ] {
        let metadata = json!({"name": "d", "namespace": "n", "managedFields": entries});
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
        assert_eq!(is_shaped_by_others(&Object::from_value(live).unwrap()), wanted, "{entries:?}");
    }
}
