//! The dependencies between ConfigRepos, which must be ready before a dependent one applies a new commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::drift::is_drift;
use super::gate::Gate;
use super::policy::health_timeout;
use crate::followed::is_same_repository;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, Dependency, Revision};
use api::names::{self, approval_reasons::POLICY_HELD, gitops_conditions::READY};
use engine::sync::Unhealthy;
use object::tree::Checkout;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// Maximum number of ConfigRepos in a cycle that a message lists.
const MAX_WAY: usize = 50;

/// Returns the gate of a new commit that waits for other ConfigRepos. A commit that is already applied does not
/// wait: drift in its objects is still corrected.
///
/// # Errors
/// Fails if a ConfigRepo could not be read.
pub(super) fn unmet(repo: &ConfigRepo, checkout: &Checkout, view: &impl View) -> Read<Option<Gate>> {
    let applied = repo.status.as_ref().and_then(|status| status.applied.as_ref());
    if repo.spec.depends_on.is_empty() || applied.is_some_and(|applied| applied.commit == checkout.revision) {
        return Ok(None);
    }
    if let Some(way) = cycle(repo, view)? {
        return Ok(Some(Gate::DependencyCycle(way)));
    }
    for dependency in &repo.spec.depends_on {
        let key = key(repo, dependency);
        let why = match view.get::<ConfigRepo>(&key)? {
            Some(other) => missing(repo, &other, checkout),
            None => Some("does not exist".to_owned()),
        };
        if let Some(why) = why {
            return Ok(Some(Gate::DependencyNotReady(key, why)));
        }
    }
    Ok(None)
}

/// Returns the reason that `repo` waits for `other`, on which it depends; `None` if it does not.
fn missing(repo: &ConfigRepo, other: &ConfigRepo, checkout: &Checkout) -> Option<String> {
    if other.is_terminating() {
        return Some("is being deleted".into());
    }
    if other.spec.suspend {
        return Some("is suspended".into());
    }
    let status = other.status.clone().unwrap_or_default();
    let ready = find_condition(&status.conditions, READY);
    if status.observed_generation != other.metadata.generation || ready.is_none() {
        return Some("has not been reconciled yet".into());
    }
    // A held policy waits for a person, and may wait for the deletions of `repo`.
    let is_applied = |reason: &str| (is_drift(reason) || reason == POLICY_HELD) && is_healthy(&status);
    if let Some(ready) = ready.filter(|ready| !(ready.is_true() || is_applied(&ready.reason))) {
        return Some(format!("is not ready: {}", ready.reason));
    }
    // If both follow the same repository, both apply the same commit, so that neither is ahead of the other.
    let applied = status.applied.map(|applied| applied.commit).unwrap_or_default();
    (is_same_source(repo, other) && applied != checkout.revision)
        .then(|| "has not applied that commit yet".into())
}

/// Returns true if the applied commit is healthy.
fn is_healthy(status: &ConfigRepoStatus) -> bool {
    let commit = |revision: &Option<Revision>| revision.as_ref().map(|revision| revision.commit.clone());
    status.unhealthy.is_none()
        && status.applied.is_some()
        && commit(&status.healthy) == commit(&status.applied)
}

/// Returns true if two ConfigRepos follow the same reference of the same repository.
pub fn is_same_source(one: &ConfigRepo, other: &ConfigRepo) -> bool {
    one.spec.r#ref == other.spec.r#ref && is_same_repository(&one.spec.url, &other.spec.url)
}

/// Returns the cycle of ConfigRepos that wait for each other, if a ConfigRepo waits for the health of one that
/// waits for it.
///
/// # Errors
/// Fails if a ConfigRepo could not be read.
pub(super) fn waits_for_itself(
    repo: &ConfigRepo,
    unhealthy: &[Unhealthy],
    view: &impl View,
) -> Read<Option<Vec<String>>> {
    let is_repo = |one: &Unhealthy| {
        let gvk = &one.object.gvk;
        gvk.group == names::GITOPS_GROUP && gvk.kind == "ConfigRepo"
    };
    if unhealthy.iter().any(is_repo) { cycle(repo, view) } else { Ok(None) }
}

/// Returns the ConfigRepos for which a ConfigRepo waits: its dependencies, and those that it applies and whose
/// health it waits for.
fn waits_for(repo: &ConfigRepo, all: &[Arc<ConfigRepo>]) -> Vec<Key> {
    let own = Key::of(repo).to_string();
    let is_held = |other: &&Arc<ConfigRepo>| {
        other.annotation(names::CONFIG_REPO_ANNOTATION) == Some(own.as_str())
            && Key::of(&***other).to_string() != own
    };
    let held = all.iter().filter(is_held).filter(|_| !health_timeout(repo).is_zero());
    repo.spec.depends_on.iter().map(|it| key(repo, it)).chain(held.map(|other| Key::of(&**other))).collect()
}

/// Returns the cycle of waiting ConfigRepos that contains a ConfigRepo.
fn cycle(repo: &ConfigRepo, view: &impl View) -> Read<Option<Vec<String>>> {
    let start = Key::of(repo);
    let mut ways: Vec<Vec<Key>> = vec![vec![start.clone()]];
    let mut seen = BTreeSet::new();
    let all = view.list::<ConfigRepo>(Query::ALL)?;
    while let Some(way) = ways.pop() {
        let Some(last) = way.last() else { continue };
        let Some(at) = view.get::<ConfigRepo>(last)? else { continue };
        for next in waits_for(&at, &all) {
            let way: Vec<Key> = way.iter().cloned().chain([next.clone()]).collect();
            if next == start {
                return Ok(Some(way.iter().take(MAX_WAY).map(ToString::to_string).collect()));
            }
            if seen.insert(next) {
                ways.push(way);
            }
        }
    }
    Ok(None)
}

fn key(repo: &ConfigRepo, dependency: &Dependency) -> Key {
    let Dependency { name, unknown: _ } = dependency;
    Key::namespaced(repo.namespace(), name)
}

/// Returns true if a ConfigRepo depends on another one.
pub(super) fn is_dependent(repo: &ConfigRepo, on: &Key) -> bool {
    repo.spec.depends_on.iter().any(|dependency| key(repo, dependency) == *on)
}
