//! Mode Observe: another tool applies the commit, and the status reports the progress.

use std::sync::Arc;

use engine::health::ObjectHealth;
use engine::sync::{self, ApplyRule, DesiredObject, IgnoreRule, Problem, SyncPlan, Unhealthy};
use object::{Key, ObjectRef};
use reconcile::{Read, View};

use super::compare::Comparison;
use super::gate::Gate;
use super::identity::RepoIdentity;
use super::read::Commit;

/// Releases the objects that Argo CD now tracks, so that no later commit takes them back. Returns `None` if the
/// ConfigRepo owns none.
pub(super) fn release(commit: &Commit<'_>, view: &impl View) -> Option<Box<SyncPlan<'static>>> {
    let (repo, owned) = (Key::of(commit.repo), &commit.recorded.objects);
    (!owned.is_empty()).then(|| Box::new(sync::release(&repo, owned, |object| view.observed(object))))
}

/// The objects of a commit on the hub.
pub(super) struct Observation<'a> {
    pub(super) commit: &'a Commit<'a>,
    pub(super) total: usize,
    /// The objects that differ from the commit, with the reasons.
    pub(super) differing: Vec<(&'a ObjectRef, String)>,
    /// The unhealthy objects that match the commit, in a plan without writes.
    pub(super) sync: Box<SyncPlan<'static>>,
}

/// Compares the hub with a commit.
///
/// # Errors
/// Returns the reason that the commit cannot be compared.
pub(super) fn observe<'a>(
    commit: &'a Commit<'a>,
    rules: &[IgnoreRule],
    view: &impl View,
) -> Result<Observation<'a>, Gate> {
    let expected: Vec<_> = commit.expected().collect();
    let is_hidden = |wanted: &&&Arc<DesiredObject>| {
        commit.identity != RepoIdentity::Operator && sync::is_secret(&wanted.reference.gvk)
    };
    if let Some(secret) = expected.iter().find(is_hidden) {
        let message = format!(
            "{} cannot be observed: a ConfigRepo with a serviceAccountName does not compare Secrets",
            secret.reference
        );
        let origin = secret.origin.clone();
        return Err(Gate::Refused(vec![Problem { reason: "NotAllowed", message, origin }]));
    }
    let mut observation =
        Observation { commit, total: expected.len(), differing: Vec::new(), sync: Box::default() };
    let mut unread = None;
    let mut comparison = Comparison::new(&commit.identity, view);
    for wanted in expected {
        let object = &wanted.reference;
        match state(wanted, rules, &mut comparison, view) {
            Ok(State::AsWanted(ObjectHealth::Current)) => {}
            Ok(State::AsWanted(health)) => {
                observation.sync.unhealthy.push(Unhealthy { object: object.clone(), health });
            }
            Ok(State::Differs(why)) => observation.differing.push((object, why)),
            // Continue, so that the API server answers all questions at once.
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    match unread {
        Some(error) => Err(Gate::Reading(error.to_string())),
        None => Ok(observation),
    }
}

/// The state of an object of a commit on the hub.
enum State {
    AsWanted(ObjectHealth),
    /// It differs from the commit, for this reason.
    Differs(String),
}

/// Compares an object with the hub.
///
/// # Errors
/// Fails if the object has not been read, or if the API server has not compared it yet.
fn state<V: View>(
    wanted: &DesiredObject,
    rules: &[IgnoreRule],
    comparison: &mut Comparison<'_, V>,
    view: &V,
) -> Read<State> {
    let Some(live) = view.observed(&wanted.reference)? else {
        return Ok(State::Differs("it does not exist".into()));
    };
    let difference = match wanted.apply {
        ApplyRule::IfNotPresent => None,
        ApplyRule::Always | ApplyRule::Merge | ApplyRule::Ignore => {
            comparison.difference(&live, &wanted.compared(rules))?
        }
    };
    Ok(match difference {
        None => State::AsWanted(ObjectHealth::of(&live)),
        Some(field) => State::Differs(format!("it differs at {field}")),
    })
}
