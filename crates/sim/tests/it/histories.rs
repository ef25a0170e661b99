//! Checks every invariant on random histories.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sim::Setup;
use sim::history::{self, HistoryEvent};

/// Seeds that once failed, with the reason.
const KNOWN: &str = include_str!("seeds.txt");
/// Number of seeds in a run, in addition to the known ones. `HISTORIES=5000`, as in `make chaos`, plays more, and
/// so does `cargo run --release -p wheelwright-sim --example seeds -- FROM TO`. Seven of the known seeds are below
/// 500, and three of these below 100: a run of 500 takes five times the CPU time to find about twice as much.
const SEEDS: u64 = 100;

fn known() -> Vec<u64> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

/// Seeds that once failed with clock jumps: reports and add-ons waited for future times, and completed rollouts
/// soaked again.
const KNOWN_WITH_JUMPS: [u64; 5] = [10, 22, 23, 36, 56];

/// Number of seeds in a run with a ManifestWorkReplicaSet; `--sets` plays more.
const SEEDS_WITH_SETS: u64 = 40;

/// Number of seeds in a run with Argo CD; `--argo-cd` plays more.
const SEEDS_WITH_ARGO_CD: u64 = 24;

/// Number of seeds in a run with outages; `--outages` plays more.
const SEEDS_WITH_OUTAGES: u64 = 40;

/// Plays seeds on all cores and returns the failures.
fn play(setup: Setup, seeds: &[u64], draw: fn(u64) -> Vec<HistoryEvent>) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ended = history::play(setup, *seed, &draw(*seed), false);
            failures.extend(ended.violation.map(|violation| format!("seed {seed}: {violation}")));
        }
        failures
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn random_histories_keep_every_invariant() {
    let count = std::env::var("HISTORIES").map_or(SEEDS, |count| count.parse().unwrap());
    let seeds: Vec<u64> = known().into_iter().chain(0..count).collect();
    let failures = play(Setup::default(), &seeds, history::draw);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn clocks_that_jump_break_no_invariant() {
    let failures = play(Setup::default(), &KNOWN_WITH_JUMPS, history::draw_with_jumps);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn histories_with_sets_keep_every_invariant() {
    let seeds: Vec<u64> = (0..SEEDS_WITH_SETS).collect();
    let failures = play(Setup::default(), &seeds, history::draw_with_sets);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn histories_with_argo_cd_keep_every_invariant() {
    let seeds: Vec<u64> = (0..SEEDS_WITH_ARGO_CD).collect();
    let failures = play(Setup::with_argo_cd(), &seeds, history::draw_with_argo_cd);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn histories_with_outages_keep_every_invariant() {
    let seeds: Vec<u64> = (0..SEEDS_WITH_OUTAGES).collect();
    let failures = play(Setup::coalescing(), &seeds, history::draw_with_outages);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_seed_gives_the_same_history_again() {
    let writes = || {
        let ended = history::play(Setup::default(), 1, &history::draw(1), true);
        ended.writes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (first, second) = (writes(), writes());
    assert!(first.len() > 50, "{first:?}");
    assert_eq!(first, second);
}
