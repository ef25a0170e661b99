//! A status written by one cluster affects no other cluster.

use serde_json::{Value, json};

use crate::fixtures::{ADDON, addon, images, is_completed, progress, seconds, select_all, template, world};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use object::{Key, Kind};
use sim::World;

/// Times that an API server accepts although our parser rejects them. See docs/hazards-hub.md#unreadable-times.
pub(crate) const TIMES: [&str; 3] =
    ["9999-12-31T23:59:59Z", "2026-01-02T03:04:05+99:99", "2026-01-02T00:00:00x5Z"];

/// Adds a condition with such a time to an object's conditions.
pub(crate) fn add_condition<K: Kind>(world: &mut World, key: &Key, existing: &Value, time: &str) {
    let mut conditions = existing.as_array().unwrap().clone();
    conditions.push(
        json!({"type": "X", "status": "True", "reason": "X", "message": "", "lastTransitionTime": time}),
    );
    world.patch_status::<K>(key, json!({"status": {"conditions": conditions}})).unwrap();
}

#[test]
fn an_unreadable_time_in_one_status_stops_no_rollout() {
    for time in TIMES {
        let mut world = world(5);
        template(&mut world, "msa", "msa:0.4.0");
        addon(&mut world, "msa", json!({"type": "All"}));
        select_all(&mut world);
        assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));

        let key = Key::cluster("cluster2");
        let cluster: ManagedCluster = world.get(&key).unwrap();
        let conditions = json!(cluster.status.unwrap().conditions);
        add_condition::<ManagedCluster>(&mut world, &key, &conditions, time);
        let key = Key::namespaced("cluster3", ADDON);
        let on_cluster: ManagedClusterAddOn = world.get(&key).unwrap();
        let conditions = json!(on_cluster.status.unwrap().conditions);
        add_condition::<ManagedClusterAddOn>(&mut world, &key, &conditions, time);

        world.restart_operator();
        template(&mut world, "msa", "msa:0.4.1");
        world.run_for(seconds(60)).unwrap();
        assert!(is_completed(&world), "{time}: {:?}", progress(&world));
        assert_eq!(images(&world), ["0.4.1"; 5], "{time}");
        assert_eq!(world.list::<ManagedClusterAddOn>().len(), 5);
    }
}
