//! The input of a plan, in addition to the commit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Budget, IgnoreRule, Inventory, ObjectId, Recent, Uninstall};
use object::Key;

/// The input of a plan, in addition to the commit.
#[derive(Clone, Copy, Debug)]
pub struct SyncInput<'a> {
    pub repo: &'a Key,
    /// The objects that the ConfigRepo currently owns.
    pub inventory: &'a Inventory,
    /// The objects in the inventories of other ConfigRepos.
    pub claimed: &'a BTreeMap<ObjectId, Vec<Claimant>>,
    /// The objects that other ConfigRepos with the same identity request from this one.
    pub requested: &'a BTreeMap<ObjectId, Key>,
    /// True if another ConfigRepo is about to request its objects. Until then, deletions wait.
    pub awaits_requests: bool,
    /// The reason that another ConfigRepo cannot request objects. Until that is resolved, deletions need an
    /// approval.
    pub unjudged: Option<&'a str>,
    /// True if the API server forbids objects that permissions in the commit may allow. These objects are
    /// validated after the permissions are applied.
    pub are_permissions_needed: bool,
    /// The missing namespaces of the ConfigRepo's objects.
    pub missing_namespaces: &'a BTreeSet<String>,
    /// The objects of the commit that this plan does not apply.
    pub withheld: &'a Withheld,
    /// The objects that were deleted without an approval, and the times of their deletions.
    pub recent: &'a Recent,
    /// The current time.
    pub now: Timestamp,
    /// The settings of the ConfigRepo's user.
    pub policy: &'a SyncPolicy,
}

/// Objects of a commit that are not changed, because they would allow something that requires an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Objects that are never changed by this plan.
    pub always: BTreeSet<ObjectId>,
    /// Objects that are unchanged while a deletion that removes something from clusters waits.
    pub with_uninstalls: BTreeSet<ObjectId>,
}

/// Another ConfigRepo whose inventory contains an object.
///
/// An inventory is written before its objects. It shows that the ConfigRepo wants to write them, not that it
/// may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    pub repo: Key,
    /// True if the hub refuses its writes.
    pub is_forbidden: bool,
}

/// The settings that a ConfigRepo's user makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPolicy {
    /// The rule for objects that were created by others.
    pub takeover: Takeover,
    /// True if Secrets of others must not be compared, because the user could learn what the operator can read.
    pub is_blind_to_secrets: bool,
    /// True if objects that leave the repository are deleted.
    pub prune: bool,
    /// True if the objects are deleted because the ConfigRepo is being deleted.
    pub is_repo_deleted: bool,
    /// The limit for deletions without an approval; `None` is unlimited.
    pub budget: Option<Budget>,
    /// The approval token for deletions above the budget; empty if there is none.
    pub approved: String,
    /// True if the approval covered deletions of the same commit, of which these are the remaining ones.
    pub approves_rest: bool,
    /// The objects whose deletion removes an add-on or work from more clusters than allowed at once.
    pub uninstalls: BTreeMap<ObjectId, Uninstall>,
    /// True if each stage waits for the objects of earlier stages to be healthy.
    pub waits_for_health: bool,
    /// The fields that keep their live values.
    pub ignore: Vec<IgnoreRule>,
    /// The objects of others that the API server compared with the commit, each with a field that differs;
    /// `None` if an apply would not change the object.
    pub compared: BTreeMap<ObjectId, Option<String>>,
    /// The uids of objects that could not be changed, with the digests of the desired ones. They are deleted if
    /// their annotation allows it.
    pub unchangeable: BTreeMap<String, String>,
}

/// The rule for objects in the repository that another user or tool created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// Takes over the object if it matches the repository and no other GitOps tool tracks it.
    #[default]
    IfNoDiff,
    /// Takes over the object.
    Always,
    /// Never takes over the object.
    Never,
}
