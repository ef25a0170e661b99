//! An exhaustive check in a small world: three clusters, two groups, two or three revisions.
//!
//! The check visits every state that commits, reports, failures, deadlines, crashes, lost writes, churn,
//! unreachable clusters, pauses, freezes and approvals can lead to. In each state the engine decides once, and
//! the [oracle](crate::rollout::oracle) checks the decision. Once everything is written, another decision must
//! change nothing.
//!
//! Time is one bit per cluster, which says if its last change is younger than deadline and soak, and one bit for
//! the breach record. Stale reads are reports that lag behind assignments or describe earlier hashes. A crash
//! loses any part of a pass's writes; the quarantine and the record are written before them.
//!
//! `WHEELWRIGHT_MODEL=large` adds worlds with everything at once, for manual runs.

mod input;
mod steps;
mod world;

use jiff::SignedDuration;

use super::on_all_cores;
use crate::rollout::cluster::Hash;
use world::World;

/// 20:00, outside the freeze window, and 12:00, inside it.
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
