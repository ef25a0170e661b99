//! RolloutPolicies of a commit that would allow deletions of the same commit.
//!
//! A commit would approve its own deletions with them, see docs/hazards.md#approves-itself. The policy and
//! what is deleted may belong to two ConfigRepos of one repository, and either of them may be the first to
//! see the commit. So the one with the policy renders the others from the same commit. It waits for nothing
//! that they do: one that is suspended, late or broken holds a policy, and never lets one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::commit;
use super::deletion::{clusters_of, owner};
use super::plan::source;
use crate::hub::report::followed::follows;
use crate::rollout_policy::{choose, policy_for};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, RolloutPolicy};
use engine::plural::counted;
use engine::rollout::{Policy, Refused};
use engine::sync::{self, Desired, Inventory, ObjectId, SyncPlan};
use object::tree::Checkout;
use object::{Gvk, Key, Metadata as _, ObjectRef};
use reconcile::{Query, Read, View};

/// The reason of the condition Stalled while a RolloutPolicy waits for a deletion of another ConfigRepo.
pub(super) const REASON: &str = "PolicyHeld";

/// ClusterManagementAddOns and ManifestWorkReplicaSets that leave a repository and whose deletion takes them
/// from more clusters than their policy lets lose them at once, with the number of the clusters.
pub(super) type Uninstalls = BTreeMap<ObjectId, usize>;

/// Finds what leaves an inventory and clusters lose, and compares it with the policies as they are on the
/// hub.
///
/// # Errors
/// The clusters or the policies have not been read.
pub(super) fn uninstalls(
    inventory: &Inventory,
    stays: &BTreeSet<ObjectId>,
    view: &impl View,
) -> Read<Uninstalls> {
    let mut uninstalls = Uninstalls::new();
    for id in inventory.keys().filter(|id| !stays.contains(*id)) {
        let Some(owner) = owner(id) else { continue };
        let clusters = clusters_of(owner, view)?;
        if !allows(&policy_for(owner, view)?.0, clusters) {
            uninstalls.insert(id.clone(), clusters);
        }
    }
    Ok(uninstalls)
}

/// Returns whether a policy lets that many clusters lose something at once.
fn allows(policy: &Result<Policy, Refused>, clusters: usize) -> bool {
    policy.as_ref().is_ok_and(|policy| !policy.paused && clusters <= policy.removals.of(clusters))
}

/// The RolloutPolicies of a commit that must not take effect before a person approves a deletion.
#[derive(Default)]
pub(super) struct Loosened {
    /// Policies that would allow a deletion of this ConfigRepo.
    own: Names,
    /// Policies that would allow a deletion of another ConfigRepo of the same repository.
    of_others: Names,
    /// Policies that left the repository, and without which another one allows a deletion of another
    /// ConfigRepo.
    dropped: Names,
    /// The owners of what is deleted, and from how many clusters it removes what it installs.
    elsewhere: BTreeMap<ObjectId, (Key, usize)>,
}

/// Names of policies, each with the first object whose deletion it allows.
type Names = BTreeMap<String, ObjectId>;

impl Loosened {
    /// Compares the policies of a commit with the deletions of its ConfigRepo, and with those of the others
    /// of its repository.
    ///
    /// # Errors
    /// The ConfigRepos, their inventories, the policies or the clusters have not been read, or the other
    /// ConfigRepos are being rendered.
    pub(super) fn of(
        repo: &ConfigRepo,
        (checkout, desired): (&Arc<Checkout>, &Desired),
        (inventory, uninstalls): (&Inventory, &Uninstalls),
        view: &impl View,
    ) -> Read<Self> {
        let policies = Policies::of(inventory, desired);
        let mut loosened = Self::default();
        if !policies.change(view)? {
            return Ok(loosened);
        }
        loosened.own = policies.that_allow(uninstalls, view)?.0;
        let others = Others::of(repo, checkout, view)?;
        let at_risk = others.uninstalls(&desired.ids(), view)?;
        let (written, dropped) = policies.that_allow(&at_risk, view)?;
        if written.is_empty() && dropped.is_empty() {
            return Ok(loosened);
        }
        // Some of these objects may stay, or move to another of the ConfigRepos.
        let leaving = others.leaving(repo, (checkout, desired), at_risk, view)?;
        (loosened.of_others, loosened.dropped) = policies.that_allow(&leaving, view)?;
        let of_owner = |(id, clusters): (ObjectId, usize)| Some((id.clone(), (others.owner(&id)?, clusters)));
        loosened.elsewhere = leaving.into_iter().filter_map(of_owner).collect();
        Ok(loosened)
    }

