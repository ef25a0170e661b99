//! Corrects objects that another client changed on the hub.

use std::collections::BTreeMap;
use std::fmt::Display;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::duration::{later, whole_second};
use object::text::clip;

use super::draft::Draft;
use super::identity::RepoIdentity;
use super::status::{Phase, Readiness};
use api::gitops::v1alpha1::{CorrectedObject, DriftStatus};
use api::names::{IGNORE_FIELDS_ANNOTATION, RECONCILE_AT_ANNOTATION};
use engine::sync::{Correction, ObjectId};

/// The longest delay between two corrections of the same drift.
const LONGEST_DRIFT_WAIT: SignedDuration = SignedDuration::from_mins(10);

/// Maximum number of consecutive corrections; then a person must resolve the conflict. The delays between them add
/// up to 17 minutes. Against Argo CD, whose self-heal waits up to five minutes, it takes half an hour.
const MAX_CORRECTIONS: i32 = 10;
/// From this number of consecutive corrections on, the object is reported even if nobody changes it at the moment.
const NAMED_CORRECTIONS: i32 = 3;
/// Maximum number of objects that are counted separately. With names of maximum length, they take 14 kB in the
/// status.
const MAX_COUNTED: usize = 20;
/// Maximum number of fields in a message.
const MAX_FIELDS: usize = 3;
/// Maximum number of characters about the managers that changed an object. With [`MAX_COUNTED`], they take at most
/// 20 kB of the status.
const MAX_CHANGED_BY: usize = 250;

/// The reason while the next correction waits.
const DRIFTED: &str = "Drifted";
/// The reason after the last correction.
const FIGHT: &str = "Fight";

