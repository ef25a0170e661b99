//! What the server fills in for built-in kinds, where the generated schemas do not say.

use serde_json::{Map, Value, json};

use crate::Resource;
use object::Object;

/// Definition below `io.k8s.api.`, field, default: what is filled in whatever else the object says.
const FIXED: &[(&str, &str, &str)] = &[
    ("core.v1.PodSpec", "restartPolicy", r#""Always""#),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", "30"),
    ("core.v1.PodSpec", "dnsPolicy", r#""ClusterFirst""#),
    ("core.v1.PodSpec", "securityContext", "{}"),
    ("core.v1.PodSpec", "schedulerName", r#""default-scheduler""#),
    ("core.v1.Container", "resources", "{}"),
    ("core.v1.Container", "terminationMessagePath", r#""/dev/termination-log""#),
    ("core.v1.Container", "terminationMessagePolicy", r#""File""#),
    ("core.v1.ContainerPort", "protocol", r#""TCP""#),
    ("core.v1.Probe", "timeoutSeconds", "1"),
    ("core.v1.Probe", "periodSeconds", "10"),
    ("core.v1.Probe", "successThreshold", "1"),
    ("core.v1.Probe", "failureThreshold", "3"),
    ("core.v1.HTTPGetAction", "path", r#""/""#),
    ("core.v1.HTTPGetAction", "scheme", r#""HTTP""#),
    ("core.v1.ObjectFieldSelector", "apiVersion", r#""v1""#),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", "420"),
    ("core.v1.SecretVolumeSource", "defaultMode", "420"),
    ("core.v1.ProjectedVolumeSource", "defaultMode", "420"),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", "420"),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("core.v1.HostPathVolumeSource", "type", r#""""#),
    ("core.v1.ServiceSpec", "type", r#""ClusterIP""#),
    ("core.v1.ServiceSpec", "sessionAffinity", r#""None""#),
    ("core.v1.ServicePort", "protocol", r#""TCP""#),
    ("core.v1.EndpointPort", "protocol", r#""TCP""#),
    ("core.v1.Secret", "type", r#""Opaque""#),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", r#""Filesystem""#),
    ("core.v1.PersistentVolumeSpec", "volumeMode", r#""Filesystem""#),
    ("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", r#""Retain""#),
    ("core.v1.ReplicationControllerSpec", "replicas", "1"),
    ("apps.v1.DeploymentSpec", "replicas", "1"),
    ("apps.v1.DeploymentSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DeploymentSpec", "progressDeadlineSeconds", "600"),
    ("apps.v1.DeploymentSpec", "strategy", "{}"),
    ("apps.v1.DeploymentStrategy", "type", r#""RollingUpdate""#),
    ("apps.v1.RollingUpdateDeployment", "maxUnavailable", r#""25%""#),
    ("apps.v1.RollingUpdateDeployment", "maxSurge", r#""25%""#),
    ("apps.v1.ReplicaSetSpec", "replicas", "1"),
    ("apps.v1.StatefulSetSpec", "replicas", "1"),
    ("apps.v1.StatefulSetSpec", "podManagementPolicy", r#""OrderedReady""#),
    ("apps.v1.StatefulSetSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.StatefulSetSpec", "updateStrategy", "{}"),
    ("apps.v1.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
    ("apps.v1.StatefulSetUpdateStrategy", "type", r#""RollingUpdate""#),
    ("apps.v1.RollingUpdateStatefulSetStrategy", "partition", "0"),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", r#""Retain""#),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", r#""Retain""#),
    ("apps.v1.DaemonSetSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DaemonSetSpec", "updateStrategy", "{}"),
    ("apps.v1.DaemonSetUpdateStrategy", "type", r#""RollingUpdate""#),
    ("apps.v1.RollingUpdateDaemonSet", "maxUnavailable", "1"),
    ("apps.v1.RollingUpdateDaemonSet", "maxSurge", "0"),
    ("batch.v1.CronJobSpec", "concurrencyPolicy", r#""Allow""#),
    ("batch.v1.CronJobSpec", "suspend", "false"),
    ("batch.v1.CronJobSpec", "successfulJobsHistoryLimit", "3"),
    ("batch.v1.CronJobSpec", "failedJobsHistoryLimit", "1"),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("discovery.v1.EndpointPort", "name", r#""""#),
    ("discovery.v1.EndpointPort", "protocol", r#""TCP""#),
    ("discovery.v1.Endpoint", "conditions", "{}"),
    ("networking.v1.NetworkPolicyPort", "protocol", r#""TCP""#),
    ("admissionregistration.v1.ServiceReference", "port", "443"),
    ("admissionregistration.v1.RuleWithOperations", "scope", r#""*""#),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy", r#""Fail""#),
    ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", r#""Equivalent""#),
    ("admissionregistration.v1.ValidatingWebhook", "namespaceSelector", "{}"),
    ("admissionregistration.v1.ValidatingWebhook", "objectSelector", "{}"),
    ("admissionregistration.v1.ValidatingWebhook", "timeoutSeconds", "10"),
    ("admissionregistration.v1.MutatingWebhook", "failurePolicy", r#""Fail""#),
    ("admissionregistration.v1.MutatingWebhook", "matchPolicy", r#""Equivalent""#),
    ("admissionregistration.v1.MutatingWebhook", "namespaceSelector", "{}"),
    ("admissionregistration.v1.MutatingWebhook", "objectSelector", "{}"),
    ("admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", r#""Never""#),
    ("admissionregistration.v1.MutatingWebhook", "timeoutSeconds", "10"),
    ("rbac.v1.RoleRef", "apiGroup", r#""rbac.authorization.k8s.io""#),
    ("scheduling.v1.PriorityClass", "preemptionPolicy", r#""PreemptLowerPriority""#),
    ("storage.v1.StorageClass", "reclaimPolicy", r#""Delete""#),
    ("storage.v1.StorageClass", "volumeBindingMode", r#""Immediate""#),
];

/// Writes the fixed defaults into the definitions, where filling in finds them.
pub(super) fn write(definitions: &mut Map<String, Value>) {
    for (definition, field, default) in FIXED {
        let slot = definitions
            .get_mut(&format!("io.k8s.api.{definition}"))
            .and_then(|d| d.pointer_mut(&format!("/properties/{field}")));
        if let (Some(slot), Ok(default)) =
            (slot.and_then(Value::as_object_mut), serde_json::from_str(default))
        {
            slot.insert("default".into(), default);
        }
    }
}

/// Fills in what depends on other fields.
pub(crate) fn fill(resource: &Resource, object: &mut Object) {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Secret") => fold_string_data(object),
        ("", "Service") => service(object),
        ("", "Pod") => pod(object.0.get_mut("spec")),
        ("", "ReplicationController") => {
            pod(object.0.get_mut("spec").and_then(|spec| spec.pointer_mut("/template/spec")));
        }
        ("apps", "Deployment") => rolling(object, "strategy"),
        ("apps", "StatefulSet" | "DaemonSet") => rolling(object, "updateStrategy"),
        ("batch", "Job") => job(object.0.get_mut("spec")),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => subjects(object),
        _ => {}
    }
    if matches!(resource.group.as_str(), "apps" | "batch") {
        pod(object.0.get_mut("spec").and_then(|spec| spec.pointer_mut("/template/spec")));
        pod(object.0.get_mut("spec").and_then(|spec| spec.pointer_mut("/jobTemplate/spec/template/spec")));
    }
}

fn fold_string_data(object: &mut Object) {
    use base64::Engine;
    let Some(Value::Object(texts)) = object.0.remove("stringData") else { return };
    for (key, text) in texts {
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.as_str().unwrap_or_default());
        object.field_mut("data").insert(key, encoded.into());
    }
}

fn service(object: &mut Object) {
    let spec = object.field_mut("spec");
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        spec.entry("internalTrafficPolicy").or_insert_with(|| "Cluster".into());
    }
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        if let Some(number) = port.get("port").cloned() {
            port.entry("targetPort").or_insert(number);
        }
    }
}

/// Images without a tag, or with `latest`, are pulled always.
fn pod(spec: Option<&mut Value>) {
    let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
            container
                .entry("imagePullPolicy")
                .or_insert_with(|| if latest { "Always" } else { "IfNotPresent" }.into());
        }
    }
}

/// The parameters of a rolling update; their own defaults come with the next look at the schema.
fn rolling(object: &mut Object, field: &str) {
    let defaults = match (object.kind(), field) {
        ("Deployment", _) => json!({ "maxUnavailable": "25%", "maxSurge": "25%" }),
        ("StatefulSet", _) => json!({ "partition": 0 }),
        _ => json!({ "maxUnavailable": 1, "maxSurge": 0 }),
    };
    let Some(strategy) = object.field_mut("spec").get_mut(field).and_then(Value::as_object_mut) else {
        return;
    };
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        strategy.entry("rollingUpdate").or_insert(defaults);
    }
}

fn job(spec: Option<&mut Value>) {
    let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.insert("completions".into(), 1.into());
    }
    let defaults = json!({ "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false, "manualSelector": false,
        "podReplacementPolicy": "TerminatingOrFailed" });
    for (field, default) in defaults.as_object().into_iter().flatten() {
        spec.entry(field).or_insert_with(|| default.clone());
    }
}

/// Gives a job the labels and the selector that tell its pods from those of others.
pub(crate) fn identify_job(object: &mut Object) {
    if object.at(&["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (object.uid().to_owned(), object.name().to_owned());
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    let mark = |metadata: Option<&mut Value>| {
        let all = metadata
            .and_then(Value::as_object_mut)
            .map(|metadata| metadata.entry("labels").or_insert_with(|| json!({})));
        if let Some(all) = all.and_then(Value::as_object_mut) {
            all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))));
        }
    };
    mark(object.0.get_mut("metadata"));
    let spec = object.field_mut("spec");
    spec.insert("selector".into(), json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": uid } }));
    let template = spec.get_mut("template").and_then(Value::as_object_mut);
    mark(template.map(|template| template.entry("metadata").or_insert_with(|| json!({}))));
}

/// Gives a service an address of its own, unless it says it wants none.
pub(crate) fn allocate(object: &mut Object, address: &str) {
    let spec = object.field_mut("spec");
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    let address = spec.entry("clusterIP").or_insert_with(|| address.into()).clone();
    spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
}

/// An update of a service that does not mention its address keeps it.
pub(crate) fn keep_allocation(old: &Object, new: &mut Object) {
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = old.at(&["spec", field]) {
            new.field_mut("spec").entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// The status of an object that was just created.
pub(crate) fn first_status(resource: &Resource) -> Option<Value> {
    Some(match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({ "loadBalancer": {} }),
        ("", "PersistentVolume" | "PersistentVolumeClaim" | "Pod") => json!({ "phase": "Pending" }),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({ "replicas": 0 }),
        ("apps", "Deployment") | ("batch", "Job" | "CronJob") => json!({}),
        ("apps", "StatefulSet") => json!({ "replicas": 0, "availableReplicas": 0 }),
        ("apps", "DaemonSet") => {
            json!({ "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0 })
        }
        ("policy", "PodDisruptionBudget") => {
            json!({ "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 })
        }
        _ => return None,
    })
}

fn network_policy(object: &mut Object) {
    let spec = object.field_mut("spec");
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types: &[&str] = if egress { &["Ingress", "Egress"] } else { &["Ingress"] };
    spec.entry("policyTypes").or_insert_with(|| json!(types));
}

fn subjects(object: &mut Object) {
    let subjects = object.0.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            subject.entry("apiGroup").or_insert_with(|| "rbac.authorization.k8s.io".into());
        }
    }
}
