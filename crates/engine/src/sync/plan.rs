//! What is written and deleted, given the commit, the inventory and what is live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Map;

use super::order::STAGES;
use super::ownership::{Claim, claim, is_marked};
use super::{Budget, Desired, Held, Id, Inventory, Problem, Takeover, budget, stage};
use crate::applier::covers;
use api::names;
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::{Action, Precondition, Read, Site};

/// Field manager of everything that is applied from repositories.
const MANAGER: &str = names::CONFIG_REPO_MANAGER;

/// What is known before anything is written.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The repository.
    pub repo: &'a Key,
    /// The objects of its commit, in stage order.
    pub desired: &'a [Desired],
    /// What it owns so far.
    pub inventory: &'a Inventory,
    /// What other repositories own.
    pub claimed: &'a BTreeMap<Id, Key>,
    /// Namespaces that do not exist, of those its objects are in.
    pub missing: &'a BTreeSet<String>,
    /// What its user decided.
    pub policy: &'a Policy,
}

/// What the user of a repository decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What happens to objects of others.
    pub takeover: Takeover,
    /// Whether what left the repository is deleted.
    pub prune: bool,
    /// How much may be deleted at once; everything where absent.
    pub budget: Option<Budget>,
    /// Deletions that were approved.
    pub approved: String,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sync {
    /// What is owned from now on; recorded before anything is written.
    pub inventory: Inventory,
    /// Objects that are new or changed in the repository, by stage.
    pub apply: Vec<Vec<Action>>,
    /// Objects that somebody changed on the hub, to be put right.
    pub correct: Vec<Action>,
    /// What left the repository, in the reverse order of stages.
    pub delete: Vec<Vec<Action>>,
    /// Deletions that wait for a person.
    pub held: Option<Held>,
    /// Objects that are on their way out, so that the next plan can follow when they are gone.
    pub leaving: usize,
    /// Objects that wait for their namespace, which the commit does not hold; the others do not wait for them.
    pub homeless: Vec<ObjectRef>,
    /// Why nothing can be decided yet.
    pub waiting: Vec<String>,
    /// Objects that may not be applied; then nothing is.
    pub problems: Vec<Problem>,
}

/// Decides. `live` reads an object of the hub; `Err` where its kind has not been read, from which nothing is concluded.
pub fn plan(input: &Input<'_>, live: impl Fn(&ObjectRef) -> Read<Option<Arc<Object>>>) -> Sync {
    let mut sync = Sync::default();
    let defined = defined_kinds(input.desired);
    let mut staged: Vec<Vec<Action>> = (0..STAGES).map(|_| Vec::new()).collect();
    for desired in input.desired {
        match decide(input, desired, &live, &defined) {
            Decision::Keep => {}
            Decision::Apply(action) => staged
                .iter_mut()
                .skip(stage(&desired.reference.gvk).into())
                .take(1)
                .for_each(|s| s.push(action.clone())),
            Decision::Correct(action) => sync.correct.push(action),
            Decision::Homeless => sync.homeless.push(desired.reference.clone()),
            Decision::Leaving => sync.leaving += 1,
            Decision::Wait(why) => sync.waiting.push(why),
            Decision::Refuse(problem) => sync.problems.push(problem),
        }
    }
    sync.waiting.dedup();
    if !sync.problems.is_empty() || !sync.waiting.is_empty() {
        // Nothing is written, so what is owned stays what it was.
        return Sync {
            inventory: input.inventory.clone(),
            problems: sync.problems,
            waiting: sync.waiting,
            ..Sync::default()
        };
    }
    sync.apply = staged.into_iter().filter(|stage| !stage.is_empty()).collect();
    sync.inventory =
        input.desired.iter().map(|d| (Id::of(&d.reference), d.reference.gvk.version.clone())).collect();
    prune(input, &live, &mut sync);
    debug_assert!(
        input.desired.iter().all(|d| sync.inventory.contains_key(&Id::of(&d.reference))),
        "what is applied is owned"
    );
    sync
}

enum Decision {
    Keep,
    Apply(Action),
    Correct(Action),
    Homeless,
    Leaving,
    Wait(String),
    Refuse(Problem),
}

fn decide(
    input: &Input<'_>,
    desired: &Desired,
    live: &impl Fn(&ObjectRef) -> Read<Option<Arc<Object>>>,
    defined: &BTreeSet<(&str, &str)>,
) -> Decision {
    let what = &desired.reference;
    if input.missing.contains(&what.key.namespace) {
        return Decision::Homeless;
    }
    let apply = |force| Action::Apply {
        site: Site::Hub,
        object: desired.object.clone(),
        force,
        manager: Some(MANAGER.to_owned()),
    };
    let live = match live(what) {
        Ok(live) => live,
        // Its definition goes in an earlier stage; without force, so that nobody's fields are taken unseen.
        Err(_) if defined.contains(&(what.gvk.group.as_str(), what.gvk.kind.as_str())) => {
            return Decision::Apply(apply(false));
        }
        Err(unread) => {
            return Decision::Wait(format!(
                "{unread}; if this stays, is the definition of {} installed?",
                what.gvk
            ));
        }
    };
    match claim(input.repo, desired, live.as_deref(), input.claimed, input.policy.takeover) {
        Claim::Refused { reason, message } => {
            Decision::Refuse(Problem { reason, message, origin: desired.origin.clone() })
        }
        Claim::Free { force } => Decision::Apply(apply(force)),
        Claim::Ours => match live {
            Some(live) if live.is_terminating() => Decision::Leaving,
            Some(live)
                if live.annotations().get(names::APPLIED_DIGEST_ANNOTATION)
                    != Some(&desired.digest.as_str()) =>
            {
                Decision::Apply(apply(true))
            }
            Some(live) if is_covered(&live, &desired.object) => Decision::Keep,
            Some(_) => Decision::Correct(apply(true)),
            None => Decision::Apply(apply(true)),
        },
    }
}

