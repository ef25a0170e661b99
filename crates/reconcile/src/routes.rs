//! Which change wakes which keys of which controller.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Caches, Change, Controller, Executed, Plan, Read, Site, StatusWrite};
use object::{Gvk, Key, Kind, Object};

/// Names the keys of a controller that a change concerns.
pub type Wakes<K, V> = fn(&Change<K>, &V) -> Vec<Key>;

/// A [`Controller`] with its types erased, reading from [`Caches`].
#[derive(Clone, Debug)]
pub struct Runner {
    /// [`Controller::NAME`].
    pub name: &'static str,
    /// The kind of its keys.
    pub primary: Gvk,
    /// [`Controller::EXPECTED`].
    pub expected: &'static [&'static str],
    /// [`Controller::REPORTER`].
    pub reporter: &'static str,
    /// [`Controller::ONE_BY_ONE`].
    pub one_by_one: bool,
    /// [`Controller::plan`].
    pub plan: fn(&Key, &Caches, Timestamp) -> Read<Plan>,
    /// [`Controller::conclude`].
    pub conclude: fn(&Key, &Caches, &Executed, Timestamp) -> Option<StatusWrite>,
}

impl Runner {
    /// Erases the types of a controller.
    pub fn of<C: Controller>() -> Self {
        Self {
            name: C::NAME,
            primary: Gvk::of::<C::Primary>(),
            expected: C::EXPECTED,
            reporter: C::REPORTER,
            one_by_one: C::ONE_BY_ONE,
            plan: |key, view, now| C::plan(key, view, now),
            conclude: |key, view, done, now| C::conclude(key, view, done, now),
        }
    }
}

/// The mapping functions of all controllers, by the kind they listen to.
#[derive(Default)]
pub struct Routes {
    typed: BTreeMap<(Site, TypeId), Box<dyn Any + Send + Sync>>,
    observed: Vec<(usize, Wakes<Object, Caches>)>,
}

impl Routes {
    /// Adds a mapping function of the `controller`-th controller.
    pub fn add<K: Kind>(&mut self, controller: usize, site: Site, wakes: Wakes<K, Caches>) {
        let slot = self
            .typed
            .entry((site, TypeId::of::<K>()))
            .or_insert_with(|| Box::new(Vec::<(usize, Wakes<K, Caches>)>::new()));
        let routes: &mut Vec<(usize, Wakes<K, Caches>)> =
            slot.downcast_mut().expect("each slot is created with the type it is keyed by");
        routes.push((controller, wakes));
    }

    /// Adds a mapping function for observed objects of the spoke.
    pub fn add_observed(&mut self, controller: usize, wakes: Wakes<Object, Caches>) {
        self.observed.push((controller, wakes));
    }

    /// The controllers and keys that a change of a typed object concerns.
    pub fn wake<K: Kind>(&self, site: Site, change: &Change<K>, caches: &Caches) -> Vec<(usize, Key)> {
        let slot = self.typed.get(&(site, TypeId::of::<K>()));
        let routes = slot.and_then(|slot| slot.downcast_ref::<Vec<(usize, Wakes<K, Caches>)>>());
        fan_out(routes.into_iter().flatten(), change, caches)
    }

    /// The controllers and keys that a change of an observed object concerns.
    pub fn wake_observed(&self, change: &Change<Object>, caches: &Caches) -> Vec<(usize, Key)> {
        fan_out(self.observed.iter(), change, caches)
    }
}

fn fan_out<'a, K: 'a>(
    routes: impl Iterator<Item = &'a (usize, Wakes<K, Caches>)>,
    change: &Change<K>,
    caches: &Caches,
) -> Vec<(usize, Key)> {
    routes
        .flat_map(|(controller, wakes)| wakes(change, caches).into_iter().map(|key| (*controller, key)))
        .collect()
}
