//! An operator or agent inside the simulator: the same controllers, caches and queues as in the shell, over stores and virtual time.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::check::{Author, Decided};
use super::execute::Sites;
use object::Random;
use object::{Gvk, Key, Kind, Object};
use reconcile::{
    Caches, Change, Controller, Delta, Executed, FailureKind, Loop, Narrowed, Outcome, Plan, Register,
    Routes, Runner, Scope, Site, Source, Wakes, Watches,
};
use store::{EventType, ListOptions, Store, Target, Watch, WatchOptions};

/// Keys woken by a change, by controller.
type Woken = Vec<(usize, Key)>;

/// A process that runs controllers.
pub struct Process {
    scope: Scope,
    /// The cluster of an agent.
    spoke: Option<String>,
    caches: Caches,
    runners: Vec<Runner>,
    routes: Routes,
    kinds: BTreeMap<(Site, TypeId), KindFeed>,
    loops: Vec<Loop>,
    asked: BTreeMap<(usize, Key), Vec<Gvk>>,
    observed: BTreeMap<Gvk, Option<Watch>>,
    /// The revisions of the hub and the spoke that were read last.
    seen: (Option<u64>, Option<u64>),
    /// Writes until it dies; `None` is never.
    left: Option<usize>,
}

/// How a typed kind reaches the caches, and how far it has.
struct KindFeed {
    gvk: Gvk,
    all: Target,
    watch: Option<Watch>,
    replace: fn(&mut Caches, &Routes, Site, Vec<Object>, &str) -> Woken,
    apply: fn(&mut Caches, &Routes, Site, Delta<Object>) -> Woken,
}

/// What can go wrong between a process and the API servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of 1,000 writes, how many are refused with "unavailable" before they happen.
    pub refused: u32,
    /// Of 1,000 writes, how many happen although the process is told that they failed.
    pub answer_lost: u32,
    /// Of 1,000 rounds, how many deliver no watch event: the process decides on what it knew before.
    pub stale: u32,
}

impl Process {
    /// Starts a process with empty caches.
    pub(super) fn start(scope: Scope, spoke: Option<&str>, register: fn(&mut Self)) -> Self {
        let mut process = Self {
            scope,
            spoke: spoke.map(str::to_owned),
            caches: Caches::default(),
            runners: Vec::new(),
            routes: Routes::default(),
            kinds: BTreeMap::new(),
            loops: Vec::new(),
            asked: BTreeMap::new(),
            observed: BTreeMap::new(),
            seen: (None, None),
            left: None,
        };
        register(&mut process);
        process
    }

    /// Lets it die after so many writes more.
    pub(super) fn die_after(&mut self, writes: usize) {
        self.left = Some(writes);
    }

    /// Whether it has nothing to die of.
    pub(super) fn is_safe(&self) -> bool {
        self.left.is_none()
    }

    /// Whether it has died; what it was about to do is lost.
    pub(super) fn is_dead(&self) -> bool {
        self.left == Some(0)
    }

