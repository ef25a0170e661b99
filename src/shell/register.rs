//! Which controllers run, what they watch, and how each watched kind reaches the caches.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;

use super::core::Core;
use super::watch::{self, Target};
use object::{Gvk, Key, Kind, Object};
use reconcile::{Caches, Controller, Register, Routes, Runner, Site, Wakes, Watches};

/// `--controllers`: which controllers run, as kube-controller-manager takes it: `*` is all, `name` adds one, `-name` removes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    all: bool,
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self { all: true, added: BTreeSet::new(), removed: BTreeSet::new() }
    }
}

impl Selection {
    /// Reads a comma-separated list; `known` names every controller there is.
    ///
    /// # Errors
    /// Names what is not a controller, and what could have been meant.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, String> {
        let mut selection = Self { all: false, added: BTreeSet::new(), removed: BTreeSet::new() };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let name = word.strip_prefix('-').unwrap_or(word);
            match (word, known.contains(&name)) {
                ("*", _) => selection.all = true,
                (_, false) => {
                    return Err(format!("there is no controller {name:?}; there are: {}", known.join(", ")));
                }
                (_, true) if word.starts_with('-') => drop(selection.removed.insert(name.into())),
                (_, true) => drop(selection.added.insert(name.into())),
            }
        }
        Ok(selection)
    }

    fn includes(&self, name: &str) -> bool {
        !self.removed.contains(name) && (self.all || self.added.contains(name))
    }
}

type Start = fn(Arc<Core>, Site, Target) -> BoxFuture<'static, ()>;
type Write = fn(&Core, Site, Object);

/// A kind that is watched.
pub(super) struct WatchedKind {
    pub gvk: Gvk,
    /// Starts its watch, which ends when it is dropped.
    pub start: Start,
    /// Takes the result of an own write into its cache.
    pub write: Write,
}

/// Everything that registration says.
#[derive(Default)]
pub(super) struct Registered {
    selection: Selection,
    pub runners: Vec<Runner>,
    pub routes: Routes,
    pub kinds: BTreeMap<(Site, TypeId), WatchedKind>,
    /// By controller: what must have been read before it may decide anything.
    pub needs: Vec<BTreeSet<(Site, TypeId)>>,
}

impl Registered {
    pub(super) fn new(selection: Selection) -> Self {
        Self { selection, ..Self::default() }
    }
}

impl Register for Registered {
    fn add<C: Controller>(&mut self) {
        if !self.selection.includes(C::NAME) {
            return;
        }
        self.runners.push(Runner::of::<C>());
        self.needs.push(BTreeSet::new());
        self.on::<C::Primary>(|change, _| change.sides().take(1).map(Key::of).collect());
        C::watches(self);
    }
}

/// Registers for the controller that was added last.
impl Watches for Registered {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Caches>) {
        let controller = self.runners.len().saturating_sub(1);
        let kind = (site, TypeId::of::<K>());
        self.routes.add(controller, site, wakes);
        if let Some(needs) = self.needs.last_mut() {
            needs.insert(kind);
        }
        self.kinds.entry(kind).or_insert_with(|| WatchedKind {
            gvk: Gvk::of::<K>(),
            start: |core, site, target| {
                Box::pin(watch::watch::<K>(target, move |news| core.tell(site, news)))
            },
            write: Core::written::<K>,
        });
    }

    fn on_observed(&mut self, wakes: Wakes<Object, Caches>) {
        self.routes.add_observed(self.runners.len().saturating_sub(1), wakes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, runs: &[&str]) {
        let known = ["placement", "clusterset", "report"];
        let selection = Selection::parse(text, &known).unwrap();
        let included: Vec<_> = known.into_iter().filter(|name| selection.includes(name)).collect();
        assert_eq!(included, runs, "{text:?}");
    }

    #[test]
    fn controllers_are_chosen_as_kube_controller_manager_does() {
        check("*", &["placement", "clusterset", "report"]);
        check("*,-placement", &["clusterset", "report"]);
        check("placement, clusterset", &["placement", "clusterset"]);
        check("-report,*", &["placement", "clusterset"]);
        check("", &[]);
    }

    #[test]
    fn an_unknown_controller_is_named() {
        let error = Selection::parse("*,-placements", &["placement"]).unwrap_err();
        assert_eq!(error, "there is no controller \"placements\"; there are: placement");
    }
}
