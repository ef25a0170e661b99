//! Registers the kinds that controllers need, and their mapping functions.

use std::sync::Arc;

use jiff::Timestamp;

use super::command::Command;
use super::feed;
use super::routes::{Log, ReadabilityWakes, Route};
use super::state::{Dispatcher, KnownKind, RegisteredController};
use crate::index::log_entry;
use crate::{
    Caches, Change, Controller, Index, Observes, Priority, Register, Site, Wake, Wakes, WatchedKind, Watches,
};
use object::{Key, Kind, Object};

impl Dispatcher {
    /// Makes the controller that was added last wait for the first list of a kind, and requests a watch of the
    /// kind.
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
            let (feed, confirm, count) = (feed::typed::<K>, Caches::confirm::<K>, Caches::count_of::<K>);
            self.kinds.insert(id, KnownKind { kind, feed, confirm, count });
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

    fn on_observed(&mut self, observe: fn(&mut I, &Change<Object>) -> Vec<Key>) {
        let log: Log<Object> = Box::new(move |change| log_entry(observe, change));
        self.0.routes.observed_logs.push((self.0.last(), log));
    }
}
