//! Mutating webhooks of others, which undo what our controllers write, on every write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::fixtures::{addon, seconds, select_all, template, with};
use reconcile::{Action, Outcome, Site};
use sim::{Servers, Setup, execute};

/// Executes an action with its object changed as a webhook changes it.
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
        | Action::Create { site, object }
        | Action::Replace { site, object } => webhook(&kind, *site, &mut object.0),
        Action::Patch { site, patch, .. } => webhook(&kind, *site, patch),
        Action::Delete { .. } | Action::Push(_) | Action::SetCommitStatus(_) => {}
    }
    execute(servers, manager, &action, now)
}

/// Writes another value of an annotation on every write, so that none is a write of nothing.
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

/// Returns how many writes of each controller to each kind follow in the first ten minutes, and in ten
/// minutes an hour later.
fn writes(execute: sim::Execute) -> [BTreeMap<String, usize>; 2] {
    let mut world = with(Setup { execute, ..Setup::default() }, 7, 2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
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
    // Six repetitions at once, then waits that double from half a second to 256 s. There are two clusters.
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
    // Nothing follows from such a write, which changes nothing. Each sign of life of a cluster, every ten
    // seconds, has its add-on planned.
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
    // Six repetitions at once, then waits that double from half a second to 256 s. There are two clusters.
    assert!(first.values().all(|count| *count <= 2 * 18), "{first:?}");
    assert!(later.values().all(|count| *count <= 2 * 4), "{later:?}");
}
