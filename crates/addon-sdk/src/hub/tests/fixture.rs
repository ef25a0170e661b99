//! An add-on for tests, and a hub for it.

use std::sync::Arc;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use serde_json::{Value, json};

use crate::config::config_gvk;
use crate::{AddOn, AddOnOptions, Installation, Signer, render};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, Subject};
use api::cluster::v1::ManagedCluster;
use api::names::ADDON_GROUP;
use api::work::v1::ManifestWork;
use engine::addon::spec_hash::spec_hash;
use jiff::Timestamp;
use object::{Key, Kind, Object, ObjectRef};
use reconcile::{Action, Caches, Lookup, LookupAnswer, Plan, Site};

pub(crate) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// An add-on that its variables control: TEXT is the content, FAIL an error, JOB a pre-delete job, and HOSTED the
/// location of the job and of a second ConfigMap.
pub(crate) struct Demo;

const FILE: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: demo, namespace: default}
data: {text: '{{TEXT}} on {{CLUSTER_NAME}}'}
";

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: clean
  namespace: default
  annotations:
    addon.open-cluster-management.io/addon-pre-delete: ''
    addon.open-cluster-management.io/hosted-manifest-location: '{{HOSTED}}'
";

const HOSTED: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: elsewhere
  namespace: default
  annotations: {addon.open-cluster-management.io/hosted-manifest-location: '{{HOSTED}}'}
";

impl AddOn for Demo {
    const NAME: &'static str = "a";

    fn manifests(installation: &Installation<'_>) -> Result<Vec<Object>, String> {
        let values = installation.values();
        if let Some(reason) = values.get("FAIL") {
            return Err((*reason).to_owned());
        }
        let (job, hosted) = (values.get("JOB").map(|_| JOB), values.get("HOSTED").map(|_| HOSTED));
        let files: Vec<&str> = [Some(FILE), job, hosted].into_iter().flatten().collect();
        render(&files, installation)
    }

    fn options() -> AddOnOptions {
        let rule = PolicyRule { verbs: vec!["get".into()], ..PolicyRule::default() };
        let subject = |cluster: &str| Subject {
            user: format!("agent-of-{cluster}"),
            groups: vec!["agents".into()],
            ..Subject::default()
        };
        let signer = Signer {
            name: "example.com/agents",
            subject: Some(subject),
            sign: Some(|_, _| Ok(b"certificate".to_vec())),
        };
        AddOnOptions {
            hub_permissions: Some(vec![rule]),
            signers: vec![signer],
            hosted: true,
            ..AddOnOptions::default()
        }
    }
}

/// The state of the hub.
pub(crate) struct World {
    pub(crate) addon: Value,
    /// The cluster; null if it no longer exists.
    pub(crate) cluster: Value,
    /// The hosting cluster; null if it does not exist.
    pub(crate) host: Value,
    /// The ClusterManagementAddOn; null if it does not exist.
    pub(crate) definition: Value,
    /// The variables of the configuration; null if it does not exist.
    pub(crate) variables: Value,
    pub(crate) works: Vec<ManifestWork>,
    pub(crate) roles: Vec<Value>,
    pub(crate) bindings: Vec<Value>,
    /// True if the API server says that the add-on and its cluster exist, regardless of the lists.
    pub(crate) exists: bool,
    pub(crate) requests: Vec<Value>,
}

/// Returns the configuration with these variables.
pub(crate) fn config(variables: &Value) -> Object {
    let spec = json!({"agentInstallNamespace": "", "customizedVariables": variables});
    Object::from_value(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "config", "namespace": "ns"}, "spec": spec,
    }))
    .unwrap()
}

/// Returns a reference to the configuration, as in the status.
pub(crate) fn reference(hash: &str) -> Value {
    let desired = json!({"namespace": "ns", "name": "config", "specHash": hash});
    json!({"group": ADDON_GROUP, "resource": "addondeploymentconfigs", "namespace": "ns", "name": "config",
        "lastObservedGeneration": 1, "desiredConfig": desired})
}

