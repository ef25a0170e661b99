//! Tests of admission policies: what they see and reject, and which policies are rejected.

use serde_json::json;

use super::*;

/// Installs a policy for ConfigMaps with its binding.
fn install(world: &mut World, spec: Value) {
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "p" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"],
            }] },
        },
    });
    policy["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    world.create(policy).unwrap();
    world.create(binding(&["Deny"])).unwrap();
}

#[test]
fn an_expression_that_would_take_too_long_or_too_much_is_not_evaluated() {
    let grown = ".map(x, x + x)".repeat(24);
    let grown = format!("['aaaaaaaa']{grown}");
    let slow = "object.data.all(x, object.data.all(y, object.data.all(z, x + y != z)))";
    let cases = [
        json!({ "validations": [{ "expression": format!("{grown}.exists(x, x.size() > 0)") }] }),
        json!({
            "variables": [{ "name": "a", "expression": "['aaaaaaaa']".to_owned() + &".map(x, x + x)".repeat(14) },
                { "name": "b", "expression": "variables.a".to_owned() + &".map(x, x + x)".repeat(14) }],
            "validations": [{ "expression": "variables.b.size() == 1" }],
        }),
        json!({ "validations": [{ "expression": slow }] }),
    ];
    for spec in cases {
        let mut world = World::new();
        install(&mut world, spec);
        let data: serde_json::Map<_, _> = (0..200).map(|i| (format!("k{i}"), json!("v"))).collect();
        let (code, _, message) = refusal(world.create(config_map("a", data.into())));
        assert!(code == 422 && message.contains("cost budget"), "{message}");
    }
}

#[test]
fn a_list_that_is_copied_with_each_element_costs_its_square() {
    for expression in ["object.data.map(k, k).size() > 0", "object.data.filter(k, k != '').size() > 0"] {
        let mut world = World::new();
        install(&mut world, json!({ "validations": [{ "expression": expression }] }));
        let data = |count: usize| {
            (0..count).map(|i| (format!("k{i}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
        };
        world.create(config_map("few", data(500))).unwrap();
        let (code, _, message) = refusal(world.create(config_map("many", data(5_000))));
        assert!(code == 422 && message.contains("cost budget"), "{message}");
    }
}

fn binding(actions: &[&str]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "b" },
        "spec": { "policyName": "p", "validationActions": actions },
    })
}

/// Returns true if a policy with this expression admits a ConfigMap.
fn admits(expression: &str, user: User) -> bool {
    let mut world = World::new();
    world
        .create(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "r" },
            "rules": [{ "apiGroups": ["g"], "resources": ["things/sub"], "resourceNames": ["n"], "verbs": ["use"] }],
        }))
        .unwrap();
    world
        .create(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "r" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r" },
            "subjects": [
                { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" },
                { "kind": "ServiceAccount", "name": "robot", "namespace": "default" },
            ],
        }))
        .unwrap();
    install(&mut world, json!({ "validations": [{ "expression": expression }] }));
    let map = config_map("a", json!({ "x.y-z": "1", "list": "a,b" }));
    let options = WriteOptions::manager("test").by(std::sync::Arc::new(user));
    let created = world.store.create(
        &ResourcePath::resource("", "v1", "configmaps").within("default"),
        Object::from_value(map).unwrap(),
        &options,
        world.now,
    );
    created.is_ok()
}

#[test]
fn expressions_see_the_object_the_request_and_permissions() {
    let ann = || User { name: "ann".into(), groups: vec!["g1".into()], ..User::default() };
    let check =
        "authorizer.group('g').resource('things').subresource('sub').name('n').check('use').allowed()";
    let account = "authorizer.serviceAccount('default', 'robot').group('g').resource('things').subresource('sub')\
        .name('n').check('use').allowed()";
    for (expression, expected) in [
        ("object.data['x.y-z'] == '1' && oldObject == null", true),
        ("object.metadata.namespace == 'default' && namespaceObject.metadata.name == 'default'", true),
        (
            "request.operation == 'CREATE' && request.name == 'a' && request.resource.resource == 'configmaps'",
            true,
        ),
        ("request.userInfo.username == 'ann' && 'g1' in request.userInfo.groups && !request.dryRun", true),
        ("object.data.list.split(',').exists(x, x == 'b')", true),
        ("has(object.data.none)", false),
        ("object.data.none == '1'", false),
        (check, true),
        (account, true),
        (
            "authorizer.group('g').resource('things').subresource('sub').name('m').check('use').allowed()",
            false,
        ),
        ("authorizer.group('g').resource('things').namespace('x').check('use').allowed()", false),
        ("authorizer.path('/healthz').check('get').allowed()", false),
        ("authorizer.requestResource.check('delete').allowed()", false),
        ("false || !authorizer.requestResource.check('delete').allowed()", true),
    ] {
        assert_eq!(admits(expression, ann()), expected, "{expression}");
    }
}

