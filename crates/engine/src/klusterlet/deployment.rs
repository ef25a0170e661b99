//! The Deployments of an agent.

use serde_json::{Map, Value, json};

use super::{BOOTSTRAP_SECRET, MANAGER, Settings, with_digest};
use api::names::HUB_KUBECONFIG_SECRET;
use object::Object;
use object::fields::fields_v1;

/// Mount path of the bootstrap kubeconfig.
const BOOTSTRAP: &str = "/spoke/bootstrap";
/// Mount path of the identity.
const IDENTITY: &str = "/spoke/hub-kubeconfig";
/// The port of the health checks, over HTTPS.
const HEALTH: u16 = 8443;

/// One Deployment of an agent.
struct Part<'a> {
    /// The suffix of its name, and of the label of its pods.
    name: &'static str,
    label: &'static str,
    program: &'static str,
    account: &'static str,
    image: &'a str,
    replicas: u8,
    args: Vec<String>,
    /// Whether it makes the identity, or only reads it.
    registers: bool,
}

/// Returns the Deployments of a Klusterlet. A separate work agent waits for the identity.
pub fn deployments(settings: &Settings, has_identity: bool) -> Vec<Object> {
    let cluster = format!("--spoke-cluster-name={}", settings.cluster);
    let registration: Vec<String> = [cluster.clone()]
        .into_iter()
        .chain(bootstrap(settings))
        .chain(settings.registration.clone())
        .collect();
    let parts = if settings.is_singleton {
        let gates = [&settings.registration[..], &settings.work[..]].concat();
        let args = [cluster].into_iter().chain(bootstrap(settings)).chain(joined_gates(gates)).collect();
        vec![Part {
            name: "agent",
            label: "klusterlet-agent",
            program: "/registration-operator",
            account: "work",
            image: &settings.image,
            replicas: 1,
            args,
            registers: true,
        }]
    } else {
        let identity = format!("--hub-kubeconfig={IDENTITY}/kubeconfig");
        let work = [cluster, identity].into_iter().chain(settings.work.clone()).collect();
        vec![
            Part {
                name: "registration-agent",
                label: "klusterlet-registration-agent",
                program: "/registration",
                account: "registration",
                image: &settings.registration_image,
                replicas: 1,
                args: registration,
                registers: true,
            },
            Part {
                name: "work-agent",
                label: "klusterlet-manifestwork-agent",
                program: "/work",
                account: "work",
                image: &settings.work_image,
                replicas: u8::from(has_identity),
                args: work,
                registers: false,
            },
        ]
    };
    let objects = parts.into_iter().filter_map(|part| Object::from_value(deployment(settings, part)).ok());
    objects.map(with_digest).collect()
}

impl Settings {
    /// Returns the names of the Deployments of all modes.
    pub fn deployment_names(&self) -> [String; 3] {
        ["agent", "registration-agent", "work-agent"].map(|part| format!("{}-{part}", self.name))
    }
}

/// Joins the flags of feature gates into one, because the last flag would win.
fn joined_gates(args: Vec<String>) -> Vec<String> {
    const FLAG: &str = "--feature-gates=";
    let (gates, mut rest): (Vec<_>, Vec<_>) = args.into_iter().partition(|arg| arg.starts_with(FLAG));
    let gates: Vec<_> = gates.iter().filter_map(|arg| arg.strip_prefix(FLAG)).collect();
    if !gates.is_empty() {
        rest.push(format!("{FLAG}{}", gates.join(",")));
    }
    rest
}

/// Returns the flags that name the bootstrap kubeconfigs.
fn bootstrap(settings: &Settings) -> Vec<String> {
    if settings.bootstrap_secrets.is_empty() {
        return vec![format!("--bootstrap-kubeconfig={BOOTSTRAP}/kubeconfig")];
    }
    let file = |secret: &String| format!("--bootstrap-kubeconfigs={BOOTSTRAP}/{secret}/kubeconfig");
    settings.bootstrap_secrets.iter().map(file).collect()
}