    /// Says why the deletion of a policy needs an approval.
    pub(super) fn why_dropped(&self) -> Option<String> {
        let (names, allowed) = (list(&self.dropped)?, self.allowed_by(&self.dropped)?);
        Some(format!("without RolloutPolicy {names} the hub would allow {allowed}"))
    }

    /// Keeps policies of the commit from the hub while the deletions wait that they would allow. Returns what
    /// is kept for the deletions of another ConfigRepo.
    pub(super) fn hold(&self, sync: &mut SyncPlan<'_>) -> Option<String> {
        let is_own_waiting = sync.hold.is_some() || sync.awaiting_requests > 0;
        let own = if is_own_waiting { self.own.clone() } else { Names::new() };
        let is_held = |reference: &ObjectRef| {
            let name = &reference.key.name;
            let is_named = own.contains_key(name) || self.of_others.contains_key(name);
            is_named && reference.gvk == Gvk::of::<RolloutPolicy>()
        };
        for stage in &mut sync.apply {
            stage.retain(|one| !is_held(&one.desired.reference));
        }
        sync.correct.retain(|one| !is_held(&one.apply.desired.reference));
        if let (Some(hold), Some(names)) = (&mut sync.hold, list(&own)) {
            let why = format!("; RolloutPolicy {names} of the commit, which would allow that, waits too");
            hold.why.push_str(&why);
        }
        let (names, allowed) = (list(&self.of_others)?, self.allowed_by(&self.of_others)?);
        Some(format!(
            "RolloutPolicy {names}, which would allow {allowed}; approve the deletions of that ConfigRepo, or put the object \
             back"
        ))
    }

    fn allowed_by(&self, names: &Names) -> Option<String> {
        let id = names.values().next()?;
        let (repo, clusters) = self.elsewhere.get(id)?;
        let clusters = counted(*clusters, "cluster");
        Some(format!(
            "that the same commit deletes {id} of the ConfigRepo {repo}, which removes what it installs from {clusters}"
        ))
    }
}

fn list(names: &Names) -> Option<String> {
    let names: Vec<&str> = names.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// What a commit does with RolloutPolicies.
struct Policies {
    written: Vec<RolloutPolicy>,
    dropped: Vec<String>,
}

impl Policies {
    fn of(inventory: &Inventory, desired: &Desired) -> Self {
        let kind = Gvk::of::<RolloutPolicy>();
        let written = desired.objects.iter().filter(|it| it.reference.gvk == kind);
        let written: Vec<RolloutPolicy> = written.filter_map(|it| it.object.to_typed().ok()).collect();
        let stays: BTreeSet<&str> = written.iter().map(|policy| policy.name()).collect();
        let owned = inventory.keys().filter(|id| (&id.group, &id.kind) == (&kind.group, &kind.kind));
        let dropped = owned.map(|id| id.key.name.clone()).filter(|name| !stays.contains(name.as_str()));
        Self { dropped: dropped.collect(), written }
    }

    /// Returns whether the hub has other policies.
    fn change(&self, view: &impl View) -> Read<bool> {
        if self.written.is_empty() && self.dropped.is_empty() {
            return Ok(false);
        }
        let live = view.list::<RolloutPolicy>(Query::ALL)?;
        let find = |name: &str| live.iter().find(|policy| policy.name() == name);
        let differs = |policy: &RolloutPolicy| find(policy.name()).is_none_or(|it| it.spec != policy.spec);
        Ok(self.written.iter().any(differs) || self.dropped.iter().any(|name| find(name).is_some()))
    }

    /// Puts the policies on those of the hub one by one, and takes away those that the commit drops. Returns
    /// the names of those with which, and without which, a deletion would be allowed; they stay as they are
    /// on the hub.
    fn that_allow(&self, uninstalls: &Uninstalls, view: &impl View) -> Read<(Names, Names)> {
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
            if let Some(id) = allowed(&in_force, uninstalls) {
                match before {
                    Some(before) => in_force.insert(name.clone(), before),
                    None => in_force.remove(&name),
                };
                written.insert(name, id.clone());
            }
        }
        for name in &self.dropped {
            let Some(before) = in_force.remove(name) else { continue };
            if let Some(id) = allowed(&in_force, uninstalls) {
                in_force.insert(name.clone(), before);
                dropped.insert(name.clone(), id.clone());
            }
        }
        Ok((written, dropped))
    }
}

