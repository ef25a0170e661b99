//! The registration of an add-on's agent: the registrations that the add-on's status requests from the spoke,
//! and the agent's permissions on the hub.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject as RbacSubject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::error::AddOnError;
use super::{config_refs, snapshot, template};
use crate::registration::rbac::RBAC;
use api::addon::token;
use api::addon::v1alpha1::{
    self, AddOnDeploymentConfigSpec, AddOnTemplateSpec, ConfigGroupResource, CurrentClusterBinding,
    CustomSignerRegistration, HealthCheck, HealthCheckMode, HubPermission, HubPermissionsBindingType,
    KubeClientDriver, KubeClientRegistration, ManagedClusterAddOn, RegistrationConfig, RegistrationSpec,
    RegistrationType, SingleNamespaceBinding, Subject,
};
use api::names::{
    ADDON_GROUP, ADDON_NAME_LABEL, ADDON_TEMPLATE_NAME_LABEL, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER,
    SUBJECT_PREFIX,
};
use object::{Key, Kind, Metadata as _};

/// The contents of an add-on's configurations on one cluster.
#[derive(Clone, Debug)]
pub struct Sources {
    pub template: AddOnTemplateSpec,
    /// The deployment configuration.
    pub config: Option<AddOnDeploymentConfigSpec>,
}

impl Sources {
    /// Parses both from their snapshots.
    ///
    /// # Errors
    /// Fails if the content of a snapshot has the wrong type.
    pub fn read(
        template: &ControllerRevision,
        config: Option<&ControllerRevision>,
    ) -> Result<Self, AddOnError> {
        Ok(Self { template: snapshot::spec(template)?, config: config.map(snapshot::spec).transpose()? })
    }
}

/// Returns the subject of an add-on's agent, unless its registration names another one.
pub fn default_subject(cluster: &str, addon: &str) -> Subject {
    let of_cluster = format!("{SUBJECT_PREFIX}cluster:{cluster}:addon:{addon}");
    let groups = vec![of_cluster.clone(), format!("{SUBJECT_PREFIX}addon:{addon}")];
    Subject { user: format!("{of_cluster}:agent:{addon}-agent"), groups, ..Subject::default() }
}

/// Fills in the fields that the spoke's agent waits for: the registrations, the namespace for credentials, and
/// the mode of health reports. Keeps the conditions, and the fields that the spoke writes: the driver, and the
/// subject that came with a token.
pub fn fill(addon: &mut ManagedClusterAddOn, sources: &Sources) {
    let cluster = addon.metadata.namespace.clone().unwrap_or_default();
    let name = addon.name().to_owned();
    let status = addon.status.get_or_insert_default();
    let supported = [config_refs::DEPLOYMENT_CONFIGS, config_refs::TEMPLATES];
    let supported = supported.map(|resource| ConfigGroupResource {
        group: ADDON_GROUP.into(),
        resource: resource.into(),
        ..Default::default()
    });
    status.supported_configs = supported.into();
    status.namespace = template::agent_namespace(&sources.template, sources.config.as_ref()).to_owned();
    status.health_check = Some(HealthCheck {
        mode: HealthCheckMode::Customized,
        ..status.health_check.clone().unwrap_or_default()
    });
    let uses_token = status.kube_client_driver == Some(KubeClientDriver::Token);
    let mut earlier = status
        .registrations
        .iter()
        .filter(|r| r.signer_name == KUBE_CLIENT_SIGNER)
        .cloned()
        .collect::<Vec<_>>()
        .into_iter();
    let registrations = sources.template.registration.iter().flatten().filter_map(
        |RegistrationSpec { r#type, custom_signer, kube_client: _, unknown: _ }| match r#type {
            RegistrationType::CustomSigner => {
                // The custom-signer controller reads the certificate authority.
                let CustomSignerRegistration { signer_name, subject, signing_ca: _, unknown: _ } =
                    custom_signer.as_ref()?;
                let subject = subject.clone().unwrap_or_else(|| default_subject(&cluster, &name));
                Some(RegistrationConfig {
                    signer_name: signer_name.clone(),
                    subject: Some(subject),
                    ..RegistrationConfig::default()
                })
            }
            RegistrationType::KubeClient | RegistrationType::Other(_) => {
                let before = earlier.next();
                let subject = if uses_token {
                    before.and_then(|r| r.subject)
                } else {
                    Some(default_subject(&cluster, &name))
                };
                Some(RegistrationConfig {
                    signer_name: KUBE_CLIENT_SIGNER.into(),
                    subject,
                    ..RegistrationConfig::default()
                })
            }
        },
    );
    status.registrations = registrations.collect();
}

