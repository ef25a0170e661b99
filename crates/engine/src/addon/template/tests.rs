use super::*;
use serde_json::json;

fn check(manifests: Value, config: Value, want: Value) {
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": manifests}}});
    assert_eq!(json!(rendered(&template, &config, None).unwrap()), want);
}

type Rendered = Result<Vec<Object>, TemplateError>;

fn rendered(template: &Value, config: &Value, registries: Option<&str>) -> Rendered {
    let template: AddOnTemplateSpec = serde_json::from_value(template.clone()).unwrap();
    let config: Option<AddOnDeploymentConfigSpec> = serde_json::from_value(config.clone()).unwrap();
    let (template, config) = (&template, config.as_ref());
    render(&TemplateInput { addon: "a", cluster: "c1", template, config, registries })
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ns"}, "data": data})
}

#[test]
fn variables_are_replaced_everywhere() {
    let config = json!({"agentInstallNamespace": "", "customizedVariables": [{"name": "X", "value": "x"}, {"name": "CLUSTER_NAME", "value": "no"}]});
    let manifest = config_map(
        json!({"k-{{X}}": "{{X}}-{{CLUSTER_NAME}}{{UNKNOWN}}{{ X }}", "n": "{{INSTALL_NAMESPACE}}"}),
    );
    check(json!([manifest]), config, json!([config_map(json!({"k-x": "x-c1", "n": ""}))]));
}

#[test]
fn a_value_cannot_leave_its_string() {
    let config = json!({"agentInstallNamespace": "", "customizedVariables": [{"name": "X", "value": "\", \"evil\": \""}]});
    check(
        json!([config_map(json!({"a": "{{X}}"}))]),
        config,
        json!([config_map(json!({"a": "\", \"evil\": \""}))]),
    );
}

#[test]
fn an_unclosed_variable_is_an_error_and_does_not_crash() {
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [config_map(json!({"a": "{{X"}))]}}});
    let error = rendered(&template, &Value::Null, None).unwrap_err();
    assert_eq!(error.to_string(), r#"manifest 0 of the template: unclosed variable in "{{X": add }}"#);
}

#[test]
fn errors_are_short() {
    let long = "x".repeat(1 << 20);
    let template = |text: String| json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [config_map(json!({"a": text}))]}}});
    let unclosed = rendered(&template(format!("{{{{{long}")), &Value::Null, None);
    let config = json!({"resourceRequirements": [{"containerID": long, "resources": {}}]});
    let container = rendered(&template(String::new()), &config, None);
    for refused in [unclosed, container] {
        let message = refused.unwrap_err().to_string();
        assert!(message.len() < 400 && message.contains("x…"), "{} bytes", message.len());
    }
}

#[test]
fn many_containers_and_many_mirrors_or_patterns_are_refused_before_they_are_compared() {
    let workload = |containers: usize| {
        let container = json!({"name": "container", "image": "quay.io/some/image:1"});
        let one = deployment(json!({"name": "c"}), json!({"containers": vec![container; containers]}));
        json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [one]}}})
    };
    let mirrors =
        |count: usize| json!({"registries": vec![json!({"source": "docker.io", "mirror": "m.io"}); count]});
    let patterns = |count: usize| json!({"resourceRequirements": vec![json!({"containerID": "deployments:no:c", "resources": {}}); count]});
    let refused = |template: Value, config: Value| {
        rendered(&template, &config, None).err().map(|error| error.to_string())
    };
    let too_much = Some(
        "matching the registries and resource requirements of the configuration with the containers of the template \
         takes more than 10000000 comparisons"
            .to_owned(),
    );
    assert_eq!(refused(workload(10_000), mirrors(30_000)), too_much);
    assert_eq!(refused(workload(10_000), patterns(1000)), too_much);
    // A single large pattern costs as much as many small ones.
    let large = json!({"resourceRequirements": [{"containerID": "*:a{4000}:*", "resources": {}}]});
    assert_eq!(refused(workload(10_000), large.clone()), too_much);
    for config in [mirrors(1000), patterns(300), large] {
        assert_eq!(refused(workload(100), config), None);
    }
}

