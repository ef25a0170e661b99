//! Decides what to do with one object of a commit.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use super::argo::{EndTracking, argo_application};
use super::health::takes_time;
use super::ignore::{self, IgnoreRule};
use super::input::SyncInput;
use super::kubectl;
use super::ownership::{Ownership, changed_guard, is_self, ownership};
use super::writes::{Apply, Correction, Deletion, Terminating};
use super::{ApplyRule, Comparisons, DesiredObject, Problem};
use crate::health::ObjectHealth;
use crate::order::hub_stage;
use api::names;
use object::fields::{is_as_applied, owned_by_others};
use object::{Object, ObjectRef};

/// The decision about one object of the commit.
pub(super) enum ObjectDecision<'a> {
    /// The annotation of the object leaves it to others.
    Leave,
    Unchanged(ObjectHealth),
    Apply {
        apply: Apply<'a>,
        takes_time: bool,
    },
    Correct(Correction<'a>),
    Recreate(Deletion),
    NamespaceMissing,
    Terminating(Terminating),
    Unread(String),
    Refuse(Problem),
}

/// Decides about objects one by one.
pub(super) struct Decider<'a, 'p, L> {
    pub(super) input: &'p SyncInput<'p>,
    pub(super) comparisons: &'p mut Comparisons,
    /// Reads an object from the hub.
    pub(super) live: &'p L,
    /// The groups and kinds of the definitions in the commit.
    pub(super) defined: BTreeSet<(&'a str, &'a str)>,
}