pub(crate) fn variables(values: &[(&str, &str)]) -> Value {
    values.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

impl World {
    /// Returns the add-on on an accepted cluster, with the hub's current configuration assigned.
    pub(crate) fn new(values: &[(&str, &str)]) -> Self {
        let variables = variables(values);
        let references = json!([reference(&spec_hash(&config(&variables)))]);
        let addon = json!({
            "metadata": {"name": "a", "namespace": "c1", "uid": "u"}, "spec": {},
            "status": {"configReferences": references},
        });
        Self {
            addon,
            cluster: json!({"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": true}}),
            host: json!({"metadata": {"name": "h"}, "spec": {"hubAcceptsClient": true}}),
            definition: json!({"metadata": {"name": "a"}, "spec": {}}),
            variables,
            works: Vec::new(),
            roles: Vec::new(),
            bindings: Vec::new(),
            exists: false,
            requests: Vec::new(),
        }
    }

    pub(crate) fn caches(&self) -> Caches {
        fn one<K: Kind>(caches: &mut Caches, objects: &[Value]) {
            let typed = |value: &Value| Object::from_value(value.clone()).unwrap().to_typed::<K>().unwrap();
            let present = objects.iter().filter(|value| !value.is_null());
            caches.replace(Site::Hub, present.map(typed).collect(), "1");
        }
        let mut caches = Caches::default();
        one::<ManagedClusterAddOn>(&mut caches, std::slice::from_ref(&self.addon));
        one::<ManagedCluster>(&mut caches, &[self.cluster.clone(), self.host.clone()]);
        one::<ClusterManagementAddOn>(&mut caches, std::slice::from_ref(&self.definition));
        one::<CertificateSigningRequest>(&mut caches, &self.requests);
        one::<Role>(&mut caches, &self.roles);
        one::<RoleBinding>(&mut caches, &self.bindings);
        caches.replace(Site::Hub, self.works.clone(), "1");
        let configs = if self.variables.is_null() { Vec::new() } else { vec![config(&self.variables)] };
        caches.replace_observed(&config_gvk(), configs, "1");
        let found = self.exists.then(|| Arc::new(Object::from_typed(&ManagedClusterAddOn::default())));
        let addon = ObjectRef::of::<ManagedClusterAddOn>(Key::namespaced("c1", "a"));
        let cluster = ObjectRef::of::<ManagedCluster>(Key::cluster("c1"));
        for object in [addon, cluster] {
            caches.set_answer(Lookup::Object(object), Ok(LookupAnswer::Object(found.clone())));
        }
        caches
    }
}

/// Describes the writes of a plan in words.
pub(crate) fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| {
        let verb = match action {
            Action::Apply { .. } => "apply",
            Action::Create { .. } => "create",
            Action::Patch { .. } => "patch",
            Action::Replace { .. } => "replace",
            Action::Delete { .. } => "delete",
            Action::Push(_) => "push",
            Action::SetCommitStatus(_) => "set commit status",
            Action::Notify(_) => "notify",
        };
        format!("{verb} {}", action.gvk().unwrap().kind)
    };
    plan.steps.iter().flatten().map(word).collect()
}

/// Returns a field of the status that a plan writes.
pub(crate) fn status(plan: &Plan, field: &str) -> Value {
    plan.status.as_ref().map_or(Value::Null, |write| write.patch["status"][field].clone())
}

/// Returns the message of a condition that a plan writes.
pub(crate) fn message(plan: &Plan, type_: &str) -> Option<String> {
    let conditions = status(plan, "conditions");
    let condition = conditions.as_array()?.iter().find(|one| one["type"] == type_)?.clone();
    Some(format!("{}: {}", condition["status"].as_str()?, condition["message"].as_str()?))
}
