//! The Deployments of an agent.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::{CLUSTER_LABELS_VARIABLE, KlusterletSettings, MANAGED_SECRET, MANAGER, Secrets, with_digest};
use api::names::{BOOTSTRAP_SECRET, HUB_KUBECONFIG_SECRET};
use api::operator::v1::HubApiServerHostAlias;
use object::Object;
use object::fields::fields_v1;

/// The mount path of the bootstrap kubeconfig.
const BOOTSTRAP: &str = "/spoke/bootstrap";
/// The mount path of the managed cluster's kubeconfig, for hosted agents.
const MANAGED: &str = "/spoke/config";
/// The mount path of the hub identity.
const IDENTITY: &str = "/spoke/hub-kubeconfig";
/// The time that a pod tries to clean up a managed cluster, which may be gone. OCM's operator uses the same
/// limit.
const CLEANUP_LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// The port of the health checks, over HTTPS.
const HEALTH: u16 = 8443;

/// One of the Deployments of an agent.
struct Part<'a> {
    /// The suffix of its name.
    name: &'static str,
    label: &'static str,
    program: &'static str,
    account: &'static str,
    image: &'a str,
    replicas: u8,
    args: Vec<String>,
    reads: Reads,
}

/// The secrets that a part of an agent reads as files.
enum Reads {
    /// The bootstrap kubeconfigs, to create the identity.
    Bootstrap,
    /// The hub identity.
    Identity,
    /// No secrets. This part also serves no health checks.
    Nothing,
}

/// Returns the Deployments of a Klusterlet. A separate work agent starts only once the identity exists.
pub fn deployments(settings: &KlusterletSettings, has_identity: bool) -> Vec<Object> {
    let cluster = [format!("--spoke-cluster-name={}", settings.cluster)]
        .into_iter()
        .chain(settings.is_hosted.then(managed));
    let registration: Vec<String> =
        cluster.clone().chain(bootstrap(settings)).chain(settings.registration.clone()).collect();
    let parts = if settings.is_singleton {
        let gates = [&settings.registration[..], &settings.work[..]].concat();
        let args = cluster.chain(bootstrap(settings)).chain(joined_gates(gates)).collect();
        vec![Part {
            name: "agent",
            label: "klusterlet-agent",
            program: "/registration-operator",
            account: "work",
            image: &settings.image,
            replicas: 1,
            args,
            reads: Reads::Bootstrap,
        }]
    } else {
        let identity = format!("--hub-kubeconfig={IDENTITY}/kubeconfig");
        let work = cluster.chain([identity]).chain(settings.work.clone()).collect();
        vec![
            Part {
                name: "registration-agent",
                label: "klusterlet-registration-agent",
                program: "/registration",
                account: "registration",
                image: &settings.registration_image,
                replicas: 1,
                args: registration,
                reads: Reads::Bootstrap,
            },
            Part {
                name: "work-agent",
                label: "klusterlet-manifestwork-agent",
                program: "/work",
                account: "work",
                image: &settings.work_image,
                replicas: u8::from(has_identity),
                args: work,
                reads: Reads::Identity,
            },
        ]
    };
    let objects = parts.into_iter().filter_map(|part| Object::from_value(deployment(settings, part)).ok());
    objects.map(with_digest).collect()
}

/// Returns the Deployment that cleans up the managed cluster after a hosted agent is deleted, and the time at
/// which the operator gives up. The pod finally deletes the identity; after that there is nothing to do.
pub fn cleanup(
    settings: &KlusterletSettings,
    secrets: &Secrets<'_>,
    deleted: Timestamp,
) -> Option<(Object, Timestamp)> {
    if !settings.is_hosted || secrets.hub.is_none() || secrets.managed.is_none() {
        return None;
    }
    let part = Part {
        name: "cleanup",
        label: "klusterlet-cleanup",
        program: "/registration-operator",
        account: "work",
        image: &settings.image,
        replicas: 1,
        args: vec![managed(), "--leave".to_owned()],
        reads: Reads::Nothing,
    };
    let object = Object::from_value(deployment(settings, part)).ok().map(with_digest)?;
    Some((object, deleted.saturating_add(CLEANUP_LIMIT).ok()?))
}

fn managed() -> String {
    format!("--spoke-kubeconfig={MANAGED}/kubeconfig")
}

impl KlusterletSettings {
    /// Returns the names of the Deployments in all modes.
    pub fn deployment_names(&self) -> [String; 4] {
        ["agent", "registration-agent", "work-agent", "cleanup"].map(|part| format!("{}-{part}", self.name))
    }
}

