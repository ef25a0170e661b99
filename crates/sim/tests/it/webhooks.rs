//! Foreign mutating webhooks that undo our controllers' changes on every write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::fixtures::{addon, config_repo, images, repo, seconds, select_all, template, with};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use object::Key;
use object::tree::FileTree;
use reconcile::{Action, Answer, Outcome, Site};
use sim::{Servers, Setup, World, execute};

/// Executes an action after changing its object as a webhook would.
fn mutated(
    servers: &mut Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
    webhook: fn(&str, Site, &mut Map<String, Value>),
) -> Outcome {
    let mut action = action.clone();
    let kind = action.gvk().map(|gvk| gvk.kind).unwrap_or_default();
    match &mut action {
        Action::Apply { site, object, .. }
        | Action::Create { site, object, .. }
        | Action::Replace { site, object } => webhook(&kind, *site, &mut object.0),
        Action::Patch { site, patch, .. } => webhook(&kind, *site, patch),
        Action::Delete { .. } | Action::Push(_) | Action::SetCommitStatus(_) | Action::Notify(_) => {}
    }
    execute(servers, manager, &action, now)
}

/// Sets an annotation to a new value on every write, so that no write is a no-op.
fn stamp(object: &mut Map<String, Value>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let mut changed = Value::Object(std::mem::take(object));
    json_patch::merge(
        &mut changed,
        &json!({"metadata": {"annotations": {"webhook.example.com/stamp": next}}}),
    );
    if let Value::Object(changed) = changed {
        *object = changed;
    }
}

/// Returns each controller's number of writes to each kind in the first ten minutes, and in ten minutes an hour
/// later.
fn writes(execute: sim::Execute) -> [BTreeMap<String, usize>; 2] {
    let mut world = fleet(execute);
    writes_of(&mut world)
}

fn fleet(execute: sim::Execute) -> World {
    let mut world = with(Setup { execute, ..Setup::default() }, 7, 2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    world
}

fn writes_of(world: &mut World) -> [BTreeMap<String, usize>; 2] {
    world.keep_history();
    [0, 3600].map(|wait| {
        world.run_for(seconds(wait)).unwrap();
        world.take_history();
        world.run_for(seconds(600)).unwrap();
        let mut counts = BTreeMap::new();
        for write in world.take_history().into_iter().filter(|write| write.id.kind != "Lease") {
            *counts.entry(format!("{} {}", write.by, write.id.kind)).or_default() += 1;
        }
        counts
    })
}

#[test]
fn a_webhook_that_undoes_our_fields_of_works_causes_no_hot_loop() {
    fn webhook(kind: &str, site: Site, object: &mut Map<String, Value>) {
        if site == Site::Hub && kind == "ManifestWork" && object.contains_key("spec") {
            stamp(object);
            object["spec"]["workload"]["manifests"][1]["spec"]["replicas"] = json!(5);
        }
    }
    let counts = writes(|servers, manager, action, now| mutated(servers, manager, action, now, webhook));
    let [first, later] = counts;
    // Six immediate repetitions, then waits that double from half a second to 256 s. There are two clusters.
    assert!(first.values().all(|count| *count <= 2 * 18), "{first:?}");
    assert!(later.values().all(|count| *count <= 2 * 4), "{later:?}");
}

#[test]
fn a_webhook_that_undoes_our_fields_of_add_ons_causes_no_hot_loop() {
    fn webhook(kind: &str, site: Site, object: &mut Map<String, Value>) {
        if site == Site::Hub && kind == "ManagedClusterAddOn" {
            stamp(object);
            if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("configReferences");
            }
        }
    }
    let counts = writes(|servers, manager, action, now| mutated(servers, manager, action, now, webhook));
    // These writes change nothing and cause no further writes. A cluster's heartbeat, every ten seconds, triggers
    // a plan of its add-on.
    for counts in counts {
        assert!(counts.values().all(|count| *count <= 2 * 62), "{counts:?}");
    }
}

