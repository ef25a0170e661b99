//! Drives the fuzz targets of `fuzz/` by random changes of their seeds.
//!
//! Usage: `tests/fuzz-store SECONDS [SEED] [TARGET]`. Each target runs for so many seconds. An input that
//! panics or takes longer than five seconds is written to the working directory and ends the run.
#![allow(clippy::disallowed_methods, reason = "it runs for a time that a person chooses")]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::process::ExitCode;
use std::time::Duration;

use driver::{Arguments, Target};

const SLOW: Duration = Duration::from_secs(5);
/// Texts that mean something to the targets.
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

fn main() -> ExitCode {
    let arguments = Arguments::read();
    for (name, run) in targets::TARGETS {
        let mut target = Target { name, run, seeds: &[], words: &WORDS, slow: SLOW };
        if !target.is_wanted(&arguments) {
            continue;
        }
        let path = format!("{}/fuzz/seeds/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("cannot read {path}");
            return ExitCode::FAILURE;
        };
        let seeds: Vec<Vec<u8>> = text.split("\n----\n").map(|seed| seed.as_bytes().to_vec()).collect();
        target.seeds = &seeds;
        if !target.survives(&arguments) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
