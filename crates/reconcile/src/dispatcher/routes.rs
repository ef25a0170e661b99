//! The mapping functions of controllers, from changes to keys.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

use crate::index::LogEntry;
use crate::{Caches, Change, Site, Wakes};
use object::{Key, Kind, Object};

/// The mapping functions of all controllers, by kind.
#[derive(Default)]
pub(super) struct Routes {
    typed: BTreeMap<(Site, TypeId), Box<dyn Any + Send + Sync>>,
    pub(super) observed: Vec<(usize, Wakes<Object, Caches>)>,
    /// The logs of the indexes that observe changes of observed objects, by controller.
    pub(super) observed_logs: Vec<(usize, Log<Object>)>,
    pub(super) sources: Vec<(usize, SourceWakes)>,
}

/// Returns the keys that a repository concerns.
pub(super) type SourceWakes = fn(&Key) -> Vec<Key>;

/// The mapping functions for one kind.
pub(super) struct KindRoutes<K> {
    pub(super) wakes: Vec<Route<K>>,
    /// The logs of the indexes that observe its changes, by controller.
    pub(super) logs: Vec<(usize, Log<K>)>,
    /// Returns the keys to wake when an object becomes unreadable or readable, by controller.
    pub(super) readability: Vec<(usize, ReadabilityWakes)>,
}

pub(super) type ReadabilityWakes = fn(&Caches) -> Vec<Key>;

pub(super) type Log<K> = Box<dyn Fn(&Change<K>) -> LogEntry + Send + Sync>;

pub(super) struct Route<K> {
    pub(super) controller_id: usize,
    /// True if this is the controller's primary kind.
    pub(super) is_primary: bool,
    pub(super) wakes: Wakes<K, Caches>,
}

impl Routes {
    pub(super) fn of<K: Kind>(&self, site: Site) -> Option<&KindRoutes<K>> {
        self.typed.get(&(site, TypeId::of::<K>()))?.downcast_ref()
    }

    pub(super) fn of_mut<K: Kind>(&mut self, site: Site) -> &mut KindRoutes<K> {
        let slot = self.typed.entry((site, TypeId::of::<K>()));
        let none = || KindRoutes::<K> { wakes: Vec::new(), logs: Vec::new(), readability: Vec::new() };
        let slot = slot.or_insert_with(|| Box::new(none()));
        slot.downcast_mut().expect("each slot is created with the type it is keyed by")
    }
}
