//! RolloutPolicies in a commit that would allow deletions in the same commit.
//!
//! With them, a commit could approve its own deletions; see docs/hazards-hub.md#approves-itself. The policy and the
//! deleted object may belong to two ConfigRepos of one repository, and either may see the commit first. Therefore
//! the ConfigRepo with the policy renders the others at the same commit. It does not wait for them: a suspended,
//! late or broken ConfigRepo holds a policy and never lets it pass.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::sync::Arc;

use jiff::Timestamp;

use super::commit;
use super::deletion::{clusters_of, owner};
use crate::addon_deletion;
use crate::addon_reads;
use crate::addon_removal::AddOnDeletion;
use crate::followed::follows;
use crate::rollout_policy::{self, RolloutOwner, combined, policy_for, recent, still_counting};
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, RolloutPolicy};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use engine::rollout::policy::CombinedPolicy;
use engine::sync::{self, DeletionHold, Desired, Inventory, ObjectId, Uninstall, Withheld};
use object::tree::Checkout;
use object::{Gvk, Key, Metadata as _};
use reconcile::{Query, Read, View};

/// ClusterManagementAddOns and ManifestWorkReplicaSets that are removed from a repository, and whose deletion
/// affects more clusters than their policy allows at once.
pub(super) type Uninstalls = BTreeMap<ObjectId, Uninstall>;