/// Joins multiple feature gate flags into one, because the last flag would win.
fn joined_gates(args: Vec<String>) -> Vec<String> {
    const FLAG: &str = "--feature-gates=";
    let (gates, mut rest): (Vec<_>, Vec<_>) = args.into_iter().partition(|arg| arg.starts_with(FLAG));
    let gates: Vec<_> = gates.iter().filter_map(|arg| arg.strip_prefix(FLAG)).collect();
    if !gates.is_empty() {
        rest.push(format!("{FLAG}{}", gates.join(",")));
    }
    rest
}

/// Returns the flags for the bootstrap kubeconfigs.
fn bootstrap(settings: &KlusterletSettings) -> Vec<String> {
    if settings.bootstrap_secrets.is_empty() {
        return vec![format!("--bootstrap-kubeconfig={BOOTSTRAP}/kubeconfig")];
    }
    let file = |secret: &String| format!("--bootstrap-kubeconfigs={BOOTSTRAP}/{secret}/kubeconfig");
    settings.bootstrap_secrets.iter().map(file).collect()
}

fn deployment(settings: &KlusterletSettings, part: Part<'_>) -> Value {
    let Part { name, label, program, account, image, replicas, args, reads } = part;
    let labels = json!({"app": label});
    let command = [program.to_owned(), "agent".to_owned()].into_iter().chain(args).collect::<Vec<_>>();
    let (mounts, volumes) = files(settings, &reads);
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
    let mut environment =
        vec![json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})];
    let joins = match reads {
        Reads::Bootstrap => true,
        Reads::Identity | Reads::Nothing => false,
    };
    if joins && !settings.cluster_labels.is_empty() {
        let labels = settings.cluster_labels.join(",");
        environment.push(json!({"name": CLUSTER_LABELS_VARIABLE, "value": labels}));
    }
    let mut container = json!({
        "name": name, "image": image, "imagePullPolicy": "IfNotPresent", "args": command,
        "env": environment,
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "privileged": false,
            "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        },
        "resources": resources, "volumeMounts": mounts,
    });
    let serves_health = match reads {
        Reads::Bootstrap | Reads::Identity => true,
        Reads::Nothing => false,
    };
    if let Some(container) = container.as_object_mut().filter(|_| serves_health) {
        container.insert("livenessProbe".into(), probe("/healthz"));
        container.insert("readinessProbe".into(), probe("/readyz"));
    }
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
    if let Some(HubApiServerHostAlias { ip, hostname, unknown: _ }) = &settings.host_alias {
        pod.insert("hostAliases".into(), json!([{"ip": ip, "hostnames": [hostname]}]));
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
            // Two agents for one cluster would undo each other's changes.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// Returns the mounts and volumes for the bootstrap kubeconfigs, the identity and the managed cluster.
fn files(settings: &KlusterletSettings, reads: &Reads) -> (Value, Value) {
    let secret = |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret}});
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    if settings.is_hosted {
        mounts.push(json!({"name": "spoke-kubeconfig-secret", "mountPath": MANAGED, "readOnly": true}));
        volumes.push(secret("spoke-kubeconfig-secret", MANAGED_SECRET));
    }
    match reads {
        Reads::Bootstrap => {}
        Reads::Identity => {
            mounts.push(json!({"name": HUB_KUBECONFIG_SECRET, "mountPath": IDENTITY, "readOnly": true}));
            volumes.push(secret(HUB_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET));
            return (json!(mounts), json!(volumes));
        }
        Reads::Nothing => return (json!(mounts), json!(volumes)),
    }
    mounts.push(json!({"name": "hub-kubeconfig", "mountPath": IDENTITY}));
    volumes.push(json!({"name": "hub-kubeconfig", "emptyDir": {"medium": "Memory"}}));
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

/// Returns true if a Deployment has available pods.
pub fn is_available(deployment: &Object) -> bool {
    number(deployment, &["status", "availableReplicas"]) > 0
}

/// Returns true if a Deployment's controller reports that no pods are left. Terminating pods count, too, if the
/// API server reports them (KEP-3973).
pub fn is_drained(deployment: &Object) -> bool {
    number(deployment, &["spec", "replicas"]) == 0
        && number(deployment, &["status", "replicas"]) == 0
        && number(deployment, &["status", "terminatingReplicas"]) == 0
        && number(deployment, &["status", "observedGeneration"]) >= deployment.generation()
}

/// Returns true if another client, such as OCM's registration operator, created a Deployment or changed its
/// pods.
///
/// An apply would leave unnamed fields, and some of them conflict: the strategy Recreate does not allow the
/// parameters of a rolling update.
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

/// Returns a number in an object, or 0 if it is absent.
pub(crate) fn number(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or_default()
}
