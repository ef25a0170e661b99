//! Wraps controllers so that each has one bug.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use object::{Key, Kind, Object, ObjectRef};
use reconcile::{
    Change, Controller, Dispatcher, Executed, Lookup, LookupAnswer, Plan, Query, Read, Register, Site,
    Source, StatusWrite, Unreadable, View, Watches,
};
use sim::Setup;

/// A bug in a controller's input or plan.
pub(crate) trait Bug: 'static {
    /// The name of the controller.
    const CONTROLLER: &'static str;

    /// Returns true if lists of a kind appear empty.
    fn is_empty(kind: &str) -> bool {
        let _ = kind;
        false
    }

    /// Changes an object that the controller reads.
    fn see(object: &mut dyn Any) {
        let _ = object;
    }

    /// Changes the plan.
    fn plan(plan: &mut Plan, now: Timestamp) {
        let _ = (plan, now);
    }
}

/// A layer between a controller and the rest of its process.
pub(crate) trait Wrapper: 'static {
    fn plan<C: Controller>(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan>;

    fn conclude<C: Controller>(
        key: &Key,
        view: &impl View,
        done: &Executed,
        now: Timestamp,
    ) -> Read<Option<StatusWrite>> {
        C::conclude(key, view, done, now)
    }
}

/// A controller in a wrapper.
pub(crate) struct Wrapped<W, C>(PhantomData<(W, C)>);

impl<W: Wrapper, C: Controller> Controller for Wrapped<W, C> {
    const NAME: &'static str = C::NAME;
    type Primary = C::Primary;
    const PRIMARY_SITE: Site = C::PRIMARY_SITE;
    const EXPECTED: &'static [&'static str] = C::EXPECTED;
    const REPORTER: &'static str = C::REPORTER;
    const SPACING: SignedDuration = C::SPACING;
    const USES_PERSISTED: bool = C::USES_PERSISTED;
    const MAX_CONCURRENT_RECONCILES: usize = C::MAX_CONCURRENT_RECONCILES;

    fn concerns(change: &Change<C::Primary>) -> bool {
        C::concerns(change)
    }

    fn watches<V: Watches>(watches: &mut V) {
        C::watches(watches);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        W::plan::<C>(key, view, now)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        W::conclude::<C>(key, view, done, now)
    }
}

impl<B: Bug> Wrapper for B {
    fn plan<C: Controller>(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = C::plan(key, &Distorted::<B, _>(view, PhantomData), now)?;
        B::plan(&mut plan, now);
        Ok(plan)
    }
}

/// A view in which a bug changes the objects.
struct Distorted<'a, B, V>(&'a V, PhantomData<B>);

impl<B: Bug, V: View> Distorted<'_, B, V> {
    fn see<K: Kind>(object: &Arc<K>) -> Arc<K> {
        let mut copy = K::clone(object);
        B::see(&mut copy);
        Arc::new(copy)
    }
}

impl<B: Bug, V: View> View for Distorted<'_, B, V> {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        Ok(self.0.get_on::<K>(site, key)?.as_ref().map(Self::see))
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        Ok(self.0.list_on::<K>(site, query)?.iter().map(Self::see).collect())
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        let objects = self.0.list_readable_on::<K>(site, query)?;
        Ok(objects.iter().filter(|_| !B::is_empty(&K::kind(&()))).map(Self::see).collect())
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.0.unreadable_on::<K>(site, query)
    }

    fn is_listed<K: Kind>(&self, site: Site) -> bool {
        self.0.is_listed::<K>(site)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        self.0.observed(object)
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        self.0.lookup(lookup)
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.0.source(repo)
    }

    fn settings<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.settings()
    }
}

/// Registers all controllers, one of them with a bug.
struct WithBug<'a, B>(&'a mut Dispatcher, PhantomData<B>);

impl<B: Bug> Register for WithBug<'_, B> {
    fn add<C: Controller>(&mut self) {
        // A constant, so that the compiler instantiates the bug for no other controller.
        if const { is_same(C::NAME.as_bytes(), B::CONTROLLER.as_bytes()) } {
            self.0.add::<Wrapped<B, C>>();
        } else {
            self.0.add::<C>();
        }
    }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([a, rest_of_a @ ..], [b, rest_of_b @ ..]) => *a == *b && is_same(rest_of_a, rest_of_b),
        _ => false,
    }
}

/// Returns a setup whose operator has a bug.
pub(crate) fn hub_with<B: Bug>() -> Setup {
    Setup { hub: |process| controllers::hub(&mut WithBug::<B>(process, PhantomData)), ..Setup::default() }
}

/// Returns a setup whose agents have a bug.
pub(crate) fn agent_with<B: Bug>() -> Setup {
    Setup { agent: |process| controllers::agent(&mut WithBug::<B>(process, PhantomData)), ..Setup::default() }
}

/// Returns a setup whose operator has a bug and whose hub has Argo CD.
pub(crate) fn argo_cd_with<B: Bug>() -> Setup {
    let hub = |process: &mut Dispatcher| {
        controllers::hub(&mut WithBug::<B>(process, PhantomData));
        controllers::argo_cd(&mut WithBug::<B>(process, PhantomData));
    };
    Setup { hub, ..Setup::default() }
}