/// Returns the permissions of an add-on's agent on the hub.
///
/// The subject is the agent of this one cluster, under the name that the hub assigns. It is not read from the
/// status of the add-on, because the cluster can write that status. Only the driver is read from the status, and
/// it selects one of the two names of this agent. OCM takes the subject from the status. OCM also binds the
/// group of the agents on all clusters, so each agent may act in the namespace of every other cluster. Its
/// binding names lack the role and the cluster, so two bindings can collide. See
/// docs/hazards.md#subject-of-the-spoke, docs/hazards.md#bindings-across-clusters and
/// docs/hazards.md#colliding-bindings.
///
/// # Errors
/// Fails if a permission lacks a field that its type requires.
pub fn role_bindings(
    addon: &ManagedClusterAddOn,
    template: &AddOnTemplateSpec,
) -> Result<Vec<RoleBinding>, AddOnError> {
    let permissions = template
        .registration
        .iter()
        .flatten()
        .filter_map(|r| r.kube_client.as_ref())
        .flat_map(|KubeClientRegistration { hub_permissions, unknown: _ }| hub_permissions);
    let binding = |permission: &HubPermission| {
        let (namespace, role_ref) = granted(permission)?;
        let mut binding = role_binding(addon, namespace, role_ref);
        let labels = binding.metadata.labels.get_or_insert_default();
        labels.insert(ADDON_TEMPLATE_NAME_LABEL.to_owned(), String::new());
        Ok(binding)
    };
    permissions.map(binding).collect()
}

/// Returns the binding that grants a role to an add-on's agent in a namespace, by default in the namespace of
/// its cluster. [`role_bindings`] explains the subject.
pub fn role_binding(
    addon: &ManagedClusterAddOn,
    namespace: Option<String>,
    role_ref: RoleRef,
) -> RoleBinding {
    let cluster = addon.namespace();
    let owned = namespace.is_none();
    let labels = [
        (ADDON_NAME_LABEL.to_owned(), addon.name().to_owned()),
        (CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned()),
    ];
    let kind = role_ref.kind.to_lowercase();
    let of_cluster = if owned { String::new() } else { format!(":{cluster}") };
    let name = format!("{}{kind}:{}:agent{of_cluster}", binding_prefix(addon.name()), role_ref.name);
    let metadata = ObjectMeta {
        namespace: Some(namespace.unwrap_or_else(|| cluster.to_owned())),
        name: Some(name),
        labels: Some(labels.into()),
        owner_references: owned.then(|| vec![addon.owner_reference()]),
        ..ObjectMeta::default()
    };
    RoleBinding { metadata, role_ref, subjects: Some(subjects(addon)) }
}

/// Returns the role of a permission and its namespace; `None` is the namespace of the cluster.
fn granted(permission: &HubPermission) -> Result<(Option<String>, RoleRef), AddOnError> {
    let HubPermission { r#type, current_cluster, single_namespace, unknown: _ } = permission;
    match r#type {
        HubPermissionsBindingType::SingleNamespace => {
            let SingleNamespaceBinding { namespace, role_ref, unknown: _ } =
                single_namespace.as_ref().ok_or(AddOnError::NoNamespace)?;
            let v1alpha1::RoleRef { api_group, kind, name, unknown: _ } = role_ref.clone();
            Ok((Some(namespace.clone()), RoleRef { api_group: Some(api_group), kind, name }))
        }
        HubPermissionsBindingType::CurrentCluster | HubPermissionsBindingType::Other(_) => {
            let CurrentClusterBinding { cluster_role_name, unknown: _ } =
                current_cluster.as_ref().ok_or(AddOnError::NoClusterRole)?;
            let (kind, name) = ("ClusterRole".into(), cluster_role_name.clone());
            Ok((None, RoleRef { api_group: Some(RBAC.into()), kind, name }))
        }
    }
}