fn deployment(settings: &Settings, part: Part<'_>) -> Value {
    let Part { name, label, program, account, image, replicas, args, registers } = part;
    let labels = json!({"app": label});
    let command = [program.to_owned(), "agent".to_owned()].into_iter().chain(args).collect::<Vec<_>>();
    let (mounts, volumes) = files(settings, registers);
    let probe = |path: &str| {
        json!({
            "httpGet": {"path": path, "scheme": "HTTPS", "port": HEALTH}, "initialDelaySeconds": 2,
            "periodSeconds": 10,
        })
    };
    let resources = match &settings.resources {
        Some(resources) => json!(resources),
        None => json!({"requests": {"cpu": "20m", "memory": "32Mi"}}),
    };
    let container = json!({
        "name": name, "image": image, "imagePullPolicy": "IfNotPresent", "args": command,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "privileged": false,
            "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        },
        "livenessProbe": probe("/healthz"), "readinessProbe": probe("/readyz"),
        "resources": resources, "volumeMounts": mounts,
    });
    let mut pod = Map::new();
    pod.insert("serviceAccountName".into(), settings.account(account).into());
    pod.insert("containers".into(), json!([container]));
    pod.insert("volumes".into(), volumes);
    if !settings.node_placement.node_selector.is_empty() {
        pod.insert("nodeSelector".into(), json!(settings.node_placement.node_selector));
    }
    if !settings.node_placement.tolerations.is_empty() {
        pod.insert("tolerations".into(), json!(settings.node_placement.tolerations));
    }
    if let Some(alias) = &settings.host_alias {
        pod.insert("hostAliases".into(), json!([{"ip": alias.ip, "hostnames": [alias.hostname]}]));
    }
    if !settings.priority_class.is_empty() {
        pod.insert("priorityClassName".into(), settings.priority_class.as_str().into());
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": format!("{}-{name}", settings.name), "namespace": settings.namespace, "labels": labels,
        },
        "spec": {
            "replicas": replicas,
            // Two agents of one cluster would undo each other's changes.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// Returns the mounts and volumes: bootstrap kubeconfigs, and the identity as files.
fn files(settings: &Settings, registers: bool) -> (Value, Value) {
    let secret = |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret}});
    if !registers {
        let mount = json!([{"name": "hub-kubeconfig-secret", "mountPath": IDENTITY, "readOnly": true}]);
        return (mount, json!([secret("hub-kubeconfig-secret", HUB_KUBECONFIG_SECRET)]));
    }
    let mut mounts = vec![json!({"name": "hub-kubeconfig", "mountPath": IDENTITY})];
    let mut volumes = vec![json!({"name": "hub-kubeconfig", "emptyDir": {"medium": "Memory"}})];
    if settings.bootstrap_secrets.is_empty() {
        mounts.push(json!({"name": "bootstrap-secret", "mountPath": BOOTSTRAP, "readOnly": true}));
        volumes.push(secret("bootstrap-secret", BOOTSTRAP_SECRET));
    }
    for (i, name) in settings.bootstrap_secrets.iter().enumerate() {
        let volume = format!("bootstrap-secret-{i}");
        mounts.push(json!({"name": volume, "mountPath": format!("{BOOTSTRAP}/{name}"), "readOnly": true}));
        volumes.push(secret(&volume, name));
    }
    (json!(mounts), json!(volumes))
}

/// Returns whether a Deployment has available pods.
pub fn is_available(deployment: &Object) -> bool {
    number(deployment, &["status", "availableReplicas"]) > 0
}

/// Returns whether a Deployment has no pods left, as its controller has reported it.
pub fn is_drained(deployment: &Object) -> bool {
    number(deployment, &["spec", "replicas"]) == 0
        && number(deployment, &["status", "replicas"]) == 0
        && number(deployment, &["status", "observedGeneration"]) >= deployment.generation()
}

/// Returns whether another client created a Deployment or changed its pods, such as OCM's registration
/// operator.
///
/// An apply would leave the fields that it does not name, and some of them conflict: the strategy Recreate
/// has no parameters of a rolling update.
pub fn is_shaped_by_others(deployment: &Object) -> bool {
    let entries = deployment.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    entries.into_iter().flatten().any(|entry| {
        let fields = fields_v1(entry);
        let has = |path: &str| {
            fields.as_ref().is_some_and(|fields| fields.pointer(&format!("/f:spec/{path}")).is_some())
        };
        entry["manager"] != MANAGER
            && entry["subresource"].as_str().is_none_or(str::is_empty)
            && ["f:selector", "f:strategy", "f:template/f:spec"].into_iter().any(has)
    })
}

/// Reads a number of an object; 0 where it has none.
pub(crate) fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or_default()
}
