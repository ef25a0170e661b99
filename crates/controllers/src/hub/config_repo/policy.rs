//! The apply settings of a ConfigRepo.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use api::gitops::v1alpha1::{self as gitops, ConfigRepo, ConfigRepoSpec, DeletionBudget};
use api::names;
use engine::sync::{Budget, IgnoreRule, Problem, SyncPolicy, Takeover};
use object::{Metadata as _, duration};

/// The default of `spec.healthTimeout`, also used if the value is not a duration.
const DEFAULT_HEALTH_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// Returns how long the objects of a stage may take to become healthy; zero if stages do not wait.
pub(super) fn health_timeout(repo: &ConfigRepo) -> SignedDuration {
    duration::parse(&repo.spec.health_timeout).unwrap_or(DEFAULT_HEALTH_TIMEOUT)
}

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
        charts: _,
        webhook: _,
        rewind: _,
        // Read by `commit`.
        secrets: _,
        r#ref: _,
        path: _,
        paths: _,
        default_namespace: _,
        service_account_name,
        // Read by `plan`, `read` and `deletion`.
        mode: _,
        suspend: _,
        freeze_windows: _,
        apply_windows: _,
        deletion_policy: _,
        // Read by `approval`.
        plan_approval: _,
        // Read by `depends`.
        depends_on: _,
        // Read by `health_timeout`.
        health_timeout: _,
        // Read by the report and notification controllers.
        report: _,
        notifications: _,
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
        waits_for_health: !health_timeout(repo).is_zero(),
        ignore,
        compared: BTreeMap::new(),
        unchangeable: unchangeable.map(|one| (one.uid.clone(), one.digest.clone())).collect(),
    })
}
