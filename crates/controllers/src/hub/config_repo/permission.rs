//! Kinds in a commit that the operator may not read.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::gate::Gate;
use super::read::Commit;
use super::status::FORBIDDEN;
use engine::sync::{DesiredObject, Problem};
use reconcile::{ReadErrorReason, View};

/// Refuses a commit with kinds that the operator may not list.
///
/// # Errors
/// Returns the problems of these kinds.
pub(super) fn check(commit: &Commit<'_>, view: &impl View) -> Result<(), Gate> {
    let mut kinds = BTreeSet::new();
    let first_of_kinds = commit.expected().filter(|object| kinds.insert(&object.reference.gvk));
    let problems: Vec<_> = first_of_kinds.filter_map(|object| refusal(object, view)).collect();
    if problems.is_empty() { Ok(()) } else { Err(Gate::Forbidden(problems)) }
}

/// Returns the problem of an object whose kind the operator may not list. The API server's error names the verb,
/// the resource and the identity.
fn refusal(object: &Arc<DesiredObject>, view: &impl View) -> Option<Problem> {
    let error = view.observed(&object.reference).err()?;
    let message = format!(
        "{error}; the operator needs get, list and watch of each kind that a repository applies, and \
         docs/permissions.md says how to grant them"
    );
    let problem = Problem { reason: FORBIDDEN, message, origin: object.origin.clone() };
    (error.reason == ReadErrorReason::Failed).then_some(problem)
}
