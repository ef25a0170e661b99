//! What a restarted operator says before it has read everything.

use super::*;

#[test]
fn a_commit_that_was_refused_stays_so_after_a_restart() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "b"}, "data": {"k": "theirs"}}));
    let told = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    assert!(told.starts_with("Stalled TakeoverRefused: "), "{told}");
    let version = |hub: &Hub| hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version;
    let before = version(&hub);
    hub.world.restart_operator();
    assert_eq!((hub.run(), version(&hub)), (told, before));
}
