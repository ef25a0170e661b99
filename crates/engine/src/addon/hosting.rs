//! Hosted mode: a part of an add-on runs on a different cluster of the hub.
//!
//! An annotation of the add-on names the hosting cluster, and each manifest specifies its location. Without the
//! annotation, every manifest goes to the add-on's cluster regardless of its location, as in OCM.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::config::Config;
use super::error::AddOnError;
use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::names::addon_conditions::{HOSTING_CLUSTER_VALIDITY, HOSTING_MANIFEST_APPLIED};
use api::names::{
    ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, ADDON_PRE_DELETE, HOSTED_MANIFEST_LOCATION,
    HOSTING_CLEANUP_FINALIZER, HOSTING_CLUSTER_ANNOTATION, HOSTING_PRE_DELETE_FINALIZER,
};
use api::work::v1::ManifestWork;
use object::duration::later;
use object::{Key, Metadata as _, Object};

/// The time that the deletion of an add-on waits for an agent to remove works. An agent may never return.
const WORKS_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The finalizers of an add-on, which the hub removes after the corresponding cleanup.
pub const FINALIZERS: [&str; 3] = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER, HOSTING_CLEANUP_FINALIZER];

/// The part of an add-on that a work deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The part on the cluster of the add-on.
    Managed,
    /// The part on the hosting cluster.
    Hosting,
}

impl Place {
    /// Both parts.
    pub const ALL: [Self; 2] = [Self::Managed, Self::Hosting];

    /// Returns the name prefix of the works that deploy an add-on. Their index follows.
    pub(super) fn deploy_prefix(self, addon: &Key) -> String {
        let Key { namespace, name } = addon;
        match self {
            Self::Managed => format!("addon-{name}-deploy-"),
            Self::Hosting => format!("addon-{name}-deploy-hosting-{namespace}-"),
        }
    }

    /// Returns the name of the work with the pre-delete jobs of an add-on.
    pub(super) fn hook_name(self, addon: &Key) -> String {
        let Key { namespace, name } = addon;
        match self {
            Self::Managed => format!("addon-{name}-pre-delete"),
            Self::Hosting => format!("addon-{name}-pre-delete-hosting-{namespace}"),
        }
    }

    /// Returns the finalizer that blocks the deletion of an add-on until these jobs are complete.
    pub fn hook_finalizer(self) -> &'static str {
        match self {
            Self::Managed => ADDON_PRE_DELETE,
            Self::Hosting => HOSTING_PRE_DELETE_FINALIZER,
        }
    }
}

/// A cluster to which an add-on deploys works.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The add-on.
    pub(super) addon: &'a ManagedClusterAddOn,
    /// The configurations from which its manifests are rendered.
    pub(super) configs: &'a [Config],
    /// The part of the add-on on the cluster.
    pub(super) place: Place,
    /// The name of the cluster.
    pub(super) cluster: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the add-on's cluster as a target.
    pub(super) fn managed(addon: &'a ManagedClusterAddOn, configs: &'a [Config]) -> Self {
        Self { addon, configs, place: Place::Managed, cluster: addon.namespace() }
    }

    /// Returns the metadata for a work on the cluster. An owner reference cannot cross namespaces, so works in
    /// other namespaces have a label with the namespace of the add-on.
    pub(super) fn metadata(&self, name: String) -> ObjectMeta {
        let Self { addon, configs: _, place: _, cluster } = self;
        let is_elsewhere = *cluster != addon.namespace();
        let of = [(ADDON_NAME_LABEL, addon.name()), (ADDON_NAMESPACE_LABEL, addon.namespace())];
        let labels = of.iter().take(if is_elsewhere { 2 } else { 1 });
        ObjectMeta {
            namespace: Some((*cluster).to_owned()),
            name: Some(name),
            labels: Some(labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            owner_references: (!is_elsewhere).then(|| vec![addon.controller_reference()]),
            ..ObjectMeta::default()
        }
    }
}

/// The hosting cluster of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub enum Host {
    /// The add-on runs only on its own cluster.
    None,
    /// The hub can deploy to this cluster.
    Valid(Arc<ManagedCluster>),
    /// The hub cannot deploy to the cluster, for the given reason. Existing works stay, so that nothing is
    /// deleted because a cluster is missing.
    Invalid(String),
}

