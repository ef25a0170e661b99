//! Approves certificate signing requests of agents: to join, if that is allowed, to renew, and for their add-ons.
//!
//! A ClusterRoleBinding on the hub names the subjects that may join without a person. Their requests are approved,
//! and the clusters that they create are accepted, once. Renewals need no access review: the permission to renew
//! depends on the cluster being accepted, so a review would only check that.

mod addon_registration;
pub mod custom_signer;
mod user;

use jiff::{Timestamp, Unit};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::json;

use self::addon_registration::Registration;
use super::cluster::{may_have_namespace, was_accepted};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::Conditions as _;
use api::names::cluster_conditions::JOINED;
use api::names::{
    ADDON_NAME_LABEL, AUTO_ACCEPTED_ANNOTATION, AUTO_APPROVE_BINDING, CLUSTER_NAME_LABEL, CSR_USER_BINDING,
    REQUESTER_ANNOTATION,
};
use engine::addon::config_refs;
use engine::registration::csr::{RequestedCertificate, is_decided};
use engine::registration::rbac::is_reserved;
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Event, EventType, Plan, Query, Read, View, Watches};

pub(crate) struct CsrController;

impl Controller for CsrController {
    const NAME: &'static str = "csr";
    type Primary = CertificateSigningRequest;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let fields = |cluster: &ManagedCluster| {
                let requester = cluster.annotation(REQUESTER_ANNOTATION).map(str::to_owned);
                (cluster.spec.hub_accepts_client, has_joined(cluster), requester)
            };
            let cluster = change.latest().filter(|_| change.differs_in(fields));
            cluster.map(|cluster| requests_of(cluster.name(), view)).unwrap_or_default()
        });
        watches.on::<ManagedClusterAddOn>(|change, view| {
            let differs = change.differs_in(|addon| {
                addon.status.as_ref().map(|status| (&status.registrations, &status.config_references))
            });
            let addon = change.latest().filter(|_| differs);
            addon.map(|addon| requests_of(addon.namespace(), view)).unwrap_or_default()
        });
        watches.on::<ClusterManagementAddOn>(|change, view| {
            let fields = |addon: &ClusterManagementAddOn| {
                let status = addon.status.clone().unwrap_or_default();
                let placements = status.install_progressions.into_iter();
                let references = placements.map(|placement| placement.config_references);
                (
                    config_refs::is_deployed(addon),
                    status.default_config_references,
                    references.collect::<Vec<_>>(),
                )
            };
            let addon = change.latest().filter(|_| change.differs_in(fields));
            let requests =
                |name| view.keys::<CertificateSigningRequest>(Query::label(ADDON_NAME_LABEL, name));
            addon.map(|addon| requests(addon.name())).unwrap_or_default()
        });
        watches.read::<ControllerRevision>();
        watches.read::<Placement>();
        watches.read::<PlacementDecision>();
        watches.on::<Namespace>(|change, view| {
            let label = |namespace: &Namespace| namespace.label(CLUSTER_NAME_LABEL).map(str::to_owned);
            let namespace = change.latest().filter(|_| change.differs_in(label));
            namespace.map(|namespace| requests_of(namespace.name(), view)).unwrap_or_default()
        });
        watches.on::<ClusterRoleBinding>(|change, view| {
            let ours = [AUTO_APPROVE_BINDING, CSR_USER_BINDING];
            let binding = change.latest().filter(|binding| ours.contains(&binding.name()));
            binding.map(|_| view.keys::<CertificateSigningRequest>(Query::ALL)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(request) = view.get::<CertificateSigningRequest>(key)? else { return Ok(plan) };
        if is_decided(&request) {
            return Ok(plan);
        }
        match user::requested(&request, view)? {
            Some(RequestedCertificate::Cluster { cluster, renewal: true })
                if is_accepted(&cluster, view)? =>
            {
                approve(&mut plan, &request, Approval::RENEWAL, now);
            }
            Some(RequestedCertificate::Cluster { cluster, renewal: false }) => {
                join(&mut plan, &request, &cluster, view, now)?;
            }
            Some(RequestedCertificate::AddOn { cluster, addon }) if is_accepted(&cluster, view)? => {
                match Registration::read(&cluster, &addon, view)? {
                    Some(of) if of.is_client() => approve(&mut plan, &request, Approval::ADDON, now),
                    Some(of) => plan.events.push(not_allowed(&request, &of.addon)),
                    None => {}
                }
            }
            Some(RequestedCertificate::Custom { cluster, addon, subject })
                if is_accepted(&cluster, view)? =>
            {
                let signer = &request.spec.signer_name;
                match Registration::read(&cluster, &addon, view)? {
                    Some(of) if custom_signer::signer_for(&of, &subject, signer).is_some() => {
                        approve(&mut plan, &request, Approval::ADDON, now);
                    }
                    Some(of) => plan.events.push(not_allowed(&request, &of.addon)),
                    None => {}
                }
            }
            None
            | Some(
                RequestedCertificate::Cluster { .. }
                | RequestedCertificate::AddOn { .. }
                | RequestedCertificate::Custom { .. },
            ) => {}
        }
        Ok(plan)
    }
}

fn requests_of(cluster: &str, view: &impl View) -> Vec<Key> {
    view.keys::<CertificateSigningRequest>(Query::label(CLUSTER_NAME_LABEL, cluster))
}

fn is_accepted(cluster: &str, view: &impl View) -> Read<bool> {
    let cluster = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
    Ok(cluster.is_some_and(|cluster| cluster.spec.hub_accepts_client && !cluster.is_terminating()))
}

/// Returns true if an agent has or had the identity of the cluster.
fn has_joined(cluster: &ManagedCluster) -> bool {
    cluster.condition(JOINED).is_some()
}

/// Approves a request of a bootstrap identity, and accepts its cluster, once.
///
/// A bootstrap identity works only for clusters that are not accepted yet. From then on, an annotation, which a
/// person may also set, names the user whose requests are approved, because an agent may lose its key before it
/// has joined. Once the cluster has joined, only a person can give it an identity. See
/// docs/hazards-clusters.md#bootstrap-credential.
fn join(
    plan: &mut Plan,
    request: &CertificateSigningRequest,
    name: &str,
    view: &impl View,
    now: Timestamp,
) -> Read<()> {
    let binding = view.get::<ClusterRoleBinding>(&Key::cluster(AUTO_APPROVE_BINDING))?;
    if !user::names(binding.as_deref(), request) {
        return Ok(());
    }
    let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(name))? else { return Ok(()) };
    let is_refused = is_reserved(name) || !may_have_namespace(name, view)?;
    if cluster.is_terminating() || has_joined(&cluster) || is_refused {
        return Ok(());
    }
    let user = request.spec.username.as_deref().unwrap_or_default();
    let requester = cluster.annotation(REQUESTER_ANNOTATION);
    if requester.is_some_and(|requester| requester != user)
        || (cluster.spec.hub_accepts_client && requester.is_none())
    {
        return Ok(());
    }
    if !cluster.spec.hub_accepts_client {
        // A person has denied the cluster after it was accepted, or it has left and was created again.
        if cluster.annotation(AUTO_ACCEPTED_ANNOTATION).is_some() || was_accepted(name, view)? {
            return Ok(());
        }
        let time = now.round(Unit::Second).unwrap_or(now).to_string();
        let annotations = json!({AUTO_ACCEPTED_ANNOTATION: time, REQUESTER_ANNOTATION: user});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"hubAcceptsClient": true}});
        plan.step([Action::patch(cluster.as_ref(), patch.as_object().cloned().unwrap_or_default())]);
    }
    approve(plan, request, Approval::JOIN, now);
    Ok(())
}

