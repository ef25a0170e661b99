//! The table of built-in kinds: what discovery of a real API server says about them.

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
    batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination, core::v1 as core,
    discovery::v1 as discovery, events::v1 as events, networking::v1 as networking, node::v1 as node,
    policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;

use schemars::JsonSchema;

use super::schemas::{Collector, Definitions};
use crate::{Generation, NameRule, Resource, Scale, Version};
use object::builtin_lists::BUILTIN;

/// Words of the table: what a kind has or does.
const STATUS: u8 = 1;
const SCALE: u8 = 2;
const GENERATION: u8 = 4;
const LABEL_NAME: u8 = 8;
const LABEL_1035_NAME: u8 = 16;
const PATH_NAME: u8 = 32;
const UPSERT: u8 = 64;
const WORKLOAD: u8 = STATUS | GENERATION;

/// Calls a generic function with every built-in kind, [`events_of_their_own_group`] last.
macro_rules! with_kinds {
    ($call:ident) => {
        $call!(
            core::ConfigMap,
            core::Endpoints,
            core::Event,
            core::LimitRange,
            core::Namespace,
            core::Node,
            core::PersistentVolumeClaim,
            core::PersistentVolume,
            core::Pod,
            core::PodTemplate,
            core::ReplicationController,
            core::ResourceQuota,
            core::Secret,
            core::ServiceAccount,
            core::Service,
            admission::MutatingAdmissionPolicy,
            admission::MutatingAdmissionPolicyBinding,
            admission::MutatingWebhookConfiguration,
            admission::ValidatingAdmissionPolicy,
            admission::ValidatingAdmissionPolicyBinding,
            admission::ValidatingWebhookConfiguration,
            apiextensions::CustomResourceDefinition,
            apps::ControllerRevision,
            apps::DaemonSet,
            apps::Deployment,
            apps::ReplicaSet,
            apps::StatefulSet,
            autoscaling::HorizontalPodAutoscaler,
            batch::CronJob,
            batch::Job,
            certificates::CertificateSigningRequest,
            coordination::Lease,
            discovery::EndpointSlice,
            networking::IngressClass,
            networking::Ingress,
            networking::NetworkPolicy,
            node::RuntimeClass,
            policy::PodDisruptionBudget,
            rbac::ClusterRoleBinding,
            rbac::ClusterRole,
            rbac::RoleBinding,
            rbac::Role,
            scheduling::PriorityClass,
            storage::CSIDriver,
            storage::CSINode,
            storage::CSIStorageCapacity,
            storage::StorageClass,
            storage::VolumeAttachment,
            events::Event
        )
    };
}

/// The schemas of all built-in kinds.
pub(crate) static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    let mut collector = Collector::new();
    macro_rules! collect {
        ($($kind:ty),*) => { $( collector.add_kind::<$kind>(); )* };
    }
    with_kinds!(collect);
    collector.finish()
});