#[test]
fn a_template_that_multiplies_a_value_is_refused_before_it_is_rendered() {
    // 30,000 times 1 KiB on every cluster.
    let manifests: Vec<Value> = (0..300).map(|_| config_map(json!({"{{A}}": "{{A}}".repeat(100)}))).collect();
    let refused = |variable: &str, deployments: &Value, rest: Value| {
        let mut config = json!({"customizedVariables": [{"name": "A", "value": variable}]});
        config.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let workload = json!({"workload": {"manifests": deployments}});
        let template =
            json!({"addonName": "a", "agentSpec": workload, "registration": [{"type": "KubeClient"}]});
        rendered(&template, &config, None).err().map(|error| error.to_string())
    };
    let too_large = Some("the values in the cluster's manifests exceed 3145728 bytes".to_owned());
    assert_eq!(refused(&"x".repeat(1024), &json!(manifests), json!({})), too_large);
    assert_eq!(refused(&"x".repeat(64), &json!(manifests), json!({})), None);
    // Additions to every container or workload multiply values as well.
    let large = "x".repeat(32 << 10);
    let containers: Vec<Value> = (0..100).map(|_| json!({"name": "c", "image": "a/b"})).collect();
    let one = deployment(json!({"name": "c"}), json!({"containers": containers}));
    let many: Vec<Value> = (0..100).map(|_| deployment(json!({"name": "c"}), json!({}))).collect();
    let (one, many) = (json!([one]), json!(many));
    let resources = json!([{"containerID": "*:*:*", "resources": {"claims": [{"name": large}]}}]);
    let of_containers = [
        json!({"proxyConfig": {"httpProxy": large}}),
        json!({"registries": [{"source": "a", "mirror": large}]}),
        json!({"resourceRequirements": resources}),
    ];
    for config in of_containers {
        assert_eq!(refused("", &one, config.clone()), too_large, "{config:.60}");
    }
    let of_workloads = [
        json!({"nodePlacement": {"nodeSelector": {"a": large}}}),
        json!({"nodePlacement": {"tolerations": [{"key": large}]}}),
    ];
    for config in of_workloads {
        assert_eq!(refused("", &many, config.clone()), too_large, "{config:.60}");
        assert_eq!(refused("", &one, config.clone()), None, "{config:.60}");
    }
}

