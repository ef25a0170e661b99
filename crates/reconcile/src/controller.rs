//! Controllers, and the registry of their watches.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Caches, Executed, Index, Plan, Read, Site, Snapshot, StatusWrite, View};
use object::{Key, Kind, Object};

/// A pure controller of one primary kind.
///
/// # Guarantees of the dispatcher
/// - One key is never planned twice at a time, and never again before what its last plan wrote is visible in
///   the [`View`].
/// - A step of a plan starts only when the one before succeeded; the actions inside a step are independent
///   and all attempted.
pub trait Controller: 'static {
    /// Name in `--controllers`, in logs and in metrics. It is also the field manager of the controller's
    /// writes.
    const NAME: &'static str;
    /// The kind whose keys it plans.
    type Primary: Kind;
    /// The API server that serves it.
    const PRIMARY_SITE: Site = Site::Hub;
    /// Names of cluster-scoped primaries that are planned at the start whether or not they exist.
    const EXPECTED: &'static [&'static str] = &[];

    /// The reporting controller of its events, where OCM's clients expect another name than [`Self::NAME`].
    const REPORTER: &'static str = Self::NAME;

    /// The limit of keys that are planned or executed at the same time. It is 1 if the decision for one key
    /// changes the decision for the next.
    const MAX_CONCURRENT_RECONCILES: usize = 16;

    /// The least time from the end of a plan of a key to the next one that a change of a typed object causes.
    /// A controller whose plans go over a whole fleet sets it, so that a rollout does not cost the fleet for
    /// each cluster that moves. The time that a plan asks for ([`Plan::wake`]) is kept all the same.
    const SPACING: SignedDuration = SignedDuration::ZERO;

    /// Whether it decides by objects of the hub that an earlier process kept, while the hub cannot be read.
    /// The absence of an object then means nothing, so a controller that decides by absence must not set it.
    const USES_KEPT: bool = false;

    /// Returns whether a change of a primary can change its plan, as a predicate of controller-runtime says.
    /// The default takes every change for one; a controller that does not read the status ignores those of
    /// it.
    fn concerns(change: &Change<Self::Primary>) -> bool {
        let _ = change;
        true
    }

    /// Registers the watches that wake it; a change of a primary that [concerns](Self::concerns) it always
    /// wakes its own key.
    fn watches<W: Watches>(watches: &mut W);

    /// Decides what should be written. It does no I/O, reads no clock, and returns for every input.
    ///
    /// # Errors
    /// [`ReadError`](super::ReadError) when an input could not be read. The dispatcher logs and counts the
    /// error, and plans the key again when the input has arrived or after a backoff.
    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan>;

    /// Concludes from the outcomes of the writes. The default writes the status that the plan drafted, once
    /// all steps have succeeded.
    ///
    /// # Errors
    /// As in [`Controller::plan`]: the key is planned again, because the status does not say yet what was
    /// written.
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

/// Names the keys of a controller that a change concerns.
pub type Wakes<K, V> = fn(&Change<K>, &V) -> Vec<Key>;

/// A registry of the kinds that wake a [`Controller`].
///
/// A mapping function only reads: it finds the keys in the change and in the caches, never in the
/// controller's index. An index names the keys that a change concerns when it takes the change
/// ([`Observes::on`](super::Observes::on)).
pub trait Watches {
    /// The view the mapping functions may look things up in.
    type View: View;

    /// Wakes the keys that `wakes` names whenever an object of kind `K` changes.
    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Self::View>);

    /// Wakes the keys that `wakes` names whenever an observed object changes, of a kind that a
    /// [`Plan::observe`] asked for.
    fn on_observed(&mut self, wakes: Wakes<Object, Self::View>);

    /// Wakes the keys that `wakes` names whenever a fetch of a repository ends, with or without success. The
    /// name is that of its `ConfigRepo`.
    fn on_source(&mut self, wakes: fn(&Key) -> Vec<Key>);

    /// Keeps an index for the plans of the controller, and wakes the keys that it names.
    fn keep<I: Index>(&mut self);

    /// Wakes the keys that `wakes` names whenever an object of kind `K` on the hub becomes unreadable, or
    /// stops to be.
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

/// An object before and after a change: created (no `old`), updated, or deleted (no `new`).
#[derive(Debug)]
pub struct Change<K> {
    /// The object as the view had it before.
    pub old: Option<Arc<K>>,
    /// The object as it is now.
    pub new: Option<Arc<K>>,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<K> Change<K> {
    /// Returns both sides, the newer first. A mapping function uses it to wake the keys of the object before
    /// and after the change.
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
    /// [`Controller::USES_KEPT`].
    pub(crate) uses_kept: bool,
    /// [`Controller::plan`].
    pub(crate) plan: fn(&Key, &Snapshot, Timestamp) -> Read<Plan>,
    /// [`Controller::conclude`].
    pub(crate) conclude: fn(&Key, &Snapshot, &Executed, Timestamp) -> Read<Option<StatusWrite>>,
    /// Every key that has an object.
    pub(crate) keys: fn(&Caches) -> Read<Vec<Key>>,
}

impl ErasedController {
    /// Erases the types of a controller.
    pub(crate) fn of<C: Controller>() -> Self {
        Self {
            name: C::NAME,
            reporter: C::REPORTER,
            max_concurrent_reconciles: C::MAX_CONCURRENT_RECONCILES,
            uses_kept: C::USES_KEPT,
            plan: |key, view, now| C::plan(key, view, now),
            conclude: |key, view, done, now| C::conclude(key, view, done, now),
            keys: |caches| {
                let all = caches.list_readable_on::<C::Primary>(C::PRIMARY_SITE, super::Query::ALL)?;
                Ok(all.iter().map(|object| Key::of(&**object)).collect())
            },
        }
    }
}
