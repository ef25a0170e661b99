use serde_json::{Value, json};

use super::{served, work};
use crate::work::{Executor, Permissions, Served, Wanted, read};

/// Returns a manifest of a work with the given executor.
fn wanted(api_version: &str, resource: &str, executor: &Value) -> Wanted {
    let manifest =
        json!({"apiVersion": api_version, "kind": "K", "metadata": {"name": "m", "namespace": "n"}});
    let mut spec = json!({"workload": {"manifests": [manifest]}});
    if !executor.is_null() {
        spec["executor"] = executor.clone();
    }
    read(&work(spec), |_| served(resource)).remove(0)
}

fn account() -> Value {
    json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": "a"}}})
}

#[test]
fn only_a_service_account_is_an_executor() {
    let check = |executor: Value, want: Executor| {
        let wanted = wanted("v1", "things", &executor);
        let needs_review = matches!(want, Executor::ServiceAccount { .. });
        assert_eq!(wanted.executor, want, "{executor}");
        assert_eq!(wanted.executor.permissions(&wanted).is_some(), needs_review, "{executor}");
    };
    check(Value::Null, Executor::Agent);
    check(account(), Executor::ServiceAccount { namespace: "n".into(), name: "a".into() });
    check(json!({}), Executor::Unknown);
    check(json!({"subject": {"type": "ServiceAccount"}}), Executor::Unknown);
    let mut user = account();
    user["subject"]["type"] = "User".into();
    check(user, Executor::Unknown);
}

#[test]
fn an_executor_needs_the_right_to_delete_what_the_work_owns() {
    let mut wanted = wanted("v1", "things", &account());
    let needed = |wanted: &Wanted| wanted.executor.permissions(wanted).unwrap();
    let expected = Permissions {
        user: "system:serviceaccount:n:a".into(),
        groups: ["system:serviceaccounts", "system:authenticated", "system:serviceaccounts:n"]
            .map(str::to_owned)
            .to_vec(),
        verbs: ["create", "update", "patch", "get", "delete"].map(str::to_owned).to_vec(),
    };
    assert_eq!(needed(&wanted), expected);
    wanted.owned = false;
    assert_eq!(needed(&wanted).verbs, ["create", "update", "patch", "get"]);
}

#[test]
fn a_manifest_that_is_not_allowed_has_the_words_of_open_cluster_management() {
    let mut wanted = wanted("x.io/v1", "things", &account());
    assert_eq!(
        wanted.not_allowed(),
        "not allowed to apply the resource x.io things, n m, will try again in 1m0s"
    );
    wanted.served = Served::Unread;
    assert_eq!(wanted.not_allowed(), "not allowed to apply the resource x.io K, n m, will try again in 1m0s");
}
