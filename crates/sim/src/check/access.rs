//! Checks that only agents of accepted clusters get permissions and certificates.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Subject};
use serde_json::Value;

use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::cluster::v1::ManagedCluster;
use api::names::{
    ADDON_NAME_LABEL, AUTO_APPROVE_BINDING, CLUSTER_NAME_LABEL, CSR_USER_BINDING, REQUESTER_ANNOTATION,
    SUBJECT_PREFIX,
};
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Plan, Subresource, View};

impl Checker {
    /// Checks the permissions and certificates that a plan grants. Objects that a repository applies are exempt:
    /// they are limited by the permissions of its user.
    pub(super) fn access(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { controller, view, plan, .. } = decided;
        let broken = |blames: &Key, reason: String| {
            Err(Violation::new(
                Invariant::OnlyAcceptedClustersGetAccess,
                blames,
                format!("{controller} {reason}"),
            ))
        };
        for action in plan.steps.iter().flatten().filter(|_| *controller != "config-repo") {
            match action {
                Action::Apply { object, .. } | Action::Create { object, .. } => {
                    let labels = object.labels();
                    let cluster = labels.get(CLUSTER_NAME_LABEL).copied().unwrap_or_default();
                    if permits(object) && !cluster.is_empty() && !is_accepted(cluster, *view) {
                        return broken(&object.key(), format!("permits the agent of {cluster}"));
                    }
                }
                Action::Patch { target, subresource: Subresource::Approval, .. } => {
                    let Ok(Some(request)) = view.get::<CertificateSigningRequest>(&target.key) else {
                        continue;
                    };
                    if !may_be_approved(&request, plan, *view) {
                        let user = request.spec.username.as_deref().unwrap_or_default();
                        return broken(&target.key, format!("approves the request of {user}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns true if an object grants more than read access.
fn permits(object: &Object) -> bool {
    match object.kind() {
        "RoleBinding" | "ClusterRoleBinding" => true,
        "ClusterRole" => {
            let rules = object.to_typed::<ClusterRole>().ok().and_then(|role| role.rules).unwrap_or_default();
            let mut verbs = rules.iter().flat_map(|rule| &rule.verbs);
            verbs.any(|verb| !["get", "list", "watch"].contains(&verb.as_str()))
        }
        _ => false,
    }
}

fn is_accepted(cluster: &str, view: &impl View) -> bool {
    let cluster = view.get::<ManagedCluster>(&Key::cluster(cluster)).ok().flatten();
    cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client)
}

/// Returns true if the requester of a certificate is the agent of an accepted cluster, may request certificates
/// for the add-ons of others, or may join the cluster: the plan accepts the cluster, or it was accepted for this
/// user.
fn may_be_approved(request: &CertificateSigningRequest, plan: &Plan, view: &impl View) -> bool {
    let user = request.spec.username.as_deref().unwrap_or_default();
    let Some(cluster) = request.label(CLUSTER_NAME_LABEL) else { return false };
    let agent = user.strip_prefix(SUBJECT_PREFIX).and_then(|agent| agent.split_once(':'));
    let may = |binding: &str| {
        let binding = view.get::<ClusterRoleBinding>(&Key::cluster(binding)).ok().flatten();
        let subjects = binding.and_then(|binding| binding.subjects.clone()).unwrap_or_default();
        subjects.iter().any(|subject| is_subject(request, subject))
    };
    if is_accepted(cluster, view) {
        let managed = view.get::<ManagedCluster>(&Key::cluster(cluster)).ok().flatten();
        let is_requester =
            managed.is_some_and(|managed| managed.annotation(REQUESTER_ANNOTATION) == Some(user));
        agent.is_some_and(|(of, _)| of == cluster)
            || (request.label(ADDON_NAME_LABEL).is_some() && may(CSR_USER_BINDING))
            || (is_requester && may(AUTO_APPROVE_BINDING))
    } else {
        accepts(plan, cluster) && may(AUTO_APPROVE_BINDING)
    }
}

fn accepts(plan: &Plan, cluster: &str) -> bool {
    plan.steps.iter().flatten().any(|action| match action {
        Action::Patch { target, patch, .. } => {
            let accepts = patch.get("spec").and_then(|spec| spec.get("hubAcceptsClient"));
            target.gvk.kind == "ManagedCluster"
                && target.key.name == cluster
                && accepts == Some(&Value::Bool(true))
        }
        _ => false,
    })
}

fn is_subject(request: &CertificateSigningRequest, subject: &Subject) -> bool {
    let user = request.spec.username.as_deref().unwrap_or_default();
    let Subject { kind, name, namespace, api_group: _ } = subject;
    match kind.as_str() {
        "User" => name == user,
        "Group" => request.spec.groups.iter().flatten().any(|group| group == name),
        "ServiceAccount" => {
            user == format!("system:serviceaccount:{}:{name}", namespace.as_deref().unwrap_or_default())
        }
        _ => false,
    }
}
