//! Compares a preview's batches and approvals with the actual rollouts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fixtures::seconds;
use super::preview_content::{ASKS, FleetContent};
use super::previews::{commit, fleet, previewed};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{ADDON_NAME_LABEL, GITOPS_GROUP, WORK_REPLICA_SET_LABEL};
use object::{Metadata as _, Object};
use preview::{Preview, ProposedCommit};
use sim::history::Content;
use sim::{World, Write};

/// Minutes for a fleet to come to rest. In each, a rollout may ask for an approval.
const MINUTES: usize = 8;

/// The policy, add-on, set and token of each requested approval.
type Asked = BTreeSet<[String; 4]>;

/// The starts and approvals after a commit.
pub(crate) struct Rollout {
    /// The time of the first work that was written for an add-on or set to a cluster, by the names of both.
    starts: BTreeMap<(String, String), Timestamp>,
    approvals: Asked,
}

/// Commits and lets the fleet come to rest. A person grants the approvals that rollouts request.
pub(crate) fn roll_out(world: &mut World, commit: &ProposedCommit) -> Rollout {
    world.keep_history();
    world.take_history();
    world.commit(&commit.repo, &commit.head.revision, commit.head.tree.clone());
    let mut approvals = Asked::new();
    for _ in 0..MINUTES {
        world.run_for(seconds(60)).unwrap();
        approvals.extend(grant(world));
    }
    Rollout { starts: starts(&world.take_history()), approvals }
}

/// Grants every approval that rollouts are waiting for.
fn grant(world: &mut World) -> Asked {
    let mut granted = Asked::new();
    for policy in world.list::<RolloutPolicy>() {
        let approved = &policy.spec.approved;
        let mut waiting = Asked::new();
        for rollout in policy.status.iter().flat_map(|status| &status.rollouts) {
            for token in rollout.waiting_approvals.iter().filter(|token| !approved.contains(token)) {
                let names = [policy.name(), &rollout.add_on, &rollout.replica_set, token];
                waiting.insert(names.map(str::to_owned));
            }
        }
        if !waiting.is_empty() {
            let tokens: BTreeSet<&String> = approved.iter().chain(waiting.iter().map(|it| &it[3])).collect();
            let object = json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy",
                "metadata": {"name": policy.name()}, "spec": {"approved": tokens}});
            world.apply_as("approver", Object::from_value(object).unwrap()).unwrap();
        }
        granted.extend(waiting);
    }
    granted
}

fn starts(history: &[Write]) -> BTreeMap<(String, String), Timestamp> {
    let spec = |object: &Arc<Object>| object.at(&["spec"]).cloned();
    let mut starts = BTreeMap::new();
    for write in history.iter().filter(|write| write.spoke.is_none() && write.id.kind == "ManifestWork") {
        let Some(after) = write.after.as_ref().filter(|after| !after.is_terminating()) else { continue };
        let label = |name: &str| after.at(&["metadata", "labels", name]).and_then(Value::as_str);
        let set = label(WORK_REPLICA_SET_LABEL).map(|set| set.replacen('.', "/", 1));
        let workload = set.or_else(|| label(ADDON_NAME_LABEL).map(str::to_owned));
        let is_changed = write.before.as_ref().and_then(spec) != spec(after);
        if let Some(workload) = workload.filter(|_| is_changed) {
            starts.entry((workload, write.id.key.namespace.clone())).or_insert(write.at);
        }
    }
    starts
}

/// Returns the position of each cluster in the rollout of each add-on and set.
fn places(preview: &Preview) -> BTreeMap<(String, String), usize> {
    let mut places = BTreeMap::new();
    for workload in preview.add_ons.iter().chain(&preview.replica_sets) {
        for (place, batch) in workload.batches.iter().enumerate() {
            for cluster in &batch.clusters {
                places.entry((workload.name.clone(), cluster.clone())).or_insert(place);
            }
        }
    }
    places
}

/// Compares the order of a preview's batches and approvals with what happened. Clusters of one batch may start at
/// different times, and batches whose works succeed at once start at the same time.
pub(crate) fn compare_rollouts(preview: &Preview, rollout: &Rollout) -> Result<(), String> {
    let Rollout { starts, approvals } = rollout;
    let asked = preview
        .approvals
        .iter()
        .map(|it| [&it.policy, &it.add_on, &it.replica_set, &it.token].map(String::clone));
    let asked: Asked = asked.collect();
    if asked != *approvals {
        return Err(format!("approvals: preview {asked:?}, found {approvals:?}"));
    }
    let places = places(preview);
    if !places.keys().eq(starts.keys()) {
        return Err(format!("starts: preview {places:?}, found {starts:?}"));
    }
    for (one, place) in &places {
        for (other, later) in places.iter().filter(|(other, later)| other.0 == one.0 && *later > place) {
            if starts[one] > starts[other] {
                return Err(format!("{one:?} ({place}) before {other:?} ({later}): found {starts:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_plan_with_another_order_or_an_unrequested_approval_does_not_match_the_rollout() {
    let mut world = fleet(5, 3);
    let add_on = Content { version: Some(0), strategy: 4, ..Content::default() };
    let mut content = FleetContent { content: add_on, set: None, policy: Some(ASKS) };
    roll_out(&mut world, &commit(1, content.files()));
    content.content.version = Some(1);
    let second = commit(2, content.files());
    let preview = previewed(&world, &second);
    let rollout = roll_out(&mut world, &second);
    compare_rollouts(&preview, &rollout).unwrap();
    assert_eq!((preview.approvals.len(), preview.add_ons[0].batches.len()), (1, 2), "{preview:#?}");

    let mut reversed = preview.clone();
    reversed.add_ons[0].batches.reverse();
    assert!(compare_rollouts(&reversed, &rollout).is_err());
    let mut shorter = preview.clone();
    shorter.add_ons[0].batches.pop();
    assert!(compare_rollouts(&shorter, &rollout).is_err());
    let unasked = Preview { approvals: Vec::new(), ..preview };
    assert!(compare_rollouts(&unasked, &rollout).is_err());
}
