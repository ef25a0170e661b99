//! Indexes: state derived from the caches, so that a decision need not scan every object.

use std::any::{Any, TypeId};

use super::{Change, Read, View};
use object::{Key, Kind, Object, Stored};

/// State derived from the objects of the hub, which the dispatcher updates change by change.
///
/// An index belongs to the controller that keeps it; a controller may keep several. An index is a cache, never a
/// source: a newly built index must lead to the same decisions. The only exception is the time at which something
/// was first seen, which may start over if it only decides how long to wait.
///
/// # Guarantees
/// - The index agrees with the view of the plan: changes wait in a log, and are applied before the plan starts.
/// - Plans of a controller run one after the other, so nothing else reads or changes the index during a plan.
/// - If a panic may have left an index half changed, the dispatcher drops it and plans every key of the controller
///   again.
pub trait Index: Send + Sized + 'static {
    /// Builds the index from all objects.
    ///
    /// # Errors
    /// Returns [`ReadError`](super::ReadError) if a kind that it needs has not been read completely.
    fn build(view: &impl View) -> Read<Self>;

    /// Registers the kinds whose changes it applies.
    fn observes<O: Observes<Self>>(observes: &mut O);
}

/// A registry of the kinds whose changes an [`Index`] applies.
pub trait Observes<I> {
    /// Passes every change of an object of kind `K` on the hub to `observe`, which applies the change and returns
    /// the keys of the controller that it concerns.
    fn on<K: Kind>(&mut self, observe: fn(&mut I, &Change<K>) -> Vec<Key>);

    /// Passes every change of an [observed object](View::observed) to `observe`, like [`Observes::on`].
    fn on_observed(&mut self, observe: fn(&mut I, &Change<Object>) -> Vec<Key>);
}

/// The indexes that have been built, by type.
pub(crate) type BuiltIndexes = Vec<Box<dyn Any + Send>>;

/// A change that an index has not applied yet.
pub(crate) type LogEntry = Box<dyn FnOnce(&mut BuiltIndexes) -> Vec<Key> + Send>;

/// Makes a log entry for a change. An index that is not built needs none: it will be built from objects that
/// include the change.
pub(crate) fn log_entry<I: Index, K: Stored>(
    observe: fn(&mut I, &Change<K>) -> Vec<Key>,
    change: &Change<K>,
) -> LogEntry {
    let change = change.clone();
    Box::new(move |built| find(built).map(|index| observe(index, &change)).unwrap_or_default())
}

fn find<I: Index>(built: &mut BuiltIndexes) -> Option<&mut I> {
    built.iter_mut().find_map(|index| index.downcast_mut())
}

/// The indexes of one controller, between the decisions that read them.
#[derive(Default)]
pub(crate) struct Indexes {
    /// The types that the controller registered.
    types: Vec<TypeId>,
    built: BuiltIndexes,
    log: Vec<LogEntry>,
    is_lent: bool,
}

/// Indexes and the changes that they have not applied, lent to a decision.
#[derive(Default)]
pub(crate) struct LentIndexes {
    types: Vec<TypeId>,
    pub(crate) built: BuiltIndexes,
    log: Vec<LogEntry>,
}

impl LentIndexes {
    /// Applies the log; returns the keys that the changes concern.
    pub(crate) fn catch_up(&mut self) -> Vec<Key> {
        self.log.drain(..).flat_map(|entry| entry(&mut self.built)).collect()
    }

    /// Reads an index, building it if necessary. An index that the controller does not keep is dropped afterwards.
    pub(crate) fn read<I: Index, R>(&mut self, view: &impl View, read: impl FnOnce(&mut I) -> R) -> Read<R> {
        if let Some(index) = find(&mut self.built) {
            return Ok(read(index));
        }
        let mut index = I::build(view)?;
        let result = read(&mut index);
        if self.types.contains(&TypeId::of::<I>()) {
            self.built.push(Box::new(index));
        }
        Ok(result)
    }
}

impl Indexes {
    pub(crate) fn register<I: Index>(&mut self) {
        self.types.push(TypeId::of::<I>());
    }

    /// Returns true if the controller keeps any index.
    pub(crate) fn are_kept(&self) -> bool {
        !self.types.is_empty()
    }

    /// Returns true if changes wait to be applied.
    pub(crate) fn are_behind(&self) -> bool {
        !self.log.is_empty()
    }

    /// Stores a change for the next decision, unless no index has been built.
    pub(crate) fn log(&mut self, entry: LogEntry) {
        if !self.built.is_empty() || self.is_lent {
            self.log.push(entry);
        }
    }

    pub(crate) fn lend(&mut self) -> LentIndexes {
        self.is_lent = true;
        let (built, log) = (std::mem::take(&mut self.built), std::mem::take(&mut self.log));
        LentIndexes { types: self.types.clone(), built, log }
    }

    pub(crate) fn give_back(&mut self, built: BuiltIndexes) {
        self.is_lent = false;
        if built.is_empty() {
            self.log.clear();
        }
        self.built = built;
    }
}
