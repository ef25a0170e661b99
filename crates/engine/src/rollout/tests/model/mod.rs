//! An exhaustive check in a small world: three clusters, two groups, two or three revisions.
//!
//! Every state that commits, reports, failures, deadlines, crashes, lost writes, churn, silence, pauses,
//! freezes and approvals can lead to is visited. In each state the engine decides once, and the
//! [oracle](crate::rollout::oracle) checks the decision. Once everything is written, another decision changes
//! nothing.
//!
//! Time is a bit per cluster: whether its last change is younger than deadline and soak; and a bit for the
//! record of a breach. Stale reads are reports that lag behind assignments, or about hashes from before. A
//! crash loses any part of a pass's writes; the quarantine and the record are written ahead of them.
//!
//! `WHEELWRIGHT_MODEL=large` adds worlds with everything at once, for runs by hand.

mod input;
mod steps;
mod world;

use jiff::SignedDuration;

use super::on_all_cores;
use crate::rollout::cluster::Hash;
use world::World;

/// 20:00 of a day, outside of the freeze window, and 12:00, inside of it.
const NOW: i64 = 20 * 3600 + 86_400 * 20_000;
const FROZEN: i64 = NOW - 8 * 3600;
const YOUNG: SignedDuration = SignedDuration::from_secs(1);
const OLD: SignedDuration = SignedDuration::from_secs(1000);
const LIMIT: SignedDuration = SignedDuration::from_secs(90);
const NAMES: [&str; 3] = ["c0", "c1", "c2"];

fn hash(revision: u8) -> Hash {
    Hash(format!("r{revision}"))
}

fn revision(hash: &Hash) -> u8 {
    hash.0[1..].parse().unwrap()
}

#[test]
fn every_state_of_a_small_world_keeps_the_promises() {
    let mut worlds = World::worlds();
    if std::env::var("WHEELWRIGHT_MODEL").is_ok_and(|size| size == "large") {
        worlds.extend(World::large());
    }
    let states = on_all_cores(worlds, |world| {
        let states = world.explore().unwrap_or_else(|broken| panic!("{broken}"));
        println!("{states:>9} states: {}", world.name);
        states
    });
    println!("{:>9} states in all", states.iter().sum::<usize>());
}
