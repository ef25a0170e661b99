//! State derived from what has been read, for decisions that would otherwise look through every object.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Read, View};

/// What a controller found out about the objects of the hub, brought up to date change by change.
///
/// It is a memory, never a source: what is decided from it must be what would be decided from one built just now.
pub trait Index: Any + Send + Sized {
    /// Finds it out from everything there is.
    ///
    /// # Errors
    /// [`Unread`](super::Unread) where a kind it needs has not been read completely.
    fn build(view: &impl View) -> Read<Self>;

    /// Takes a change of an object of any kind on the hub: a [`&Change<K>`](super::Change). Kinds that do not matter are ignored.
    fn observe(&mut self, change: &dyn Any);
}

/// The indexes a process keeps: each from the first time it is asked for.
#[derive(Default)]
pub(super) struct Indexes(Mutex<BTreeMap<TypeId, Box<dyn Erased>>>);

trait Erased: Send {
    fn observe(&mut self, change: &dyn Any);
    fn any(&mut self) -> &mut dyn Any;
}

impl<I: Index> Erased for I {
    fn observe(&mut self, change: &dyn Any) {
        Index::observe(self, change);
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Indexes {
    /// Tells every index of a change.
    pub(super) fn observe(&mut self, change: &dyn Any) {
        let indexes = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        indexes.values_mut().for_each(|index| index.observe(change));
    }

    /// Reads an index, building it first where it is new.
    pub(super) fn read<I: Index, R>(&self, view: &impl View, read: impl FnOnce(&mut I) -> R) -> Read<R> {
        let mut indexes = self.locked();
        let slot = match indexes.entry(TypeId::of::<I>()) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => slot.insert(Box::new(I::build(view)?)),
        };
        let index = slot.any().downcast_mut();
        Ok(read(index.expect("each slot is created with the type it is keyed by")))
    }

    /// A panic while an index was read may have left it half changed, so all are dropped and built anew.
    fn locked(&self) -> MutexGuard<'_, BTreeMap<TypeId, Box<dyn Erased>>> {
        self.0.lock().unwrap_or_else(|poisoned| {
            self.0.clear_poison();
            let mut indexes = poisoned.into_inner();
            indexes.clear();
            indexes
        })
    }
}