fn deployment(container: Value, pod: Value) -> Value {
    let mut spec = json!({"containers": [container]});
    spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    let metadata = json!({"name": "d", "namespace": "ns"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": spec}, "newField": 1}})
}

#[test]
fn workloads_get_environment_credentials_and_mirrors_and_keep_unknown_fields() {
    let manifests = json!([deployment(json!({"name": "c", "image": "quay.io/ocm/x:1"}), json!({}))]);
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": manifests}}, "registration": [{"type": "KubeClient"}]});
    let config =
        json!({"agentInstallNamespace": "", "registries": [{"source": "quay.io/ocm", "mirror": "my.io/"}]});
    let want = deployment(
        json!({
            "name": "c", "image": "my.io/x:1",
            "env": [{"name": "HUB_KUBECONFIG", "value": "/managed/hub-kubeconfig/kubeconfig"}, {"name": "CLUSTER_NAME", "value": "c1"}],
            "volumeMounts": [{"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"}],
        }),
        json!({"volumes": [{"name": "hub-kubeconfig", "secret": {"secretName": "a-hub-kubeconfig"}}]}),
    );
    assert_eq!(json!(rendered(&template, &config, None).unwrap()), json!([want]));
}

#[test]
fn pods_and_init_containers_of_every_kind_are_decorated_on_request() {
    let config = json!({
        "agentInstallNamespace": "",
        "nodePlacement": {"nodeSelector": {"a": "b"}},
        "registries": [{"source": "quay.io", "mirror": "mirror.io"}],
        "resourceRequirements": [{"containerID": "*:w:*", "resources": {"limits": {"cpu": "1"}}}],
    });
    let pod = || {
        json!({
            "containers": [{"name": "c", "image": "quay.io/c"}], "initContainers": [{"name": "i", "image": "quay.io/i"}],
        })
    };
    let template = || json!({"template": {"spec": pod()}});
    let cases = [
        ("apps/v1", "Deployment", template(), "/spec/template/spec", true),
        ("apps/v1", "DaemonSet", template(), "/spec/template/spec", true),
        ("apps/v1", "StatefulSet", template(), "/spec/template/spec", false),
        ("apps/v1", "ReplicaSet", template(), "/spec/template/spec", false),
        ("batch/v1", "Job", template(), "/spec/template/spec", false),
        (
            "batch/v1",
            "CronJob",
            json!({"jobTemplate": {"spec": template()}}),
            "/spec/jobTemplate/spec/template/spec",
            false,
        ),
        ("v1", "Pod", pod(), "/spec", false),
        ("example.io/v1", "Deployment", template(), "/spec/template/spec", false),
    ];
    for (version, kind, spec, path, is_ocms) in cases {
        for asks in [false, true] {
            let annotations =
                if asks { json!({"gitops.wheelwright.dev/decorate": "true"}) } else { json!({}) };
            let metadata = json!({"name": "w", "namespace": "ns", "annotations": annotations});
            let manifest = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
            let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [manifest]}}});
            let objects = rendered(&template, &config, None).unwrap();
            let after = json!(objects[0]).pointer(path).unwrap().clone();
            let is_known = version != "example.io/v1";
            let is_decorated = |container: &Value| {
                let image = container["image"].as_str().unwrap();
                let signs = [
                    container["env"] == json!([{"name": "CLUSTER_NAME", "value": "c1"}]),
                    image.starts_with("mirror.io/"),
                    container["resources"] == json!({"limits": {"cpu": "1"}}),
                ];
                assert!(signs == [true; 3] || signs == [false; 3], "{container}");
                signs[0]
            };
            let what = format!("{kind}, {asks}");
            assert_eq!(is_decorated(&after["containers"][0]), is_known && (is_ocms || asks), "{what}");
            assert_eq!(is_decorated(&after["initContainers"][0]), is_known && asks, "{what}");
            assert_eq!(after["nodeSelector"] == json!({"a": "b"}), is_known && (is_ocms || asks), "{what}");
        }
    }
}

#[test]
fn tolerations_need_no_node_selector() {
    let config = json!({"agentInstallNamespace": "", "nodePlacement": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
    let container = json!({"name": "c", "env": [{"name": "CLUSTER_NAME", "value": "c1"}]});
    let want = deployment(container, json!({"tolerations": [{"key": "k", "operator": "Exists"}]}));
    check(json!([deployment(json!({"name": "c"}), json!({}))]), config, json!([want]));
}

#[test]
fn each_container_gets_the_variables_of_a_proxy_and_its_certificates_are_next_to_the_workloads() {
    let proxy = json!({"httpsProxy": "https://p", "noProxy": ".svc,10.0.0.0/8", "caBundle": "Q0E="});
    let config = json!({"agentInstallNamespace": "", "proxyConfig": proxy});
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [deployment(json!({"name": "c"}), json!({}))]}}});
    let objects = rendered(&template, &config, None).unwrap();
    assert_eq!((objects[1].namespace(), objects[1].name()), ("ns", "a-proxy-ca"));
    assert_eq!(objects[1].at(&["data", "ca-bundle.crt"]), Some(&json!("CA")));
    let env = &objects[0].at(&["spec", "template", "spec", "containers"]).unwrap()[0]["env"];
    let entry = |one: &Value| format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap());
    let env: Vec<_> = env.as_array().unwrap().iter().map(entry).collect();
    for (name, value) in [("HTTPS_PROXY", "https://p"), ("NO_PROXY", ".svc,10.0.0.0/8")] {
        for name in [name.to_owned(), name.to_lowercase()] {
            assert!(env.contains(&format!("{name}={value}")), "{env:?}");
        }
    }
    assert!(env.iter().any(|one| one.starts_with("CA_BUNDLE_FILE_PATH=")), "{env:?}");
    assert!(!env.iter().any(|one| one.to_uppercase().starts_with("HTTP_PROXY=")), "{env:?}");
}