/// Reapplies objects that another client changed on the hub. The delay for an object doubles with each correction.
/// After [`MAX_CORRECTIONS`] there are none until a person requests one.
pub(super) fn correct(
    draft: &mut Draft<'_>,
    drifted: &[Correction<'_>],
    identity: &RepoIdentity,
) -> Option<Readiness> {
    let handled = draft.repo.status.as_ref().map(|status| status.last_handled_reconcile_at.as_str());
    let is_requested = handled.unwrap_or_default() != draft.status.last_handled_reconcile_at;
    let before = draft.status.drift.take().filter(|_| !is_requested).unwrap_or_default();
    let mut counts = Counts::read(&before, draft.now);
    counts.forget(drifted, draft);
    let Turns { due, waiting, fights } = counts.turns(drifted, draft.now);
    if let Some((at, _)) = waiting.first() {
        draft.plan.wake(*at);
    }
    draft.plan.step(due.iter().filter_map(|one| identity.take_over(&one.apply)));
    draft.plan.step(due.iter().map(|one| identity.apply(&one.apply, &draft.key)));
    let told = told(&counts, &waiting, &fights);
    draft.status.drift = counts.write(before);
    told
}

/// Returns true if a reason means that somebody else changes objects.
pub(super) fn is_drift(reason: &str) -> bool {
    matches!(reason, DRIFTED | FIGHT)
}

/// Returns the readiness for the first object that is not corrected now.
fn told(
    counts: &Counts,
    waiting: &[(Timestamp, &Correction<'_>)],
    fights: &[&Correction<'_>],
) -> Option<Readiness> {
    let summary = |one: &Correction<'_>| {
        summary(&one.apply.desired.reference, counts.of(one).corrections, &changed_by(one))
    };
    if let Some(first) = fights.first() {
        let more = fights.len() - 1;
        let others = if more > 0 { format!(", nor are {more} more") } else { String::new() };
        let message = format!(
            "{}; it is no longer corrected{others}. {}; then set the annotation {RECONCILE_AT_ANNOTATION} to try again",
            summary(first),
            hint()
        );
        return Some(Readiness::new(Phase::Stalled, FIGHT, message));
    }
    let (at, first) = waiting.first()?;
    let message = format!("{}; the next correction is at {at}. {}", summary(first), hint());
    Some(Readiness::new(Phase::Reconciling, DRIFTED, message))
}

/// Reports an object that was recently corrected several times and currently matches the commit. Otherwise, a
/// client that comes back at growing intervals, like Argo CD's self-heal, would not be reported until the last
/// correction.
pub(super) fn repeated(draft: &mut Draft<'_>) -> Option<Readiness> {
    let now = draft.now;
    let corrected = draft.status.drift.iter().flat_map(|drift| &drift.corrected);
    let often = corrected.filter(|one| one.corrections >= NAMED_CORRECTIONS);
    let ends = often.filter_map(|one| Some((later(one.last_time.as_ref()?.0, LONGEST_DRIFT_WAIT), one)));
    let (end, one) = ends.filter(|(end, _)| *end > now).max_by_key(|(end, _)| *end)?;
    let object = ObjectId::from_path(&one.object)?;
    let message = format!("{}. {}", summary(&object, one.corrections, &one.changed_by), hint());
    draft.plan.wake(end);
    Some(Readiness::new(Phase::Reconciling, DRIFTED, message))
}

fn summary(object: &impl Display, times: i32, changed_by: &str) -> String {
    let by = if changed_by.is_empty() { String::new() } else { format!("; {changed_by}") };
    format!("{object} was changed on the hub and corrected {times} times{by}")
}

fn hint() -> String {
    format!(
        "Stop the other client, list the fields in the annotation {IGNORE_FIELDS_ANNOTATION}, or remove them from the repository"
    )
}

/// The drifted objects, by what happens to them.
#[derive(Default)]
struct Turns<'a, 'b> {
    /// Objects that are corrected now.
    due: Vec<&'a Correction<'b>>,
    /// Objects that are corrected later, sorted by time.
    waiting: Vec<(Timestamp, &'a Correction<'b>)>,
    /// Objects that are no longer corrected.
    fights: Vec<&'a Correction<'b>>,
}

/// The consecutive corrections of an object.
#[derive(Clone, Debug, Default)]
struct Count {
    corrections: i32,
    last: Option<Timestamp>,
    /// The managers that changed the object before the last correction; empty for objects that share a count.
    changed_by: String,
}

impl Count {
    /// Reads a count. A time in the future comes from a clock that was ahead, so it is ignored.
    fn read(corrections: i32, last: Option<&Time>, now: Timestamp) -> Self {
        let last = last.map(|time| time.0).filter(|last| *last <= now);
        Self { corrections, last, changed_by: String::new() }
    }

    fn add(&mut self, changed_by: String, now: Timestamp) {
        let corrections = self.corrections.saturating_add(1);
        *self = Self { corrections, last: Some(whole_second(now)), changed_by };
    }

    /// Returns when the next correction is due.
    fn due(&self) -> Option<Timestamp> {
        let wait = SignedDuration::from_secs(1 << self.corrections.clamp(0, 10)).min(LONGEST_DRIFT_WAIT);
        self.last.map(|last| later(last, wait))
    }

    /// Returns when an ended drift is forgotten, so that the next one is corrected immediately.
    fn end(&self) -> Option<Timestamp> {
        self.last.map(|last| later(last, LONGEST_DRIFT_WAIT * 3))
    }
}

/// The corrections of all objects.
struct Counts {
    listed: BTreeMap<String, Count>,
    /// The shared count of the objects that do not fit in the list.
    others: Count,
}

impl Counts {
    fn read(status: &DriftStatus, now: Timestamp) -> Self {
        let count = |one: &CorrectedObject| Count {
            changed_by: one.changed_by.clone(),
            ..Count::read(one.corrections, one.last_time.as_ref(), now)
        };
        let listed = status.corrected.iter().map(|one| (one.object.clone(), count(one)));
        let others = Count::read(status.corrections, status.last_time.as_ref(), now);
        Self { listed: listed.collect(), others }
    }

    fn of(&self, one: &Correction<'_>) -> &Count {
        self.listed.get(&path(one)).unwrap_or(&self.others)
    }

    /// Forgets drifts that ended long ago.
    fn forget(&mut self, drifted: &[Correction<'_>], draft: &mut Draft<'_>) {
        let paths: Vec<String> = drifted.iter().map(path).collect();
        let has_others = paths.iter().any(|path| !self.listed.contains_key(path));
        let mut is_over = |count: &Count| match count.end() {
            Some(end) if end > draft.now => {
                draft.plan.wake(end);
                false
            }
            Some(_) | None => true,
        };
        self.listed.retain(|path, count| paths.contains(path) || !is_over(count));
        if !has_others && is_over(&self.others) {
            self.others = Count::default();
        }
    }

    /// Decides which objects are corrected now, and counts the corrections.
    fn turns<'a, 'b>(&mut self, drifted: &'a [Correction<'b>], now: Timestamp) -> Turns<'a, 'b> {
        let mut turns = Turns::default();
        let others = self.others.clone();
        for one in drifted {
            let path = path(one);
            let has_room = self.listed.len() < MAX_COUNTED || self.listed.contains_key(&path);
            let own = has_room.then(|| self.listed.get(&path).cloned().unwrap_or_default());
            let count = own.as_ref().unwrap_or(&others);
            match count.due().filter(|due| *due > now && count.corrections > 0) {
                _ if count.corrections >= MAX_CORRECTIONS => turns.fights.push(one),
                Some(due) => turns.waiting.push((due, one)),
                None if has_room => {
                    let changed_by = clip(&changed_by(one), MAX_CHANGED_BY);
                    self.listed.entry(path).or_default().add(changed_by, now);
                    turns.due.push(one);
                }
                None => {
                    self.others.clone_from(&others);
                    self.others.add(String::new(), now);
                    turns.due.push(one);
                }
            }
        }
        turns.waiting.sort_by_key(|(due, _)| *due);
        turns
    }

    fn write(self, before: DriftStatus) -> Option<DriftStatus> {
        let Self { listed, others } = self;
        let corrected = listed.into_iter().map(|(object, count)| {
            let Count { corrections, last, changed_by } = count;
            let last_time = last.map(Time);
            CorrectedObject { object, corrections, last_time, changed_by, ..CorrectedObject::default() }
        });
        let corrected: Vec<_> = corrected.collect();
        let Count { corrections, last, changed_by: _ } = others;
        let is_any = !corrected.is_empty() || corrections > 0;
        is_any.then(|| DriftStatus { corrected, corrections, last_time: last.map(Time), ..before })
    }
}

fn path(one: &Correction<'_>) -> String {
    ObjectId::of(&one.apply.desired.reference).path()
}

/// Describes the managers that own fields of the commit, these fields, and the application that tracks the object.
fn changed_by(correction: &Correction<'_>) -> String {
    let one = |(manager, fields): &(String, Vec<String>)| {
        let more = fields.len().saturating_sub(MAX_FIELDS);
        let shown: Vec<_> = fields.iter().take(MAX_FIELDS).map(String::as_str).collect();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{manager} sets {}{rest}", shown.join(", "))
    };
    let application = correction.application.as_ref();
    let tracks = application.map(|app| format!("the Argo CD application {app} tracks it"));
    let managers = correction.changed_by.iter().take(MAX_FIELDS).map(one);
    managers.chain(tracks).collect::<Vec<_>>().join("; ")
}
