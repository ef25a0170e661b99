//! An operator or agent inside the simulator: the dispatcher that production runs, over stores and virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::check::{Author, Decided};
use super::execute::{Sites, unavailable};
use object::{Gvk, Key, Object, Random};
use reconcile::{
    Act, Command, Decoded, Dispatcher, Limits, Narrowed, Outcome, Planning, Scope, Site, Source, WatchEvent,
    WatchedKind,
};
use store::{EventType, ListOptions, Store, Target, Watch, WatchOptions};

/// Changes are planned at once, so that time moves only when nothing is left to do.
const LIMITS: Limits = Limits { coalesce: SignedDuration::ZERO, computations: 1 };

/// A process that runs controllers.
pub(super) struct Process {
    scope: Scope,
    dispatcher: Dispatcher,
    feeds: BTreeMap<(Site, Gvk, bool), Feed>,
    /// The revisions of the hub and the spoke that were read last; `None` where a watch has begun since.
    seen: Option<(Option<u64>, Option<u64>)>,
    /// Writes until it dies; `None` is never.
    left: Option<usize>,
}

/// A kind that the dispatcher wants watched, and how far its watch has come.
struct Feed {
    kind: Arc<WatchedKind>,
    watch: Option<Watch>,
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
    pub(super) fn start(scope: Scope, spoke: Option<&str>, register: fn(&mut Dispatcher)) -> Self {
        let mut dispatcher = Dispatcher::new(LIMITS, spoke.is_some());
        register(&mut dispatcher);
        Self { scope, dispatcher, feeds: BTreeMap::new(), seen: None, left: None }
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
        self.dispatcher.next_at()
    }

    /// Takes the state of a repository.
    pub(super) fn set_source(&mut self, repo: &Key, source: Source, now: Timestamp) {
        self.dispatcher.source_changed(repo, source, now);
    }

    /// Reads news from the API servers, then does everything that is due; returns whether anything was done.
    pub(super) fn round(&mut self, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) -> bool {
        // A round without news is not a quiet one: the news may be late.
        let is_late = random.chance(sites.faults.stale);
        let revisions = sites.revisions();
        let mut busy = is_late;
        if !is_late && self.seen != Some(revisions) {
            self.seen = Some(revisions);
            busy = self.read(sites, now);
        }
        let commands = self.dispatcher.due(now);
        busy |= !commands.is_empty();
        // Decisions first, on what the servers hold now; then the writes.
        let (decisions, others): (Vec<_>, Vec<_>) =
            commands.into_iter().partition(|command| matches!(command, Command::Decide(_)));
        for command in decisions.into_iter().chain(others) {
            match command {
                Command::Decide(decision) => {
                    let controller = decision.controller;
                    let decided = decision.run_inspected(&mut |&Planning { key, view, plan, again }| {
                        sites.checker.planned(&Decided { controller, key, view, plan, again, now });
                    });
                    self.dispatcher.decided(decided, now);
                }
                Command::Compute(computation) => self.dispatcher.computed(computation.run(), now),
                Command::Act(act) => {
                    let outcome = self.act(&act, sites, random, now);
                    self.dispatcher.acted(act.done(outcome), now);
                }
                Command::Watch(kind) => {
                    let feed = Feed { kind, watch: None };
                    self.feeds.insert(feed.id(), feed);
                    self.seen = None;
                }
                Command::Unwatch(kind) => {
                    self.feeds.remove(&Feed { kind, watch: None }.id());
                }
                Command::Ended(_) => {}
            }
        }
        busy
    }

    fn act(&mut self, act: &Act, sites: &mut Sites<'_>, random: &mut Random, now: Timestamp) -> Outcome {
        if self.is_dead() {
            return Err(unavailable("the process is dead"));
        }
        if random.chance(sites.faults.refused) {
            return Err(unavailable("the API server is too busy"));
        }
        let author = Author { controller: act.controller, key: &act.key, action: act.action() };
        let outcome = sites.act(author, now);
        self.left = self.left.map(|left| left.saturating_sub(1));
        let is_lost = random.chance(sites.faults.answer_lost);
        sites.checker.answered(act.action(), !is_lost && outcome.is_ok());
        if is_lost {
            return Err(unavailable("the connection was lost before the answer"));
        }
        outcome
    }

    /// Reads what has changed; whether anything has.
    fn read(&mut self, sites: &Sites<'_>, now: Timestamp) -> bool {
        let mut busy = false;
        for Feed { kind, watch } in self.feeds.values_mut() {
            let Some(store) = sites.readable(kind.site) else { continue };
            let Some(resource) = store.resource_of(&kind.gvk) else { continue };
            let narrowed = match kind.site {
                Site::Hub => self.scope.narrow(&kind.gvk, resource.namespaced),
                Site::Spoke => Narrowed::default(),
            };
            let all = Target::resource(&kind.gvk.group, &kind.gvk.version, &resource.plural);
            for event in read(store, kind, &all.within(narrowed.namespace.clone()), &narrowed, watch) {
                busy = true;
                self.dispatcher.watched(kind, event, now);
            }
        }
        busy
    }
}

impl Feed {
    fn id(&self) -> (Site, Gvk, bool) {
        (self.kind.site, self.kind.gvk.clone(), self.kind.is_observed())
    }
}

/// Lists, or goes on from where the watch stands; a watch that fell behind lists again.
fn read(
    store: &Store,
    kind: &WatchedKind,
    target: &Target,
    narrowed: &Narrowed,
    watch: &mut Option<Watch>,
) -> Vec<WatchEvent> {
    let decode = |object: &Arc<Object>| kind.convert(object);
    if let Some(events) = watch.as_mut().and_then(|watch| store.poll(watch).ok()) {
        let events = events.into_iter().filter_map(|event| match event.type_ {
            EventType::Added | EventType::Modified => Some(WatchEvent::Applied(decode(&event.object))),
            EventType::Deleted => Some(WatchEvent::Deleted {
                key: event.object.key(),
                resource_version: event.object.resource_version().to_owned(),
            }),
            EventType::Bookmark => None,
        });
        return events.collect();
    }
    let (labels, fields) = (narrowed.labels.clone(), narrowed.fields.clone());
    let options = ListOptions { labels: labels.clone(), fields: fields.clone(), ..ListOptions::default() };
    let Ok(list) = store.list(target, &options) else { return Vec::new() };
    let from = WatchOptions {
        labels,
        fields,
        resource_version: list.resource_version.clone(),
        ..WatchOptions::default()
    };
    *watch = store.watch(target, &from).ok();
    let objects: Vec<Decoded> = list.items.iter().map(decode).collect();
    vec![WatchEvent::Listed { objects, resource_version: list.resource_version }]
}
