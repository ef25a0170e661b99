//! A test hub that executes plans, and helpers for the objects of commits.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::sync::ownership::is_marked;
use crate::sync::{
    Apply, Budget, Claimant, Comparisons, Deletion, Desired, Inventory, ObjectId, Recent, SyncInput,
    SyncPlan, SyncPolicy, Withheld, plan, release,
};
use api::names;
use object::{Key, Location, Object, ObjectRef, RenderedObject};

/// A budget for each commit. The clock does not advance in most tests, so a window would never end.
const BY_COMMIT: Budget = Budget { objects: 5, percent: 5, window: SignedDuration::ZERO };

pub(super) fn repo() -> Key {
    Key::namespaced("ns", "repo")
}

pub(super) fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

pub(super) fn config_map(name: &str, data: &str) -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"k": data}}),
    )
}

pub(super) fn rendered(object: Object, file: &str, line: u32) -> Arc<RenderedObject> {
    Arc::new(RenderedObject { object, origin: Location { file: file.into(), line }, release_namespace: None })
}

pub(super) fn commit(objects: &[Object]) -> Desired {
    let rendered = objects.iter().map(|object| rendered(object.clone(), "a.yaml", 1));
    Desired::complete(&repo(), "ns", rendered.collect(), false, None).unwrap()
}

/// A hub that executes plans.
pub(super) struct Hub {
    pub(super) objects: BTreeMap<ObjectId, Arc<Object>>,
    pub(super) inventory: Inventory,
    pub(super) policy: SyncPolicy,
    /// The kinds that cannot be read.
    pub(super) unread: Vec<&'static str>,
    pub(super) missing_namespaces: BTreeSet<String>,
    /// The record of deletions.
    pub(super) recent: Recent,
    pub(super) now: Timestamp,
    pub(super) writes: usize,
    uids: usize,
    pub(super) deleted: Vec<ObjectId>,
    /// The other ConfigRepos whose inventories contain an object.
    pub(super) claimed: BTreeMap<ObjectId, Vec<Claimant>>,
    /// The objects that other ConfigRepos request.
    pub(super) requested: BTreeMap<ObjectId, Key>,
    pub(super) awaits_requests: bool,
    /// The reason that other ConfigRepos cannot evaluate the commit.
    pub(super) unjudged: Option<&'static str>,
    /// The objects of the commit that are not changed.
    pub(super) withheld: Withheld,
    comparisons: RefCell<Comparisons>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            inventory: Inventory::new(),
            policy: SyncPolicy { prune: true, budget: Some(BY_COMMIT), ..SyncPolicy::default() },
            recent: Recent::new(),
            now: Timestamp::UNIX_EPOCH,
            unread: Vec::new(),
            missing_namespaces: BTreeSet::new(),
            writes: 0,
            uids: 0,
            deleted: Vec::new(),
            claimed: BTreeMap::new(),
            requested: BTreeMap::new(),
            awaits_requests: false,
            unjudged: None,
            withheld: Withheld::default(),
            comparisons: RefCell::default(),
        }
    }

    fn read(&self, what: &ObjectRef) -> Result<Option<Arc<Object>>, String> {
        if self.unread.contains(&what.gvk.kind.as_str()) {
            return Err(format!("cannot read {}: its objects have not been listed yet", what.gvk));
        }
        Ok(self.objects.get(&ObjectId::of(what)).cloned())
    }

    pub(super) fn plan<'a>(&self, desired: &'a Desired) -> SyncPlan<'a> {
        let input = SyncInput {
            repo: &repo(),
            inventory: &self.inventory,
            claimed: &self.claimed,
            requested: &self.requested,
            awaits_requests: self.awaits_requests,
            unjudged: self.unjudged,
            are_permissions_needed: false,
            missing_namespaces: &self.missing_namespaces,
            withheld: &self.withheld,
            recent: &self.recent,
            now: self.now,
            policy: &self.policy,
        };
        let fresh = plan(desired, &input, &mut Comparisons::default(), |what| self.read(what));
        let known = plan(desired, &input, &mut self.comparisons.borrow_mut(), |what| self.read(what));
        assert_eq!(known, fresh, "comparisons of earlier plans change no decision");
        fresh
    }

    /// Plans which objects a ConfigRepo in mode Observe leaves to applications.
    pub(super) fn release(&self) -> SyncPlan<'static> {
        release(&repo(), &self.inventory, |what| self.read(what))
    }

    /// Executes a plan, but crashes after some writes. The first write records the inventory.
    pub(super) fn execute(&mut self, plan: &SyncPlan<'_>, mut writes: usize) {
        if writes == 0 {
            return;
        }
        self.inventory = plan.inventory.clone();
        self.recent = plan.recent.clone();
        for apply in plan.apply.iter().flatten().chain(plan.correct.iter().map(|one| &one.apply)) {
            writes -= 1;
            if writes == 0 {
                return;
            }
            self.apply(apply);
            self.check();
        }
        for deletion in plan.recreate.iter().chain(plan.delete.iter().flatten()) {
            writes -= 1;
            if writes == 0 {
                return;
            }
            self.delete(deletion);
            self.check();
        }
    }

    fn apply(&mut self, apply: &Apply<'_>) {
        self.writes += 1;
        self.insert(apply.marked(&repo()));
    }

    fn delete(&mut self, deletion: &Deletion) {
        self.writes += 1;
        let id = ObjectId::of(&deletion.target);
        self.objects.remove(&id);
        self.deleted.push(id);
    }

    /// Creates or replaces an object on the hub.
    pub(super) fn insert(&mut self, mut object: Object) {
        if object.uid().is_empty() {
            self.uids += 1;
            let live = self.objects.get(&ObjectId::of(&object.reference()));
            let uid = live.map_or_else(|| format!("new{}", self.uids), |live| live.uid().to_owned());
            object.metadata_mut().insert("uid".into(), uid.into());
        }
        self.objects.insert(ObjectId::of(&object.reference()), Arc::new(object));
    }

    pub(super) fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Object)) {
        let live = self.objects.values().find(|object| object.name() == name).unwrap();
        let mut edited = (**live).clone();
        edit(&mut edited);
        self.insert(edited);
    }

    /// Checks that the inventory lists every object that has our annotation and is not kept on purpose.
    pub(super) fn check(&self) {
        for (id, object) in &self.objects {
            let is_kept = object.annotations().contains_key(names::PRUNE_ANNOTATION);
            assert!(
                is_kept || !is_marked(object, &repo()) || self.inventory.contains_key(id),
                "{id} is not in the inventory"
            );
        }
    }

    /// Plans and executes until nothing changes. Returns the next plan.
    pub(super) fn settle<'a>(&mut self, desired: &'a Desired) -> SyncPlan<'a> {
        for _ in 0..4 {
            let plan = self.plan(desired);
            self.execute(&plan, usize::MAX);
        }
        self.plan(desired)
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.objects.keys().map(|id| id.key.name.as_str()).collect()
    }
}