/// Returns the objects removed from an inventory whose deletion exceeds the current policies on the hub.
///
/// # Errors
/// Fails if the clusters or the policies have not been read.
pub(super) fn uninstalls(
    inventory: &Inventory,
    stays: &BTreeSet<ObjectId>,
    view: &impl View,
    now: Timestamp,
) -> Read<Uninstalls> {
    let mut uninstalls = Uninstalls::new();
    let leave = inventory.keys().filter(|id| !stays.contains(*id));
    let owners: Vec<(&ObjectId, RolloutOwner<'_>)> = leave.filter_map(|id| Some((id, owner(id)?))).collect();
    let names = owners.iter().filter_map(|(_, owner)| match owner {
        RolloutOwner::AddOn(name) => Some(*name),
        RolloutOwner::ReplicaSet(_) => None,
    });
    let add_ons = addon_reads::clusters_by_name(names, view)?;
    for (id, owner) in owners {
        let clusters = match owner {
            RolloutOwner::AddOn(name) => add_ons.get(name).copied().unwrap_or_default(),
            RolloutOwner::ReplicaSet(key) => clusters_of(key, view)?,
        };
        let policy = policy_for(owner, view)?.0;
        let recent = still_counting(recent_of(owner, view)?, &policy, now).into_values().collect();
        let mut uninstall = Uninstall { clusters, recent, until: None };
        uninstall.until = policy.as_ref().ok().and_then(|policy| uninstall.allowed_from(policy));
        if uninstall.until.is_none_or(|until| until > now) {
            uninstalls.insert(id.clone(), uninstall);
        }
    }
    Ok(uninstalls)
}

/// Returns when clusters lost an add-on or a work, according to the policies.
fn recent_of(owner: RolloutOwner<'_>, view: &impl View) -> Read<BTreeMap<String, Timestamp>> {
    Ok(match owner {
        RolloutOwner::AddOn(name) => recent(&rollout_policy::removals_of(name, view)?.recent),
        RolloutOwner::ReplicaSet(_) => {
            let records = rollout_policy::rollouts_of(owner, None, view)?;
            records.iter().flat_map(|record| recent(&record.recent_removals)).collect()
        }
    })
}

/// The RolloutPolicies of a commit that must not take effect before a person approves a deletion.
#[derive(Default)]
pub(super) struct Loosened {
    /// Policies that would allow a deletion of this ConfigRepo.
    own: Names,
    /// Policies that would allow a deletion of another ConfigRepo in the same repository.
    of_others: Names,
    /// Policies removed from the repository, without which another policy allows a deletion of another ConfigRepo.
    dropped: Names,
    /// The owners of the deleted objects, and the number of clusters from which each deletion removes objects.
    elsewhere: BTreeMap<ObjectId, (Key, usize)>,
}

/// Names of policies, each with the first object whose deletion it allows.
type Names = BTreeMap<String, ObjectId>;

impl Loosened {
    /// Checks the policies of a commit against the deletions of its ConfigRepo and of the others in its
    /// repository.
    ///
    /// # Errors
    /// Fails if the ConfigRepos, their inventories, the policies or the clusters have not been read, or if the
    /// other ConfigRepos are still being rendered.
    pub(super) fn of(
        repo: &ConfigRepo,
        (checkout, desired): (&Arc<Checkout>, &Desired),
        (inventory, uninstalls): (&Inventory, &Uninstalls),
        view: &impl View,
        now: Timestamp,
    ) -> Read<Self> {
        let policies = Policies::of(inventory, desired);
        let mut loosened = Self::default();
        if !policies.change(view)? {
            return Ok(loosened);
        }
        loosened.own = policies.that_allow(uninstalls, view, now)?.0;
        let others = Siblings::of(repo, checkout, view)?;
        let at_risk = others.uninstalls(&desired.ids(), view, now)?;
        let (written, dropped) = policies.that_allow(&at_risk, view, now)?;
        if written.is_empty() && dropped.is_empty() {
            return Ok(loosened);
        }
        // Some of these objects may stay, or move to another of the ConfigRepos.
        let leaving = others.leaving(repo, checkout, at_risk, view)?;
        (loosened.of_others, loosened.dropped) = policies.that_allow(&leaving, view, now)?;
        let of_owner = |(id, uninstall): (ObjectId, Uninstall)| {
            Some((id.clone(), (others.owner(&id)?, uninstall.clusters)))
        };
        loosened.elsewhere = leaving.into_iter().filter_map(of_owner).collect();
        Ok(loosened)
    }

    /// Returns the reason that the deletion of a policy needs an approval.
    pub(super) fn why_dropped(&self) -> Option<String> {
        let (names, allowed) = (list(&self.dropped)?, self.allowed_by(&self.dropped)?);
        Some(format!("without RolloutPolicy {names} the hub would allow {allowed}"))
    }

    /// Returns the policies that stay unchanged on the hub while the deletions that they would allow wait.
    pub(super) fn withheld(&self) -> Withheld {
        let kind = Gvk::of::<RolloutPolicy>();
        let id = |name: &String| ObjectId {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            key: Key::cluster(name.as_str()),
        };
        let ids = |names: &Names| names.keys().map(id).collect();
        Withheld { always: ids(&self.of_others), with_uninstalls: ids(&self.own) }
    }

    /// Adds the waiting policies to the reason for waiting deletions.
    pub(super) fn tell(&self, hold: &mut DeletionHold) {
        let waits = hold.objects.iter().any(|id| self.own.values().any(|allowed| allowed == id));
        if let Some(names) = list(&self.own).filter(|_| waits) {
            let why =
                format!("; RolloutPolicy {names} in the commit would allow this deletion, so it waits too");
            hold.why.push_str(&why);
        }
    }

    /// Describes the policies that wait for the deletions of another ConfigRepo.
    pub(super) fn why_held(&self) -> Option<String> {
        let (names, allowed) = (list(&self.of_others)?, self.allowed_by(&self.of_others)?);
        Some(format!(
            "RolloutPolicy {names}, which would allow {allowed}; approve the deletions of that ConfigRepo, put the object back, \
             or, if that ConfigRepo cannot apply the commit, change the policy on the hub by hand"
        ))
    }

    fn allowed_by(&self, names: &Names) -> Option<String> {
        let id = names.values().next()?;
        let (repo, clusters) = self.elsewhere.get(id)?;
        let clusters = counted(*clusters, "cluster");
        Some(format!(
            "that the same commit deletes {id} of ConfigRepo {repo}, which uninstalls it from {clusters}"
        ))
    }
}

fn list(names: &Names) -> Option<String> {
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The RolloutPolicies that a commit writes and drops.
struct Policies {
    written: Vec<RolloutPolicy>,
    dropped: Vec<String>,
}

impl Policies {
    fn of(inventory: &Inventory, desired: &Desired) -> Self {
        let kind = Gvk::of::<RolloutPolicy>();
        let written = desired.objects.iter().filter(|it| it.reference.gvk == kind);
        let written: Vec<RolloutPolicy> = written.filter_map(|it| it.object.to_typed().ok()).collect();
        let stays = desired.ids();
        let owned = inventory.keys().filter(|id| (&id.group, &id.kind) == (&kind.group, &kind.kind));
        let dropped = owned.filter(|id| !stays.contains(*id)).map(|id| id.key.name.clone());
        Self { dropped: dropped.collect(), written }
    }

    /// Returns true if the policies differ from the hub's.
    fn change(&self, view: &impl View) -> Read<bool> {
        if self.written.is_empty() && self.dropped.is_empty() {
            return Ok(false);
        }
        let live = view.list::<RolloutPolicy>(Query::ALL)?;
        let find = |name: &str| live.iter().find(|policy| policy.name() == name);
        let differs = |policy: &RolloutPolicy| find(policy.name()).is_none_or(|it| it.spec != policy.spec);
        Ok(self.written.iter().any(differs) || self.dropped.iter().any(|name| find(name).is_some()))
    }

    /// Adds the policies to the hub's one by one, then drops the ones that the commit drops. Returns the names of
    /// those whose addition or removal would allow a deletion; they stay unchanged on the hub.
    fn that_allow(&self, uninstalls: &Uninstalls, view: &impl View, now: Timestamp) -> Read<(Names, Names)> {
        let (mut written, mut dropped) = (Names::new(), Names::new());
        if uninstalls.is_empty() {
            return Ok((written, dropped));
        }
        let live = view.list::<RolloutPolicy>(Query::ALL)?;
        let mut in_force: BTreeMap<String, RolloutPolicy> =
            live.iter().map(|policy| (policy.name().to_owned(), RolloutPolicy::clone(policy))).collect();
        for policy in &self.written {
            let name = policy.name().to_owned();
            let before = in_force.insert(name.clone(), policy.clone());
            if let Some(id) = allowed(&in_force, uninstalls, now) {
                match before {
                    Some(before) => in_force.insert(name.clone(), before),
                    None => in_force.remove(&name),
                };
                written.insert(name, id.clone());
            }
        }
        for name in &self.dropped {
            let Some(before) = in_force.remove(name) else { continue };
            if let Some(id) = allowed(&in_force, uninstalls, now) {
                in_force.insert(name.clone(), before);
                dropped.insert(name.clone(), id.clone());
            }
        }
        Ok((written, dropped))
    }
}

/// Returns the first object whose deletion the policies allow.
fn allowed<'u>(
    in_force: &BTreeMap<String, RolloutPolicy>,
    uninstalls: &'u Uninstalls,
    now: Timestamp,
) -> Option<&'u ObjectId> {
    let policies: Vec<&RolloutPolicy> = in_force.values().collect();
    let is_allowed = |(id, uninstall): &(&ObjectId, &Uninstall)| {
        let policy =
            owner(id).map_or_else(|| Ok(CombinedPolicy::default()), |owner| combined(&policies, owner));
        policy.is_ok_and(|it| uninstall.allowed_from(&it.policy).is_some_and(|from| from <= now))
    };
    uninstalls.iter().find(is_allowed).map(|(id, _)| id)
}