/// Returns the first object whose deletion policies allow.
fn allowed<'u>(
    in_force: &BTreeMap<String, RolloutPolicy>,
    uninstalls: &'u Uninstalls,
) -> Option<&'u ObjectId> {
    let policies: Vec<&RolloutPolicy> = in_force.values().collect();
    let is_allowed = |(id, clusters): &(&ObjectId, &usize)| {
        let chosen = owner(id).and_then(|owner| choose(&policies, owner));
        allows(&chosen.map_or_else(|| Ok(Policy::default()), |it| Policy::read(&it.spec)), **clusters)
    };
    uninstalls.iter().find(is_allowed).map(|(id, _)| id)
}

/// Another ConfigRepo that follows the same reference of the same repository, or has the same commit.
struct Other {
    repo: Arc<ConfigRepo>,
    /// The commit that it has now. It may be older or newer than the one that is judged.
    checkout: Option<Arc<Checkout>>,
    inventory: Inventory,
}

struct Others(Vec<Other>);

impl Others {
    /// Finds the ConfigRepos that may delete something with the commit. A suspended one does so later.
    fn of(repo: &ConfigRepo, checkout: &Checkout, view: &impl View) -> Read<Self> {
        let mut others = Vec::new();
        let parts = view.list::<ConfigRepoInventory>(Query::ALL)?;
        for other in view.list::<ConfigRepo>(Query::ALL)? {
            let deletes = other.spec.prune && other.spec.mode != ConfigRepoMode::Observe;
            if !deletes || other.is_terminating() || Key::of(&*other) == Key::of(repo) {
                continue;
            }
            let has = source(&other, view).and_then(|source| source.checkout.clone());
            let is_there = has.as_ref().is_some_and(|has| has.revision == checkout.revision);
            if is_there || follows(&other, &repo.spec.url, repo.spec.r#ref.name()) {
                let inventory = sync::recorded(&other, parts.iter().map(|part| &**part));
                others.push(Other { repo: other, checkout: has, inventory });
            }
        }
        Ok(Self(others))
    }

    /// Returns what they own and the commit of this ConfigRepo does not have.
    fn uninstalls(&self, stays: &BTreeSet<ObjectId>, view: &impl View) -> Read<Uninstalls> {
        let mut all = Uninstalls::new();
        for other in &self.0 {
            all.extend(uninstalls(&other.inventory, stays, view)?);
        }
        Ok(all)
    }

    fn owner(&self, id: &ObjectId) -> Option<Key> {
        let owner = self.0.iter().find(|other| other.inventory.contains_key(id))?;
        Some(Key::of(&*owner.repo))
    }

    /// Keeps those of `at_risk` that leave with the commit of this ConfigRepo, or with the one that their
    /// owner has now. An object of a ConfigRepo that cannot be rendered counts as one that leaves.
    fn leaving(
        &self,
        repo: &ConfigRepo,
        (checkout, desired): (&Arc<Checkout>, &Desired),
        mut at_risk: Uninstalls,
        view: &impl View,
    ) -> Read<Uninstalls> {
        let own = source(repo, view).and_then(|source| source.checkout.clone());
        let members: Vec<(&ConfigRepo, Option<&Arc<Checkout>>)> = std::iter::once((repo, own.as_ref()))
            .chain(self.0.iter().map(|other| (&*other.repo, other.checkout.as_ref())))
            .collect();
        let of_others = self.0.iter().filter_map(|other| other.checkout.as_ref());
        let trees: BTreeMap<&str, &Arc<Checkout>> =
            of_others.chain([checkout]).map(|tree| (tree.revision.as_str(), tree)).collect();
        let all = trees.iter().flat_map(|(revision, tree)| {
            members.iter().map(move |(member, has)| {
                let own = has.filter(|has| has.revision == *revision);
                (*revision, *member, own.unwrap_or(tree))
            })
        });
        let all: Vec<(&str, &ConfigRepo, &Arc<Checkout>)> = all.collect();
        let asked: Vec<_> = all.iter().map(|(_, member, tree)| (*member, *tree)).collect();
        let mut wanted: BTreeMap<&str, BTreeSet<ObjectId>> = BTreeMap::new();
        wanted.entry(checkout.revision.as_str()).or_default().extend(desired.ids());
        for ((revision, ..), ids) in all.iter().zip(commit::wanted(&asked, view)?) {
            wanted.entry(*revision).or_default().extend(ids.unwrap_or_default());
        }
        at_risk.retain(|id, _| {
            let owner = self.0.iter().find(|other| other.inventory.contains_key(id));
            let has = owner.and_then(|owner| owner.checkout.as_ref());
            let revisions = [Some(checkout), has].into_iter().flatten().map(|tree| tree.revision.as_str());
            !revisions.into_iter().all(|revision| wanted.get(revision).is_some_and(|ids| ids.contains(id)))
        });
        Ok(at_risk)
    }
}
