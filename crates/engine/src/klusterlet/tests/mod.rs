//! Tests for specs, and for the resulting objects and conditions.

mod ownership;
mod pull_secret;

use api::names::{BOOTSTRAP_SECRET, DEFAULT_ADDON_NAMESPACE, KLUSTERLET_FINALIZER};
use api::operator::v1::Klusterlet;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;

fn klusterlet(spec: &Value) -> Klusterlet {
    serde_json::from_value(json!({"metadata": {"name": "klusterlet", "uid": "u"}, "spec": spec})).unwrap()
}

fn settings(spec: &Value) -> KlusterletSettings {
    KlusterletSettings::read(&klusterlet(spec)).unwrap()
}

/// Returns the command lines of the containers by the names of their Deployments.
fn commands(spec: &Value) -> Vec<(String, Vec<String>)> {
    let all = deployments(&settings(spec), true);
    let command = |object: &Object| {
        let args = object.at(&["spec", "template", "spec", "containers"]).unwrap()[0]["args"].clone();
        (object.name().to_owned(), serde_json::from_value(args).unwrap())
    };
    all.iter().map(command).collect()
}

#[test]
fn the_command_lines_match_ocms_pods() {
    let check = |spec: Value, wanted: &[(&str, &str)]| {
        let commands = commands(&spec);
        let found: Vec<_> = commands.iter().map(|(name, args)| (name.as_str(), args.join(" "))).collect();
        let wanted: Vec<_> = wanted.iter().map(|(name, args)| (*name, (*args).to_owned())).collect();
        assert_eq!(found, wanted, "{spec}");
    };
    let registration =
        "/registration agent --spoke-cluster-name=c1 --bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig";
    let work = "/work agent --spoke-cluster-name=c1 --hub-kubeconfig=/spoke/hub-kubeconfig/kubeconfig";
    check(
        json!({"clusterName": "c1"}),
        &[("klusterlet-registration-agent", registration), ("klusterlet-work-agent", work)],
    );
    check(
        json!({
            "clusterName": "c1",
            "externalServerURLs": [{"url": "https://a:6443"}, {"url": "https://b"}],
            "registrationConfiguration": {
                "clientCertExpirationSeconds": 7200,
                "clusterAnnotations": {"agent.open-cluster-management.io/a": "1"},
                "clusterClaimConfiguration": {"maxCustomClusterClaims": 7, "reservedClusterClaimSuffixes": ["x", "y"]},
                "addOnKubeClientRegistrationDriver": {"authType": "token"},
                "featureGates": [{"feature": "AddonManagement", "mode": "Disable"}],
            },
            "workConfiguration": {
                "featureGates": [{"feature": "RawFeedbackJsonString", "mode": "Enable"}],
                "appliedManifestWorkEvictionGracePeriod": "10m",
            },
        }),
        &[
            (
                "klusterlet-registration-agent",
                &format!(
                    "{registration} --spoke-external-server-urls=https://a:6443,https://b \
                     --client-cert-expiration-seconds=7200 --feature-gates=AddonManagement=false \
                     --cluster-annotations=agent.open-cluster-management.io/a=1 \
                     --addon-kubeclient-registration-auth=token --max-custom-cluster-claims=7 \
                     --reserved-cluster-claim-suffixes=x,y"
                ),
            ),
            (
                "klusterlet-work-agent",
                &format!(
                    "{work} --feature-gates=RawFeedbackJsonString=true \
                     --appliedmanifestwork-eviction-grace-period=10m"
                ),
            ),
        ],
    );
    let several = json!({"type": "LocalSecrets", "localSecretsConfig": {
        "kubeConfigSecrets": [{"name": "one"}, {"name": "two"}], "hubConnectionTimeoutSeconds": 300}});
    check(
        json!({
            "deployOption": {"mode": "Singleton"},
            "registrationConfiguration": {
                "bootstrapKubeConfigs": several,
                "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}],
            },
            "workConfiguration": {"featureGates": [{"feature": "RawFeedbackJsonString", "mode": "Enable"}]},
        }),
        &[(
            "klusterlet-agent",
            "/registration-operator agent --spoke-cluster-name= \
             --bootstrap-kubeconfigs=/spoke/bootstrap/one/kubeconfig \
             --bootstrap-kubeconfigs=/spoke/bootstrap/two/kubeconfig --hub-connection-timeout-seconds=300 \
             --feature-gates=MultipleHubs=true,RawFeedbackJsonString=true",
        )],
    );
}