/// The texts of an approval, in OCM's words.
#[derive(Clone, Copy)]
struct Approval {
    message: &'static str,
    /// The reason of the event.
    event: &'static str,
}

impl Approval {
    const JOIN: Self = Self { event: "ManagedClusterAutoApproved", ..Self::RENEWAL };
    const RENEWAL: Self = Self {
        message: "Auto approving Managed cluster agent certificate after SubjectAccessReview.",
        event: "ManagedClusterCSRAutoApproved",
    };
    const ADDON: Self =
        Self { message: "Auto approving addon agent certificate.", event: "AddonCSRAutoApproved" };
}

fn approve(plan: &mut Plan, request: &CertificateSigningRequest, approval: Approval, now: Timestamp) {
    plan.step([Action::approve(request, approval.message, now)]);
    plan.events.push(Event::new(request, EventType::Normal, approval.event, "Approve", approval.message));
}

/// Returns the event for an add-on whose agent sent a request that no template allows.
fn not_allowed(request: &CertificateSigningRequest, addon: &ManagedClusterAddOn) -> Event {
    let (name, signer) = (request.name(), &request.spec.signer_name);
    let message = format!(
        "the certificate request {name} for {signer} is not approved, because no template of the add-on allows it"
    );
    Event::new(addon, EventType::Warning, "RequestNotAllowed", "Approve", message)
}

#[cfg(test)]
#[path = "tests/csr.rs"]
mod tests;