/// Every built-in kind but [`events_of_their_own_group`].
pub(super) fn kinds() -> Vec<Resource> {
    vec![
        kind::<core::ConfigMap>("cm", "", 0),
        kind::<core::Endpoints>("ep", "", 0),
        kind::<core::Event>("ev", "", UPSERT),
        kind::<core::LimitRange>("limits", "", UPSERT),
        kind::<core::Namespace>("ns", "", STATUS | LABEL_NAME),
        kind::<core::Node>("no", "", STATUS),
        kind::<core::PersistentVolumeClaim>("pvc", "", STATUS),
        kind::<core::PersistentVolume>("pv", "", STATUS),
        kind::<core::Pod>("po", "all", WORKLOAD),
        kind::<core::PodTemplate>("", "", 0),
        kind::<core::ReplicationController>("rc", "all", WORKLOAD | SCALE),
        kind::<core::ResourceQuota>("quota", "", STATUS),
        kind::<core::Secret>("", "", 0),
        kind::<core::ServiceAccount>("sa", "", 0),
        kind::<core::Service>("svc", "all", STATUS | LABEL_1035_NAME),
        kind::<admission::MutatingAdmissionPolicy>("", "api-extensions", GENERATION),
        kind::<admission::MutatingAdmissionPolicyBinding>("", "api-extensions", GENERATION),
        kind::<admission::MutatingWebhookConfiguration>("", "api-extensions", GENERATION),
        kind::<admission::ValidatingAdmissionPolicy>("", "api-extensions", WORKLOAD),
        kind::<admission::ValidatingAdmissionPolicyBinding>("", "api-extensions", GENERATION),
        kind::<admission::ValidatingWebhookConfiguration>("", "api-extensions", GENERATION),
        kind::<apiextensions::CustomResourceDefinition>("crd,crds", "api-extensions", WORKLOAD),
        kind::<apps::ControllerRevision>("", "", 0),
        kind::<apps::DaemonSet>("ds", "all", WORKLOAD),
        kind::<apps::Deployment>("deploy", "all", WORKLOAD | SCALE),
        kind::<apps::ReplicaSet>("rs", "all", WORKLOAD | SCALE),
        kind::<apps::StatefulSet>("sts", "all", WORKLOAD | SCALE),
        kind::<autoscaling::HorizontalPodAutoscaler>("hpa", "all", STATUS),
        kind::<batch::CronJob>("cj", "all", WORKLOAD),
        kind::<batch::Job>("", "all", WORKLOAD),
        kind::<certificates::CertificateSigningRequest>("csr", "", STATUS),
        kind::<coordination::Lease>("", "", UPSERT),
        kind::<discovery::EndpointSlice>("", "", GENERATION),
        kind::<networking::IngressClass>("", "", GENERATION),
        kind::<networking::Ingress>("ing", "", WORKLOAD),
        kind::<networking::NetworkPolicy>("netpol", "", GENERATION),
        kind::<node::RuntimeClass>("", "", 0),
        kind::<policy::PodDisruptionBudget>("pdb", "", WORKLOAD),
        kind::<rbac::ClusterRoleBinding>("", "", PATH_NAME | UPSERT),
        kind::<rbac::ClusterRole>("", "", PATH_NAME | UPSERT),
        kind::<rbac::RoleBinding>("", "", PATH_NAME | UPSERT),
        kind::<rbac::Role>("", "", PATH_NAME | UPSERT),
        kind::<scheduling::PriorityClass>("pc", "", GENERATION),
        kind::<storage::CSIDriver>("", "", 0),
        kind::<storage::CSINode>("", "", 0),
        kind::<storage::CSIStorageCapacity>("", "", 0),
        kind::<storage::StorageClass>("sc", "", 0),
        kind::<storage::VolumeAttachment>("", "", STATUS),
    ]
}

/// `events.k8s.io`, which shows the events of the core group under other field names.
pub(super) fn events_of_their_own_group() -> Resource {
    kind::<events::Event>("ev", "", UPSERT)
}

fn kind<K: k8s_openapi::Resource + JsonSchema>(short_names: &str, category: &str, words: u8) -> Resource {
    let has = |word: u8| words & word != 0;
    let split = |list: &str| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let version = Version {
        name: K::VERSION.into(),
        served: true,
        deprecation: None,
        schema: DEFINITIONS.schema(&K::schema_name()),
        openapi: Arc::new(DEFINITIONS.openapi.get(&*K::schema_name()).cloned().unwrap_or_default()),
        rules: None,
        status: has(STATUS),
        scale: has(SCALE).then(scale),
        columns: Vec::new(),
        selectable: selectable(K::KIND),
    };
    Resource {
        group: K::GROUP.into(),
        kind: K::KIND.into(),
        list_kind: format!("{}List", K::KIND),
        plural: K::URL_PATH_SEGMENT.into(),
        singular: K::KIND.to_lowercase(),
        short_names: split(short_names),
        categories: split(category),
        namespaced: BUILTIN.is_namespaced(K::API_VERSION, K::KIND).unwrap_or(false),
        versions: vec![version],
        storage: K::VERSION.into(),
        generation: if has(GENERATION) { Generation::Spec } else { Generation::Never },
        names: match (has(LABEL_NAME), has(LABEL_1035_NAME), has(PATH_NAME)) {
            (true, ..) => NameRule::Label,
            (_, true, _) => NameRule::Label1035,
            (.., true) => NameRule::PathSegment,
            (false, false, false) => NameRule::Subdomain,
        },
        custom: false,
        unconditional_update: !has(STATUS) || K::KIND != "CustomResourceDefinition",
        create_on_update: has(UPSERT),
    }
}

fn scale() -> Scale {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    Scale {
        spec_replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
    }
}

/// Fields that built-in kinds can be selected by, beside name and namespace.
fn selectable(kind: &str) -> Vec<String> {
    let fields: &[&str] = match kind {
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
        ],
        "Event" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "Secret" => &["type"],
        "Namespace" => &["status.phase"],
        "Node" => &["spec.unschedulable"],
        "ReplicaSet" | "ReplicationController" => &["status.replicas"],
        "Job" => &["status.successful"],
        "CertificateSigningRequest" => &["spec.signerName"],
        "Service" => &["spec.clusterIP", "spec.type"],
        _ => &[],
    };
    fields.iter().map(|field| (*field).to_owned()).collect()
}