#[test]
fn a_mirror_takes_whole_path_segments() {
    let manifests = json!([deployment(json!({"name": "c", "image": "quay.io/ocm-evil/x:1"}), json!({}))]);
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": manifests}}});
    let objects = rendered(
        &template,
        &Value::Null,
        Some(r#"{"registries":[{"source":"quay.io/ocm","mirror":"my.io"}]}"#),
    )
    .unwrap();
    assert_eq!(
        objects[0].at(&["spec", "template", "spec", "containers"]).unwrap()[0]["image"],
        "quay.io/ocm-evil/x:1"
    );
}

#[test]
fn the_last_mirror_that_has_another_image_counts() {
    for (mirrors, image, want) in [
        (vec![("quay.io/ocm", "a.io"), ("quay.io", "b.io/")], "quay.io/ocm/x:1", "b.io/ocm/x:1"),
        (vec![("quay.io/ocm/", "a.io"), ("docker.io", "b.io")], "quay.io/ocm/x:1", "a.io/x:1"),
        (vec![("quay.io/ocm", "a.io"), ("quay.io", "quay.io")], "quay.io/ocm/x:1", "a.io/x:1"),
        (vec![("", "a.io/")], "quay.io/ocm/x:1", "a.io/x:1"),
        (vec![("", "quay.io/ocm")], "quay.io/ocm/x:1", "quay.io/ocm/x:1"),
        (vec![("", "")], "quay.io/ocm/x:1", "x:1"),
        (vec![("quay.io/ocm/x", "a.io/y")], "quay.io/ocm/x@sha256:1", "a.io/y@sha256:1"),
        (vec![("quay.io/x", "a.io/y")], "quay.io/x", "a.io/y"),
        (vec![], "x", "x"),
    ] {
        let registry = |(source, mirror): &(&str, &str)| json!({"source": source, "mirror": mirror});
        let config = json!({"registries": mirrors.iter().map(registry).collect::<Vec<_>>()});
        let manifests = json!([deployment(json!({"name": "c", "image": image}), json!({}))]);
        let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": manifests}}});
        let objects = rendered(&template, &config, None).unwrap();
        let containers = objects[0].at(&["spec", "template", "spec", "containers"]).unwrap();
        assert_eq!(containers[0]["image"], want, "{mirrors:?}");
    }
}

#[test]
fn the_install_namespace_moves_objects_and_service_accounts_only() {
    let account = |of: &str| json!({"kind": "ServiceAccount", "name": "s", "namespace": of});
    let binding = |namespace: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b", "namespace": namespace},
            "subjects": [account(namespace), account("kube-system"), {"kind": "User", "name": "u"}],
        })
    };
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    check(
        json!([binding("ns"), namespace("ns"), namespace("second")]),
        json!({"agentInstallNamespace": "there"}),
        json!([binding("there"), namespace("there"), namespace("second")]),
    );
}

#[test]
fn patterns_of_containers_share_a_limit() {
    let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": []}}});
    let config = |patterns: usize| {
        let of = json!({"containerID": "deployments:a{4000}:*", "resources": {}});
        json!({ "resourceRequirements": vec![of; patterns] })
    };
    assert!(rendered(&template, &config(1), None).is_ok());
    let refused = rendered(&template, &config(20), None).unwrap_err().to_string();
    assert_eq!(refused, "invalid ContainerID: deployments:a{4000}:*");
}

/// Returns true if only strings differ, including keys that became equal.
fn is_alike(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::String(_), Value::String(_)) => true,
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(before, after)| is_alike(before, after))
        }
        (Value::Object(before), Value::Object(after)) => {
            after.len() <= before.len()
                && after.values().all(|after| before.values().any(|before| is_alike(before, after)))
        }
        (before, after) => before == after,
    }
}

