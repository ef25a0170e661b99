//! Indexes: state that is derived from the caches, so that a decision need not scan every object.

use std::any::{Any, TypeId};

use super::{Change, Read, View};
use object::{Key, Kind};

/// State derived from the objects of the hub, which the dispatcher updates change by change.
///
/// An index belongs to the one controller that keeps it. It is a cache and never a source: a decision must be
/// the same with an index that was built just now. Only the time at which something was first seen may begin
/// anew, if it decides no more than how long to wait.
///
/// # Guarantees
/// - The index agrees with the view of the plan: changes wait in a log, and are applied before the plan
///   begins.
/// - Plans of a controller run one after the other, so nothing else reads or changes the index meanwhile.
/// - An index that a panic may have left half changed is dropped, and every key of the controller is planned
///   again.
pub trait Index: Send + Sized + 'static {
    /// Builds the index from all objects.
    ///
    /// # Errors
    /// [`ReadError`](super::ReadError) where a kind it needs has not been read completely.
    fn build(view: &impl View) -> Read<Self>;

    /// Registers the kinds whose changes it applies.
    fn observes<O: Observes<Self>>(observes: &mut O);
}

/// A registry of the kinds whose changes an [`Index`] applies.
pub trait Observes<I> {
    /// Passes every change of an object of kind `K` on the hub to `observe`, which applies it and names the
    /// keys of the controller that it concerns.
    fn on<K: Kind>(&mut self, observe: fn(&mut I, &Change<K>) -> Vec<Key>);
}

/// A change that an index has not applied yet.
pub(crate) type LogEntry = Box<dyn FnOnce(&mut dyn Any) -> Vec<Key> + Send>;

/// Makes a log entry of a change.
pub(crate) fn log_entry<I: Index, K: Kind>(
    observe: fn(&mut I, &Change<K>) -> Vec<Key>,
    change: &Change<K>,
) -> LogEntry {
    let change = change.clone();
    Box::new(move |index| match index.downcast_mut::<I>() {
        Some(index) => observe(index, &change),
        None => Vec::new(),
    })
}

/// The index of one controller, between the decisions that read it.
#[derive(Default)]
pub(crate) struct IndexSlot {
    /// The type that the controller registered.
    pub(crate) type_id: Option<TypeId>,
    kept: Option<Box<dyn Any + Send>>,
    log: Vec<LogEntry>,
    is_lent: bool,
}

/// An index and the changes that it has not applied, on their way into a decision.
#[derive(Default)]
pub(crate) struct LentIndex {
    pub(crate) type_id: Option<TypeId>,
    pub(crate) index: Option<Box<dyn Any + Send>>,
    log: Vec<LogEntry>,
}

impl LentIndex {
    /// Applies the log; returns the keys that the changes concern.
    pub(crate) fn catch_up(&mut self) -> Vec<Key> {
        let Some(index) = &mut self.index else { return Vec::new() };
        self.log.drain(..).flat_map(|entry| entry(&mut **index)).collect()
    }
}

impl IndexSlot {
    /// Returns whether changes wait to be applied.
    pub(crate) fn is_behind(&self) -> bool {
        !self.log.is_empty()
    }

    /// Keeps a change for the next decision, unless the index is still to be built: then it is built from
    /// objects that include the change.
    pub(crate) fn log(&mut self, entry: LogEntry) {
        if self.kept.is_some() || self.is_lent {
            self.log.push(entry);
        }
    }

    pub(crate) fn lend(&mut self) -> LentIndex {
        self.is_lent = true;
        LentIndex { type_id: self.type_id, index: self.kept.take(), log: std::mem::take(&mut self.log) }
    }

    pub(crate) fn give_back(&mut self, index: Option<Box<dyn Any + Send>>) {
        self.is_lent = false;
        if index.is_none() {
            self.log.clear();
        }
        self.kept = index;
    }
}