/// Whether a live object has all that a desired one says, whatever else it has.
pub fn is_covered(live: &Object, desired: &Object) -> bool {
    desired.0.iter().all(|(field, value)| match live.0.get(field) {
        Some(live) => covers(live, value),
        None => {
            value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.is_null()
        }
    })
}

/// Kinds whose definitions are part of the commit.
fn defined_kinds(desired: &[Desired]) -> BTreeSet<(&str, &str)> {
    let definitions = desired.iter().filter(|d| d.reference.gvk.kind == "CustomResourceDefinition");
    definitions
        .filter_map(|d| {
            let group = d.object.at(&["spec", "group"])?.as_str()?;
            let kind = d.object.at(&["spec", "names", "kind"])?.as_str()?;
            Some((group, kind))
        })
        .collect()
}

/// Adds what left the repository: deleted, held, released or kept in the inventory until it is gone.
fn prune(input: &Input<'_>, live: &impl Fn(&ObjectRef) -> Read<Option<Arc<Object>>>, sync: &mut Sync) {
    let mut doomed: BTreeMap<Id, Arc<Object>> = BTreeMap::new();
    for (id, version) in
        input.inventory.iter().filter(|(id, _)| !sync.inventory.contains_key(*id)).collect::<Vec<_>>()
    {
        match fate(input, id, live(&id.at(version))) {
            Fate::Released => {}
            Fate::Unknown => {
                sync.inventory.insert(id.clone(), version.clone());
            }
            Fate::Leaving => {
                sync.leaving += 1;
                sync.inventory.insert(id.clone(), version.clone());
            }
            Fate::Doomed(object) => {
                sync.inventory.insert(id.clone(), version.clone());
                doomed.insert(id.clone(), object);
            }
        }
    }
    let ids: Vec<Id> = doomed.keys().cloned().collect();
    let owned = input.inventory.len();
    let approved = &input.policy.approved;
    sync.held = input
        .policy
        .budget
        .and_then(|budget| budget::hold(budget, &ids, owned, input.desired.len(), approved));
    if sync.held.is_some() {
        return;
    }
    for wanted in (0..STAGES).rev() {
        let of_stage = doomed.values().filter(|object| stage(&object.gvk()) == wanted);
        let actions: Vec<_> = of_stage.map(|object| delete(object)).collect();
        if !actions.is_empty() {
            sync.delete.push(actions);
        }
    }
}

/// What becomes of an object that is in the inventory and not in the repository.
enum Fate {
    /// It is gone, somebody else's, or kept on purpose: no longer in the inventory.
    Released,
    /// Its kind could not be read; nothing is concluded from that.
    Unknown,
    /// It is being deleted.
    Leaving,
    /// It is to be deleted.
    Doomed(Arc<Object>),
}

fn fate(input: &Input<'_>, id: &Id, live: Read<Option<Arc<Object>>>) -> Fate {
    let Ok(live) = live else { return Fate::Unknown };
    let Some(live) = live.filter(|live| is_marked(live, input.repo)) else { return Fate::Released };
    let kept = live.annotations().get(names::PRUNE_ANNOTATION) == Some(&"disabled");
    // A repository that deletes itself, or the room it stands in, could never say so.
    let own = id.kind == "ConfigRepo" && id.group == names::GITOPS_GROUP && id.key == *input.repo;
    let home = id.kind == "Namespace" && id.group.is_empty() && id.key.name == input.repo.namespace;
    if !input.policy.prune || kept || own || home {
        return Fate::Released;
    }
    if live.is_terminating() { Fate::Leaving } else { Fate::Doomed(live) }
}

/// Deletes an object, if it is still the one that was read.
fn delete(object: &Object) -> Action {
    let precondition = Precondition { uid: object.uid().to_owned(), resource_version: String::new() };
    Action::Delete { site: Site::Hub, target: object.reference(), precondition, orphan: false }
}

/// The namespaces that objects are in and the commit itself does not hold.
pub fn homes(desired: &[Desired]) -> BTreeSet<String> {
    let made = |name: &str| {
        desired.iter().any(|d| d.reference.gvk.kind == "Namespace" && d.reference.key.name == name)
    };
    let homes: BTreeSet<_> =
        desired.iter().map(|d| d.reference.key.namespace.clone()).filter(|home| !home.is_empty()).collect();
    homes.into_iter().filter(|home| !made(home)).collect()
}

impl Input<'_> {
    /// The kinds that must be watched to decide.
    pub fn kinds(&self) -> Vec<Gvk> {
        let desired = self.desired.iter().map(|desired| desired.reference.gvk.clone());
        let owned = self.inventory.iter().map(|(id, version)| id.at(version).gvk);
        desired.chain(owned).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl Sync {
    /// Whether the hub is as the repository says.
    pub fn is_settled(&self) -> bool {
        let Self { inventory: _, apply, correct, delete, held, leaving, homeless, waiting, problems } = self;
        apply.is_empty()
            && correct.is_empty()
            && delete.is_empty()
            && held.is_none()
            && *leaving == 0
            && homeless.is_empty()
            && waiting.is_empty()
            && problems.is_empty()
    }
}

#[cfg(test)]
mod tests;
