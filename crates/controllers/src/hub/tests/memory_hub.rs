//! A hub in memory, whose only client is a dispatcher.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use object::{Key, Object};
use reconcile::{Action, Command, Dispatcher, WatchEvent, WatchedKind};

pub(crate) struct MemoryHub {
    pub(crate) dispatcher: Dispatcher,
    /// The objects by kind and key.
    pub(crate) objects: BTreeMap<(String, Key), Object>,
    pub(crate) now: Timestamp,
    kinds: Vec<Arc<WatchedKind>>,
    version: u64,
}

impl MemoryHub {
    pub(crate) fn new(dispatcher: Dispatcher, objects: Vec<Value>) -> Self {
        let objects = objects.into_iter().map(|object| Object::from_value(object).unwrap());
        let objects = objects.map(|object| ((object.gvk().kind, object.key()), object)).collect();
        let now = Timestamp::constant(1_700_000_000, 0);
        Self { dispatcher, objects, now, kinds: Vec::new(), version: 1 }
    }

    /// Writes an object as another client does.
    pub(crate) fn put(&mut self, object: Object) {
        let object = self.store(object);
        for kind in self.kinds.iter().filter(|watched| watched.gvk == object.gvk()) {
            self.dispatcher.watched(kind, WatchEvent::Applied(kind.convert(&object)), self.now);
        }
    }

    /// Changes an object as another client does.
    pub(crate) fn patch(&mut self, kind: &str, key: &Key, patch: &Value) {
        let object = self.merged(kind, key, patch);
        self.put(object);
    }

    /// Does what a command asks for; returns the object that it wrote.
    pub(crate) fn execute(&mut self, command: Command) -> Option<Object> {
        match command {
            Command::Decide(decision) => self.dispatcher.decided(decision.run(), self.now),
            Command::Act(act) => {
                let written = self.written(act.action());
                self.dispatcher.acted(act.done(Ok(written.clone().into())), self.now);
                return written;
            }
            Command::Watch(kind) => self.list(kind),
            Command::Reconciled(_)
            | Command::Compute(_)
            | Command::LookUp(..)
            | Command::Unwatch(_)
            | Command::Refused(_) => {}
        }
        None
    }

    fn list(&mut self, kind: Arc<WatchedKind>) {
        let objects = self.objects.values().filter(|object| object.gvk() == kind.gvk);
        let objects = objects.map(|object| kind.convert(object)).collect();
        let listed = WatchEvent::Listed { objects, resource_version: "1".into() };
        self.dispatcher.watched(&kind, listed, self.now);
        self.kinds.push(kind);
    }

    fn written(&mut self, action: &Action) -> Option<Object> {
        let object = match action {
            Action::Create { object, .. } | Action::Apply { object, .. } => object.clone(),
            Action::Patch { target, patch, .. } => {
                self.merged(&target.gvk.kind, &target.key, &Value::Object(patch.clone()))
            }
            Action::Push(_) | Action::SetCommitStatus(_) => return None,
            other => panic!("unexpected {other:?}"),
        };
        Some(self.store(object))
    }

    fn merged(&self, kind: &str, key: &Key, patch: &Value) -> Object {
        let mut object = self.objects[&(kind.to_owned(), key.clone())].clone().into_value();
        json_patch::merge(&mut object, patch);
        Object::from_value(object).unwrap()
    }

    /// Stores an object in a new version.
    fn store(&mut self, mut object: Object) -> Object {
        self.version += 1;
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        self.objects.insert((object.gvk().kind, object.key()), object.clone());
        object
    }
}
