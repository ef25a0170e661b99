//! Plays random histories: `cargo run --release -p wheelwright-sim --example seeds -- FROM TO`. A single seed
//! prints its whole history. `--jumps` makes clocks jump in all histories; `--sets` adds a ManifestWorkReplicaSet
//! to all; `--argo-cd` adds Argo CD to the hub; `--outages` makes lists fail and decisions panic, and restores the
//! hub.

use std::process::ExitCode;

use sim::Setup;
use sim::history::{self, HistoryEvent};

/// Saves a seventh of the CPU time, as in the tests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [from, rest @ ..] = numbers.as_slice() else {
        eprintln!("usage: seeds FROM [TO] [--jumps | --sets | --argo-cd | --outages]");
        return ExitCode::FAILURE;
    };
    let has = |option: &str| std::env::args().any(|word| word == option);
    let (setup, draw): (Setup, fn(u64) -> Vec<HistoryEvent>) = if has("--jumps") {
        (Setup::default(), history::draw_with_jumps)
    } else if has("--sets") {
        (Setup::default(), history::draw_with_sets)
    } else if has("--argo-cd") {
        (Setup::with_argo_cd(), history::draw_with_argo_cd)
    } else if has("--outages") {
        (Setup::coalescing(), history::draw_with_outages)
    } else {
        (Setup::default(), history::draw)
    };
    let Some(to) = rest.first() else { return print_history(setup, *from, &draw(*from)) };
    let mut broken = 0;
    for seed in *from..*to {
        if let Some(violation) = history::play(setup, seed, &draw(seed), false).violation {
            broken += 1;
            println!("{seed}: {violation}");
        }
    }
    println!("{} seeds, {broken} broken", to.saturating_sub(*from));
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints one seed's events, writes and result.
fn print_history(setup: Setup, seed: u64, events: &[HistoryEvent]) -> ExitCode {
    let ended = history::play(setup, seed, events, true);
    for (number, event) in events.iter().enumerate() {
        println!("{} {event:?}", if number < ended.events { "played    " } else { "not played" });
    }
    for write in ended.writes.iter().filter(|write| write.id.kind != "Lease") {
        println!("{write}");
    }
    match ended.violation {
        None => ExitCode::SUCCESS,
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}
