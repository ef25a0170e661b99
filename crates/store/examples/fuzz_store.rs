//! Drives the fuzz targets of `fuzz/` by random changes of their seeds.
//!
//! `tests/fuzz/run` starts it, see `tests/fuzz/driver.rs`. An input that panics or takes longer than five seconds
//! is written to the working directory and ends the run.
#![allow(clippy::disallowed_methods, reason = "it runs for a time that a person chooses")]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::process::ExitCode;
use std::time::Duration;

use driver::Target;

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
    for (name, run) in targets::TARGETS {
        let path = format!("{}/fuzz/seeds/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("cannot read {path}");
            return ExitCode::FAILURE;
        };
        let seeds: Vec<Vec<u8>> = text.split("\n----\n").map(|seed| seed.as_bytes().to_vec()).collect();
        let target = Target { name, run: &run, seeds: &seeds, words: &WORDS, slow: SLOW };
        if !target.survives() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
