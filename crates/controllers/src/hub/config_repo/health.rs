//! Waits until the objects of a commit are healthy.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::commit::Commit;
use super::draft::{Draft, MAX_LISTED};
use super::status::{Phase, Readiness, applied_before, revision};
use api::gitops::v1alpha1::{ConfigRepo, UnhealthyObjects};
use engine::health::ObjectHealth;
use engine::sync::{ObjectId, Unhealthy};
use object::duration::{self, later, whole_second};
use object::text::short_commit;

/// The default of `spec.healthTimeout`, also used if the value is not a duration.
const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// The health of the objects of a commit.
pub(super) struct Found<'a> {
    /// Unhealthy objects that match the commit.
    pub(super) unhealthy: &'a [Unhealthy],
    /// True if later stages wait for these objects, or for objects that this plan applies.
    pub(super) is_held: bool,
    /// True if an object that this plan applies may become healthy later.
    pub(super) takes_time: bool,
    /// True if all objects of the commit may exist, and all removed objects are gone.
    pub(super) is_whole: bool,
}

/// Returns how long the objects of a stage may take to become healthy; zero if stages do not wait.
pub(super) fn timeout(repo: &ConfigRepo) -> SignedDuration {
    duration::parse(&repo.spec.health_timeout).unwrap_or(DEFAULT_TIMEOUT)
}

/// Records the health of the objects. Returns the readiness if the ConfigRepo waits for it.
pub(super) fn judge(draft: &mut Draft<'_>, commit: &Commit<'_>, found: &Found<'_>) -> Option<Readiness> {
    let Commit { checkout, desired, identity: _ } = *commit;
    let name = short_commit(&checkout.revision);
    let timeout = timeout(draft.repo);
    let Some(first) = worst(found.unhealthy) else {
        draft.status.unhealthy = None;
        let waits = found.is_held || found.takes_time;
        if found.is_whole && !waits {
            let before = draft.status.healthy.take();
            draft.status.healthy =
                Some(revision(before.as_ref(), checkout, draft.repo, &desired.digest, draft.now));
        }
        let message = match found.is_held {
            true => format!(
                "{name} is being applied; later stages wait until earlier ones are healthy{}",
                applied_before(&draft.status, &checkout.revision)
            ),
            false => format!("{}; not all of its objects are healthy yet", draft.applied(name)),
        };
        return (waits && !timeout.is_zero())
            .then(|| Readiness::new(Phase::Reconciling, "WaitingForHealth", message));
    };
    let since = since(draft, &desired.digest);
    let entry = |one: &Unhealthy| ObjectId::of(&one.object).entry(&one.object.gvk.version);
    draft.status.unhealthy = Some(UnhealthyObjects {
        digest: desired.digest.clone(),
        since: Some(Time(since)),
        total: i32::try_from(found.unhealthy.len()).unwrap_or(i32::MAX),
        objects: found.unhealthy.iter().take(MAX_LISTED).map(entry).collect(),
        ..UnhealthyObjects::default()
    });
    if timeout.is_zero() {
        return None;
    }
    if let Some(way) = &draft.cycle {
        let state = if found.is_held { format!("{name} is applied in part") } else { draft.applied(name) };
        let message = format!(
            "{state}, but these ConfigRepos wait for each other: {}; set spec.healthTimeout of one of them to 0s, or let \
             another repository hold it",
            way.join(" -> ")
        );
        return Some(Readiness::new(Phase::Stalled, "DependencyCycle", message));
    }
    let end = later(since, timeout);
    let more = found.unhealthy.len() - 1;
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (object, why) = (&first.object, why(&first.health));
    let held = match found.is_held {
        true => {
            let before = applied_before(&draft.status, &checkout.revision);
            format!("; later stages of the commit are not applied{before}")
        }
        false => String::new(),
    };
    if end > draft.now {
        draft.plan.wake(end);
        let message = format!("{name} waits until {end} for {object}{others}: {why}{held}");
        return Some(Readiness::new(Phase::Reconciling, "WaitingForHealth", message));
    }
    let limit = &draft.repo.spec.health_timeout;
    let message = format!("{object}{others} of {name} did not become healthy within {limit}: {why}{held}");
    Some(Readiness::new(Phase::Stalled, "HealthTimeout", message))
}

/// Returns an object that has failed, or otherwise the first one.
fn worst(unhealthy: &[Unhealthy]) -> Option<&Unhealthy> {
    let has_failed = |one: &&Unhealthy| matches!(one.health, ObjectHealth::Failed(_));
    unhealthy.iter().find(has_failed).or(unhealthy.first())
}

fn why(health: &ObjectHealth) -> &str {
    match health {
        ObjectHealth::Current => "it is healthy",
        ObjectHealth::InProgress(why) | ObjectHealth::Failed(why) => why,
    }
}

/// Returns since when objects with these contents have been unhealthy. A time in the future is ignored.
fn since(draft: &Draft<'_>, digest: &str) -> Timestamp {
    let before = draft.status.unhealthy.as_ref().filter(|before| before.digest == digest);
    let since = before.and_then(|before| before.since.as_ref()).map(|time| time.0);
    let now = whole_second(draft.now);
    since.filter(|since| *since <= now).unwrap_or(now)
}
