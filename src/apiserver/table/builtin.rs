//! The columns of built-in kinds, as kube-apiserver's printers have them.

use jiff::Timestamp;
use serde_json::{Value, json};

use object::Object;

/// A column whose cells are computed.
pub(super) struct Builtin {
    name: &'static str,
    format: &'static str,
    priority: u8,
    pub(super) cell: fn(&Object, Timestamp) -> Value,
}

impl Builtin {
    pub(super) fn definition(&self) -> Value {
        json!({ "name": self.name, "type": "string", "format": self.format, "description": "", "priority": self.priority })
    }
}

const fn column(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Builtin {
    Builtin { name, format: "", priority: 0, cell }
}

const fn wide(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Builtin {
    Builtin { name, format: "", priority: 1, cell }
}

const NAME: Builtin = Builtin { name: "Name", format: "name", priority: 0, cell: |o, _| o.name().into() };
const AGE: Builtin = column("Age", |o, now| age(text(o, &["metadata", "creationTimestamp"]), now));
const CREATED: Builtin = column("Created At", |o, _| text(o, &["metadata", "creationTimestamp"]).into());

const PLAIN: &[Builtin] = &[NAME, AGE];
const NAMESPACE: &[Builtin] = &[NAME, column("Status", |o, _| text(o, &["status", "phase"]).into()), AGE];
const CONFIG_MAP: &[Builtin] =
    &[NAME, column("Data", |o, _| (entries(o, "data") + entries(o, "binaryData")).into()), AGE];
const SECRET: &[Builtin] = &[
    NAME,
    column("Type", |o, _| or(text(o, &["type"]), "Opaque").into()),
    column("Data", |o, _| entries(o, "data").into()),
    AGE,
];
const SERVICE_ACCOUNT: &[Builtin] = &[NAME, AGE];
const DEPLOYMENT: &[Builtin] = &[
    NAME,
    column("Ready", |o, _| ratio(o, "readyReplicas")),
    column("Up-to-date", |o, _| count(o, &["status", "updatedReplicas"]).into()),
    column("Available", |o, _| count(o, &["status", "availableReplicas"]).into()),
    AGE,
];
const STATEFUL_SET: &[Builtin] = &[NAME, column("Ready", |o, _| ratio(o, "readyReplicas")), AGE];
const REPLICA_SET: &[Builtin] = &[
    NAME,
    column("Desired", |o, _| count(o, &["spec", "replicas"]).into()),
    column("Current", |o, _| count(o, &["status", "replicas"]).into()),
    column("Ready", |o, _| count(o, &["status", "readyReplicas"]).into()),
    AGE,
];
const DAEMON_SET: &[Builtin] = &[
    NAME,
    column("Desired", |o, _| count(o, &["status", "desiredNumberScheduled"]).into()),
    column("Current", |o, _| count(o, &["status", "currentNumberScheduled"]).into()),
    column("Ready", |o, _| count(o, &["status", "numberReady"]).into()),
    column("Up-to-date", |o, _| count(o, &["status", "updatedNumberScheduled"]).into()),
    column("Available", |o, _| count(o, &["status", "numberAvailable"]).into()),
    AGE,
];
const JOB: &[Builtin] = &[
    NAME,
    column("Completions", |o, _| {
        let wanted = o.at(&["spec", "completions"]).and_then(Value::as_i64).unwrap_or(1);
        format!("{}/{wanted}", count(o, &["status", "succeeded"])).into()
    }),
    AGE,
];
const POD: &[Builtin] = &[NAME, column("Status", |o, _| text(o, &["status", "phase"]).into()), AGE];
const SERVICE: &[Builtin] = &[
    NAME,
    column("Type", |o, _| or(text(o, &["spec", "type"]), "ClusterIP").into()),
    column("Cluster-IP", |o, _| or(text(o, &["spec", "clusterIP"]), "<none>").into()),
    column("Port(s)", |o, _| ports(o).into()),
    AGE,
];
const EVENT: &[Builtin] = &[
    column("Last Seen", |o, now| {
        age(
            or(
                text(o, &["lastTimestamp"]),
                or(text(o, &["eventTime"]), text(o, &["deprecatedLastTimestamp"])),
            ),
            now,
        )
    }),
    column("Type", |o, _| text(o, &["type"]).into()),
    column("Reason", |o, _| text(o, &["reason"]).into()),
    column("Object", |o, _| {
        let of = |field| or(text(o, &["involvedObject", field]), text(o, &["regarding", field]));
        format!("{}/{}", of("kind").to_lowercase(), of("name")).into()
    }),
    column("Message", |o, _| or(text(o, &["message"]), text(o, &["note"])).trim().into()),
    Builtin { name: "Name", format: "name", priority: 1, cell: |o, _| o.name().into() },
];
const LEASE: &[Builtin] = &[NAME, column("Holder", |o, _| text(o, &["spec", "holderIdentity"]).into()), AGE];
const SIGNING_REQUEST: &[Builtin] = &[
    NAME,
    AGE,
    column("SignerName", |o, _| text(o, &["spec", "signerName"]).into()),
    column("Requestor", |o, _| text(o, &["spec", "username"]).into()),
    column("RequestedDuration", |o, _| {
        o.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).map_or("<none>".to_owned(), human).into()
    }),
    column("Condition", |o, _| decision(o).into()),
];
const BINDING: &[Builtin] = &[
    NAME,
    column("Role", |o, _| {
        format!("{}/{}", text(o, &["roleRef", "kind"]), text(o, &["roleRef", "name"])).into()
    }),
    AGE,
    wide("Users", |o, _| subjects(o, "User").into()),
    wide("Groups", |o, _| subjects(o, "Group").into()),
    wide("ServiceAccounts", |o, _| subjects(o, "ServiceAccount").into()),
];
const CONTROLLER_REVISION: &[Builtin] = &[
    NAME,
    column("Controller", |o, _| controller(o).into()),
    column("Revision", |o, _| o.at(&["revision"]).cloned().unwrap_or(Value::Null)),
    AGE,
];
const DEFINITION: &[Builtin] = &[NAME, CREATED];

/// The columns of a kind; name and age where it has none of its own.
pub(super) fn columns(group: &str, kind: &str) -> &'static [Builtin] {
    match (group, kind) {
        ("", "Namespace") => NAMESPACE,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "Secret") => SECRET,
        ("", "ServiceAccount") => SERVICE_ACCOUNT,
        ("", "Pod") => POD,
        ("", "Service") => SERVICE,
        ("" | "events.k8s.io", "Event") => EVENT,
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "StatefulSet") => STATEFUL_SET,
        ("apps", "ReplicaSet") => REPLICA_SET,
        ("apps", "DaemonSet") => DAEMON_SET,
        ("apps", "ControllerRevision") => CONTROLLER_REVISION,
        ("batch", "Job") => JOB,
        ("coordination.k8s.io", "Lease") => LEASE,
        ("certificates.k8s.io", "CertificateSigningRequest") => SIGNING_REQUEST,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => BINDING,
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") | ("apiextensions.k8s.io", _) => DEFINITION,
        _ => PLAIN,
    }
}

fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or_default()
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn count(object: &Object, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}

fn entries(object: &Object, field: &str) -> usize {
    object.at(&[field]).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

fn ratio(object: &Object, ready: &str) -> Value {
    format!("{}/{}", count(object, &["status", ready]), count(object, &["spec", "replicas"])).into()
}

fn ports(service: &Object) -> String {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let port = |p: &Value| {
        format!(
            "{}/{}",
            p.get("port").unwrap_or(&Value::Null),
            p.get("protocol").and_then(Value::as_str).unwrap_or("TCP")
        )
    };
    let ports: Vec<String> = ports.into_iter().flatten().map(port).collect();
    or(&ports.join(","), "<none>").to_owned()
}

fn decision(request: &Object) -> String {
    let conditions = request.at(&["status", "conditions"]).and_then(Value::as_array);
    let types: Vec<&str> =
        conditions.into_iter().flatten().filter_map(|c| c.get("type").and_then(Value::as_str)).collect();
    let mut words = Vec::new();
    words.push(["Denied", "Approved"].into_iter().find(|t| types.contains(t)).unwrap_or("Pending"));
    words.extend(types.contains(&"Failed").then_some("Failed"));
    words.extend((!text(request, &["status", "certificate"]).is_empty()).then_some("Issued"));
    words.join(",")
}

fn subjects(binding: &Object, kind: &str) -> String {
    let subjects = binding.at(&["subjects"]).and_then(Value::as_array);
    let of_kind =
        subjects.into_iter().flatten().filter(|s| s.get("kind").and_then(Value::as_str) == Some(kind));
    let field = |s: &Value, field: &str| s.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = of_kind.map(|s| {
        if kind == "ServiceAccount" {
            format!("{}/{}", field(s, "namespace"), field(s, "name"))
        } else {
            field(s, "name")
        }
    });
    names.collect::<Vec<_>>().join(", ")
}

fn controller(object: &Object) -> String {
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let owner =
        owners.into_iter().flatten().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
    let field =
        |owner: &Value, field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    owner.map_or("<none>".to_owned(), |owner| {
        format!("{}/{}", field(owner, "kind").to_lowercase(), field(owner, "name"))
    })
}

/// How long ago a time was, as people say it.
pub(super) fn age(at: &str, now: Timestamp) -> Value {
    match at.parse::<Timestamp>() {
        _ if at.is_empty() => "<unknown>".into(),
        Ok(at) => human(now.duration_since(at).as_secs()).into(),
        Err(_) => "<invalid>".into(),
    }
}

/// `HumanDuration` of apimachinery: two units at most, the second only while it matters.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |first: i64, unit: &str, second: i64, smaller: &str| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{smaller}") }
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(hours / 24, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{}d", hours / 24),
        63_072_000..252_288_000 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (660, "11m"),
            (3 * 3600 + 60, "3h1m"),
            (30 * 3600, "30h"),
            (50 * 3600, "2d2h"),
            (20 * 86_400, "20d"),
            (3 * 365 * 86_400 + 86_400, "3y1d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human(seconds), want, "{seconds}");
        }
    }
}
