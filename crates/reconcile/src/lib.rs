//! The three seams between what decides and what acts: [`View`] (what is read), [`Plan`] (what should be written, as data)
//! and `now` (time, as an argument).
//!
//! A [`Controller`] is a pure function from the first and the last to the middle one. The operator, the agent, the simulator,
//! the demo and the command line differ only in who fills the [`Caches`] and who executes the [`Plan`]; [`Loop`] is what they
//! share between the two.

mod cache;
mod index;
mod plan;
mod queue;
mod routes;
mod scope;
mod verbs;
mod view;

use jiff::Timestamp;

pub use cache::{Caches, Delta};
pub use index::Index;
pub use plan::{
    Action, Executed, Failure, FailureKind, Note, NoteType, Outcome, Plan, Precondition, Push, Site,
    StatusWrite, Subresource,
};
pub use queue::{Backoff, Loop};
pub use routes::{Routes, Runner, Wakes};
pub use scope::{Narrowed, Scope};
pub use view::{Query, Read, Source, SourceFailure, Unread, View};

use object::{Key, Kind, Object};

/// A pure controller of one primary kind.
///
/// # Guarantees of whoever runs it
/// - One key is never planned twice at a time, and never again before what its last plan wrote is visible in the [`View`].
/// - A step of a plan starts only when the one before succeeded; the actions inside a step are independent and all attempted.
pub trait Controller: 'static {
    /// Name in `--controllers`, in logs and metrics, and the field manager of its writes.
    const NAME: &'static str;
    /// The kind whose keys it plans.
    type Primary: Kind;
    /// Names of cluster-scoped primaries that are planned at the start whether or not they exist.
    const EXPECTED: &'static [&'static str] = &[];

    /// Who its events say they are from, where stock clients know another name for what it does.
    const REPORTER: &'static str = Self::NAME;

    /// Whether one key at a time is planned and executed, because what is decided for one matters to the next.
    const ONE_BY_ONE: bool = false;

    /// Registers what wakes it; the primary itself always does.
    fn watches<W: Watches>(watches: &mut W);

    /// Decides what should be written; no I/O, no clock, total.
    ///
    /// # Errors
    /// [`Unread`] where something it decides from could not be read: that is logged, counted and planned again with a backoff.
    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan>;

    /// Says what happened; the default writes the status the plan drafted once all its steps have succeeded.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let _ = (key, view, now);
        if done.is_success() { done.plan.status.clone() } else { None }
    }
}

/// Where controllers are registered, once, for whoever runs them.
pub trait Register {
    /// Adds a controller.
    fn add<C: Controller>(&mut self);
}

/// Where a [`Controller`] registers the kinds that wake it.
pub trait Watches {
    /// The view the mapping functions may look things up in.
    type View: View;

    /// Wakes the keys that `wakes` names whenever an object of kind `K` changes.
    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Self::View>);

    /// Wakes the keys that `wakes` names whenever an observed object changes, of a kind that a [`Plan::observe`] asked for.
    fn on_observed(&mut self, wakes: Wakes<Object, Self::View>);

    /// [`Watches::on_site`] for the hub.
    fn on<K: Kind>(&mut self, wakes: Wakes<K, Self::View>) {
        self.on_site(Site::Hub, wakes);
    }

    /// Keeps objects of kind `K` on the hub readable without waking anything.
    fn read<K: Kind>(&mut self) {
        self.on::<K>(|_, _| Vec::new());
    }
}

/// An object before and after: created (no `old`), updated, or deleted (no `new`).
#[derive(Debug)]
pub struct Change<K> {
    /// As it was in the view before.
    pub old: Option<std::sync::Arc<K>>,
    /// As it is now.
    pub new: Option<std::sync::Arc<K>>,
}

impl<K> Change<K> {
    /// Both sides, the newer first: for mapping functions that wake whoever the object concerns or concerned.
    pub fn sides(&self) -> impl Iterator<Item = &K> {
        self.new.iter().chain(&self.old).map(std::convert::AsRef::as_ref)
    }
}
