//! Drives the fuzz targets of `fuzz/` by random changes of their seeds.
//!
//! Usage: `tests/fuzz-store SECONDS [SEED] [TARGET]`. Each target runs for so many seconds. An input that
//! panics or takes longer than five seconds is written to the working directory and ends the run.
#![allow(clippy::disallowed_methods, reason = "it runs for a time that a person chooses")]

#[path = "../fuzz/targets.rs"]
mod targets;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use object::Random;

const SLOW: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number(0).unwrap_or(10));
    let wanted = arguments.get(2);
    for (name, target) in
        targets::TARGETS.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name))
    {
        let path = format!("{}/fuzz/seeds/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("cannot read {path}");
            return ExitCode::FAILURE;
        };
        let seeds: Vec<Vec<u8>> = text.split("\n----\n").map(|seed| seed.as_bytes().to_vec()).collect();
        let mut random = Random::new(number(1).unwrap_or(1));
        let (start, mut runs, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
        while start.elapsed() < time {
            let input = changed(&seeds, &mut random);
            let began = Instant::now();
            let survived = catch_unwind(|| target(&input)).is_ok();
            let took = began.elapsed();
            slowest = slowest.max(took);
            runs += 1;
            if !survived || took > SLOW {
                let file = format!("fuzz-{name}-{runs}.bin");
                let written = std::fs::write(&file, &input).is_ok();
                let what = if survived { "slow" } else { "panic" };
                eprintln!("{name}: {what} after {runs} runs, {took:.1?}; {file} written: {written}");
                return ExitCode::FAILURE;
            }
        }
        println!("{name}: {runs} runs in {:.0?}, the slowest {slowest:.1?}", start.elapsed());
    }
    ExitCode::SUCCESS
}

/// One seed, or the head of one and the tail of another, with some bytes or lines changed.
fn changed(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        ",",
        ":",
        ".",
        "null",
        "-1",
        "1e309",
        "true",
        "\n",
        "self",
        ".map(x, x + x)",
        ".all(y, y == self)",
        "/-",
        "~1",
        "\\u0000",
        "$patch",
        "99999999999999999999",
        "\u{e4}",
    ];
    let below = |random: &mut Random, end: usize| random.below(end as u64) as usize;
    let pick = |random: &mut Random| seeds.get(below(random, seeds.len())).cloned().unwrap_or_default();
    let mut input = pick(random);
    if random.below(3) == 0 {
        let other = pick(random);
        input.truncate(below(random, input.len() + 1));
        input.extend_from_slice(other.get(below(random, other.len() + 1)..).unwrap_or_default());
    }
    for _ in 0..random.below(8) {
        let at = below(random, input.len() + 1);
        match random.below(5) {
            0 => input.insert(at, random.draw() as u8),
            1 if at < input.len() => drop(input.remove(at)),
            2 => {
                let word = WORDS.get(below(random, WORDS.len())).copied().unwrap_or_default();
                input.splice(at..at, word.bytes());
            }
            3 => {
                let end = (at + below(random, 40)).min(input.len());
                let copied: Vec<u8> = input.get(at..end).unwrap_or_default().to_vec();
                let to = below(random, input.len() + 1);
                input.splice(to..to, copied);
            }
            _ => {
                let end = (at + below(random, 20)).min(input.len());
                input.drain(at..end);
            }
        }
    }
    input
}
