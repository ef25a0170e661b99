//! Approves the certificate requests of agents: to join where that is allowed, to renew, and for their add-ons.
//!
//! Who may join without a person is said by a ClusterRoleBinding of the hub: its subjects' requests are approved, and the clusters
//! they create are accepted, once. Renewals need no access review: what a review would ask is whether the cluster is accepted, because
//! that is what its permission to renew hangs on.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};
use serde_json::{Map, json};

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::names::{
    AUTO_ACCEPTED_ANNOTATION, AUTO_APPROVE_BINDING, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER,
    cluster_conditions,
};
use engine::registration::csr::{Ask, ask, is_decided};
use object::{Key, ObjectRef};
use reconcile::{
    Action, Controller, Note, NoteType, Plan, Precondition, Query, Read, Site, Subresource, View, Watches,
};

/// See the [module](self).
pub(crate) struct CsrController;

impl Controller for CsrController {
    const NAME: &'static str = "csr";
    type Primary = CertificateSigningRequest;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let facts = |cluster: &ManagedCluster| (cluster.spec.hub_accepts_client, is_alive(cluster));
            if matches!((&change.old, &change.new), (Some(old), Some(new)) if facts(old) == facts(new)) {
                return Vec::new();
            }
            let names = change.sides().take(1).filter_map(|cluster| cluster.metadata.name.clone());
            names.flat_map(|name| of_cluster(&name, view)).collect()
        });
        watches.on::<ManagedClusterAddOn>(|change, view| {
            let facts = |addon: &ManagedClusterAddOn| {
                addon.status.as_ref().map(|status| status.registrations.clone())
            };
            if matches!((&change.old, &change.new), (Some(old), Some(new)) if facts(old) == facts(new)) {
                return Vec::new();
            }
            let clusters = change.sides().take(1).filter_map(|addon| addon.metadata.namespace.clone());
            clusters.flat_map(|name| of_cluster(&name, view)).collect()
        });
        watches.on::<ClusterRoleBinding>(|change, view| {
            let ours =
                change.sides().any(|binding| binding.metadata.name.as_deref() == Some(AUTO_APPROVE_BINDING));
            if ours { crate::addon_reads::every::<CertificateSigningRequest>(view) } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        plan(key, view, now)
    }
}

fn of_cluster(name: &str, view: &impl View) -> Vec<Key> {
    let requests =
        view.list::<CertificateSigningRequest>(Query::label(CLUSTER_NAME_LABEL, name)).unwrap_or_default();
    requests.iter().map(|request| Key::of(request.as_ref())).collect()
}

fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let Some(request) = view.get::<CertificateSigningRequest>(key)? else { return Ok(plan) };
    if is_decided(&request) {
        return Ok(plan);
    }
    match ask(&request) {
        Some(Ask::Cluster { cluster, renewal: true }) if accepted(&cluster, view)? => {
            let message = "Auto approving Managed cluster agent certificate after SubjectAccessReview.";
            approve(&mut plan, &request, message, "ManagedClusterCSRAutoApproved", now);
        }
        Some(Ask::Cluster { cluster, renewal: false }) => join(&mut plan, &request, &cluster, view, now)?,
        Some(Ask::Addon { cluster, addon })
            if accepted(&cluster, view)? && is_registered(&cluster, &addon, view)? =>
        {
            approve(
                &mut plan,
                &request,
                "Auto approving addon agent certificate.",
                "AddonCSRAutoApproved",
                now,
            );
        }
        None | Some(Ask::Cluster { .. } | Ask::Addon { .. }) => {}
    }
    Ok(plan)
}

fn accepted(cluster: &str, view: &impl View) -> Read<bool> {
    let cluster = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
    Ok(cluster.is_some_and(|cluster| {
        cluster.spec.hub_accepts_client && cluster.metadata.deletion_timestamp.is_none()
    }))
}

