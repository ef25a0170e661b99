//! The decision about one manifest and its input: how the cluster serves its kind, whether the executor may apply
//! it, and the live object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use api::work::v1::ManifestWork;
use engine::work::{
    ApplyDecision, ApplyRefusal, Attempt, Live, Permissions, Served, Wanted, decide, is_complete, refusal,
    take_over, was_applied,
};
use object::{Gvk, Key, Object};
use reconcile::{Access, AccessReview, Gvr, Mapping, Read, View};

/// The decision about one manifest, with its input.
pub(super) struct ManifestDecision {
    /// The live object; `None` if the plan did not request it.
    live: Option<Read<Option<Arc<Object>>>>,
    /// The decision; `None` until all input is known.
    pub(super) decision: Option<ApplyDecision>,
}

/// Returns how the spoke serves a kind.
pub(super) fn served(gvk: &Gvk, view: &impl View) -> Served {
    match view.mapping(gvk) {
        Ok(Some(Mapping { gvk: _, resource, namespaced })) => Served::As { resource, namespaced },
        Ok(None) => Served::Not,
        Err(_) => Served::Unread,
    }
}

impl ManifestDecision {
    pub(super) fn new(
        wanted: &Wanted,
        work: &ManifestWork,
        owner: &OwnerReference,
        view: &impl View,
    ) -> Self {
        Self::made(wanted, view, |live| match live {
            Ok(_) if is_complete(work, &wanted.meta) => Some(ApplyDecision::Leave),
            Ok(live) => Some(decide(wanted, live.as_deref(), owner, was_applied(work, &wanted.meta))),
            Err(error) if error.is_coming() => None,
            Err(error) => Some(ApplyDecision::Refuse(ApplyRefusal::Failed(error.to_string()))),
        })
    }

    /// Decides about a manifest of a complete work.
    pub(super) fn new_complete(
        wanted: &Wanted,
        work: &ManifestWork,
        owner: &OwnerReference,
        view: &impl View,
    ) -> Self {
        Self::made(wanted, view, |live| match live {
            Ok(Some(live)) if was_applied(work, &wanted.meta) => Some(take_over(wanted, live, owner)),
            Ok(_) => Some(ApplyDecision::Leave),
            Err(_) => None,
        })
    }

    /// Decides based on the live object, if it may be read.
    fn made(
        wanted: &Wanted,
        view: &impl View,
        decide: impl FnOnce(&Read<Option<Arc<Object>>>) -> Option<ApplyDecision>,
    ) -> Self {
        match read(wanted, view) {
            Ok(live) => Self { decision: decide(&live), live: Some(live) },
            Err(decision) => Self { live: None, decision },
        }
    }

    /// Returns the live object, if it was read and exists.
    pub(super) fn live(&self) -> Option<&Object> {
        self.live.as_ref()?.as_ref().ok()?.as_deref()
    }

    /// Returns the state of the object for the status.
    pub(super) fn live_state(&self) -> Live<'_> {
        match &self.live {
            Some(Ok(live)) => Live::Read(live.as_deref()),
            Some(Err(error)) if !error.is_coming() => Live::Refused(error.to_string()),
            Some(Err(_)) | None => Live::Unread,
        }
    }

    /// Returns the outcome of a manifest without a write.
    pub(super) fn attempt(&self) -> Attempt {
        match &self.decision {
            Some(ApplyDecision::Leave) => Attempt::Done,
            Some(ApplyDecision::Refuse(reason)) => Attempt::Failed(reason.clone()),
            Some(ApplyDecision::Apply { .. } | ApplyDecision::Create(_) | ApplyDecision::Patch(_)) | None => {
                Attempt::None
            }
        }
    }
}

/// Reads the live object of a manifest, or returns the decision that needs none; `None` until it may be read. A
/// plan does not read an object that the executor may not apply, because feedback would reveal it to the hub.
pub(super) fn read(
    wanted: &Wanted,
    view: &impl View,
) -> Result<Read<Option<Arc<Object>>>, Option<ApplyDecision>> {
    if let Some(reason) = refusal(wanted) {
        return Err(Some(ApplyDecision::Refuse(reason)));
    }
    if wanted.served == Served::Unread {
        return Err(None);
    }
    match allowed(wanted, view) {
        Some(None) => Ok(view.object(&wanted.reference)),
        Some(Some(reason)) => Err(Some(ApplyDecision::Refuse(ApplyRefusal::Failed(reason)))),
        None => Err(None),
    }
}

/// Returns the reason that the executor may not apply a manifest. The outer `None` means that this is not known
/// yet.
fn allowed(wanted: &Wanted, view: &impl View) -> Option<Option<String>> {
    let Some(permissions) = wanted.executor.permissions(wanted) else { return Some(None) };
    let meta = &wanted.meta;
    let resource =
        Gvr { group: meta.group.clone(), version: meta.version.clone(), resource: meta.resource.clone() };
    match view.access(review(permissions, resource, wanted.reference.key.clone())) {
        Ok(Access::Allowed) => Some(None),
        Ok(Access::Denied) => Some(Some(wanted.not_allowed())),
        Err(error) if error.is_coming() => None,
        Err(error) => Some(Some(error.to_string())),
    }
}

/// Returns the access review for a subject's permissions on an object.
pub(super) fn review(permissions: Permissions, resource: Gvr, key: Key) -> AccessReview {
    let Permissions { user, groups, verbs } = permissions;
    AccessReview { user, groups, verbs, resource, key }
}