impl<'a, E: Display, L: Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>> Decider<'a, '_, L> {
    pub(super) fn decide(&mut self, desired: &'a DesiredObject) -> ObjectDecision<'a> {
        let input = self.input;
        let gvk = &desired.reference.gvk;
        if desired.apply == ApplyRule::Ignore {
            return ObjectDecision::Leave;
        }
        if let Some(hook) = desired.hook() {
            return ObjectDecision::Refuse(hook_problem(desired, hook));
        }
        if input.missing_namespaces.contains(&desired.reference.key.namespace) {
            return ObjectDecision::NamespaceMissing;
        }
        let is_self = is_self(input.repo, &desired.reference);
        let take = |force, end_tracking, live: Option<&Object>| ObjectDecision::Apply {
            apply: Apply { end_tracking, ..self.apply(desired, force, live) },
            takes_time: !is_self && takes_time(&desired.object, live),
        };
        let write = |force, live: Option<&Object>| take(force, None, live);
        let live = match (self.live)(&desired.reference) {
            Ok(live) => live,
            // An earlier stage applies the definition. Without force, the apply takes no fields from other
            // managers.
            Err(_) if self.defined.contains(&(gvk.group.as_str(), gvk.kind.as_str())) => {
                return write(false, None);
            }
            Err(error) => {
                return ObjectDecision::Unread(format!(
                    "{error}; if this persists, the definition of {gvk} is missing"
                ));
            }
        };
        if desired.apply == ApplyRule::IfNotPresent && live.is_some() {
            return ObjectDecision::Leave;
        }
        if let Some(health) = live.as_ref().and_then(|live| self.comparisons.unchanged(desired, live)) {
            return ObjectDecision::Unchanged(health);
        }
        if let Some(live) = &live
            && let Some(field) = changed_guard(input.repo, &desired.object, live)
        {
            let message = format!(
                "{} changes its own spec.{field}, and a repository may not decide that for itself; change it on the hub first",
                desired.reference
            );
            return ObjectDecision::Refuse(Problem {
                reason: "NotAllowed",
                message,
                origin: desired.origin.clone(),
            });
        }
        match ownership(input, desired, live.as_deref()) {
            Ownership::Refused { reason, message } => {
                ObjectDecision::Refuse(Problem { reason, message, origin: desired.origin.clone() })
            }
            Ownership::Available { force, tracking } => {
                let tracked = live.as_deref().filter(|_| tracking.is_some());
                let end = tracked.and_then(|live| EndTracking::of(live, &desired.object));
                take(force, end, live.as_deref())
            }
            Ownership::Equal => self.take_as_it_is(desired, live.as_deref()),
            Ownership::Ours => match live {
                Some(live) if live.is_terminating() => ObjectDecision::Terminating(Terminating::new(&live)),
                Some(live) if self.is_recreated(desired, &live) => {
                    let (target, uid) = (live.reference(), live.uid().to_owned());
                    ObjectDecision::Recreate(Deletion { target, uid, is_approved: false })
                }
                Some(live) if !desired.is_last_applied(&live) => write(true, Some(&live)),
                Some(live) => self.compare(desired, &live),
                None => write(true, None),
            },
        }
    }

    /// Takes over an object in the version that was compared. Uses force, because the API server reports a
    /// conflict even for the same value in another form.
    fn take_as_it_is(&self, desired: &'a DesiredObject, live: Option<&Object>) -> ObjectDecision<'a> {
        let mut apply = self.apply(desired, true, live);
        if let Some(live) = live
            && !apply.is_prepared()
        {
            let sent = apply.adopted.get_or_insert_with(|| desired.object.clone());
            sent.metadata_mut().insert("resourceVersion".into(), live.resource_version().into());
        }
        ObjectDecision::Apply { apply, takes_time: takes_time(&desired.object, live) }
    }

    /// Compares an object with the version that was applied last.
    fn compare(&mut self, desired: &'a DesiredObject, live: &Arc<Object>) -> ObjectDecision<'a> {
        let compared = desired.compared(&self.input.policy.ignore);
        if is_as_applied(live, &compared, names::CONFIG_REPO_MANAGER) {
            // A ConfigRepo becomes healthy only after this plan, so it must not wait for itself.
            let is_self = is_self(self.input.repo, &desired.reference);
            let health = if is_self { ObjectHealth::Current } else { ObjectHealth::of(live) };
            self.comparisons.remember(desired, live, &health);
            return ObjectDecision::Unchanged(health);
        }
        let changed_by = owned_by_others(live, &compared, names::CONFIG_REPO_MANAGER);
        let application = argo_application(live);
        ObjectDecision::Correct(Correction {
            apply: self.apply(desired, true, Some(live)),
            changed_by,
            application,
        })
    }

    /// Returns true if the API server refused to change the object, and its annotation allows recreating it.
    fn is_recreated(&self, desired: &DesiredObject, live: &Object) -> bool {
        desired.is_recreated && self.input.policy.unchangeable.get(live.uid()) == Some(&desired.digest)
    }
}

impl<'a, L> Decider<'a, '_, L> {
    fn apply(&self, desired: &'a DesiredObject, force: bool, live: Option<&Object>) -> Apply<'a> {
        let paths = ignore::paths_of(&desired.reference, &desired.ignored, &self.input.policy.ignore);
        let adopted = live.filter(|_| !paths.is_empty());
        let is_taken = desired.apply != ApplyRule::Merge;
        Apply {
            desired,
            stage: hub_stage(&desired.reference.gvk),
            is_new: live.is_none(),
            arrives_with: None,
            force,
            end_tracking: None,
            adopted: adopted.map(|live| ignore::adopted(&desired.object, live, &paths)),
            managed_fields: live
                .filter(|_| is_taken)
                .and_then(|live| kubectl::take_over(live, &desired.object)),
        }
    }
}

impl DesiredObject {
    /// Returns the object without its ignored fields.
    pub fn compared(&self, rules: &[IgnoreRule]) -> Cow<'_, Object> {
        match &ignore::paths_of(&self.reference, &self.ignored, rules)[..] {
            [] => Cow::Borrowed(&self.object),
            paths => Cow::Owned(ignore::without(&self.object, paths)),
        }
    }

    /// Returns true if the digest on a live object shows that this version was applied last.
    pub fn is_last_applied(&self, live: &Object) -> bool {
        live.annotations().get(names::APPLIED_DIGEST_ANNOTATION) == Some(&self.digest.as_str())
    }
}

/// Returns the problem of a hook of Argo CD, which is never applied.
fn hook_problem(desired: &DesiredObject, hook: &str) -> Problem {
    let message = format!(
        "{} is a {hook} hook of Argo CD, and a ConfigRepo runs no hooks: it would apply the object once and keep it. Remove it from \
         the repository, annotate it with {}: Ignore, or leave the repository to Argo CD with spec.mode: Observe",
        desired.reference,
        names::APPLY_ANNOTATION
    );
    Problem { reason: "ArgoHook", message, origin: desired.origin.clone() }
}

/// Returns the group and kind that an object defines, if it is a definition.
pub(super) fn defined_kind(desired: &DesiredObject) -> Option<(&str, &str)> {
    if desired.reference.gvk.kind != "CustomResourceDefinition" {
        return None;
    }
    let group = desired.object.at(&["spec", "group"])?.as_str()?;
    let kind = desired.object.at(&["spec", "names", "kind"])?.as_str()?;
    Some((group, kind))
}