#[test]
fn the_labels_of_a_new_cluster_are_in_the_environment_of_the_agent_that_joins() {
    let registration = json!({"clusterLabels": {"cloud": "aws", "zone": "a"}});
    for (mode, wanted) in [("Default", vec![true, false]), ("Singleton", vec![true])] {
        let spec = json!({"deployOption": {"mode": mode}, "registrationConfiguration": registration});
        let settings = settings(&spec);
        assert_eq!(settings.ignored, [""; 0]);
        let has_labels = deployments(&settings, true).into_iter().map(|deployment| {
            let deployment = deployment.into_value();
            let environment = deployment.pointer("/spec/template/spec/containers/0/env").unwrap();
            environment
                .to_string()
                .contains(r#"{"name":"WHEELWRIGHT_CLUSTER_LABELS","value":"cloud=aws,zone=a"}"#)
        });
        assert_eq!(has_labels.collect::<Vec<_>>(), wanted, "{mode}");
    }
}

#[test]
fn a_field_that_changes_nothing_is_named_and_one_that_cannot_be_honored_is_refused() {
    let ignored = |spec: Value| settings(&spec).ignored;
    assert_eq!(ignored(json!({})), [""; 0]);
    let defaults = json!({"kubeAPIQPS": 50, "kubeAPIBurst": 100});
    let ocms = json!({"registrationConfiguration": defaults, "workConfiguration": defaults});
    assert_eq!(ignored(ocms), [""; 0], "OCM's definition writes these values by itself");
    let fields: Vec<String> = ignored(json!({
        "externalServerURLs": [{"url": "https://a", "caBundle": "YQ=="}],
        "registrationConfiguration": {
            "kubeAPIQPS": 51, "kubeAPIBurst": 101, "clusterAnnotations": {"b": "c"},
            "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": {"kubeConfigSecrets": []}},
            "addOnKubeClientRegistrationDriver": {"token": {"expirationSeconds": 3600}},
        },
        "workConfiguration": {
            "hubKubeAPIQPS": 1, "hubKubeAPIBurst": 2, "statusSyncInterval": "10s",
        },
    }))
    .iter()
    .map(|text| text.split(": ").next().unwrap().to_owned())
    .collect();
    let wanted = [
        "externalServerURLs.caBundle",
        "registrationConfiguration.clusterAnnotations[b]",
        "registrationConfiguration.kubeAPIQPS",
        "registrationConfiguration.kubeAPIBurst",
        "registrationConfiguration.bootstrapKubeConfigs",
        "registrationConfiguration.addOnKubeClientRegistrationDriver.token.expirationSeconds",
        "workConfiguration.hubKubeAPIQPS",
        "workConfiguration.hubKubeAPIBurst",
        "workConfiguration.statusSyncInterval",
    ];
    assert_eq!(fields, wanted);
    let future = klusterlet(&json!({"deployOption": {"mode": "Future"}}));
    assert_eq!(KlusterletSettings::read(&future).unwrap_err(), KlusterletRefusal::Mode("Future".to_owned()));
    let driver = json!({"registrationConfiguration": {"registrationDriver": {"authType": "awsirsa"}}});
    assert_eq!(
        KlusterletSettings::read(&klusterlet(&driver)).unwrap_err(),
        KlusterletRefusal::Driver("awsirsa".to_owned())
    );
    let gates = json!({"workConfiguration": {"featureGates": [{"feature": "Nothing", "mode": "Enable"}]}});
    assert_eq!(settings(&gates).unknown_gates, ["work: Nothing"]);
}

#[test]
fn pods_are_placed_as_the_spec_says() {
    let spec = json!({
        "namespace": "open-cluster-management-edge", "imagePullSpec": "registry.example.com/agent:2",
        "deployOption": {"mode": "Singleton"}, "priorityClassName": "system-cluster-critical",
        "nodePlacement": {"nodeSelector": {"infra": "true"}, "tolerations": [{"key": "infra", "operator": "Exists"}]},
        "hubApiServerHostAlias": {"ip": "192.0.2.1", "hostname": "hub.example.com"},
        "resourceRequirement": {"type": "BestEffort"},
    });
    let all = deployments(&settings(&spec), false);
    let [agent] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((agent.namespace(), agent.name()), ("open-cluster-management-edge", "klusterlet-agent"));
    let pod = agent.at(&["spec", "template", "spec"]).unwrap();
    assert_eq!(pod["nodeSelector"], json!({"infra": "true"}));
    assert_eq!(pod["tolerations"], json!([{"key": "infra", "operator": "Exists"}]));
    assert_eq!(pod["hostAliases"], json!([{"ip": "192.0.2.1", "hostnames": ["hub.example.com"]}]));
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(pod["containers"][0]["image"], "registry.example.com/agent:2");
    assert_eq!(pod["containers"][0]["resources"], json!({}));
}

