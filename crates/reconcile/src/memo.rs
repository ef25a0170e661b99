//! Results of computations that are too expensive for a plan.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};

use super::Backoff;
use super::queue::earlier;
use object::Key;
use object::duration::later;

/// A pure computation that is too expensive for a plan. The value is its input; equal inputs have equal results.
///
/// For each key of a controller, the dispatcher keeps the newest result of each type until a plan of the key no
/// longer requests it. A plan that requests another input cancels the earlier computation. A plan may request only
/// one input per type; a second one fails the read.
pub trait Memo: PartialEq + Send + Sync + 'static {
    /// The name in logs, errors and metrics.
    const NAME: &'static str;
    /// The result of the computation.
    type Output: Send + Sync + 'static;

    /// Returns the ID of the input, in this process and in later ones.
    fn input(&self) -> String;

    /// Returns the time limit. The dispatcher cancels a longer computation and counts it as failed.
    fn deadline(&self) -> SignedDuration;

    /// Computes the result. `last` is the newest result of the key for any input, so that equal parts can be
    /// reused. A long computation should check `cancel` regularly; the result of a canceled one is dropped.
    fn compute(&self, last: Option<&Self::Output>, cancel: &Cancel) -> Self::Output;
}

/// Signals to a computation that its result is no longer needed.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the computation.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the computation was canceled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

type Shared = Arc<dyn Any + Send + Sync>;
type Run = Box<dyn FnOnce(&Cancel) -> Shared + Send>;

/// A computation of a [`Memo`], to run on a separate thread.
pub struct Computation {
    /// The dispatcher assigns the result to its request by this ID.
    pub id: u64,
    /// [`Memo::NAME`].
    pub name: &'static str,
    /// The controller that requested it.
    pub controller: &'static str,
    /// The key that requested it.
    pub key: Key,
    /// [`Memo::input`].
    pub input: String,
    /// [`Memo::deadline`]. The process that runs the computation calls
    /// [`Dispatcher::overdue`](crate::Dispatcher::overdue) once it has run for longer. Measure it with a monotonic
    /// clock: setting the wall clock or suspending the machine must not count.
    pub deadline: SignedDuration,
    cancel: Cancel,
    run: Run,
}

/// The end of a [`Computation`].
pub struct Computed {
    id: u64,
    output: Result<Shared, String>,
}

impl Computation {
    /// Returns true if the computation was canceled, so that no key waits for it.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Runs the computation.
    pub fn run(self) -> Computed {
        let output = match self.cancel.is_cancelled() {
            true => Err("it was canceled".to_owned()),
            false => Ok((self.run)(&self.cancel)),
        };
        Computed { id: self.id, output }
    }
}

impl Computed {
    /// Returns the end of a computation that failed for a reason.
    pub fn failed(id: u64, reason: &str) -> Self {
        Self { id, output: Err(reason.to_owned()) }
    }
}

/// A request for a result that does not exist yet.
pub(crate) struct MemoRequest {
    memo: Shared,
    type_id: TypeId,
    name: &'static str,
    input: String,
    deadline: SignedDuration,
    is_same: fn(&Shared, &Shared) -> bool,
    run: Run,
}

impl MemoRequest {
    /// Returns true if another request is for the same result.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.type_id == other.type_id && (self.is_same)(&self.memo, &other.memo)
    }
}

/// The newest result for one type of [`Memo`] and one key.
#[derive(Clone)]
pub(crate) struct StoredMemo {
    memo: Shared,
    /// The result, or the reason for its failure.
    output: Result<Shared, String>,
    /// The newest result, possibly for an earlier input.
    last: Option<Shared>,
}

/// The results for one key, as its decision sees them.
pub(crate) type KeyMemos = Vec<(TypeId, StoredMemo)>;

/// The response to one request.
pub(crate) enum MemoResult<T> {
    Ready(Arc<T>),
    Failed(String, MemoRequest),
    Absent(MemoRequest),
}

pub(crate) fn find<M: Memo>(memos: &KeyMemos, memo: M) -> MemoResult<M::Output> {
    let type_id = TypeId::of::<M>();
    let stored = memos.iter().find(|(stored_type, _)| *stored_type == type_id).map(|(_, stored)| stored);
    let same = stored.filter(|stored| stored.memo.downcast_ref::<M>() == Some(&memo));
    if let Some(Ok(output)) = same.map(|stored| &stored.output)
        && let Ok(output) = Arc::clone(output).downcast::<M::Output>()
    {
        return MemoResult::Ready(output);
    }
    let name_of_input = memo.input();
    let deadline = memo.deadline();
    let (memo, last) = (Arc::new(memo), stored.and_then(|stored| stored.last.clone()));
    let input = Arc::clone(&memo);
    let request = MemoRequest {
        memo,
        type_id,
        name: M::NAME,
        input: name_of_input,
        deadline,
        is_same: |a, b| a.downcast_ref::<M>() == b.downcast_ref::<M>(),
        run: Box::new(move |cancel| {
            let last = last.as_ref().and_then(|last| last.downcast_ref::<M::Output>());
            Arc::new(input.compute(last, cancel))
        }),
    };
    match same.map(|stored| stored.output.clone()) {
        Some(Err(reason)) => MemoResult::Failed(reason, request),
        Some(Ok(_)) | None => MemoResult::Absent(request),
    }
}