/// Another ConfigRepo that follows the same reference of the same repository, or has the same commit.
struct Other {
    repo: Arc<ConfigRepo>,
    /// Its current commit, which may be older or newer than the commit that is judged.
    checkout: Option<Arc<Checkout>>,
    inventory: Inventory,
}

struct Siblings(Vec<Other>);

impl Siblings {
    /// Returns the ConfigRepos that may delete objects with the commit. A suspended one does so later.
    fn of(repo: &ConfigRepo, checkout: &Checkout, view: &impl View) -> Read<Self> {
        let mut others = Vec::new();
        let parts = view.list::<ConfigRepoInventory>(Query::ALL)?;
        for other in view.list::<ConfigRepo>(Query::ALL)? {
            let deletes = other.spec.prune && other.spec.mode != ConfigRepoMode::Observe;
            if !deletes || other.is_terminating() || Key::of(&*other) == Key::of(repo) {
                continue;
            }
            let has = commit::source(&other, view).and_then(|source| source.checkout.clone());
            let is_there = has.as_ref().is_some_and(|has| has.revision == checkout.revision);
            if is_there || follows(&other, &repo.spec.url, repo.spec.r#ref.name()) {
                let inventory = sync::recorded(&other, parts.iter().map(|part| &**part));
                others.push(Other { repo: other, checkout: has, inventory });
            }
        }
        Ok(Self(others))
    }