#[test]
fn a_hosted_agent_runs_in_the_namespace_of_its_klusterlet_with_permissions_there_only() {
    let spec = |mode: &str| json!({"clusterName": "c1", "deployOption": {"mode": mode}});
    for (mode, wanted) in [
        ("Hosted", vec!["klusterlet-registration-agent", "klusterlet-work-agent"]),
        ("SingletonHosted", vec!["klusterlet-agent"]),
    ] {
        let settings = settings(&spec(mode));
        let all = deployments(&settings, true);
        assert_eq!(all.iter().map(Object::name).collect::<Vec<_>>(), wanted);
        assert!(all.iter().all(|one| one.namespace() == "klusterlet"));
        let volumes = |one: &Object| one.at(&["spec", "template", "spec", "volumes"]).unwrap().to_string();
        assert!(all.iter().all(|one| volumes(one).contains("external-managed-kubeconfig")));
        for (_, command) in commands(&spec(mode)) {
            assert!(
                command.contains(&"--spoke-kubeconfig=/spoke/config/kubeconfig".to_owned()),
                "{command:?}"
            );
        }
        let access = access(&settings);
        let kinds: Vec<_> = access.objects.iter().map(Object::kind).collect();
        assert_eq!(kinds, ["ServiceAccount", "ServiceAccount", "Role", "RoleBinding"]);
        assert!(access.objects.iter().all(|one| one.namespace() == "klusterlet"));
    }
    let mut installed = klusterlet(&spec("Default"));
    installed.metadata.finalizers = Some(vec![KLUSTERLET_FINALIZER.to_owned()]);
    assert!(KlusterletSettings::read(&installed).is_ok());
    installed.spec = klusterlet(&spec("Hosted")).spec;
    assert_eq!(KlusterletSettings::read(&installed).unwrap_err(), KlusterletRefusal::Move);
    assert_eq!(
        KlusterletSettings::named(&installed).namespace,
        "open-cluster-management-agent",
        "its objects are there"
    );
}

#[test]
fn the_add_ons_of_all_agents_have_one_namespace() {
    for (agent, wanted) in [
        ("open-cluster-management-agent", vec!["open-cluster-management-agent", DEFAULT_ADDON_NAMESPACE]),
        ("open-cluster-management-hub2", vec!["open-cluster-management-hub2", DEFAULT_ADDON_NAMESPACE]),
        (DEFAULT_ADDON_NAMESPACE, vec![DEFAULT_ADDON_NAMESPACE]),
    ] {
        let access = access(&settings(&json!({"namespace": agent})));
        assert_eq!(access.namespaces.iter().map(Object::name).collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn a_hosted_agent_leaves_its_cluster_for_five_minutes_and_with_an_identity_only() {
    let object = |name: &str| {
        Object::from_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})).unwrap()
    };
    let (hub, managed) = (object("hub"), object("managed"));
    let deleted: jiff::Timestamp = "2024-05-01T12:00:00Z".parse().unwrap();
    let settings = settings(&json!({"deployOption": {"mode": "Hosted"}}));
    let secrets = Secrets { hub: Some(&hub), managed: Some(&managed), ..Secrets::default() };
    let (pod, until) = cleanup(&settings, &secrets, deleted).unwrap();
    assert_eq!(until.to_string(), "2024-05-01T12:05:00Z");
    let pod = pod.at(&["spec", "template", "spec"]).unwrap();
    let command =
        ["/registration-operator", "agent", "--spoke-kubeconfig=/spoke/config/kubeconfig", "--leave"];
    assert_eq!(pod["containers"][0]["args"], json!(command));
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 1, "it deletes the identity, and mounts it not");
    for secrets in [Secrets { hub: None, ..secrets.clone() }, Secrets { managed: None, ..secrets.clone() }] {
        assert_eq!(cleanup(&settings, &secrets, deleted), None);
    }
    assert_eq!(cleanup(&KlusterletSettings { is_hosted: false, ..settings }, &secrets, deleted), None);
}

#[test]
fn a_work_agent_waits_for_the_identity_and_an_agent_that_does_both_does_not() {
    let replicas = |spec: Value, has_identity: bool| -> Vec<i64> {
        let all = deployments(&settings(&spec), has_identity);
        all.iter().map(|one| one.at(&["spec", "replicas"]).unwrap().as_i64().unwrap()).collect()
    };
    assert_eq!(replicas(json!({}), false), [1, 0]);
    assert_eq!(replicas(json!({}), true), [1, 1]);
    assert_eq!(replicas(json!({"deployOption": {"mode": "Singleton"}}), false), [1]);
}