/// Whether the add-on is installed on the cluster, and asks for a client certificate.
fn is_registered(cluster: &str, addon: &str, view: &impl View) -> Read<bool> {
    let addon = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, addon))?;
    let registered = |addon: &ManagedClusterAddOn| {
        let registrations = addon.status.iter().flat_map(|status| &status.registrations);
        registrations.into_iter().any(|registration| registration.signer_name == KUBE_CLIENT_SIGNER)
    };
    Ok(addon.is_some_and(|addon| registered(&addon)))
}

/// Whether the cluster's agent is there and well, so that somebody else asking for its certificate is no rebirth.
fn is_alive(cluster: &ManagedCluster) -> bool {
    let is_true = |type_: &str| {
        cluster
            .status
            .as_ref()
            .and_then(|s| find_condition(&s.conditions, type_))
            .is_some_and(|c| c.is_true())
    };
    is_true(cluster_conditions::JOINED) && is_true(cluster_conditions::AVAILABLE)
}

/// Approves a first request of a bootstrap identity, and accepts the cluster it is for, once.
///
/// OCM signs for whoever holds the bootstrap credential, whatever the cluster; a cluster whose agent is alive keeps its
/// identity here.
/// See docs/hazards.md#bootstrap-credential.
fn join(
    plan: &mut Plan,
    request: &CertificateSigningRequest,
    name: &str,
    view: &impl View,
    now: Timestamp,
) -> Read<()> {
    let Some(binding) = view.get::<ClusterRoleBinding>(&Key::cluster(AUTO_APPROVE_BINDING))? else {
        return Ok(());
    };
    if !binding.subjects.iter().flatten().any(|subject| is_requester(request, subject)) {
        return Ok(());
    }
    let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(name))? else { return Ok(()) };
    if cluster.metadata.deletion_timestamp.is_some() || is_alive(&cluster) {
        return Ok(());
    }
    let annotations = cluster.metadata.annotations.clone().unwrap_or_default();
    if !cluster.spec.hub_accepts_client {
        if annotations.contains_key(AUTO_ACCEPTED_ANNOTATION) {
            // Accepted once, and since denied by a person.
            return Ok(());
        }
        let time = now.round(Unit::Second).unwrap_or(now).to_string();
        let patch = json!({"metadata": {"annotations": {AUTO_ACCEPTED_ANNOTATION: time}}, "spec": {"hubAcceptsClient": true}});
        plan.step([Action::patch(cluster.as_ref(), patch.as_object().cloned().unwrap_or_default())]);
    }
    let message = "Auto approving Managed cluster agent certificate after SubjectAccessReview.";
    approve(plan, request, message, "ManagedClusterAutoApproved", now);
    Ok(())
}

fn is_requester(request: &CertificateSigningRequest, subject: &Subject) -> bool {
    let user = request.spec.username.as_deref().unwrap_or_default();
    match subject.kind.as_str() {
        "User" => subject.name == user,
        "Group" => request.spec.groups.iter().flatten().any(|group| *group == subject.name),
        "ServiceAccount" => {
            user == format!(
                "system:serviceaccount:{}:{}",
                subject.namespace.as_deref().unwrap_or_default(),
                subject.name
            )
        }
        _ => false,
    }
}

