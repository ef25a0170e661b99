//! Plays random histories: `cargo run --release -p wheelwright-sim --example seeds -- FROM TO`. One seed
//! alone prints its whole history. With `--jumps`, clocks jump in all of them; with `--sets`, all have a
//! ManifestWorkReplicaSet.

use std::process::ExitCode;

use sim::Setup;
use sim::history::{self, Event};

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [from, rest @ ..] = numbers.as_slice() else {
        eprintln!("usage: seeds FROM [TO] [--jumps | --sets]");
        return ExitCode::FAILURE;
    };
    let has = |option: &str| std::env::args().any(|word| word == option);
    let draw = match () {
        () if has("--jumps") => history::draw_with_jumps,
        () if has("--sets") => history::draw_with_sets,
        () => history::draw,
    };
    let Some(to) = rest.first() else { return print_history(*from, &draw(*from)) };
    let mut broken = 0;
    for seed in *from..*to {
        if let Some(violation) = history::play(Setup::default(), seed, &draw(seed), false).violation {
            broken += 1;
            println!("{seed}: {violation}");
        }
    }
    println!("{} seeds, {broken} broken", to.saturating_sub(*from));
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the events of one seed, its writes, and the end.
fn print_history(seed: u64, events: &[Event]) -> ExitCode {
    let ended = history::play(Setup::default(), seed, events, true);
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