#[test]
fn a_webhook_that_undoes_what_the_agent_applies_causes_no_hot_loop() {
    fn webhook(kind: &str, site: Site, object: &mut Map<String, Value>) {
        if site == Site::Spoke && kind == "Deployment" {
            stamp(object);
            object["spec"]["replicas"] = json!(5);
        }
    }
    let counts = writes(|servers, manager, action, now| mutated(servers, manager, action, now, webhook));
    let [first, later] = counts;
    // Six immediate repetitions, then waits that double from half a second to 256 s. There are two clusters.
    assert!(first.values().all(|count| *count <= 2 * 18), "{first:?}");
    assert!(later.values().all(|count| *count <= 2 * 4), "{later:?}");
}

/// Executes an action, then changes the managed fields of the written object.
fn renamed(
    servers: &mut Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
    webhook: fn(&mut Value),
) -> Outcome {
    let written = execute(servers, manager, action, now)?;
    let (Answer::Object(object), Some(site)) = (written, action.site()) else {
        return Ok(Answer::Nothing);
    };
    if matches!(action, Action::Delete { .. }) {
        return Ok(Answer::Object(object));
    }
    let mut object = Arc::unwrap_or_clone(object);
    webhook(object.metadata_mut().entry("managedFields").or_insert(json!([{}])));
    execute(servers, "", &Action::Replace { site, object }, now)
}

fn revision(world: &mut World, number: u32, value: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "map"},
        "data": {"k": value}});
    let mut files = FileTree::default();
    files.insert("map.yaml".to_owned(), map.to_string().into_bytes());
    world.commit(&repo(), &format!("{number:040x}"), files);
}

#[test]
fn a_webhook_that_rewrites_managed_fields_causes_no_hot_loop_and_no_deletion() {
    let stripping: sim::Execute = |servers, manager, action, now| {
        renamed(servers, manager, action, now, |fields| *fields = json!([{}]))
    };
    let renaming: sim::Execute = |servers, manager, action, now| {
        renamed(servers, manager, action, now, |fields| {
            for entry in fields.as_array_mut().into_iter().flatten() {
                entry["manager"] = json!("webhook");
            }
        })
    };
    // Our managers stay and own one label.
    let taking: sim::Execute = |servers, manager, action, now| {
        renamed(servers, manager, action, now, |fields| {
            for entry in fields.as_array_mut().into_iter().flatten() {
                entry["fieldsV1"] = json!({"f:metadata": {"f:labels": {"f:a": {}}}});
            }
        })
    };
    for execute in [stripping, renaming, taking] {
        let mut world = fleet(execute);
        config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet"}));
        world.keep_history();
        for (number, value) in [(1, "one"), (2, "two")] {
            revision(&mut world, number, value);
            world.run_for(seconds(600)).unwrap();
            let map = world.get::<ConfigMap>(&Key::namespaced("config", "map")).unwrap();
            assert_eq!(map.data.unwrap()["k"], value);
            let managers = map.metadata.managed_fields.unwrap_or_default();
            let is_ours = |entry: &ManagedFieldsEntry| {
                entry.manager.as_deref() == Some(api::names::CONFIG_REPO_MANAGER)
                    && entry.fields_v1.as_ref().is_some_and(|fields| fields.0.to_string().contains("f:k"))
            };
            assert!(!managers.iter().any(is_ours), "the webhook has rewritten them: {managers:?}");
        }
        let mut counts = BTreeMap::<_, usize>::new();
        for write in world.take_history().into_iter().filter(|write| write.id.kind != "Lease") {
            assert!(write.after.is_some(), "{write}");
            *counts.entry(format!("{} {}", write.by, write.id.kind)).or_default() += 1;
        }
        // Each write counts twice, because the webhook writes too, on two clusters, for two commits. Without waits
        // there would be thousands.
        assert!(counts.values().all(|count| *count <= 2 * 2 * 2 * 18), "{counts:?}");
        assert_eq!(images(&world), ["0.4.0", "0.4.0"]);
    }
}
