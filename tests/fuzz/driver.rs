//! Runs fuzz targets with random changes of their seeds: for the examples `fuzz_render` and `fuzz_store`, and
//! for the tests of the root package.
//!
//! Environment variables configure it: each target runs for `FUZZ_SECONDS`, or takes 500 inputs without it;
//! `FUZZ_SEED` is 1 by default; `FUZZ_TARGET` names a single target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use object::Random;

/// Number of inputs of a target without a time limit. Their time is not measured.
const INPUTS: u64 = 500;

/// A target, and the material for its inputs.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) run: &'a dyn Fn(&[u8]),
    pub(crate) seeds: &'a [Vec<u8>],
    /// Texts that have a meaning for the target.
    pub(crate) words: &'a [&'a str],
    /// The longest time for one input, where a time limit is set.
    pub(crate) slow: Duration,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Target<'_> {
    /// Runs the target. Returns false after an input that panics or is slow, and writes that input to the
    /// working directory.
    pub(crate) fn survives(&self) -> bool {
        let Self { name, run, slow, .. } = *self;
        if variable("FUZZ_TARGET").is_some_and(|wanted| wanted != name) {
            return true;
        }
        let number = |name: &str| variable(name)?.parse().ok();
        let time = number("FUZZ_SECONDS").map(Duration::from_secs);
        let mut random = Random::new(number("FUZZ_SEED").unwrap_or(1));
        let (start, mut runs, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
        while time.map_or(runs < INPUTS, |time| start.elapsed() < time) {
            let input = self.changed(&mut random);
            let began = Instant::now();
            let survived = catch_unwind(AssertUnwindSafe(|| run(&input))).is_ok();
            let took = began.elapsed();
            slowest = slowest.max(took);
            runs += 1;
            let is_slow = time.is_some() && took > slow;
            if !survived || is_slow {
                let file = format!("fuzz-{name}-{runs}.bin");
                let written = std::fs::write(&file, &input).is_ok();
                let what = if survived { "slow" } else { "panic" };
                eprintln!("{name}: {what} after {runs} runs, {took:.1?}; {file} written: {written}");
                return false;
            }
        }
        println!("{name}: {runs} runs in {:.0?}, the slowest {slowest:.1?}", start.elapsed());
        true
    }

    /// Returns one seed, or the head of one and the tail of another, with some bytes or lines changed.
    fn changed(&self, random: &mut Random) -> Vec<u8> {
        let Self { seeds, words, .. } = *self;
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
                    let word = words.get(below(random, words.len())).copied().unwrap_or_default();
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
}
