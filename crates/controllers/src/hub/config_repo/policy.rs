//! The apply settings of a ConfigRepo.

use std::collections::BTreeMap;

use super::health;
use api::gitops::v1alpha1::{self as gitops, ConfigRepo, ConfigRepoSpec, DeletionBudget};
use api::names;
use engine::sync::{Budget, IgnoreRule, Problem, SyncPolicy, Takeover};
use object::{Metadata as _, duration};

/// Reads the part of the spec that controls how a commit is applied.
///
/// # Errors
/// Returns the problem of an invalid spec.
pub(super) fn sync_policy(repo: &ConfigRepo) -> Result<SyncPolicy, Problem> {
    let ConfigRepoSpec {
        prune,
        deletion_budget,
        takeover,
        ignore,
        // Read by the source controller.
        url: _,
        interval: _,
        secret_ref: _,
        verify: _,
        decryption: _,
        webhook: _,
        rewind: _,
        // Read by `commit`.
        r#ref: _,
        path: _,
        default_namespace: _,
        service_account_name,
        // Read by `plan` and `deletion`.
        mode: _,
        suspend: _,
        deletion_policy: _,
        // Read by `approval`.
        plan_approval: _,
        // Read by `freeze`.
        freeze_windows: _,
        apply_windows: _,
        // Read by `depends`.
        depends_on: _,
        health_timeout: _,
        // Read by the report controller.
        report: _,
        unknown: _,
    } = &repo.spec;
    let DeletionBudget { objects, percent, window, unknown: _ } = deletion_budget;
    let count = |n: i32| usize::try_from(n).unwrap_or_default();
    let invalid = |why: String| Problem::of_commit("InvalidSpec", why);
    let window = duration::parse(window).ok_or_else(|| {
        invalid(format!("spec.deletionBudget.window: {window:?} is not a duration such as 1h or 0s"))
    })?;
    let ignore = ignore.iter().map(IgnoreRule::read).collect::<Result<_, _>>().map_err(invalid)?;
    let unchangeable = repo.status.iter().flat_map(|status| &status.recreate);
    Ok(SyncPolicy {
        is_blind_to_secrets: !service_account_name.is_empty(),
        takeover: match takeover {
            gitops::Takeover::IfNoDiff => Takeover::IfNoDiff,
            gitops::Takeover::Always => Takeover::Always,
            // Treat an unknown value as the safest one.
            gitops::Takeover::Never | gitops::Takeover::Other(_) => Takeover::Never,
        },
        prune: *prune,
        is_repo_deleted: false,
        budget: Some(Budget { objects: count(*objects), percent: count(*percent), window }),
        approved: repo.annotation(names::APPROVE_DELETION_ANNOTATION).unwrap_or_default().to_owned(),
        approves_rest: false,
        uninstalls: BTreeMap::new(),
        waits_for_health: !health::timeout(repo).is_zero(),
        ignore,
        compared: BTreeMap::new(),
        unchangeable: unchangeable.map(|one| (one.uid.clone(), one.digest.clone())).collect(),
    })
}