#[test]
fn a_denial_names_policy_and_binding_and_has_the_reason_of_its_validation() {
    let mut world = World::new();
    let spec = json!({
        "variables": [{ "name": "size", "expression": "size(object.data)" }],
        "matchConditions": [{ "name": "not-x", "expression": "object == null || object.metadata.name != 'x'" }],
        "validations": [
            { "expression": "object == null || variables.size < 3", "message": "too many" },
            {
                "expression": "object == null || variables.size < 2", "reason": "Forbidden",
                "messageExpression": "object.metadata.name + ' has ' + string(variables.size)",
            },
            { "expression": "oldObject == null || !has(oldObject.data.fixed)" },
        ],
    });
    install(&mut world, spec);
    let denied = |reason: &str| {
        format!(
            "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {reason}"
        )
    };
    let map = |data: Value| config_map("a", data);
    let three = json!({ "a": "1", "b": "2", "c": "3" });
    refused(world.create(map(three.clone())), 422, "Invalid", &denied("too many"));
    refused(world.create(map(json!({ "a": "1", "b": "2" }))), 403, "Forbidden", &denied("a has 2"));
    world.create(config_map("x", three)).unwrap();
    let failed = denied("failed expression: oldObject == null || !has(oldObject.data.fixed)");
    world.create(map(json!({ "fixed": "1" }))).unwrap();
    let target = world.target(&map(json!({})));
    refused(world.merge(&target, json!({ "data": { "fixed": "2" } })), 422, "Invalid", &failed);
    refused(world.delete(&target), 422, "Invalid", &failed);
    let policy = world
        .store
        .resource_of(&object::Gvk::parse("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"));
    assert!(policy.is_some());
    world.merge(&world.target(&binding(&[])), json!({ "spec": { "validationActions": ["Warn"] } })).unwrap();
    let warned = world.merge(&target, json!({ "data": { "fixed": "2" } })).unwrap();
    assert_eq!(warned.warnings.len(), 1, "{warned:?}");
    world.delete(&world.target(&binding(&[]))).unwrap();
    world.delete(&target).unwrap();
}

#[test]
fn an_error_refuses_unless_the_policy_says_otherwise() {
    for (policy, admitted) in [("Fail", false), ("Ignore", true)] {
        let mut world = World::new();
        install(
            &mut world,
            json!({ "failurePolicy": policy, "validations": [{ "expression": "object.nothing == 1" }] }),
        );
        assert_eq!(world.create(config_map("a", json!({}))).is_ok(), admitted, "{policy}");
    }
}

#[test]
fn a_policy_that_cannot_be_evaluated_is_refused_at_creation() {
    let policy = |spec: Value| {
        let mut world = World::new();
        let mut all = json!({ "matchConstraints": { "resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
        }] }, "validations": [{ "expression": "true" }] });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        world.create(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "p" }, "spec": all,
        }))
    };
    policy(json!({})).unwrap();
    let nested = format!("{}true{}", "(".repeat(600), ")".repeat(600));
    for (expression, reason) in [
        ("object.a ==", "compilation failed"),
        ("objekt.a == 1", "undeclared reference to 'objekt'"),
        ("object.list.all(x, y == 1)", "undeclared reference to 'y'"),
        ("launch(object)", "undeclared reference to function 'launch'"),
        ("", "expression is not specified"),
        (nested.as_str(), "brackets are nested more than 96 levels deep"),
    ] {
        let (code, _, message) = refusal(policy(json!({ "validations": [{ "expression": expression }] })));
        assert!(code == 422 && message.contains(reason), "{expression}: {message}");
    }
    for spec in [
        json!({ "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" } }),
        json!({ "auditAnnotations": [{ "key": "a", "valueExpression": "'x'" }] }),
        json!({ "matchConstraints": {} }),
        json!({ "variables": [{ "name": "v", "expression": "nowhere" }] }),
        json!({ "matchConditions": [{ "name": "v", "expression": "nowhere" }] }),
    ] {
        assert_eq!(refusal(policy(spec.clone())).0, 422, "{spec}");
    }
}

#[test]
fn unenforced_fields_are_refused_or_cause_a_warning() {
    let mut world = World::new();
    let webhook = json!({
        "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://example.com" },
    });
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let created = world.create(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": "a" },
            "webhooks": [webhook],
        }));
        let (code, _, message) = refusal(created);
        assert!(code == 422 && message.contains("this API server does not call webhooks"), "{message}");
    }
    for (api_version, kind, plural, spec) in [
        ("v1", "ResourceQuota", "ResourceQuotas", json!({})),
        ("v1", "LimitRange", "LimitRanges", json!({ "limits": [] })),
        ("networking.k8s.io/v1", "NetworkPolicy", "NetworkPolicies", json!({ "podSelector": {} })),
        ("policy/v1", "PodDisruptionBudget", "PodDisruptionBudgets", json!({ "minAvailable": 1 })),
    ] {
        let metadata = json!({ "name": "a" });
        let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
        let written = world.create(object).unwrap();
        let expected = format!("this API server stores {plural} and does not enforce them");
        assert_eq!(written.warnings, [expected]);
    }
}

#[test]
fn policies_survive_a_restart() {
    let mut world = World::new();
    install(&mut world, json!({ "validations": [{ "expression": "false", "message": "no" }] }));
    let entries: Vec<JournalEntry> = world.store.snapshot().collect();
    world.store = Store::restore(2, entries, 0, world.now);
    assert_eq!(refusal(world.create(config_map("a", json!({})))).0, 422);
}
