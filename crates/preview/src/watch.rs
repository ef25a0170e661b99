//! Reads the watches of a dispatcher from stores, as the shell does from API servers.

use std::sync::Arc;

use object::Object;
use reconcile::{Decoded, Narrowed, Scope, Site, WatchedKind, WatcherEvent};
use store::{ListOptions, ResourcePath, Store, Watch, WatchEventType, WatchOptions};

/// Lists the kind or continues its watch; a watch that is too far behind relists. `takes` receives the type of the
/// event, or `None` for an object of a list, and returns false to leave the object out.
pub fn read(
    store: &Store,
    kind: &WatchedKind,
    scope: &Scope,
    watch: &mut Option<Watch>,
    mut takes: impl FnMut(Option<WatchEventType>, &Object) -> bool,
) -> Vec<WatcherEvent> {
    let decode = |object: &Arc<Object>| kind.convert(object);
    if let Some(events) = watch.as_mut().and_then(|watch| store.poll(watch).ok()) {
        let events = events.into_iter().filter(|event| takes(Some(event.type_), &event.object));
        let events = events.filter_map(|event| match event.type_ {
            WatchEventType::Added | WatchEventType::Modified => {
                Some(WatcherEvent::Applied(decode(&event.object)))
            }
            WatchEventType::Deleted => Some(WatcherEvent::Deleted {
                key: event.object.key(),
                resource_version: event.object.resource_version().to_owned(),
            }),
            WatchEventType::Bookmark => None,
        });
        return events.collect();
    }
    let Some(resource) = store.resource_of(&kind.gvk) else { return Vec::new() };
    let Narrowed { namespace, fields, labels } = match kind.site {
        Site::Hub => scope.narrow(&kind.gvk, kind.representation, resource.namespaced),
        Site::Spoke => Narrowed::default(),
    };
    let target =
        ResourcePath::resource(&kind.gvk.group, &kind.gvk.version, &resource.plural).within(namespace);
    let options = ListOptions { labels: labels.clone(), fields: fields.clone(), ..ListOptions::default() };
    let Ok(list) = store.list(&target, &options) else { return Vec::new() };
    let from = WatchOptions {
        labels,
        fields,
        resource_version: list.resource_version.clone(),
        ..WatchOptions::default()
    };
    *watch = store.watch(&target, &from).ok();
    let objects: Vec<Decoded> = list.items.iter().filter(|object| takes(None, object)).map(decode).collect();
    vec![WatcherEvent::Listed { objects, resource_version: list.resource_version }]
}
