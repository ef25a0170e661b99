//! Drives the fuzz targets of `fuzz/` on a stable toolchain, by random changes of the golden cases.
//!
//! `tests/fuzz/run` starts it, see `tests/fuzz/driver.rs`. An input that panics or takes longer than a second is
//! written to the working directory and ends the run.
#![allow(clippy::disallowed_methods, reason = "it runs for a time that a person chooses")]

#[path = "../../../tests/fuzz/driver.rs"]
mod driver;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use driver::Target;

type Named = (&'static str, fn(&[u8]));

const TARGETS: [Named; 5] = [
    ("yaml", targets::yaml),
    ("kustomization", targets::kustomization),
    ("patch_strategic", targets::patch_strategic),
    ("patch_json", targets::patch_json),
    ("replacements", targets::replacements),
];
const SLOW: Duration = Duration::from_secs(1);
/// Texts that mean something to the targets.
const WORDS: [&str; 24] = [
    "$patch: replace",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: *a",
    "null",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "\n---\n",
    "../",
    "%",
    "!!str ",
    "0x",
    "\t",
    "\\",
    "[name=",
    "*",
];

fn main() -> ExitCode {
    let mut seeds = Vec::new();
    read_seeds(Path::new("tests/golden/render"), &mut seeds);
    let mut targets = TARGETS.iter();
    let survives =
        |(name, run): &Named| Target { name, run, seeds: &seeds, words: &WORDS, slow: SLOW }.survives();
    if targets.all(survives) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_seeds(dir: &Path, seeds: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_seeds(&path, seeds);
        } else if let Ok(bytes) = std::fs::read(&path) {
            seeds.push(bytes);
        }
    }
}
