//! The writes and deletions of a plan.

use jiff::Timestamp;
use serde_json::Value;

use super::input::SyncInput;
use super::{DeletionHold, DesiredObject, EndTracking, Inventory, ManagedFields, ObjectId, Problem, Recent};
use crate::health::ObjectHealth;
use object::{Key, Object, ObjectRef};

/// An object that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminating {
    pub object: ObjectRef,
    /// The time of the deletion; `None` if the object is deleted now.
    pub since: Option<Timestamp>,
    /// The finalizers that block the deletion.
    pub finalizers: Vec<String>,
}

impl Terminating {
    /// Reads a live object.
    pub(super) fn new(live: &Object) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let since = live.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str);
        let finalizers = live.at(&["metadata", "finalizers"]).and_then(Value::as_array);
        Self {
            object: live.reference(),
            since: since.and_then(|since| since.parse().ok()),
            finalizers: finalizers.into_iter().flatten().filter_map(text).collect(),
        }
    }
}

/// An object that matches the commit but is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    pub object: ObjectRef,
    /// The health of the object.
    pub health: ObjectHealth,
}

/// A server-side apply of one object of the commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply<'a> {
    pub desired: &'a DesiredObject,
    /// The stage of the object.
    pub stage: u8,
    /// True if the hub has no object of this name.
    pub is_new: bool,
    /// The stage that brings the object's kind, namespace or write permission. The API server cannot validate
    /// the object before that stage is written; `None` if it can validate it now.
    pub arrives_with: Option<u8>,
    /// True to take fields that another manager owns with another value.
    pub force: bool,
    /// Stops Argo CD from tracking the object, which is being taken over.
    pub end_tracking: Option<EndTracking>,
    /// The object with the live values of ignored fields, or with a required resource version; `None` to apply
    /// the object from the commit.
    pub adopted: Option<Object>,
    /// Managed fields without kubectl's ownership, to be written before the apply.
    pub managed_fields: Option<ManagedFields>,
}

impl Apply<'_> {
    /// Returns true if another write to the object precedes the apply.
    pub fn is_prepared(&self) -> bool {
        self.managed_fields.is_some() || self.end_tracking.is_some()
    }

    /// Returns the object to send, with our ownership annotations.
    pub fn marked(&self, repo: &Key) -> Object {
        self.desired.marked(self.adopted.as_ref().unwrap_or(&self.desired.object), repo)
    }
}

/// An object that another client changed on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction<'a> {
    /// The apply that corrects it.
    pub apply: Apply<'a>,
    /// The managers that now own fields of the commit, with the paths of the fields.
    pub changed_by: Vec<(String, Vec<String>)>,
    /// The Argo CD application that tracks the object.
    pub application: Option<String>,
}

/// The writes and deletions that bring a commit to the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncPlan<'a> {
    /// The objects that are owned from now on. The inventory is recorded before any other write.
    pub inventory: Inventory,
    /// The objects that are new or changed in the repository, by stage.
    pub apply: Vec<Vec<Apply<'a>>>,
    /// The objects of later stages, which wait until the objects of an earlier stage are healthy.
    pub later: Vec<Apply<'a>>,
    /// True if there are objects in later stages. Nothing is deleted before they are applied.
    pub is_held: bool,
    /// True if an applied object may become healthy later.
    pub takes_time: bool,
    /// The objects that are applied but unhealthy.
    pub unhealthy: Vec<Unhealthy>,
    /// The objects that were changed on the hub.
    pub correct: Vec<Correction<'a>>,
    /// The objects to delete because one of their fields is immutable. The next plan recreates them.
    pub recreate: Vec<Deletion>,
    /// The objects that left the repository, in reverse stage order.
    pub delete: Vec<Vec<Deletion>>,
    /// The objects that left the repository and that other ConfigRepos requested or Argo CD applies.
    pub hand_over: Vec<HandOver>,
    /// The number of deletions that wait until other ConfigRepos have evaluated the commit.
    pub awaiting_requests: usize,
    /// The deletions that wait for an approval.
    pub hold: Option<DeletionHold>,
    /// True if a person approved the deletions, or the set of deletions of which these remain.
    pub is_approved: bool,
    /// The deletions that count against the budget from now on, including those of this plan. They are recorded
    /// before they are executed.
    pub recent: Recent,
    /// The objects that are being deleted. The next plan follows when they are gone.
    pub terminating: Vec<Terminating>,
    /// The objects that wait for a namespace that the commit does not create. They do not delay other objects.
    pub pending_namespace: Vec<ObjectRef>,
    /// The failed reads. There is no decision until they succeed.
    pub unread: Vec<String>,
    /// The objects that may not be applied. If there are any, no object is applied or deleted.
    pub problems: Vec<Problem>,
    /// The objects of the commit that another ConfigRepo owns.
    pub requests: Inventory,
}

impl SyncPlan<'_> {
    /// Returns a plan that writes nothing and keeps only the obstacles.
    pub(super) fn refused(self, inventory: &Inventory) -> Self {
        let Self { problems, requests, unread, .. } = self;
        Self { inventory: inventory.clone(), problems, requests, unread, ..Self::default() }
    }

    /// Leaves the record of deletions unchanged if the only difference is expired entries, so that an expiring
    /// window does not cause a write.
    pub(super) fn keep_record(&mut self, input: &SyncInput<'_>) {
        let Some(budget) = input.policy.budget else { return };
        let is_as_recorded = |(id, at): (&ObjectId, &Timestamp)| {
            !budget.counts(*at, input.now) || self.recent.get(id) == Some(at)
        };
        let is_new = self.recent.keys().any(|id| !input.recent.contains_key(id));
        if !is_new && input.recent.iter().all(is_as_recorded) {
            self.recent.clone_from(input.recent);
        }
    }

    /// Returns true if the hub matches the repository.
    pub fn is_settled(&self) -> bool {
        let Self {
            inventory: _,
            // These objects match the commit, and their own controllers make them healthy.
            unhealthy: _,
            takes_time: _,
            is_held,
            apply,
            later: _,
            correct,
            recreate,
            delete,
            hand_over,
            awaiting_requests,
            hold,
            recent: _,
            terminating,
            pending_namespace,
            unread,
            problems,
            requests: _,
            is_approved: _,
        } = self;
        !is_held
            && apply.is_empty()
            && correct.is_empty()
            && recreate.is_empty()
            && delete.is_empty()
            && hand_over.is_empty()
            && *awaiting_requests == 0
            && hold.is_none()
            && terminating.is_empty()
            && pending_namespace.is_empty()
            && unread.is_empty()
            && problems.is_empty()
    }
}

/// A deletion of an object, which requires the uid that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub target: ObjectRef,
    /// The uid of the object.
    pub uid: String,
    /// True if a person approved that clusters lose an add-on or work with it.
    pub is_approved: bool,
}

/// A transfer of an object to another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    pub target: ObjectRef,
    /// The uid of the object.
    pub uid: String,
    /// The new owner; `None` for the Argo CD application that tracks the object.
    pub to: Option<Key>,
}