/// The results for all keys, and the running computations.
pub(crate) struct Memos {
    slots: BTreeMap<(usize, Key), BTreeMap<TypeId, Slot>>,
    /// Computations whose results are needed.
    wanted: BTreeMap<u64, MemoId>,
    /// The wanted computations that have not started.
    waiting: BTreeMap<u64, Computation>,
    /// The number of computations that may run at the same time.
    at_once: usize,
    /// The number of running computations, including canceled ones that have not ended.
    started: usize,
    next_id: u64,
}

type MemoId = (usize, Key, TypeId);

#[derive(Default)]
struct Slot {
    stored: Option<StoredMemo>,
    /// When a failed computation may be retried.
    retry_at: Option<Timestamp>,
    running: Option<Running>,
}

struct Running {
    id: u64,
    memo: Shared,
    deadline: SignedDuration,
    cancel: Cancel,
}

impl Slot {
    fn settle(&mut self, memo: Shared, output: Result<Shared, String>, now: Timestamp) {
        let last = match &output {
            Ok(output) => Some(Arc::clone(output)),
            Err(_) => self.stored.take().and_then(|stored| stored.last),
        };
        let retry_at = later(now, Backoff::LONGEST);
        self.retry_at = output.is_err().then_some(retry_at);
        self.stored = Some(StoredMemo { memo, output, last });
    }
}

impl Memos {
    pub(crate) fn new(at_once: usize) -> Self {
        let (slots, wanted, waiting) = Default::default();
        Self { slots, wanted, waiting, at_once, started: 0, next_id: 0 }
    }

    /// Returns the results for a key.
    pub(crate) fn of(&self, controller: usize, key: &Key) -> KeyMemos {
        let slots = self.slots.get(&(controller, key.clone())).into_iter().flatten();
        slots.filter_map(|(type_id, slot)| Some((*type_id, slot.stored.clone()?))).collect()
    }

    /// Requests a computation, unless it is running, has a result, or has just failed.
    pub(crate) fn request(
        &mut self,
        (index, controller): (usize, &'static str),
        key: &Key,
        request: MemoRequest,
        now: Timestamp,
    ) {
        let MemoRequest { memo, type_id, name, input, deadline, is_same, run } = request;
        let slot = self.slots.entry((index, key.clone())).or_default().entry(type_id).or_default();
        if slot.running.as_ref().is_some_and(|running| is_same(&running.memo, &memo)) {
            return;
        }
        let is_answered = slot.stored.as_ref().is_some_and(|stored| is_same(&stored.memo, &memo));
        if is_answered && slot.retry_at.is_none_or(|at| now < at) {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let cancel = Cancel::default();
        let running = Running { id, memo, deadline, cancel: cancel.clone() };
        if let Some(superseded) = slot.running.replace(running) {
            self.cancel(&superseded);
        }
        self.wanted.insert(id, (index, key.clone(), type_id));
        let key = key.clone();
        self.waiting.insert(id, Computation { id, name, controller, key, input, deadline, cancel, run });
    }

    fn cancel(&mut self, running: &Running) {
        running.cancel.cancel();
        self.wanted.remove(&running.id);
        self.waiting.remove(&running.id);
    }

    /// Returns the next computation to run, unless too many are running.
    pub(crate) fn start(&mut self) -> Option<Computation> {
        if self.started >= self.at_once {
            return None;
        }
        let (_, computation) = self.waiting.pop_first()?;
        self.started += 1;
        Some(computation)
    }

    fn slot(&mut self, (index, key, type_id): &MemoId) -> Option<&mut Slot> {
        self.slots.get_mut(&(*index, key.clone()))?.get_mut(type_id)
    }

    /// Records the end of a computation; returns the key that waits for it.
    pub(crate) fn finished(&mut self, computed: Computed, now: Timestamp) -> Option<(usize, Key)> {
        self.started = self.started.saturating_sub(1);
        let id = self.wanted.remove(&computed.id)?;
        let slot = self.slot(&id)?;
        let running = slot.running.take()?;
        slot.settle(running.memo, computed.output, now);
        Some((id.0, id.1))
    }

    /// Cancels a computation that has run for longer than its deadline; returns the key that waits for it.
    pub(crate) fn overdue(&mut self, id: u64, now: Timestamp) -> Option<(usize, Key)> {
        let id = self.wanted.get(&id).cloned()?;
        let slot = self.slot(&id)?;
        let running = slot.running.take()?;
        let reason = format!("it took longer than {:#}", running.deadline);
        slot.settle(Arc::clone(&running.memo), Err(reason), now);
        self.cancel(&running);
        Some((id.0, id.1))
    }

    /// Makes every retry due earlier by the step that the clock was set back.
    pub(crate) fn bring_forward(&mut self, by: SignedDuration) {
        for slot in self.slots.values_mut().flat_map(BTreeMap::values_mut) {
            slot.retry_at = slot.retry_at.map(|at| earlier(at, by));
        }
    }

    /// Drops the results that the newest plan of a key did not request.
    pub(crate) fn retain(&mut self, controller: usize, key: &Key, used: &[TypeId]) {
        let id = (controller, key.clone());
        let Some(slots) = self.slots.get_mut(&id) else { return };
        let mut dropped = Vec::new();
        slots.retain(|type_id, slot| {
            let is_used = used.contains(type_id);
            if !is_used {
                dropped.extend(slot.running.take());
            }
            is_used
        });
        if slots.is_empty() {
            self.slots.remove(&id);
        }
        for running in dropped {
            self.cancel(&running);
        }
    }
}
