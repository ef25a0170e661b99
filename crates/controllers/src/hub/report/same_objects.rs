//! What a ConfigRepo says apart from the names of commits.
//!
//! A report on a branch that is followed is a commit with the objects of the one before it. If the name of
//! such a commit made the next report, reports would cause each other without end.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use api::gitops::v1alpha1::ConfigRepo;
use object::text::short_commit;

/// Returns a ConfigRepo with the hashes of objects in place of the names of commits, and without what each
/// commit changes: the times, the history, and the status at the provider.
pub(super) fn without_commits(repo: &ConfigRepo) -> ConfigRepo {
    let mut repo = repo.clone();
    let Some(status) = &mut repo.status else { return repo };
    let applied = status.applied.clone().unwrap_or_default();
    let mut names = Vec::new();
    for revision in [&mut status.seen, &mut status.applied, &mut status.healthy].into_iter().flatten() {
        // In mode Observe, `seen` has no hash.
        if revision.commit == applied.commit {
            revision.digest.clone_from(&applied.digest);
        }
        names.push(std::mem::replace(&mut revision.commit, revision.digest.clone()));
        revision.since = None;
    }
    for condition in &mut status.conditions {
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        for name in &names {
            condition.message = condition.message.replace(short_commit(name), "");
        }
    }
    status.history.clear();
    status.commit_status = None;
    repo
}