const HUB: &str = "clusters: [{name: a, cluster: {server: 'https://hub:6443'}}]";

/// Returns the conditions as `type status reason`.
fn observed(registration: &Value, work: &Value, bootstrap: &Value, hub: &Value) -> Vec<String> {
    let object = |value: &Value| (!value.is_null()).then(|| Object::from_value(value.clone()).unwrap());
    let [registration, work, bootstrap, hub] = [registration, work, bootstrap, hub].map(object);
    let secrets = Secrets {
        bootstrap: vec![(BOOTSTRAP_SECRET.to_owned(), bootstrap.as_ref())],
        hub: hub.as_ref(),
        managed: None,
    };
    let installed = InstalledObjects { registration: registration.as_ref(), work: work.as_ref(), secrets };
    let all = conditions(&settings(&json!({})), &installed);
    all.iter().map(|one| format!("{} {} {}", one.type_, one.status, one.reason)).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn conditions_say_what_keeps_the_agent_from_its_hub() {
    let deployment = |replicas: i64, ready: i64| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"replicas": replicas}, "status": {"readyReplicas": ready, "availableReplicas": ready}})
    };
    let secret = |keys: &[&str]| {
        let data: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), json!(STANDARD.encode(HUB)))).collect();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": data})
    };
    let none = Value::Null;
    let kubeconfig = secret(&["kubeconfig"]);
    let identity = secret(&["kubeconfig", "cluster-name"]);
    let [ready, waiting, off] = [deployment(1, 1), deployment(1, 0), deployment(0, 0)];
    for (registration, work, bootstrap, hub, wanted) in [
        (
            &none,
            &none,
            &none,
            &none,
            [
                "Available False GetDeploymentFailed",
                "RegistrationDesiredDegraded True GetDeploymentFailed",
                "WorkDesiredDegraded True GetDeploymentFailed",
                "HubConnectionDegraded True BootstrapSecretMissing,HubKubeConfigSecretMissing",
            ],
        ),
        (
            &waiting,
            &off,
            &secret(&[]),
            &secret(&[]),
            [
                "Available False NoAvailablePods",
                "RegistrationDesiredDegraded True UnavailablePods",
                "WorkDesiredDegraded False DeploymentsFunctional",
                "HubConnectionDegraded True BootstrapSecretError,HubKubeConfigMissing",
            ],
        ),
        (
            &waiting,
            &waiting,
            &kubeconfig,
            &kubeconfig,
            [
                "Available False NoAvailablePods",
                "RegistrationDesiredDegraded True UnavailablePods",
                "WorkDesiredDegraded True UnavailablePods",
                "HubConnectionDegraded True BootstrapSecretFunctional,ClusterNameMissing",
            ],
        ),
        (
            &waiting,
            &ready,
            &kubeconfig,
            &identity,
            [
                "Available False NoAvailablePods",
                "RegistrationDesiredDegraded True UnavailablePods",
                "WorkDesiredDegraded False DeploymentsFunctional",
                "HubConnectionDegraded True HubKubeConfigError",
            ],
        ),
        (
            &ready,
            &ready,
            &none,
            &identity,
            [
                "Available True KlusterletAvailable",
                "RegistrationDesiredDegraded False DeploymentsFunctional",
                "WorkDesiredDegraded False DeploymentsFunctional",
                "HubConnectionDegraded False HubConnectionFunctional",
            ],
        ),
    ] {
        let all = observed(registration, work, bootstrap, hub);
        assert_eq!(all[1..5], wanted);
        assert_eq!(
            (all[0].as_str(), all[5].as_str()),
            ("ValidFeatureGates True FeatureGatesAllValid", "FieldsIgnored False AllFieldsHonored",)
        );
    }
}

#[test]
fn a_bootstrap_secret_without_a_hub_address_is_reported() {
    let reason = |kubeconfig: &str| {
        let data = json!({"kubeconfig": STANDARD.encode(kubeconfig)});
        let metadata = json!({"name": BOOTSTRAP_SECRET, "namespace": "n"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        observed(&Value::Null, &Value::Null, &secret, &Value::Null)[4].clone()
    };
    let broken = "HubConnectionDegraded True BootstrapSecretError,HubKubeConfigSecretMissing";
    let sound = "HubConnectionDegraded True BootstrapSecretFunctional,HubKubeConfigSecretMissing";
    for text in ["a", "clusters: [", "clusters: []", "clusters: [{name: a, cluster: {server: ''}}]"] {
        assert_eq!(reason(text), broken, "{text}");
    }
    for text in [HUB, &format!("kind: Config\n---\n{HUB}")] {
        assert_eq!(reason(text), sound, "{text}");
    }
}
