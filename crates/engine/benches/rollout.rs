//! Benchmarks the rollout engine: `cargo bench --bench rollout`.
//!
//! Times are relative to a baseline loop in the same run, which copies what any result has to copy: the name,
//! group and hash of every cluster, into a map by name. Only the ratios are comparable across machines.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a benchmark reads the clock, and fails by panicking"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use engine::rollout::cluster::{Cluster, Group, GroupKey, Hash, Health, Report};
use engine::rollout::strategy::{Mandatory, Options, Progressive};
use engine::rollout::{Input, Size, Strategy, advance};
use jiff::{SignedDuration, Timestamp};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const ROUNDS: usize = 21;

/// Returns a half-finished rollout: a canary group, ten other groups, all kinds of reports.
fn input(clusters: usize) -> Input {
    let options = Options {
        soak: SignedDuration::from_mins(1),
        deadline: Some(SignedDuration::from_mins(10)),
        failures: Size::Percent(50),
    };
    let strategy = Strategy::Progressive(Progressive {
        options,
        mandatory: vec![Mandatory::Index(0)],
        concurrency: Some(Size::Percent(20)),
    });
    let mut input =
        Input::new("5df41881f1a5d6e4c0b1b8f5f2a4cdef5df41881f1a5d6e4c0b1b8f5f2a4cdef", Ok(strategy));
    let name = |at: usize| format!("cluster-{:05}", at * 7919 % clusters);
    let group = |index: usize| Group {
        key: GroupKey { index: index as i32, name: format!("group-{index}") },
        clusters: (0..clusters).filter(|at| at % 11 == index).map(name).collect(),
    };
    input.groups = (0..11).map(group).collect();
    input.clusters = (0..clusters).map(|at| cluster(name(at), at, &input)).collect();
    input
}

fn cluster(name: String, at: usize, input: &Input) -> Cluster {
    let wants = input.revision.clone();
    let old = Hash::from("00000000f1a5d6e4c0b1b8f5f2a4cdef5df41881f1a5d6e4c0b1b8f5f2a4cdef");
    let moved = at.is_multiple_of(11) || at.is_multiple_of(4);
    let runs = if moved { wants.clone() } else { old.clone() };
    let report = if at.is_multiple_of(11) || at.is_multiple_of(3) {
        Report::Succeeded
    } else if at.is_multiple_of(5) {
        Report::Failed
    } else {
        Report::Progressing
    };
    let since = Some(NOW - SignedDuration::from_secs(200));
    let health = Some(Health { of: runs.clone(), report, since });
    Cluster {
        name,
        wants,
        runs: Some(runs),
        runs_since: since,
        health,
        last_good: Some(old),
        ..Cluster::default()
    }
}

/// Copies what any result has to copy.
fn baseline(input: &Input) -> BTreeMap<String, (GroupKey, String)> {
    let copy =
        |cluster: &Cluster| (cluster.name.clone(), (input.groups[0].key.clone(), cluster.wants.0.clone()));
    input.clusters.iter().map(copy).collect()
}

/// Returns the time of the fastest round, because slower rounds include other work on the machine.
fn time<T>(mut f: impl FnMut() -> T) -> Duration {
    let round = |_| {
        let start = Instant::now();
        black_box(f());
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn main() {
    println!("{:>9}  {:>10}  {:>10}  {:>6}  {:>8}", "clusters", "advance", "baseline", "ratio", "ns each");
    let mut ratios = Vec::new();
    for clusters in [1_000, 10_000, 100_000] {
        let input = input(clusters);
        let decision = advance(&input, NOW);
        assert!(
            decision.starting().count() > 0 && decision.counts.total == clusters,
            "the bench asks for something that is decided"
        );
        let (ours, base) = (time(|| advance(&input, NOW)), time(|| baseline(&input)));
        let ratio = ours.as_secs_f64() / base.as_secs_f64();
        let nanos = ours.as_nanos() / clusters as u128;
        println!(
            "{clusters:>9}  {:>10}  {:>10}  {ratio:>6.1}  {nanos:>8}",
            format!("{ours:.1?}"),
            format!("{base:.1?}")
        );
        ratios.push(ratio);
    }
    // At some size the data exceeds the caches, for the baseline as well.
    assert!(
        ratios.last() < ratios.first().map(|first| first * 3.0).as_ref(),
        "the engine is not linear: {ratios:.1?} times the baseline"
    );
}
