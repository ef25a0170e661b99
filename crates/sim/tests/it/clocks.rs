//! Wall clocks that jump while processes run.

use jiff::SignedDuration;

use crate::fixtures::{seconds, world};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use object::Key;
use sim::World;

fn availability(cluster: &ManagedCluster) -> String {
    let conditions = &cluster.status.as_ref().unwrap().conditions;
    find_condition(conditions, "ManagedClusterConditionAvailable").unwrap().status.to_string()
}

/// Runs for some minutes and checks each write to a cluster.
fn stays_available(world: &mut World, minutes: i64) {
    world.keep_history();
    world.run_for(SignedDuration::from_mins(minutes)).unwrap();
    for write in world.take_history().iter().filter(|write| write.id.kind == "ManagedCluster") {
        let after: ManagedCluster = write.after.as_ref().unwrap().to_typed().unwrap();
        assert_eq!(availability(&after), "True", "{write}");
    }
}

#[test]
fn an_agent_whose_clock_is_set_back_renews_its_lease_as_before() {
    let mut world = world(1);
    world.run_for(seconds(300)).unwrap();
    world.set_clock("cluster1", SignedDuration::from_hours(-1));
    stays_available(&mut world, 20);
}

#[test]
fn an_agent_whose_clock_was_ahead_renews_its_lease_when_it_is_right() {
    let mut world = world(1);
    world.set_clock("cluster1", SignedDuration::from_hours(1));
    world.run_for(seconds(300)).unwrap();
    world.set_clock("cluster1", SignedDuration::ZERO);
    world.restart_agent("cluster1");
    stays_available(&mut world, 20);
}

#[test]
fn a_jump_of_the_hubs_clock_makes_no_cluster_silent() {
    for hours in [-1, 1] {
        let mut world = world(1);
        world.run_for(seconds(310)).unwrap();
        world.set_operator_clock(SignedDuration::from_hours(hours));
        stays_available(&mut world, 20);
    }
}

/// Some leases expire at the jump and are checked at once.
#[test]
fn a_step_of_the_hubs_clock_by_the_time_of_a_lease_makes_no_cluster_silent() {
    for step in [240, 260, 280, 300, 320] {
        let mut world = world(3);
        world.run_for(seconds(340)).unwrap();
        world.set_operator_clock(seconds(step));
        stays_available(&mut world, 10);
    }
}

#[test]
fn a_silent_cluster_is_noticed_even_if_the_clock_of_the_hub_is_set_back() {
    let mut world = world(1);
    world.run_for(seconds(300)).unwrap();
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.set_operator_clock(SignedDuration::from_hours(-1));
    world.run_for(seconds(620)).unwrap();
    let cluster: ManagedCluster = world.get(&Key::cluster("cluster1")).unwrap();
    assert_eq!(availability(&cluster), "Unknown");
}
