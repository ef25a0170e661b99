//! The input of a plan beside the commit.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Budget, IgnoreRule, Inventory, ObjectId, Recent, Uninstall};
use object::Key;

/// The input of a plan beside the commit.
#[derive(Clone, Copy, Debug)]
pub struct SyncInput<'a> {
    /// The ConfigRepo.
    pub repo: &'a Key,
    /// The objects that it owns so far.
    pub inventory: &'a Inventory,
    /// The objects in the inventories of other ConfigRepos.
    pub claimed: &'a BTreeMap<ObjectId, Vec<Claimant>>,
    /// The objects that other ConfigRepos of the same identity want to have from it.
    pub requested: &'a BTreeMap<ObjectId, Key>,
    /// Whether another ConfigRepo will soon have requested what it wants. Deletions wait meanwhile.
    pub awaits_requests: bool,
    /// Why another ConfigRepo cannot request what it may want. Deletions need an approval meanwhile.
    pub unjudged: Option<&'a str>,
    /// Whether the API server forbids objects that the permissions of the commit may allow. They are judged after these.
    pub are_permissions_needed: bool,
    /// The missing namespaces of its objects.
    pub missing_namespaces: &'a BTreeSet<String>,
    /// The objects of the commit that are not applied by this plan.
    pub withheld: &'a Withheld,
    /// The objects that it deleted without an approval, and when.
    pub recent: &'a Recent,
    /// The time.
    pub now: Timestamp,
    /// The decisions of its user.
    pub policy: &'a SyncPolicy,
}

/// Objects of a commit that stay as they are on the hub: they would allow what must wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Those that stay as they are in any case.
    pub always: BTreeSet<ObjectId>,
    /// Those that stay as they are while a deletion that clusters lose something with waits.
    pub with_uninstalls: BTreeSet<ObjectId>,
}

/// Another ConfigRepo whose inventory has an object.
///
/// An inventory is written before its objects, so it shows what the ConfigRepo wants to write, and not
/// that it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The ConfigRepo.
    pub repo: Key,
    /// Whether the hub refuses its writes.
    pub is_forbidden: bool,
}

/// The settings of the user of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPolicy {
    /// The rule for objects that others created.
    pub takeover: Takeover,
    /// Whether Secrets of others are not compared: the user may not learn what the operator can read.
    pub is_blind_to_secrets: bool,
    /// Whether objects that leave the repository are deleted.
    pub prune: bool,
    /// Whether the objects are deleted because the ConfigRepo is.
    pub is_repo_deleted: bool,
    /// The limit of the deletions without approval; `None` sets no limit.
    pub budget: Option<Budget>,
    /// The approval of deletions above the budget; empty if there is none.
    pub approved: String,
    /// Whether it was given for deletions of the same commit of which these are left.
    pub approves_rest: bool,
    /// The objects with which more clusters lose an add-on or a work than may at once.
    pub uninstalls: BTreeMap<ObjectId, Uninstall>,
    /// Whether a stage waits until the objects of the stages before it are healthy.
    pub waits_for_health: bool,
    /// Fields that are left as they are on the hub.
    pub ignore: Vec<IgnoreRule>,
    /// The objects of others that the API server has compared with the commit, each with a field that differs; `None` if
    /// it would leave the object as it is.
    pub compared: BTreeMap<ObjectId, Option<String>>,
    /// The uids of objects that could not be changed, with the digests of the wanted ones. They are deleted
    /// if their annotation says so.
    pub unchangeable: BTreeMap<String, String>,
}

/// The rule for an object of the repository that another user or tool created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// Takes it over if it is as the repository wants it and no other GitOps tool tracks it.
    #[default]
    IfNoDiff,
    /// Takes it over.
    Always,
    /// Leaves it alone.
    Never,
}
