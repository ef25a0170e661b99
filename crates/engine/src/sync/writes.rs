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
    /// The object.
    pub object: ObjectRef,
    /// Since when; `None` if it is deleted now.
    pub since: Option<Timestamp>,
    /// Who has to agree before it is gone.
    pub finalizers: Vec<String>,
}

impl Terminating {
    /// Reads a live object.
    pub(super) fn of(live: &Object) -> Self {
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

/// An object that is as the commit says and not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The object.
    pub object: ObjectRef,
    /// Its health.
    pub health: ObjectHealth,
}

/// A server-side apply of one object of the commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply<'a> {
    /// The object.
    pub desired: &'a DesiredObject,
    /// Its stage.
    pub stage: u8,
    /// Whether the hub has no object of this name.
    pub is_new: bool,
    /// The stage that brings its kind, its namespace or the permission to write it. The API server cannot judge the object
    /// before that stage is written; `None` if it can at once.
    pub arrives_with: Option<u8>,
    /// Takes fields that another manager owns with another value.
    pub force: bool,
    /// Ends the tracking of the object by Argo CD, from which it is taken over.
    pub end_tracking: Option<EndTracking>,
    /// The object with the live values of ignored fields, or with the version that it has to have; `None` if it is applied
    /// as the commit has it.
    pub adopted: Option<Object>,
    /// Managed fields to write before, in which kubectl owns nothing any more.
    pub managed_fields: Option<ManagedFields>,
}

impl Apply<'_> {
    /// Returns whether another write to the object comes before the apply.
    pub fn is_prepared(&self) -> bool {
        self.managed_fields.is_some() || self.end_tracking.is_some()
    }

    /// Returns the object to send, with the annotations of its owner.
    pub fn marked(&self, repo: &Key) -> Object {
        self.desired.marked(self.adopted.as_ref().unwrap_or(&self.desired.object), repo)
    }
}

/// An object that another client changed on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction<'a> {
    /// The apply that corrects it.
    pub apply: Apply<'a>,
    /// The managers that own fields of the commit now, with the paths of the fields.
    pub changed_by: Vec<(String, Vec<String>)>,
    /// The Argo CD application that tracks the object.
    pub application: Option<String>,
}

/// The writes and deletions that bring a commit to the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncPlan<'a> {
    /// The objects that are owned from now on. The inventory is recorded before any other write.
    pub inventory: Inventory,
    /// Objects that are new or changed in the repository, by stage.
    pub apply: Vec<Vec<Apply<'a>>>,
    /// Objects of later stages, which wait until the objects of an earlier one are healthy.
    pub later: Vec<Apply<'a>>,
    /// Whether there are objects of later stages. Nothing is deleted before they are applied.
    pub is_held: bool,
    /// Whether an object that is applied may become healthy later.
    pub takes_time: bool,
    /// Objects that are applied and not healthy.
    pub unhealthy: Vec<Unhealthy>,
    /// Objects that were changed on the hub.
    pub correct: Vec<Correction<'a>>,
    /// Objects that are deleted because a field of them cannot change. The next plan creates them again.
    pub recreate: Vec<Deletion>,
    /// Objects that left the repository, in the reverse order of stages.
    pub delete: Vec<Vec<Deletion>>,
    /// Objects that left the repository and that other ConfigRepos have requested or Argo CD applies.
    pub hand_over: Vec<HandOver>,
    /// Number of deletions that wait until other ConfigRepos have judged the commit.
    pub awaiting_requests: usize,
    /// Deletions that wait for approval.
    pub hold: Option<DeletionHold>,
    /// Whether a person approved the deletions, or those that they are the rest of.
    pub is_approved: bool,
    /// The deletions that count against the budget from now on, with those of this plan. They are recorded
    /// before they are made.
    pub recent: Recent,
    /// Objects that are being deleted; the next plan follows when they are gone.
    pub terminating: Vec<Terminating>,
    /// Objects that wait for a namespace that the commit does not create. They do not delay the others.
    pub pending_namespace: Vec<ObjectRef>,
    /// Failed reads; there is no decision until they succeed.
    pub unread: Vec<String>,
    /// Objects that may not be applied; if there are any, no object is applied or deleted.
    pub problems: Vec<Problem>,
    /// The objects of the commit that another ConfigRepo owns.
    pub requests: Inventory,
}

impl SyncPlan<'_> {
    /// Returns a plan that writes nothing, with what is in the way.
    pub(super) fn refused(self, inventory: &Inventory) -> Self {
        let Self { problems, requests, unread, .. } = self;
        Self { inventory: inventory.clone(), problems, requests, unread, ..Self::default() }
    }

    /// Keeps the record of deletions as it is where it differs only by those that count no longer: the end of
    /// a window causes no write by itself.
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

    /// Returns whether the hub is as the repository says.
    pub fn is_settled(&self) -> bool {
        let Self {
            inventory: _,
            // They are as the commit says, and their own controllers make them healthy.
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

/// Deletes an object if it still has the uid that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The object.
    pub target: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// Whether a person approved that clusters lose an add-on or a work with it.
    pub is_approved: bool,
}

/// Gives an object to another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// The object.
    pub target: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// The ConfigRepo that owns it from now on; `None` for the Argo CD application that tracks it.
    pub to: Option<Key>,
}
