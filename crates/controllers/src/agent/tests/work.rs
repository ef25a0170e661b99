use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::hub::tests::memory_hub::MemoryHub;
use object::{Gvk, Object, ObjectRef};
use reconcile::{Command, Dispatcher, Limits, Lookup, LookupAnswer, Mapping, Register as _};

fn work(name: &str) -> Value {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": "c1", "resourceVersion": "1", "uid": name},
        "spec": {"workload": {"manifests": [map]}},
    })
}

/// Lets a second pass, without the writes where they are `held`.
fn run(hub: &mut MemoryHub, held: bool) {
    hub.now += SignedDuration::from_secs(1);
    loop {
        let commands = hub.dispatcher.due(hub.now);
        if commands.is_empty() {
            return;
        }
        for command in commands {
            match command {
                Command::LookUp(site, Lookup::Mapping(gvk)) => {
                    let mapping =
                        Mapping { gvk: gvk.clone(), resource: "configmaps".into(), namespaced: true };
                    let answer = Ok(LookupAnswer::Mapping(Some(mapping)));
                    hub.dispatcher.looked_up(site, &Lookup::Mapping(gvk), answer, hub.now);
                }
                Command::Act(_) if held => {}
                command => drop(hub.execute(command)),
            }
        }
    }
}

#[test]
fn the_objects_of_a_new_work_are_looked_up_while_its_inventory_is_created() {
    let mut dispatcher =
        Dispatcher::new(Limits { coalesce: SignedDuration::from_millis(50), computations: 1 }, true);
    dispatcher.add::<WorkController>();
    let claim = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
        "metadata": {"name": AGENT_CLAIM, "resourceVersion": "1"}, "spec": {"value": "c1/a/hash"},
    });
    let mut hub = MemoryHub::new(dispatcher, vec![claim, work("a")]);
    (0..5).for_each(|_| run(&mut hub, false));
    assert!(hub.objects.keys().any(|(kind, key)| kind == "ConfigMap" && key.name == "a"));

    hub.put(Object::from_value(work("b")).unwrap());
    run(&mut hub, true);
    assert!(!hub.objects.keys().any(|(kind, key)| kind == "AppliedManifestWork" && key.name == "hash-b"));
    let of_b = ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("default", "b") };
    assert_eq!(hub.dispatcher.caches().object(&of_b).ok(), Some(None));
}