impl Host {
    /// Validates the cluster that an add-on names; `cluster` is `None` if it does not exist on the hub.
    pub fn judge(name: &str, cluster: Option<Arc<ManagedCluster>>) -> Self {
        let invalid = |reason: &str| Self::Invalid(format!("hosting cluster {name} {reason}"));
        match cluster {
            None => invalid("is not a managed cluster of the hub"),
            Some(cluster) if cluster.is_terminating() => invalid("is being deleted"),
            Some(cluster) if !cluster.spec.hub_accepts_client => invalid("is not accepted by the hub"),
            Some(cluster) => Self::Valid(cluster),
        }
    }

    /// Returns the name of the cluster if the hub can deploy to it.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Valid(cluster) => Some(cluster.name()),
            Self::None | Self::Invalid(_) => None,
        }
    }

    /// Reports the hosting cluster in addition to the reports of its works, with OCM's messages if they exist.
    pub fn report(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let observation = match self {
            Self::None => {
                let of_host = [HOSTING_CLUSTER_VALIDITY, HOSTING_MANIFEST_APPLIED];
                conditions.retain(|condition| !of_host.contains(&condition.type_.as_str()));
                return;
            }
            Self::Valid(cluster) => Observation::new(HOSTING_CLUSTER_VALIDITY, True, "HostingClusterValid")
                .message(format!("hosting cluster {} is a managed cluster of the hub", cluster.name())),
            Self::Invalid(message) => {
                Observation::new(HOSTING_CLUSTER_VALIDITY, False, "HostingClusterInvalid").message(message)
            }
        };
        set_condition(conditions, observation, now);
    }
}

/// Returns the name of the cluster that hosts an add-on; `None` if the add-on runs only on its own cluster. As
/// in OCM, an empty name counts as hosted, but matches no cluster.
pub fn hosting_cluster(addon: &ManagedClusterAddOn) -> Option<&str> {
    addon.annotation(HOSTING_CLUSTER_ANNOTATION)
}

/// Returns the add-on that a work belongs to, by its labels.
pub fn addon_of(work: &ManifestWork) -> Option<Key> {
    let namespace = work.label(ADDON_NAMESPACE_LABEL).unwrap_or(work.namespace());
    Some(Key::namespaced(namespace, work.label(ADDON_NAME_LABEL)?))
}

/// The removal of works when their add-on is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct WorksEnd<'a> {
    /// The works to delete now.
    pub delete: Vec<&'a ManifestWork>,
    /// The time until which the deletion waits for an agent to remove works; `None` if it does not wait.
    pub until: Option<Timestamp>,
}

/// Returns the removal of the works of a deleted add-on. `has_agent` is true if an agent can still remove them.
pub fn end_works(works: &[Arc<ManifestWork>], has_agent: bool, now: Timestamp) -> WorksEnd<'_> {
    let deleted =
        |work: &Arc<ManifestWork>| work.metadata.deletion_timestamp.as_ref().map_or(now, |deleted| deleted.0);
    let last = works.iter().map(deleted).max().filter(|_| has_agent);
    let until = last.map(|last| later(last, WORKS_TIMEOUT)).filter(|until| *until > now);
    let living = works.iter().map(Arc::as_ref).filter(|work| !work.is_terminating());
    WorksEnd { delete: living.collect(), until }
}

/// The manifests of an add-on, by cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Divided {
    /// The manifests for the cluster of the add-on.
    pub(super) managed: Vec<Object>,
    /// The manifests for the hosting cluster.
    pub(super) hosting: Vec<Object>,
}

/// Divides the manifests of an add-on by target cluster.
///
/// # Errors
/// Fails if a manifest of a hosted add-on names an unknown location. For other add-ons, OCM ignores the
/// locations in a template.
pub(super) fn divide(manifests: Vec<Object>, is_hosted: bool) -> Result<Divided, AddOnError> {
    if !is_hosted {
        return Ok(Divided { managed: manifests, hosting: Vec::new() });
    }
    let mut divided = Divided::default();
    for manifest in manifests {
        match location(&manifest) {
            "" | "managed" => divided.managed.push(manifest),
            "hosting" => divided.hosting.push(manifest),
            "none" => {}
            other => return Err(AddOnError::Location(other.to_owned())),
        }
    }
    Ok(divided)
}