/// Returns the subjects for an add-on's agent on one cluster: the names in its certificates, or its service
/// account.
pub fn subjects(addon: &ManagedClusterAddOn) -> Vec<RbacSubject> {
    let (cluster, name) = (addon.namespace(), addon.name());
    let driver = addon.status.as_ref().and_then(|status| status.kube_client_driver.as_ref());
    let subject = |kind: &str, name: String| RbacSubject {
        api_group: Some(RBAC.into()),
        kind: kind.into(),
        name,
        namespace: None,
    };
    match driver {
        Some(KubeClientDriver::Token) => {
            vec![subject("User", token::user(cluster, name))]
        }
        Some(KubeClientDriver::Csr | KubeClientDriver::Other(_)) | None => {
            let Subject { user, groups, .. } = default_subject(cluster, name);
            let everybody = format!("{SUBJECT_PREFIX}addon:{name}");
            let groups = groups.into_iter().filter(|group| *group != everybody);
            [subject("User", user)].into_iter().chain(groups.map(|group| subject("Group", group))).collect()
        }
    }
}

fn binding_prefix(addon: &str) -> String {
    format!("open-cluster-management:{addon}:")
}

/// Returns the add-on on a cluster whose agent gets a permission from a Role or RoleBinding.
pub fn addon_of_permission<K: Kind>(permission: &K) -> Option<Key> {
    let addon = permission.label(ADDON_NAME_LABEL)?;
    let cluster = permission.label(CLUSTER_NAME_LABEL)?;
    let is_of_agent = permission.name().starts_with(&binding_prefix(addon));
    is_of_agent.then(|| Key::namespaced(cluster, addon))
}

/// Returns the add-on on a cluster for which [`role_bindings`] created a RoleBinding.
pub fn addon_of_binding(binding: &RoleBinding) -> Option<Key> {
    addon_of_permission(binding).filter(|_| binding.label(ADDON_TEMPLATE_NAME_LABEL).is_some())
}

