//! Tests events about our own writes.

use super::*;

/// The response to our own write may reach the cache before its event.
#[test]
fn an_event_of_a_known_version_changes_nothing_and_advances_the_watch() {
    let (mut dispatcher, kind) = watching();
    let object =
        |version: &str| json!({ "metadata": { "namespace": "n", "name": "a", "resourceVersion": version } });
    let objects = vec![kind.decode(&object("8").to_string())];
    let listed = WatcherEvent::Listed { objects, resource_version: "8".into() };
    dispatcher.watched(&kind, listed, Timestamp::UNIX_EPOCH);
    let (dispatcher, watched) = (Mutex::new(dispatcher), Arc::clone(&kind));
    let is_known: IsKnownFn = Box::new(move |key, version| {
        dispatcher.lock().unwrap().is_known(&watched, key, version, Timestamp::UNIX_EPOCH)
    });
    let delivered = |event: &str, version: &str| {
        let line = json!({ "type": event, "object": object(version) }).to_string();
        let (event, at) = take(&kind, &mut Admitted::new(&MEMORY), &is_known, line.as_bytes()).unwrap();
        assert_eq!(at, version);
        event
    };
    assert!(delivered("MODIFIED", "8").is_none());
    assert!(matches!(delivered("MODIFIED", "9"), Some(WatcherEvent::Applied(_))));
    assert!(matches!(delivered("DELETED", "8"), Some(WatcherEvent::Deleted { .. })));
    assert!(delivered("BOOKMARK", "12").is_none());
}
