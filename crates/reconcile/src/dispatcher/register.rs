//! The registrations of controllers: the kinds they need, and the mapping functions from changes to keys.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Command;
use super::feed;
use super::state::{Dispatcher, Kind as KnownKind, RegisteredController};
use crate::index::{LogEntry, log_entry};
use crate::{
    Caches, Change, Controller, Index, Observes, Priority, Register, Site, Wake, Wakes, WatchedKind, Watches,
};
use object::{Key, Kind, Object};

/// The mapping functions of all controllers, by kind.
#[derive(Default)]
pub(super) struct Routes {
    typed: BTreeMap<(Site, TypeId), Box<dyn Any + Send + Sync>>,
    pub(super) observed: Vec<(usize, Wakes<Object, Caches>)>,
    pub(super) sources: Vec<(usize, SourceWakes)>,
}

/// Names the keys that a repository concerns.
pub(super) type SourceWakes = fn(&Key) -> Vec<Key>;

/// The mapping functions for one kind.
pub(super) struct KindRoutes<K> {
    pub(super) wakes: Vec<Route<K>>,
    /// The indexes that apply its changes, by controller.
    pub(super) logs: Vec<(usize, Log<K>)>,
    /// The keys to wake when one of its objects becomes unreadable or readable, by controller.
    pub(super) readability: Vec<(usize, ReadabilityWakes)>,
}

pub(super) type ReadabilityWakes = fn(&Caches) -> Vec<Key>;

pub(super) type Log<K> = Box<dyn Fn(&Change<K>) -> LogEntry + Send + Sync>;

pub(super) struct Route<K> {
    pub(super) controller_id: usize,
    /// Whether the kind is the primary one of the controller.
    pub(super) is_primary: bool,
    pub(super) wakes: Wakes<K, Caches>,
}

impl Routes {
    pub(super) fn of<K: Kind>(&self, site: Site) -> Option<&KindRoutes<K>> {
        self.typed.get(&(site, TypeId::of::<K>()))?.downcast_ref()
    }

    fn of_mut<K: Kind>(&mut self, site: Site) -> &mut KindRoutes<K> {
        let slot = self.typed.entry((site, TypeId::of::<K>()));
        let none = || KindRoutes::<K> { wakes: Vec::new(), logs: Vec::new(), readability: Vec::new() };
        let slot = slot.or_insert_with(|| Box::new(none()));
        slot.downcast_mut().expect("each slot is created with the type it is keyed by")
    }
}

impl Dispatcher {
    /// Makes the controller that was added last wait for the first list of a kind, and requests its watch.
    fn need<K: Kind>(&mut self, site: Site) {
        let kind = WatchedKind::typed::<K>(site);
        let id = (site, kind.gvk.clone());
        if let Some(registered) = self.controllers.last_mut() {
            registered.needs.insert(id.clone());
            registered.missing.insert(id.clone());
        }
        if !self.kinds.contains_key(&id) {
            let kind = Arc::new(kind);
            self.commands.push(Command::Watch(Arc::clone(&kind)));
            self.kinds.insert(id, KnownKind { kind, feed: feed::typed::<K>, count: Caches::count_of::<K> });
        }
    }

    fn last(&self) -> usize {
        self.controllers.len().saturating_sub(1)
    }
}

impl Register for Dispatcher {
    fn add<C: Controller>(&mut self) {
        let mut registered = RegisteredController::of::<C>(self.limits.coalesce.max(C::SPACING));
        for name in C::EXPECTED {
            let first = Wake { priority: Priority::Initial, ..Wake::changed(Timestamp::MIN) };
            registered.queue.wake(Key::cluster(*name), first);
        }
        self.controllers.push(registered);
        let route = Route::<C::Primary> {
            controller_id: self.last(),
            is_primary: true,
            wakes: |change, _| {
                change.latest().filter(|_| C::concerns(change)).map(Key::of).into_iter().collect()
            },
        };
        self.need::<C::Primary>(C::PRIMARY_SITE);
        self.routes.of_mut(C::PRIMARY_SITE).wakes.push(route);
        C::watches(self);
    }
}

/// Registers for the controller that was added last.
impl Watches for Dispatcher {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Caches>) {
        let controller_id = self.last();
        self.need::<K>(site);
        self.routes.of_mut(site).wakes.push(Route { controller_id, is_primary: false, wakes });
    }

    fn on_readability<K: Kind>(&mut self, wakes: ReadabilityWakes) {
        let controller_id = self.last();
        self.need::<K>(Site::Hub);
        self.routes.of_mut::<K>(Site::Hub).readability.push((controller_id, wakes));
    }

    fn on_observed(&mut self, wakes: Wakes<Object, Caches>) {
        self.routes.observed.push((self.last(), wakes));
    }

    fn on_source(&mut self, wakes: fn(&Key) -> Vec<Key>) {
        self.routes.sources.push((self.last(), wakes));
    }

    fn keep<I: Index>(&mut self) {
        if let Some(registered) = self.controllers.last_mut() {
            registered.indexes.register::<I>();
        }
        I::observes(&mut Observing(self));
    }
}

/// Registers for an index of the controller that was added last.
struct Observing<'a>(&'a mut Dispatcher);

impl<I: Index> Observes<I> for Observing<'_> {
    fn on<K: Kind>(&mut self, observe: fn(&mut I, &Change<K>) -> Vec<Key>) {
        let controller_id = self.0.last();
        self.0.need::<K>(Site::Hub);
        let log: Log<K> = Box::new(move |change| log_entry(observe, change));
        self.0.routes.of_mut(Site::Hub).logs.push((controller_id, log));
    }
}
