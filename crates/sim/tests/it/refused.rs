//! Add-ons that the hub's API server refuses to create on a cluster, for example because of an admission webhook.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::deletions::policy;
use crate::fixtures::{
    ADDON, addon, cluster, images, is_completed, join, merged, progress, progressive, put, seconds, select,
    select_all, template, with,
};
use crate::removals::installed;
use crate::reports::explanation;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::find_condition;
use api::gitops::v1alpha1::{RefusedAddOn, RolloutPolicy};
use object::{Key, Metadata as _};
use reconcile::{Action, Failure, Outcome};
use sim::{Servers, Setup, World, execute};

/// The time at which the API server stops rejecting writes; worlds begin 300 s before.
pub(crate) const END: Timestamp = Timestamp::constant(1_800_000_300, 0);

const CANNOT_WRITE: &str = "cannot write ManagedClusterAddOn.addon.open-cluster-management.io";

/// Executes an action as an API server that rejects the add-on of a cluster.
pub(crate) fn refuse<const CLUSTER: usize>(
    servers: &mut Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
) -> Outcome {
    match action {
        Action::Create { object, .. }
            if object.kind() == "ManagedClusterAddOn"
                && object.namespace() == cluster(CLUSTER)
                && now < END =>
        {
            Err(Failure::refused(&object.reference(), 403, [].into_iter(), "denied by a webhook."))
        }
        action => execute(servers, manager, action, now),
    }
}

/// Rolls an add-on out to three clusters that have existed for more than a minute.
fn rolled_out(setup: Setup, roll_out: &str, strategy: Value) -> World {
    let mut world = with(setup, 7, 3);
    world.run_for(seconds(60)).unwrap();
    policy(&mut world, json!({ "rollOut": roll_out }));
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", strategy);
    select_all(&mut world);
    world
}

fn recorded(world: &World) -> Vec<RefusedAddOn> {
    recorded_in(world, "p")
}

fn recorded_in(world: &World, policy: &str) -> Vec<RefusedAddOn> {
    let policy: Option<RolloutPolicy> = world.get(&Key::cluster(policy));
    policy.and_then(|policy| policy.status).map(|status| status.refused).unwrap_or_default()
}

#[test]
fn a_canary_whose_addon_cannot_be_created_times_out_and_is_named() {
    for roll_out in ["Content", "InstallAndContent"] {
        let setup = Setup { execute: refuse::<0>, ..Setup::default() };
        let mut world = rolled_out(setup, roll_out, progressive());
        world.run_for(seconds(60)).unwrap();
        let cause = format!("{CANNOT_WRITE} cluster1/{ADDON}: denied by a webhook");
        let (reason, message) = progress(&world);
        assert_eq!(reason, "Failed", "{roll_out}: {message}");
        assert!(message.contains("0 failed 1 timeout"), "{roll_out}: {message}");
        assert!(message.contains(&format!("cluster1: {cause}")), "{roll_out}: {message}");
        assert!(explanation(&world).messages["cluster1"].starts_with(&cause), "{roll_out}");
        assert_eq!(images(&world), [""; 0], "{roll_out}: the rest waits for the canary");
        assert!(world.run_until(seconds(300), is_completed).unwrap(), "{roll_out}: {:?}", progress(&world));
        assert!(recorded(&world).is_empty(), "{roll_out}");
    }
}

