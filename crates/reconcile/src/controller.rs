//! Controllers, and the registry of the watches that wake them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Caches, Executed, Index, Plan, Read, Site, Snapshot, StatusWrite, View};
use object::{Key, Kind, Object};

/// A pure controller of one primary kind.
///
/// # Guarantees of the dispatcher
/// - Only one reconciliation of a key runs at a time. The next one starts only when the [`View`] shows what the
///   last one wrote.
/// - A step of a plan starts only after the previous one succeeded. The actions of a step are independent, and all
///   are attempted.
pub trait Controller: 'static {
    /// The name in `--controllers`, logs and metrics. It is also the field manager of the controller's writes.
    const NAME: &'static str;
    /// The kind whose keys it plans.
    type Primary: Kind;
    /// The API server with the primary kind.
    const PRIMARY_SITE: Site = Site::Hub;
    /// Names of cluster-scoped primaries to plan at the start, even if they do not exist.
    const EXPECTED: &'static [&'static str] = &[];

    /// The reporting controller of its events, if OCM's clients expect a name other than [`Self::NAME`].
    const REPORTER: &'static str = Self::NAME;

    /// The number of keys that may be planned or executed at the same time. It is 1 if the decision for one key
    /// affects the decision for the next.
    const MAX_CONCURRENT_RECONCILES: usize = 16;

    /// The minimum time from the end of a reconciliation to the next one of the same key that a change of a typed
    /// object causes. Controllers whose plans cover a whole fleet set it, so that a rollout does not replan the
    /// fleet for each cluster that moves. A time that a plan requests ([`Plan::wake`]) is not affected.
    const SPACING: SignedDuration = SignedDuration::ZERO;

    /// If true, the controller may use objects of the hub that an earlier process stored, while the hub cannot be
    /// read. The absence of an object then means nothing, so a controller that decides by absence must not set it.
    const USES_PERSISTED: bool = false;

    /// Returns true if a change of a primary can change its plan, like a predicate in controller-runtime. By
    /// default, every change can. A controller that does not read the status should ignore status changes.
    fn concerns(change: &Change<Self::Primary>) -> bool {
        let _ = change;
        true
    }

    /// Registers the watches that wake the controller. A change of a primary that [concerns](Self::concerns) the
    /// controller always wakes that primary's key.
    fn watches<W: Watches>(watches: &mut W);

    /// Decides what to write. It does no I/O, reads no clock, and returns for every input.
    ///
    /// # Errors
    /// Returns [`ReadError`](super::ReadError) if an input could not be read. The dispatcher logs and counts the
    /// error, and plans the key again when the input has arrived or after a backoff.
    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan>;

    /// Draws the conclusion from the outcomes of the writes. By default, this is the status that the plan drafted,
    /// once all steps have succeeded.
    ///
    /// # Errors
    /// As for [`Controller::plan`]. The key is planned again, because the status does not report the writes yet.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let _ = (key, view, now);
        Ok(done.plan.status.clone().filter(|_| done.is_success()))
    }
}

/// A registry of controllers.
pub trait Register {
    /// Adds a controller.
    fn add<C: Controller>(&mut self);
}

/// Returns the keys of a controller that a change concerns.
pub type Wakes<K, V> = fn(&Change<K>, &V) -> Vec<Key>;

/// A registry of the kinds that wake a [`Controller`].
///
/// Mapping functions only read: they find keys in the change and in the caches, never in the controller's index.
/// An index returns the keys that a change concerns when it applies the change
/// ([`Observes::on`](super::Observes::on)).
pub trait Watches {
    /// The view that mapping functions read.
    type View: View;

    /// Wakes the keys that `wakes` returns whenever an object of kind `K` changes.
    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Self::View>);

    /// Wakes the keys that `wakes` returns whenever an object of an observed kind changes. Plans request observed
    /// kinds with [`Plan::observe`].
    fn on_observed(&mut self, wakes: Wakes<Object, Self::View>);

    /// Wakes the keys that `wakes` returns whenever a fetch of a repository ends, successful or not. The key
    /// identifies the `ConfigRepo`.
    fn on_source(&mut self, wakes: fn(&Key) -> Vec<Key>);

    /// Keeps an index for the plans of the controller, and wakes the keys that the index returns.
    fn keep<I: Index>(&mut self);

    /// Wakes the keys that `wakes` returns whenever an object of kind `K` on the hub becomes unreadable or
    /// readable again.
    fn on_readability<K: Kind>(&mut self, wakes: fn(&Self::View) -> Vec<Key>);

    /// Calls [`Watches::on_site`] for the hub.
    fn on<K: Kind>(&mut self, wakes: Wakes<K, Self::View>) {
        self.on_site(Site::Hub, wakes);
    }

    /// Keeps objects of kind `K` on the hub readable without waking anything.
    fn read<K: Kind>(&mut self) {
        self.on::<K>(|_, _| Vec::new());
    }
}

/// An object before and after a change. A created object has no `old`, a deleted one no `new`.
#[derive(Debug)]
pub struct Change<K> {
    /// The previous object in the view.
    pub old: Option<Arc<K>>,
    /// The current object.
    pub new: Option<Arc<K>>,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<K> Change<K> {
    /// Returns both sides, the newer first, so that a mapping function can wake the keys of the object before and
    /// after the change.
    pub fn sides(&self) -> impl Iterator<Item = &K> {
        self.new.iter().chain(&self.old).map(std::convert::AsRef::as_ref)
    }
}

/// A [`Controller`] with its types erased.
#[derive(Clone, Debug)]
pub(crate) struct ErasedController {
    /// [`Controller::NAME`].
    pub(crate) name: &'static str,
    /// [`Controller::REPORTER`].
    pub(crate) reporter: &'static str,
    /// [`Controller::MAX_CONCURRENT_RECONCILES`].
    pub(crate) max_concurrent_reconciles: usize,
    /// [`Controller::USES_PERSISTED`].
    pub(crate) uses_persisted: bool,
    /// [`Controller::plan`].
    pub(crate) plan: fn(&Key, &Snapshot, Timestamp) -> Read<Plan>,
    /// [`Controller::conclude`].
    pub(crate) conclude: fn(&Key, &Snapshot, &Executed, Timestamp) -> Read<Option<StatusWrite>>,
    /// Returns every key that has an object.
    pub(crate) keys: fn(&Caches) -> Read<Vec<Key>>,
}

impl ErasedController {
    pub(crate) fn of<C: Controller>() -> Self {
        Self {
            name: C::NAME,
            reporter: C::REPORTER,
            max_concurrent_reconciles: C::MAX_CONCURRENT_RECONCILES,
            uses_persisted: C::USES_PERSISTED,
            plan: |key, view, now| C::plan(key, view, now),
            conclude: |key, view, done, now| C::conclude(key, view, done, now),
            keys: |caches| {
                let all = caches.list_readable_on::<C::Primary>(C::PRIMARY_SITE, super::Query::ALL)?;
                Ok(all.iter().map(|object| Key::of(&**object)).collect())
            },
        }
    }
}
