//! An in-memory hub whose only client is a dispatcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use object::{Key, Object};
use reconcile::{Action, Command, Dispatcher, Lookup, LookupAnswer, Site, WatchedKind, WatcherEvent};

pub(crate) struct MemoryHub {
    pub(crate) dispatcher: Dispatcher,
    /// The objects by kind and key.
    pub(crate) objects: BTreeMap<(String, Key), Object>,
    pub(crate) now: Timestamp,
    /// The kinds that the dispatcher watches.
    pub(crate) kinds: Vec<Arc<WatchedKind>>,
    /// The newest resource version.
    pub(crate) version: u64,
}

impl MemoryHub {
    pub(crate) fn new(dispatcher: Dispatcher, objects: Vec<Value>) -> Self {
        let objects = objects.into_iter().map(|object| Object::from_value(object).unwrap());
        let objects = objects.map(|object| ((object.gvk().kind, object.key()), object)).collect();
        let now = Timestamp::constant(1_700_000_000, 0);
        Self { dispatcher, objects, now, kinds: Vec::new(), version: 1 }
    }

    /// Writes an object as another client would.
    pub(crate) fn put(&mut self, object: Object) {
        let object = self.store(object);
        for kind in self.kinds.iter().filter(|watched| watched.gvk == object.gvk()) {
            self.dispatcher.watched(kind, WatcherEvent::Applied(kind.convert(&object)), self.now);
        }
    }

    /// Patches an object as another client would.
    pub(crate) fn patch(&mut self, kind: &str, key: &Key, patch: &Value) {
        let object = self.merged(kind, key, patch);
        self.put(object);
    }

    /// Deletes an object, if it exists.
    pub(crate) fn delete(&mut self, kind: &str, key: &Key) {
        let Some(object) = self.objects.remove(&(kind.to_owned(), key.clone())) else { return };
        self.version += 1;
        let deleted = WatcherEvent::Deleted { key: key.clone(), resource_version: self.version.to_string() };
        for kind in self.kinds.iter().filter(|watched| watched.gvk == object.gvk()) {
            self.dispatcher.watched(kind, deleted.clone(), self.now);
        }
    }

    /// Executes a command. Returns the object that it wrote.
    pub(crate) fn execute(&mut self, command: Command) -> Option<Object> {
        match command {
            Command::Decide(decision) => self.dispatcher.decided(decision.run(), self.now),
            Command::Act(act) => {
                let written = self.written(act.action());
                self.dispatcher.acted(act.done(Ok(written.clone().into())), self.now);
                return written;
            }
            Command::Watch(kind) => self.list(kind),
            Command::LookUp(site, lookup) => self.answer(site, &lookup),
            Command::Reconciled(_) | Command::Compute(_) | Command::Unwatch(_) | Command::Refused(_) => {}
        }
        None
    }

    fn list(&mut self, kind: Arc<WatchedKind>) {
        let objects = self.objects.values().filter(|object| object.gvk() == kind.gvk);
        let objects = objects.map(|object| kind.convert(object)).collect();
        let listed = WatcherEvent::Listed { objects, resource_version: "1".into() };
        self.dispatcher.watched(&kind, listed, self.now);
        self.kinds.push(kind);
    }

    fn answer(&mut self, site: Site, lookup: &Lookup) {
        let Lookup::Object(object) = lookup else { return };
        let found = self.objects.get(&(object.gvk.kind.clone(), object.key.clone()));
        let answer = LookupAnswer::Object(found.cloned().map(Arc::new));
        self.dispatcher.looked_up(site, lookup, Ok(answer), self.now);
    }

    fn written(&mut self, action: &Action) -> Option<Object> {
        let object = match action {
            Action::Create { object, .. } | Action::Apply { object, .. } => object.clone(),
            Action::Patch { target, patch, .. } => {
                self.merged(&target.gvk.kind, &target.key, &Value::Object(patch.clone()))
            }
            Action::Delete { target, .. } => {
                self.delete(&target.gvk.kind, &target.key);
                return None;
            }
            Action::Push(_) | Action::SetCommitStatus(_) | Action::Notify(_) => return None,
            other => panic!("unexpected {other:?}"),
        };
        Some(self.store(object))
    }

    fn merged(&self, kind: &str, key: &Key, patch: &Value) -> Object {
        let mut object = self.objects[&(kind.to_owned(), key.clone())].clone().into_value();
        json_patch::merge(&mut object, patch);
        Object::from_value(object).unwrap()
    }

    /// Stores an object with a new resource version.
    fn store(&mut self, mut object: Object) -> Object {
        self.version += 1;
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        self.objects.insert((object.gvk().kind, object.key()), object.clone());
        object
    }
}