    /// When the next key is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.loops.iter().filter_map(Loop::next_at).min()
    }

    /// Takes the news of a repository.
    pub(super) fn set_source(&mut self, repo: &Key, source: Source, now: Timestamp) {
        if self.caches.set_source(repo.clone(), source) {
            let runners =
                self.runners.iter().enumerate().filter(|(_, runner)| runner.primary.kind == "ConfigRepo");
            let woken = runners.map(|(controller, _)| (controller, repo.clone())).collect();
            self.wake(woken, now);
        }
    }

    /// Reads news from the API servers, then plans and executes every key that is due; returns whether anything was done.
    pub(super) fn round(&mut self, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) -> bool {
        // A round without news is not a quiet one: the news may be late.
        let is_late = random.chance(sites.faults.stale);
        let revisions = sites.revisions();
        let mut busy = is_late;
        if !is_late && self.seen != revisions {
            busy = self.read(sites, now);
            self.seen = revisions;
        }
        for controller in 0..self.runners.len() {
            while let Some(key) = self.loops.get_mut(controller).and_then(|queue| queue.start(now)) {
                busy = true;
                self.work(controller, &key, sites, random, now);
            }
        }
        busy
    }

    fn work(
        &mut self,
        controller: usize,
        key: &Key,
        sites: &mut Sites<'_>,
        random: &mut Random,
        now: Timestamp,
    ) {
        let Some(runner) = self.runners.get(controller).cloned() else { return };
        let Ok(mut plan) = (runner.plan)(key, &self.caches, now) else {
            if let Some(queue) = self.loops.get_mut(controller) {
                queue.end(key, Some(FailureKind::Unavailable), None, now);
            }
            return;
        };
        let again = (runner.plan)(key, &self.caches, now).unwrap_or_default();
        sites.checker.planned(&Decided {
            controller: runner.name,
            key,
            view: &self.caches,
            plan: &plan,
            again: &again,
            now,
        });
        if !plan.observe.is_empty() {
            self.seen = (None, None);
        }
        self.observe(controller, key, std::mem::take(&mut plan.observe));
        let wake_at = plan.wake_at;
        let done = self.run(runner.name, key, plan, sites, random, now);
        let mut failure = done.failures().map(|(_, failure)| failure.kind).max();
        if let Some(status) = (runner.conclude)(key, &self.caches, &done, now) {
            let action = status.action();
            let author = Author { controller: runner.name, key, action: &action };
            let outcome = self.act(author, sites, random, now);
            failure = failure.max(outcome.err().map(|failure| failure.kind));
        }
        if let Some(queue) = self.loops.get_mut(controller) {
            queue.end(key, failure, wake_at, now);
        }
    }

    fn run(
        &mut self,
        controller: &str,
        key: &Key,
        plan: Plan,
        sites: &mut Sites<'_>,
        random: &mut Random,
        now: Timestamp,
    ) -> Executed {
        let mut outcomes = Vec::new();
        for step in &plan.steps {
            let act = |action| self.act(Author { controller, key, action }, sites, random, now);
            let done: Vec<_> = step.iter().map(act).collect();
            let failed = done.iter().any(Result::is_err);
            outcomes.push(done);
            if failed {
                break;
            }
        }
        Executed { plan, outcomes }
    }

    fn act(
        &mut self,
        author: Author<'_>,
        sites: &mut Sites<'_>,
        random: &mut Random,
        now: Timestamp,
    ) -> Outcome {
        if self.is_dead() {
            return Err(super::execute::unavailable("the process is dead"));
        }
        if random.chance(sites.faults.refused) {
            return Err(super::execute::unavailable("the API server is too busy"));
        }
        let outcome = sites.act(author, now);
        self.left = self.left.map(|left| left.saturating_sub(1));
        let is_lost = random.chance(sites.faults.answer_lost);
        sites.checker.answered(author.action, !is_lost && outcome.is_ok());
        if is_lost {
            return Err(super::execute::unavailable("the connection was lost before the answer"));
        }
        if let (Ok(Some(object)), Some(site)) = (&outcome, author.action.site()) {
            self.written(site, object, now);
        }
        outcome
    }

    fn written(&mut self, site: Site, object: &Object, now: Timestamp) {
        let gvk = object.gvk();
        let feed = self.kinds.iter().find(|((watched, _), feed)| *watched == site && feed.gvk == gvk);
        if let Some((_, feed)) = feed {
            let woken = (feed.apply)(&mut self.caches, &self.routes, site, Delta::Written(object.clone()));
            self.wake(woken, now);
        }
        if site == self.observed_site() && self.observed.contains_key(&gvk) {
            let change = self.caches.apply_observed(&gvk, Delta::Written(object.clone()));
            let woken =
                change.map(|change| self.routes.wake_observed(&change, &self.caches)).unwrap_or_default();
            self.wake(woken, now);
        }
    }

    /// The cluster that users' objects are applied to.
    fn observed_site(&self) -> Site {
        if self.spoke.is_some() { Site::Spoke } else { Site::Hub }
    }

    /// Reads what has changed; whether anything has.
    fn read(&mut self, sites: &Sites<'_>, now: Timestamp) -> bool {
        let mut woken = Vec::new();
        for ((site, _), feed) in &mut self.kinds {
            let Some(store) = sites.readable(*site) else { continue };
            let narrowed = match (site, &feed.watch) {
                (_, Some(_)) | (Site::Spoke, None) => Narrowed::default(),
                (Site::Hub, None) => {
                    let Some(resource) = store.resource_of(&feed.gvk) else { continue };
                    self.scope.narrow(&feed.gvk, resource.namespaced)
                }
            };
            let news = read(store, &feed.all, &narrowed, &mut feed.watch);
            if let News::Listed(objects, version) = news {
                woken.extend((feed.replace)(&mut self.caches, &self.routes, *site, objects, &version));
            } else if let News::Changed(deltas) = news {
                woken.extend(
                    deltas
                        .into_iter()
                        .flat_map(|delta| (feed.apply)(&mut self.caches, &self.routes, *site, delta)),
                );
            }
        }
        woken.extend(self.read_observed(sites));
        let busy = !woken.is_empty();
        self.wake(woken, now);
        busy
    }

    fn read_observed(&mut self, sites: &Sites<'_>) -> Woken {
        let Some(store) = sites.readable(self.observed_site()) else { return Vec::new() };
        let mut woken = Vec::new();
        for (gvk, watch) in &mut self.observed {
            let Some(resource) = store.resource_of(gvk) else { continue };
            let all = Target::resource(&gvk.group, &gvk.version, &resource.plural);
            let changes = match read(store, &all, &Narrowed::default(), watch) {
                News::Listed(objects, version) => {
                    // Whoever waited for the kind may decide now, whether or not there are objects of it.
                    woken.extend(
                        self.asked.iter().filter(|(_, gvks)| gvks.contains(gvk)).map(|(key, _)| key.clone()),
                    );
                    self.caches.replace_observed(gvk, objects, &version)
                }
                News::Changed(deltas) => {
                    deltas.into_iter().filter_map(|delta| self.caches.apply_observed(gvk, delta)).collect()
                }
            };
            woken.extend(changes.iter().flat_map(|change| self.routes.wake_observed(change, &self.caches)));
        }
        woken
    }

    fn observe(&mut self, controller: usize, key: &Key, gvks: Vec<Gvk>) {
        for gvk in &gvks {
            self.observed.entry(gvk.clone()).or_default();
        }
        if gvks.is_empty() {
            self.asked.remove(&(controller, key.clone()))
        } else {
            self.asked.insert((controller, key.clone()), gvks)
        };
        let wanted: BTreeSet<&Gvk> = self.asked.values().flatten().collect();
        let caches = &mut self.caches;
        self.observed.retain(|gvk, _| {
            wanted.contains(gvk) || {
                caches.forget_observed(gvk);
                false
            }
        });
    }

    fn wake(&mut self, woken: Woken, now: Timestamp) {
        for (controller, key) in woken {
            if let Some(queue) = self.loops.get_mut(controller) {
                queue.wake(key, now);
            }
        }
    }
}