#[test]
fn a_rollout_continues_after_the_deadline_of_a_cluster_whose_addon_cannot_be_created() {
    let tolerant = json!({"progressive": {"maxConcurrency": 1, "maxFailures": 1}});
    for roll_out in ["Content", "InstallAndContent"] {
        let setup = Setup { execute: refuse::<1>, ..Setup::default() };
        let mut world = rolled_out(setup, roll_out, merged(progressive(), tolerant.clone()));
        world.run_for(seconds(20)).unwrap();
        assert_eq!(images(&world), ["0.4.0"], "{roll_out}: {:?}", progress(&world));
        world.run_for(seconds(60)).unwrap();
        assert_eq!(images(&world), ["0.4.0"; 2], "{roll_out}: {:?}", progress(&world));
        let message = progress(&world).1;
        let reason = format!(
            " The add-on cannot be created on 1 cluster: {CANNOT_WRITE} cluster2/{ADDON}: denied by a webhook."
        );
        assert!(
            message.contains("0 failed 1 timeout") && message.ends_with(&reason),
            "{roll_out}: {message}"
        );
        let records = recorded(&world);
        let record =
            |record: &RefusedAddOn| (record.add_on.clone(), record.cluster.clone(), record.turn.is_some());
        let want = [(ADDON.to_owned(), "cluster2".to_owned(), true)];
        assert_eq!(records.iter().map(record).collect::<Vec<_>>(), want, "{roll_out}");
        assert!(world.run_until(seconds(300), is_completed).unwrap(), "{roll_out}: {:?}", progress(&world));
        assert_eq!((images(&world).len(), recorded(&world).len()), (3, 0), "{roll_out}");
    }
}

#[test]
fn an_addon_without_a_policy_names_clusters_on_which_it_cannot_be_created() {
    let mut world = with(Setup { execute: refuse::<0>, ..Setup::default() }, 7, 3);
    world.run_for(seconds(60)).unwrap();
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    let reported = |world: &World| {
        let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
        let placement = &cma.status.unwrap().install_progressions[0];
        find_condition(&placement.conditions, "Degraded").map(|condition| condition.message.clone())
    };
    let reason = format!("{CANNOT_WRITE} cluster1/{ADDON}: denied by a webhook.");
    let want = format!("the add-on cannot be created on 1 cluster: {reason}");
    assert_eq!((reported(&world), images(&world).len()), (Some(want), 2));
    assert!(world.list::<RolloutPolicy>().is_empty());
    let is_created = |world: &World| reported(world).is_none() && images(world).len() == 3;
    assert!(world.run_until(seconds(300), is_created).unwrap(), "{:?}", reported(&world));
}

#[test]
fn a_removal_does_not_wait_for_an_addon_that_cannot_be_created() {
    let mut world = installed(Setup { execute: refuse::<3>, ..Setup::default() }, 3);
    policy(&mut world, json!({"removalBudget": "50%"}));
    join(&mut world, 3, false, seconds(1));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(recorded(&world).len(), 1, "{:?}", progress(&world));
    select(&mut world, json!({"canary": "false"}));
    world.run_for(seconds(30)).unwrap();
    let addons = world.list::<ManagedClusterAddOn>();
    let on: Vec<&str> = addons.iter().map(|addon| addon.namespace()).collect();
    assert_eq!(on, ["cluster2", "cluster3"], "{:?}", progress(&world));
}

#[test]
fn a_record_is_removed_when_another_policy_takes_effect_and_with_the_addon() {
    let mut world =
        rolled_out(Setup { execute: refuse::<0>, ..Setup::default() }, "InstallAndContent", progressive());
    world.run_for(seconds(20)).unwrap();
    assert_eq!(recorded(&world).len(), 1, "{:?}", progress(&world));
    let other = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "q"},
        "spec": {"rollOut": "InstallAndContent", "addOns": [ADDON]},
    });
    put(&mut world, other);
    world.run_for(seconds(30)).unwrap();
    assert_eq!((recorded(&world).len(), recorded_in(&world, "q").len()), (0, 1));
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ClusterManagementAddOn>(&Key::cluster(ADDON)).is_none());
    assert!(recorded_in(&world, "q").is_empty());
}

#[test]
fn the_status_of_an_addon_is_written_between_two_tries_to_create_it() {
    let setup = Setup { execute: refuse::<0>, ..Setup::default() };
    let mut world = with(setup, 7, 3);
    // Records have whole seconds, so they may be up to a second older than the attempts.
    world.run_for(SignedDuration::from_millis(60_900)).unwrap();
    policy(&mut world, json!({ "rollOut": "InstallAndContent" }));
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    world.run_for(seconds(60)).unwrap();
    let (reason, message) = progress(&world);
    assert_eq!(reason, "Failed", "{message}");
}
