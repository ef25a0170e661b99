//! Hosted mode: a part of an add-on runs on another cluster of the hub than its own.
//!
//! An annotation of the add-on names that cluster, and each manifest says where it goes. Without the
//! annotation every manifest goes to the cluster of the add-on, whatever it says, as in OCM.

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

/// How long the deletion of an add-on waits for an agent to remove works. An agent may be away for ever.
const WORKS_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The finalizers of an add-on, which the hub removes when what they stand for is done.
pub const FINALIZERS: [&str; 3] = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER, HOSTING_CLEANUP_FINALIZER];

/// The part of an add-on that a work deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The part that runs on the cluster of the add-on.
    Managed,
    /// The part that runs on the cluster that hosts the add-on.
    Hosting,
}

impl Place {
    /// Returns the beginning of the names of the works that deploy an add-on; their index follows.
    pub(super) fn deploy_prefix(self, addon: &Key) -> String {
        let Key { namespace, name } = addon;
        match self {
            Self::Managed => format!("addon-{name}-deploy-"),
            Self::Hosting => format!("addon-{name}-deploy-hosting-{namespace}-"),
        }
    }

    /// Returns the name of the work with the jobs of an add-on that run before its deletion.
    pub(super) fn hook_name(self, addon: &Key) -> String {
        let Key { namespace, name } = addon;
        match self {
            Self::Managed => format!("addon-{name}-pre-delete"),
            Self::Hosting => format!("addon-{name}-pre-delete-hosting-{namespace}"),
        }
    }

    /// Returns the finalizer that holds an add-on until these jobs are complete.
    pub fn hook_finalizer(self) -> &'static str {
        match self {
            Self::Managed => ADDON_PRE_DELETE,
            Self::Hosting => HOSTING_PRE_DELETE_FINALIZER,
        }
    }
}

/// A cluster that an add-on deploys to.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The add-on.
    pub(super) addon: &'a ManagedClusterAddOn,
    /// The configurations that its manifests are rendered from.
    pub(super) configs: &'a [Config],
    /// The part of the add-on that goes to the cluster.
    pub(super) place: Place,
    /// The name of the cluster.
    pub(super) cluster: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the cluster of an add-on as its target.
    pub(super) fn managed(addon: &'a ManagedClusterAddOn, configs: &'a [Config]) -> Self {
        Self { addon, configs, place: Place::Managed, cluster: addon.namespace() }
    }

    /// Returns the metadata of a work of the add-on on the cluster. An owner reference cannot lead to another
    /// namespace, so there a label names that of the add-on.
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

/// The cluster that hosts a part of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub enum Host {
    /// The add-on runs on its own cluster alone.
    None,
    /// The hub can deploy to this cluster.
    Valid(Arc<ManagedCluster>),
    /// The hub cannot deploy to the cluster; the text says why. Works stay as they are meanwhile, so nothing
    /// is deleted because a cluster is missing.
    Invalid(String),
}

impl Host {
    /// Judges the cluster that an add-on names; `cluster` is `None` if the hub does not have it.
    pub fn judge(name: &str, cluster: Option<Arc<ManagedCluster>>) -> Self {
        let invalid = |why: &str| Self::Invalid(format!("hosting cluster {name} {why}"));
        match cluster {
            None => invalid("is not a managed cluster of the hub"),
            Some(cluster) if cluster.is_terminating() => invalid("is being deleted"),
            Some(cluster) if !cluster.spec.hub_accepts_client => invalid("is not accepted by the hub"),
            Some(cluster) => Self::Valid(cluster),
        }
    }

    /// Returns the name of the cluster that the hub can deploy to.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Valid(cluster) => Some(cluster.name()),
            Self::None | Self::Invalid(_) => None,
        }
    }

    /// Reports the cluster in OCM's words where it has some, beside what its works report.
    pub fn report(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let observation = match self {
            Self::None => {
                let of_host = [HOSTING_CLUSTER_VALIDITY, HOSTING_MANIFEST_APPLIED];
                conditions.retain(|condition| !of_host.contains(&condition.type_.as_str()));
                return;
            }
            Self::Valid(cluster) => Observation::new(HOSTING_CLUSTER_VALIDITY, True, "HostingClusterValid")
                .message(format!("hosting cluster {} is a managed cluster of the hub", cluster.name())),
            Self::Invalid(why) => {
                Observation::new(HOSTING_CLUSTER_VALIDITY, False, "HostingClusterInvalid").message(why)
            }
        };
        set_condition(conditions, observation, now);
    }
}

/// Returns the name of the cluster that hosts an add-on; `None` if it runs on its own cluster alone. An empty
/// name counts, as in OCM, and is that of no cluster.
pub fn hosting_cluster(addon: &ManagedClusterAddOn) -> Option<&str> {
    addon.annotation(HOSTING_CLUSTER_ANNOTATION)
}

/// Returns the add-on that a work belongs to by its labels; `None` for a work of no add-on.
pub fn addon_of(work: &ManifestWork) -> Option<Key> {
    let namespace = work.label(ADDON_NAMESPACE_LABEL).unwrap_or(work.namespace());
    Some(Key::namespaced(namespace, work.label(ADDON_NAME_LABEL)?))
}

/// The end of works of an add-on that is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct WorksEnd<'a> {
    /// The works to delete.
    pub delete: Vec<&'a ManifestWork>,
    /// Until when the deletion waits for an agent to remove works; `None` when it does not wait any more.
    pub until: Option<Timestamp>,
}

/// Returns the end of works of an add-on that is deleted. `has_agent` says whether an agent can still remove
/// them.
pub fn end_works(works: &[Arc<ManifestWork>], has_agent: bool, now: Timestamp) -> WorksEnd<'_> {
    let deleted =
        |work: &Arc<ManifestWork>| work.metadata.deletion_timestamp.as_ref().map_or(now, |deleted| deleted.0);
    let last = works.iter().map(deleted).max().filter(|_| has_agent);
    let until = last.map(|last| later(last, WORKS_TIMEOUT)).filter(|until| *until > now);
    let living = works.iter().map(Arc::as_ref).filter(|work| !work.is_terminating());
    WorksEnd { delete: living.collect(), until }
}

/// The manifests of an add-on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Divided {
    /// Those for the cluster of the add-on.
    pub(super) managed: Vec<Object>,
    /// Those for the cluster that hosts it.
    pub(super) hosting: Vec<Object>,
}

/// Divides the manifests of an add-on by the cluster that they are for.
///
/// # Errors
/// A manifest of a hosted add-on names an unknown location. For other add-ons OCM does not read the locations
/// of a template.
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

/// Returns the location that a manifest names; the annotation goes before the label.
fn location(manifest: &Object) -> &str {
    let named = [manifest.annotations(), manifest.labels()].into_iter();
    let mut named = named.filter_map(|map| map.get(HOSTED_MANIFEST_LOCATION).copied());
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
    fn manifests_of_a_hosted_addon_go_where_they_say() {
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