/// Returns the location that a manifest names. The annotation takes precedence over the label.
fn location(manifest: &Object) -> &str {
    let mut named = [manifest.annotations(), manifest.labels()]
        .into_iter()
        .filter_map(|map| map.get(HOSTED_MANIFEST_LOCATION).copied());
    named.find(|location| !location.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn manifest(name: &str, metadata: Value) -> Object {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object["metadata"]["name"] = name.into();
        Object::from_value(object).unwrap()
    }

    fn at(location: &str) -> Value {
        json!({HOSTED_MANIFEST_LOCATION: location})
    }

    fn manifests() -> Vec<Object> {
        vec![
            manifest("unset", json!({})),
            manifest("empty", json!({"annotations": at("")})),
            manifest("managed", json!({"annotations": at("managed")})),
            manifest("hosting", json!({"annotations": at("hosting")})),
            manifest("by-label", json!({"labels": at("hosting")})),
            manifest("both", json!({"labels": at("hosting"), "annotations": at("managed")})),
            manifest("none", json!({"annotations": at("none")})),
        ]
    }

    fn names(manifests: &[Object]) -> Vec<&str> {
        manifests.iter().map(Object::name).collect()
    }

    #[test]
    fn manifests_of_a_hosted_addon_are_applied_where_they_say() {
        let divided = divide(manifests(), true).unwrap();
        assert_eq!(names(&divided.managed), ["unset", "empty", "managed", "both"]);
        assert_eq!(names(&divided.hosting), ["hosting", "by-label"]);
        let unknown = vec![manifest("x", json!({"annotations": at("hub")}))];
        assert_eq!(divide(unknown, true).unwrap_err(), AddOnError::Location("hub".into()));
    }

    #[test]
    fn an_addon_that_is_not_hosted_has_every_manifest_on_its_cluster() {
        let divided = divide(manifests(), false).unwrap();
        assert_eq!((divided.managed.len(), divided.hosting.len()), (7, 0));
        assert!(divide(vec![manifest("x", json!({"annotations": at("hub")}))], false).is_ok());
    }

    #[test]
    fn works_of_a_host_have_the_names_and_labels_of_ocm_and_no_owner() {
        let addon: ManagedClusterAddOn = serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "c1", "uid": "u"}, "spec": {}}),
        )
        .unwrap();
        let work = |cluster: &str| {
            let target = Target { addon: &addon, configs: &[], place: Place::Hosting, cluster };
            let mut built =
                super::super::works::build(&target, manifests(), &[], &Default::default()).unwrap();
            serde_json::to_value(built.remove(0).metadata).unwrap()
        };
        let labels = json!({"open-cluster-management.io/addon-name": "a", "open-cluster-management.io/addon-namespace": "c1"});
        let name = "addon-a-deploy-hosting-c1-0";
        assert_eq!(work("host"), json!({"name": name, "namespace": "host", "labels": labels}));
        let own = work("c1");
        assert_eq!(own["labels"], json!({"open-cluster-management.io/addon-name": "a"}));
        assert_eq!(own["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn a_work_belongs_to_the_addon_that_its_labels_name() {
        use super::super::works::is_hosted;
        let work = |name: &str, labels: Value| -> ManifestWork {
            let metadata = json!({"name": name, "namespace": "host", "labels": labels});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"workload": {"manifests": []}}}))
                .unwrap()
        };
        let labels = || json!({ADDON_NAME_LABEL: "a", ADDON_NAMESPACE_LABEL: "c1"});
        let addon = Key::namespaced("c1", "a");
        for name in ["addon-a-deploy-hosting-c1-0", "addon-a-pre-delete-hosting-c1"] {
            assert!(is_hosted(&addon, &work(name, labels())), "{name}");
            assert!(!is_hosted(&addon, &work(name, json!({ADDON_NAME_LABEL: "a"}))), "{name}");
        }
        for name in
            ["addon-a-deploy-0", "addon-a-deploy-hosting-c1-1-0", "addon-a-deploy-hosting-c1-", "other"]
        {
            assert!(!is_hosted(&addon, &work(name, labels())), "{name}");
        }
        assert_eq!(addon_of(&work("x", json!({ADDON_NAME_LABEL: "a"}))), Some(Key::namespaced("host", "a")));
    }
}
