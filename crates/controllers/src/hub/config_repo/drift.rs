//! Corrects objects that another client changed on the hub.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use object::duration::{later, whole_second};
use object::text::clip;

use api::gitops::v1alpha1::{ConfigRepo, CorrectedObject, DriftStatus};
use engine::sync::{Apply, Correction, ObjectId};

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
pub(super) const DRIFTED: &str = "Drifted";
/// The reason after the last correction.
pub(super) const FIGHT: &str = "Fight";

/// The corrections of objects that another client changed on the hub.
pub(super) struct Drift {
    /// The paths of the objects that are corrected now.
    due: BTreeSet<String>,
    /// The first object that is not corrected now.
    pub(super) waiting: Option<Contested>,
    /// The counts of the corrections, for the status.
    pub(super) counts: Option<DriftStatus>,
    /// The time to correct or forget the next object.
    pub(super) wake_at: Option<Timestamp>,
}

/// An object that another client changes again and again.
pub(super) struct Contested {
    pub(super) object: String,
    pub(super) corrections: i32,
    /// The managers that changed it; empty if unknown.
    pub(super) changed_by: String,
    pub(super) next: Next,
}

/// The next step for a contested object.
pub(super) enum Next {
    /// It matches the commit, and is reported until this time.
    Watch(Timestamp),
    /// It is corrected at this time.
    Correct(Timestamp),
    /// It is no longer corrected, and neither is this number of other objects.
    GiveUp(usize),
}

impl Drift {
    /// Decides which objects are reapplied. The delay for an object doubles with each correction. After
    /// [`MAX_CORRECTIONS`] there are none until a person requests one with the annotation whose value is `requested`.
    pub(super) fn of(repo: &ConfigRepo, requested: &str, drifted: &[Correction<'_>], now: Timestamp) -> Self {
        let status = repo.status.as_ref();
        let is_handled = status.map_or("", |status| status.last_handled_reconcile_at.as_str()) == requested;
        let before =
            status.and_then(|status| status.drift.clone()).filter(|_| is_handled).unwrap_or_default();
        let mut counts = Counts::read(&before, now);
        let end = counts.forget(drifted, now);
        let others = counts.others.clone();
        let (mut due, mut waiting, mut fights) = (BTreeSet::new(), Vec::new(), Vec::new());
        for one in drifted {
            match counts.turn(one, &others, now) {
                Turn::Now => _ = due.insert(path(one)),
                Turn::At(at) => waiting.push((at, one)),
                Turn::Never => fights.push(one),
            }
        }
        let first = waiting.into_iter().min_by_key(|(at, _)| *at);
        let wake_at = first.map(|(at, _)| at).into_iter().chain(end).min();
        let next = match fights.as_slice() {
            [fight, others @ ..] => Some((*fight, Next::GiveUp(others.len()))),
            [] => first.map(|(at, one)| (one, Next::Correct(at))),
        };
        let waiting = next.map(|(one, next)| Contested {
            object: one.apply.desired.reference.to_string(),
            corrections: counts.of(one).corrections,
            changed_by: changed_by(one),
            next,
        });
        Self { due, waiting, counts: counts.write(before), wake_at }
    }

    /// Returns the objects that are corrected now.
    pub(super) fn due<'s, 'a>(&self, drifted: &'s [Correction<'a>]) -> Vec<&'s Apply<'a>> {
        drifted.iter().filter(|one| self.due.contains(&path(one))).map(|one| &one.apply).collect()
    }
}

/// Returns true if a reason means that somebody else changes objects.
pub(super) fn is_drift(reason: &str) -> bool {
    matches!(reason, DRIFTED | FIGHT)
}

/// Returns an object that was recently corrected several times and currently matches the commit. Otherwise, a
/// client that comes back at growing intervals, like Argo CD's self-heal, would not be reported until the last
/// correction.
pub(super) fn repeated(counts: Option<&DriftStatus>, now: Timestamp) -> Option<Contested> {
    let often = counts?.corrected.iter().filter(|one| one.corrections >= NAMED_CORRECTIONS);
    let ends = often.filter_map(|one| Some((later(one.last_time.as_ref()?.0, LONGEST_DRIFT_WAIT), one)));
    let (end, one) = ends.filter(|(end, _)| *end > now).max_by_key(|(end, _)| *end)?;
    Some(Contested {
        object: ObjectId::from_path(&one.object)?.to_string(),
        corrections: one.corrections,
        changed_by: one.changed_by.clone(),
        next: Next::Watch(end),
    })
}

/// The time of a correction.
enum Turn {
    Now,
    At(Timestamp),
    Never,
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

    /// Forgets drifts that ended long ago. Returns when to forget the next one.
    fn forget(&mut self, drifted: &[Correction<'_>], now: Timestamp) -> Option<Timestamp> {
        let paths: Vec<String> = drifted.iter().map(path).collect();
        let has_others = paths.iter().any(|path| !self.listed.contains_key(path));
        let end = |count: &Count| count.end().filter(|end| *end > now);
        self.listed.retain(|path, count| paths.contains(path) || end(count).is_some());
        if !has_others && end(&self.others).is_none() {
            self.others = Count::default();
        }
        let ended = self.listed.iter().filter(|(path, _)| !paths.contains(path)).map(|(_, count)| count);
        ended.chain((!has_others).then_some(&self.others)).filter_map(end).min()
    }

    /// Decides when an object is corrected, and counts a correction. `others` is the shared count before this plan.
    fn turn(&mut self, one: &Correction<'_>, others: &Count, now: Timestamp) -> Turn {
        let path = path(one);
        let has_room = self.listed.len() < MAX_COUNTED || self.listed.contains_key(&path);
        let own = has_room.then(|| self.listed.get(&path).cloned().unwrap_or_default());
        let count = own.as_ref().unwrap_or(others);
        match count.due().filter(|due| *due > now && count.corrections > 0) {
            _ if count.corrections >= MAX_CORRECTIONS => return Turn::Never,
            Some(due) => return Turn::At(due),
            None if has_room => {
                self.listed.entry(path).or_default().add(clip(&changed_by(one), MAX_CHANGED_BY), now);
            }
            None => {
                self.others.clone_from(others);
                self.others.add(String::new(), now);
            }
        }
        Turn::Now
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