impl Register for Process {
    fn add<C: Controller>(&mut self) {
        self.runners.push(Runner::of::<C>());
        let mut queue = Loop::with_spacing(SignedDuration::ZERO);
        C::EXPECTED.iter().for_each(|name| queue.wake(Key::cluster(*name), Timestamp::MIN));
        self.loops.push(queue);
        self.on::<C::Primary>(|change, _| change.sides().take(1).map(Key::of).collect());
        C::watches(self);
    }
}

/// Registers for the controller that was added last.
impl Watches for Process {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, wakes: Wakes<K, Caches>) {
        self.routes.add(self.runners.len().saturating_sub(1), site, wakes);
        self.kinds.entry((site, TypeId::of::<K>())).or_insert_with(|| KindFeed {
            gvk: Gvk::of::<K>(),
            all: Target::all::<K>(),
            watch: None,
            replace: replace::<K>,
            apply: apply::<K>,
        });
    }

    fn on_observed(&mut self, wakes: Wakes<Object, Caches>) {
        self.routes.add_observed(self.runners.len().saturating_sub(1), wakes);
    }
}

enum News {
    Listed(Vec<Object>, String),
    Changed(Vec<Delta<Object>>),
}

/// Lists, or goes on from where the watch stands; a watch that fell behind lists again.
fn read(store: &Store, all: &Target, narrowed: &Narrowed, watch: &mut Option<Watch>) -> News {
    if let Some(events) = watch.as_mut().and_then(|watch| store.poll(watch).ok()) {
        let deltas = events.into_iter().filter_map(|event| {
            let object = Object::clone(&event.object);
            match event.type_ {
                EventType::Added | EventType::Modified => Some(Delta::Seen(object)),
                EventType::Deleted => Some(Delta::Gone(object.key(), object.resource_version().to_owned())),
                EventType::Bookmark => None,
            }
        });
        return News::Changed(deltas.collect());
    }
    let target = all.clone().within(narrowed.namespace.clone());
    let (labels, fields) = (narrowed.labels.clone(), narrowed.fields.clone());
    let options = ListOptions { labels: labels.clone(), fields: fields.clone(), ..ListOptions::default() };
    let Ok(list) = store.list(&target, &options) else { return News::Changed(Vec::new()) };
    let from = WatchOptions {
        labels,
        fields,
        resource_version: list.resource_version.clone(),
        ..WatchOptions::default()
    };
    *watch = store.watch(&target, &from).ok();
    News::Listed(list.items.iter().map(|item| Object::clone(item)).collect(), list.resource_version)
}

fn replace<K: Kind>(
    caches: &mut Caches,
    routes: &Routes,
    site: Site,
    all: Vec<Object>,
    version: &str,
) -> Woken {
    let (mut typed, mut unreadable) = (Vec::new(), Vec::new());
    for object in all {
        match object.to_typed::<K>() {
            Ok(object) => typed.push(object),
            Err(why) => unreadable.push((object.key(), why.to_string())),
        }
    }
    let changes = caches.replace(site, typed, version);
    for (key, why) in unreadable {
        caches.apply::<K>(site, Delta::Unreadable(key, why));
    }
    changes.iter().flat_map(|change| routes.wake(site, change, caches)).collect()
}

fn apply<K: Kind>(caches: &mut Caches, routes: &Routes, site: Site, delta: Delta<Object>) -> Woken {
    let typed = |object: Object, wrap: fn(K) -> Delta<K>| match object.to_typed::<K>() {
        Ok(typed) => wrap(typed),
        Err(why) => Delta::Unreadable(object.key(), why.to_string()),
    };
    let delta = match delta {
        Delta::Seen(object) => typed(object, Delta::Seen),
        Delta::Written(object) => typed(object, Delta::Written),
        Delta::Gone(key, version) => Delta::Gone(key, version),
        Delta::Unreadable(key, why) => Delta::Unreadable(key, why),
    };
    let change: Option<Change<K>> = caches.apply(site, delta);
    change.map(|change| routes.wake(site, &change, caches)).unwrap_or_default()
}