/// A template, a configuration and the registries of a cluster.
#[test]
fn any_bytes_are_a_template_with_variables_or_refused() {
    #[derive(serde::Deserialize)]
    struct Inputs {
        template: AddOnTemplateSpec,
        config: Option<AddOnDeploymentConfigSpec>,
        registries: Option<String>,
    }
    let config = json!({
        "agentInstallNamespace": "there", "customizedVariables": [{"name": "X", "value": "x\", \"{{Y}}"}],
        "registries": [{"source": "quay.io/ocm", "mirror": "my.io"}],
        "nodePlacement": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
        "proxyConfig": {"httpsProxy": "https://p", "noProxy": "a,b", "caBundle": "Q0E="},
        "resourceRequirements": [{"containerID": "deployments:d:*", "resources": {"limits": {"cpu": "1"}}}],
    });
    let manifests = json!([
        config_map(
            json!({"k-{{X}}": "{{X}}-{{CLUSTER_NAME}}{{UNKNOWN}}", "n": ["{{INSTALL_NAMESPACE}}"], "o": "{{"})
        ),
        deployment(
            json!({"name": "c", "image": "quay.io/ocm/x:{{X}}", "env": [{"name": "A", "value": "{{X}}"}]}),
            json!({})
        ),
    ]);
    let registration =
        json!([{"type": "KubeClient"}, {"type": "CustomSigner", "customSigner": {"signerName": "a.io/b"}}]);
    let inputs = |manifests: &Value| {
        let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": manifests}}, "registration": registration});
        let registries = json!({"registries": [{"source": "a", "mirror": "b"}]}).to_string();
        json!({"template": template, "config": config, "registries": registries}).to_string().into_bytes()
    };
    let seeds = [inputs(&manifests), inputs(&json!([manifests[1]]))];
    let run = |bytes: &[u8]| {
        let Ok(Inputs { template, config, registries }) = serde_json::from_slice(bytes) else { return };
        let input = TemplateInput {
            addon: "a",
            cluster: "c1",
            template: &template,
            config: config.as_ref(),
            registries: registries.as_deref(),
        };
        let variables = variables(&input, install_namespace(config.as_ref()));
        let manifests = &template.agent_spec.workload.manifests;
        for manifest in manifests {
            let mut room = Room { bytes: VALUE_BYTES, comparisons: COMPARISONS };
            let mut substitution = Substitution { variables: &variables, index: 0, room: &mut room };
            let Ok(replaced) = substitution.map(manifest) else { continue };
            let (before, after) = (Value::Object(manifest.clone()), Value::Object(replaced));
            assert!(is_alike(&before, &after), "a value leaves its string: {before} becomes {after}");
        }
        if let Ok(objects) = render(&input) {
            assert!((0..=1).contains(&(objects.len() - manifests.len())), "{} objects", objects.len());
        }
    };
    let words = [
        "{{X}}",
        "{{CLUSTER_NAME}}",
        "{{",
        "}}",
        "\"kind\":\"Deployment\"",
        "\"apiVersion\":\"apps/v1\"",
        "\"containers\":",
        "\"customizedVariables\":",
        "\"caBundle\":",
        "\"containerID\":",
        "null",
        "[",
        "{",
    ];
    crate::fuzz::Target { name: "template_with_variables", run: &run, seeds: &seeds, words: &words }.fuzz();
}

#[test]
fn an_empty_list_of_registrations_is_not_an_absent_list() {
    let manifest = config_map(json!({"kubeconfig": "{{HUB_KUBECONFIG}}"}));
    let template = |registration: Value| json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [manifest]}}, "registration": registration});
    for (registration, value) in [(Value::Null, ""), (json!([]), "/managed/hub-kubeconfig/kubeconfig")] {
        let rendered = rendered(&template(registration), &Value::Null, None).unwrap();
        assert_eq!(json!(rendered), json!([config_map(json!({"kubeconfig": value}))]));
    }
}