    /// Returns the objects that the others own and that this ConfigRepo's commit does not have. Approved deletions
    /// that are already in progress wait for no policy.
    fn uninstalls(&self, stays: &BTreeSet<ObjectId>, view: &impl View, now: Timestamp) -> Read<Uninstalls> {
        let mut all = Uninstalls::new();
        for other in &self.0 {
            for (id, uninstall) in uninstalls(&other.inventory, stays, view, now)? {
                if !is_leaving(&id, view)? {
                    all.insert(id, uninstall);
                }
            }
        }
        Ok(all)
    }

    fn owner(&self, id: &ObjectId) -> Option<Key> {
        let owner = self.0.iter().find(|other| other.inventory.contains_key(id))?;
        Some(Key::of(&*owner.repo))
    }

    /// Keeps the objects in `at_risk` that this ConfigRepo's commit or their owner's current commit removes.
    /// Objects of a ConfigRepo that cannot be rendered count as removed.
    fn leaving(
        &self,
        repo: &ConfigRepo,
        checkout: &Arc<Checkout>,
        mut at_risk: Uninstalls,
        view: &impl View,
    ) -> Read<Uninstalls> {
        let own = commit::source(repo, view).and_then(|source| source.checkout.clone());
        let others = self.0.iter().map(|other| (&*other.repo, other.checkout.as_ref()));
        let members: Vec<(&ConfigRepo, Option<&Arc<Checkout>>)> =
            once((repo, own.as_ref())).chain(others).collect();
        let of_others = self.0.iter().filter_map(|other| other.checkout.as_ref());
        let trees: BTreeMap<&str, &Arc<Checkout>> =
            of_others.chain([checkout]).map(|tree| (tree.revision.as_str(), tree)).collect();
        let mut asked: Vec<(&ConfigRepo, &Arc<Checkout>)> = Vec::new();
        for tree in trees.into_values() {
            for (member, has) in &members {
                // A ConfigRepo may have another tree of the same commit.
                let own = has.filter(|has| has.revision == tree.revision);
                asked.push((member, own.unwrap_or(tree)));
            }
        }
        let wanted = commit::wanted(&asked, view)?;
        let stays =
            |id: &ObjectId, tree: &Checkout| wanted.get(&tree.revision).is_some_and(|ids| ids.contains(id));
        at_risk.retain(|id, _| {
            let owner = self.0.iter().find(|other| other.inventory.contains_key(id));
            let has = owner.and_then(|owner| owner.checkout.as_ref());
            ![Some(checkout), has].into_iter().flatten().all(|tree| stays(id, tree))
        });
        Ok(at_risk)
    }
}

/// Returns true if an object is being deleted and no budget holds the removal from clusters.
fn is_leaving(id: &ObjectId, view: &impl View) -> Read<bool> {
    match owner(id) {
        Some(RolloutOwner::AddOn(name)) => {
            let cma = view.get_readable::<ClusterManagementAddOn>(&Key::cluster(name))?;
            Ok(cma.is_some_and(|cma| matches!(addon_deletion::of(&cma), Some(AddOnDeletion::Approved))))
        }
        Some(RolloutOwner::ReplicaSet(key)) => {
            let set = view.get_readable::<ManifestWorkReplicaSet>(key)?;
            Ok(set.is_some_and(|set| set.is_terminating()))
        }
        None => Ok(false),
    }
}
