//! Approves and signs certificate signing requests of the add-on's agents.

use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Map, json};

use crate::AddOn;
use crate::addon::Signer;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::CLUSTER_NAME_LABEL;
use engine::addon::registration::default_subject;
use engine::registration::csr::{RequestedCertificate, RequestedSubject, is_decided, requested};
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{
    Action, Controller, Event, EventType, Plan, Precondition, Query, Read, Site, Subresource, View, Watches,
};

pub(crate) struct RequestController<A>(PhantomData<A>);

impl<A: AddOn> Controller for RequestController<A> {
    const NAME: &'static str = "addon-sdk-requests";
    type Primary = CertificateSigningRequest;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let fields =
                |cluster: &ManagedCluster| (cluster.spec.hub_accepts_client, cluster.is_terminating());
            let cluster = change.latest().filter(|_| change.differs_in(fields));
            cluster.map(|cluster| requests_of(cluster.name(), view)).unwrap_or_default()
        });
        watches.on::<ManagedClusterAddOn>(|change, view| {
            let addon = change.latest().filter(|addon| addon.name() == A::NAME && change.differs_in(|_| ()));
            addon.map(|addon| requests_of(addon.namespace(), view)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(request) = view.get::<CertificateSigningRequest>(key)? else { return Ok(plan) };
        let options = A::options();
        let (cluster, signer) = match requested(&request) {
            Some(RequestedCertificate::AddOn { cluster, addon }) if addon == A::NAME => {
                if options.hub_permissions.is_none() {
                    return Ok(plan);
                }
                (cluster, None)
            }
            Some(RequestedCertificate::Custom { cluster, addon, subject }) if addon == A::NAME => {
                let is_it = |signer: &&Signer| {
                    signer.name == request.spec.signer_name && allows(signer, &cluster, A::NAME, &subject)
                };
                let Some(signer) = options.signers.iter().find(is_it) else { return Ok(plan) };
                (cluster, Some(signer))
            }
            None
            | Some(
                RequestedCertificate::Cluster { .. }
                | RequestedCertificate::AddOn { .. }
                | RequestedCertificate::Custom { .. },
            ) => {
                return Ok(plan);
            }
        };
        if !is_installed::<A>(&cluster, view)? {
            return Ok(plan);
        }
        if !is_decided(&request) {
            plan.step([Action::approve(&request, "Auto approving addon agent certificate.", now)]);
        } else if let Some(sign) = signer.and_then(|signer| signer.sign)
            && is_open(&request)
        {
            issue(&mut plan, &request, sign(&request, now));
        }
        Ok(plan)
    }
}

fn requests_of(cluster: &str, view: &impl View) -> Vec<Key> {
    view.keys::<CertificateSigningRequest>(Query::label(CLUSTER_NAME_LABEL, cluster))
}

/// Returns true if a signer allows exactly this subject.
fn allows(signer: &Signer, cluster: &str, addon: &str, subject: &RequestedSubject) -> bool {
    let registered =
        signer.subject.map_or_else(|| default_subject(cluster, addon), |subject| subject(cluster));
    subject.is(&registered.completed(cluster, addon))
}

/// Returns true if the cluster is accepted and has the add-on.
fn is_installed<A: AddOn>(cluster: &str, view: &impl View) -> Read<bool> {
    let addon = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, A::NAME))?;
    let cluster = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
    let is_accepted = cluster.is_some_and(|c| c.spec.hub_accepts_client && !c.is_terminating());
    Ok(is_accepted && addon.is_some())
}

/// Returns true if a request is approved and has no certificate yet.
fn is_open(request: &CertificateSigningRequest) -> bool {
    let Some(status) = &request.status else { return false };
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Approved") && status.certificate.is_none()
}

/// Writes the certificate, or an event with the reason that there is none.
fn issue(plan: &mut Plan, request: &CertificateSigningRequest, signed: Result<Vec<u8>, String>) {
    match signed {
        Ok(certificate) => {
            let status = json!({"certificate": ByteString(certificate)});
            plan.step([Action::Patch {
                site: Site::Hub,
                target: ObjectRef::of::<CertificateSigningRequest>(Key::of(request)),
                subresource: Subresource::Status,
                patch: Map::from_iter([("status".to_owned(), status)]),
                precondition: Precondition::unchanged(request),
                impersonate: None,
            }]);
        }
        Err(message) => {
            plan.events.push(Event::new(request, EventType::Warning, "SigningFailed", "Sign", message));
        }
    }
}

#[cfg(test)]
#[path = "tests/request.rs"]
mod tests;