/// Returns the add-on of a RoleBinding that [OCM's template manager] created. Its name contains neither the role
/// nor the cluster.
///
/// [OCM's template manager]:
/// https://github.com/open-cluster-management-io/ocm/blob/main/pkg/addon/templateagent/registration.go
pub fn addon_of_ocm_binding(binding: &RoleBinding) -> Option<&str> {
    let addon = binding.label(ADDON_NAME_LABEL)?;
    let name = format!("{}{}:agent", binding_prefix(addon), binding.role_ref.kind.to_lowercase());
    let is_of_template = binding.label(ADDON_TEMPLATE_NAME_LABEL).is_some();
    let is_ocms = is_of_template && binding.label(CLUSTER_NAME_LABEL).is_none() && binding.name() == name;
    is_ocms.then_some(addon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn addon() -> ManagedClusterAddOn {
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "c1", "uid": "u"}, "spec": {}}))
            .unwrap()
    }

    fn template(permissions: &Value) -> AddOnTemplateSpec {
        let registration = json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions}}]);
        serde_json::from_value(
            json!({"addonName": "a", "agentSpec": {"workload": {}}, "registration": registration}),
        )
        .unwrap()
    }

    fn current(role: &str) -> Value {
        json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}})
    }

    fn single(role: &str) -> Value {
        let role = json!({"apiGroup": RBAC, "kind": "Role", "name": role});
        json!({"type": "SingleNamespace", "singleNamespace": {"namespace": "shared", "roleRef": role}})
    }

    fn names(permissions: &Value) -> Vec<String> {
        let bindings = role_bindings(&addon(), &template(permissions)).unwrap();
        bindings
            .into_iter()
            .map(|binding| {
                format!("{}/{}", binding.metadata.namespace.unwrap(), binding.metadata.name.unwrap())
            })
            .collect()
    }

    #[test]
    fn an_agent_is_bound_only_in_its_cluster_namespace() {
        let bindings = role_bindings(&addon(), &template(&json!([current("r")]))).unwrap();
        let subjects: Vec<_> =
            bindings[0].subjects.as_ref().unwrap().iter().map(|subject| subject.name.as_str()).collect();
        let of_cluster = "system:open-cluster-management:cluster:c1:addon:a";
        assert_eq!(subjects, [format!("{of_cluster}:agent:a-agent").as_str(), of_cluster]);
    }

    #[test]
    fn the_subject_of_a_permission_is_never_what_the_spoke_writes() {
        let subjects = |status: Value| {
            let mut addon = addon();
            addon.status = Some(serde_json::from_value(status).unwrap());
            let bindings = role_bindings(&addon, &template(&json!([single("r")]))).unwrap();
            let subjects = bindings[0].subjects.clone().unwrap();
            subjects
                .into_iter()
                .map(|subject| format!("{} {}", subject.kind, subject.name))
                .collect::<Vec<_>>()
        };
        let everybody =
            json!({"user": "system:anonymous", "groups": ["system:unauthenticated", "system:masters"]});
        let registrations =
            json!([{"signerName": "kubernetes.io/kube-apiserver-client", "subject": everybody}]);
        let of_cluster = "system:open-cluster-management:cluster:c1:addon:a";
        assert_eq!(
            subjects(json!({"registrations": registrations})),
            [format!("User {of_cluster}:agent:a-agent"), format!("Group {of_cluster}")]
        );
        assert_eq!(
            subjects(json!({"registrations": registrations, "kubeClientDriver": "token"})),
            ["User system:serviceaccount:c1:a-agent"]
        );
    }

    #[test]
    fn a_binding_names_its_addon_and_cluster_and_other_bindings_do_not() {
        let mut bindings = role_bindings(&addon(), &template(&json!([current("r"), single("r")]))).unwrap();
        let of_a = Some(Key::namespaced("c1", "a"));
        assert_eq!(bindings.iter().map(addon_of_binding).collect::<Vec<_>>(), [of_a.clone(), of_a]);
        bindings[0].metadata.name = Some("of-a-person".into());
        bindings[1].metadata.labels.as_mut().unwrap().remove(ADDON_TEMPLATE_NAME_LABEL);
        assert_eq!(bindings.iter().map(addon_of_binding).collect::<Vec<_>>(), [None, None]);
    }

    #[test]
    fn a_binding_of_ocm_is_known_by_its_name_and_its_labels() {
        let read = |name: &str, kind: &str, labels: &[&str]| {
            let labels: Value = labels.iter().map(|label| ((*label).to_owned(), json!("a"))).collect();
            let role = json!({"apiGroup": RBAC, "kind": kind, "name": "r"});
            let binding = json!({"metadata": {"name": name, "labels": labels}, "roleRef": role});
            addon_of_ocm_binding(&serde_json::from_value(binding).unwrap()).map(str::to_owned)
        };
        let name = "open-cluster-management:a:role:agent";
        let labels = [ADDON_NAME_LABEL, ADDON_TEMPLATE_NAME_LABEL];
        assert_eq!(read(name, "Role", &labels).as_deref(), Some("a"));
        assert_eq!(read("open-cluster-management:a:role:r:agent", "Role", &labels), None, "it is ours");
        assert_eq!(read(name, "ClusterRole", &labels), None, "the name is another one");
        assert_eq!(read(name, "Role", &labels[..1]), None, "it is of no template");
        let of_cluster = [ADDON_NAME_LABEL, ADDON_TEMPLATE_NAME_LABEL, CLUSTER_NAME_LABEL];
        assert_eq!(read(name, "Role", &of_cluster), None, "it is of one cluster");
    }

    #[test]
    fn every_role_and_every_cluster_has_its_own_binding() {
        let prefix = "open-cluster-management:a";
        let want = [
            format!("c1/{prefix}:clusterrole:r1:agent"),
            format!("c1/{prefix}:clusterrole:r2:agent"),
            format!("shared/{prefix}:role:r1:agent:c1"),
        ];
        assert_eq!(names(&json!([current("r1"), current("r2"), single("r1")])), want);
    }

    #[test]
    fn a_permission_without_its_object_is_named() {
        let error = role_bindings(&addon(), &template(&json!([{"type": "CurrentCluster"}]))).unwrap_err();
        assert_eq!(error.to_string(), "a hub permission of type CurrentCluster has no cluster role");
    }

    #[test]
    fn the_hub_keeps_what_the_spoke_wrote() {
        let mut addon = addon();
        let sources = Sources { template: template(&json!([])), config: None };
        fill(&mut addon, &sources);
        let first = addon.clone();
        fill(&mut addon, &sources);
        assert_eq!(addon, first, "filling in twice changes nothing");
        let status = addon.status.as_mut().unwrap();
        status.kube_client_driver = Some(KubeClientDriver::Token);
        status.registrations[0].subject =
            Some(Subject { user: "system:serviceaccount:c1:a-agent".into(), ..Subject::default() });
        let before = addon.clone();
        fill(&mut addon, &sources);
        assert_eq!(addon, before);
    }
}
