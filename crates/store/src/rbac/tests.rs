use serde_json::json;

use super::*;
use crate::tests::World;

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..User::default() }
}

fn world() -> World {
    let mut world = World::new();
    let role = |name: &str, labels: Value, rules: Value| json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name, "labels": labels }, "rules": rules });
    let reader = json!([
        { "apiGroups": [""], "resources": ["configmaps", "*/status"], "verbs": ["get"], "resourceNames": [] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"] },
        { "nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"] },
    ]);
    world.create(role("reader", json!({}), reader)).unwrap();
    let leases = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"] }]);
    world.create(role("part", json!({ "sum": "yes" }), leases)).unwrap();
    let mut sum = role("sum", json!({}), json!([]));
    sum["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "sum": "yes" } }] });
    world.create(sum).unwrap();
    let bind = |kind: &str, name: &str, role: &str, subject: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name },
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
            "subjects": [subject],
        })
    };
    world
        .create(bind("ClusterRoleBinding", "a", "reader", json!({ "kind": "Group", "name": "readers" })))
        .unwrap();
    let robot = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "default" });
    world.create(bind("RoleBinding", "b", "sum", robot)).unwrap();
    world
}

fn check(who: &User, verb: &str, target: &str, allowed: bool) {
    let attributes = match target.strip_prefix('/') {
        Some(_) => Attributes::path(verb, target),
        None => {
            let parts: Vec<&str> = target.split(' ').collect();
            let (resource, sub) = parts[1].split_once('/').unwrap_or((parts[1], ""));
            let name = parts.get(3).copied().unwrap_or_default();
            Attributes::objects(
                verb,
                ResourcePath::resource(parts[0].trim_matches('-'), "v1", resource)
                    .within(parts[2].trim_matches('-'))
                    .named(name)
                    .sub(sub),
            )
        }
    };
    assert_eq!(world().store.allows(who, &attributes), allowed, "{} {verb} {target}", who.name);
}

#[test]
fn rules_allow_what_they_name_and_nothing_else() {
    let reader = user("r", &["readers"]);
    check(&reader, "get", "- configmaps default a", true);
    check(&reader, "update", "- configmaps default a", false);
    check(&reader, "get", "- pods/status default a", true);
    check(&reader, "get", "- pods default a", false);
    check(&reader, "get", "- secrets default mine", true);
    check(&reader, "get", "- secrets default other", false);
    check(&reader, "list", "- secrets default", false);
    check(&reader, "get", "/logs/x", true);
    check(&reader, "get", "/metrics/x", false);
    check(&user("r", &[]), "get", "- configmaps default a", false);
    check(&user("m", &[MASTERS]), "delete", "- nodes - a", true);
}

#[test]
fn a_binding_in_a_namespace_holds_there_alone() {
    let robot = user("system:serviceaccount:default:robot", &[]);
    check(&robot, "update", "coordination.k8s.io leases default a", true);
    check(&robot, "update", "coordination.k8s.io leases kube-system a", false);
    check(&robot, "list", "coordination.k8s.io leases -", false);
}

#[test]
fn nobody_grants_permissions_that_they_lack() {
    let world = world();
    let reader = user("r", &["readers"]);
    let grant = |rule: Value| {
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "n" }, "rules": [rule] });
        world.store.check_grant(&reader, &world.target(&role), None, &Object::from_value(role).unwrap())
    };
    grant(json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] })).unwrap();
    grant(
        json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"] }),
    )
    .unwrap();
    let error = grant(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] })).unwrap_err();
    assert!(
        error.code() == 403
            && error.message().ends_with(r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#),
        "{error}"
    );
    grant(json!({ "apiGroups": [""], "resources": ["*"], "verbs": ["get"] })).unwrap_err();
}

#[test]
fn a_role_of_too_many_rules_to_compare_is_refused_before_they_are_made() {
    let mut world = world();
    let names = |count: usize| (0..count).map(|i| format!("n{i}")).collect::<Vec<_>>();
    let role = |count| {
        let rule = json!({ "verbs": names(count), "apiGroups": names(count), "resources": names(count) });
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "r" }, "rules": [rule] })
    };
    let mut refused = |count| {
        let (role, robot) = (role(count), user("system:serviceaccount:default:robot", &[]));
        let target = ResourcePath::resource(GROUP, "v1", "roles").within("default");
        let options = crate::WriteOptions::manager("test").by(Arc::new(robot));
        let refused = world.store.create(&target, Object::from_value(role).unwrap(), &options, world.now);
        refused.unwrap_err().to_string()
    };
    assert!(refused(3).contains("attempting to grant RBAC permissions not currently held"));
    assert!(refused(1_000).contains("within 10000000 steps"));
}