fn approve(plan: &mut Plan, request: &CertificateSigningRequest, message: &str, event: &str, now: Timestamp) {
    let time = now.round(Unit::Second).unwrap_or(now).to_string();
    let approved = json!({
        "type": "Approved",
        "status": "True",
        "reason": "AutoApprovedByHubCSRApprovingController",
        "message": message,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    });
    let held = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions: Vec<_> = held.into_iter().map(|condition| json!(condition)).chain([approved]).collect();
    let target = ObjectRef::of::<CertificateSigningRequest>(Key::of(request));
    let patch = Map::from_iter([("status".to_owned(), json!({"conditions": conditions}))]);
    let precondition = Precondition::unchanged(request);
    plan.step([Action::Patch {
        site: Site::Hub,
        target: target.clone(),
        subresource: Subresource::Approval,
        patch,
        precondition,
    }]);
    plan.notes.push(Note {
        regarding: target,
        uid: request.metadata.uid.clone().unwrap_or_default(),
        related: None,
        note_type: NoteType::Normal,
        reason: event.into(),
        action: "Approve".into(),
        message: message.into(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use object::Object;
    use reconcile::Caches;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    /// What the agent `agent` of the cluster `c1` asks to be signed.
    const PEM: &str = include_str!("c1-agent.csr");

    struct Case {
        requester: &'static str,
        accepted: bool,
        annotations: &'static [&'static str],
        alive: bool,
    }

    const JOINING: Case = Case {
        requester: "system:serviceaccount:ocm:bootstrap",
        accepted: false,
        annotations: &[],
        alive: false,
    };

    /// The words of the actions that are planned.
    fn check(case: &Case, want: &[&str]) {
        let status = json!({"conditions": if case.alive { json!([
            {"type": "ManagedClusterJoined", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]) } else { json!([]) }});
        let annotations: Map<_, _> =
            case.annotations.iter().map(|name| ((*name).to_owned(), json!("x"))).collect();
        let cluster = json!({"metadata": {"name": "c1", "annotations": annotations}, "spec": {"hubAcceptsClient": case.accepted}, "status": status});
        let subjects = json!([{"kind": "ServiceAccount", "name": "bootstrap", "namespace": "ocm"}]);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
        let binding =
            json!({"metadata": {"name": AUTO_APPROVE_BINDING}, "roleRef": role, "subjects": subjects});
        let mut caches = Caches::default();
        let request = json!({
            "metadata": {"name": "r", "labels": {CLUSTER_NAME_LABEL: "c1"}},
            "spec": {"request": ByteString(PEM.into()), "signerName": KUBE_CLIENT_SIGNER, "username": case.requester},
        });
        let request: CertificateSigningRequest = Object::from_value(request).unwrap().to_typed().unwrap();
        caches.replace(Site::Hub, vec![request], "1");
        caches.replace::<ManagedCluster>(
            Site::Hub,
            vec![Object::from_value(cluster).unwrap().to_typed().unwrap()],
            "1",
        );
        caches.replace::<ClusterRoleBinding>(
            Site::Hub,
            vec![Object::from_value(binding).unwrap().to_typed().unwrap()],
            "1",
        );
        let plan = CsrController::plan(&Key::cluster("r"), &caches, NOW).unwrap();
        let word = |action: &Action| match action {
            Action::Patch { subresource: Subresource::Approval, .. } => "approve",
            Action::Patch { .. } => "accept",
            _ => "?",
        };
        let words: Vec<_> = plan.steps.iter().flatten().map(word).collect();
        assert_eq!(words, want, "{}", case.requester);
    }

    #[test]
    fn a_bootstrap_identity_joins_a_cluster_that_is_new() {
        check(&JOINING, &["accept", "approve"]);
        check(&Case { accepted: true, ..JOINING }, &["approve"]);
    }

    #[test]
    fn a_cluster_that_a_person_denied_stays_denied() {
        check(&Case { annotations: &[AUTO_ACCEPTED_ANNOTATION], ..JOINING }, &[]);
    }

    #[test]
    fn a_cluster_whose_agent_is_alive_keeps_its_identity() {
        check(&Case { accepted: true, alive: true, ..JOINING }, &[]);
    }

    #[test]
    fn nobody_else_joins_without_a_person() {
        for requester in
            ["system:serviceaccount:ocm:other", "system:serviceaccount:other:bootstrap", "bootstrap", ""]
        {
            check(&Case { requester, accepted: true, ..JOINING }, &[]);
        }
    }

    #[test]
    fn an_identity_renews_itself_while_its_cluster_is_accepted() {
        let requester = "system:open-cluster-management:c1:agent";
        check(&Case { requester, accepted: true, alive: true, ..JOINING }, &["approve"]);
        check(&Case { requester, accepted: false, ..JOINING }, &[]);
    }
}
