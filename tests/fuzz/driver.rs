//! Runs fuzz targets with random changes of their seeds, for the examples `fuzz_render` and `fuzz_store`.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use object::Random;

/// The arguments `SECONDS [SEED] [TARGET]`.
pub(crate) struct Arguments {
    time: Duration,
    seed: u64,
    target: Option<String>,
}

impl Arguments {
    /// Reads the arguments of the process. An absent one is 10 seconds, seed 1, every target.
    pub(crate) fn read() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
        Self {
            time: Duration::from_secs(number(0).unwrap_or(10)),
            seed: number(1).unwrap_or(1),
            target: arguments.get(2).cloned(),
        }
    }
}

/// A target, and the material of its inputs.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) run: fn(&[u8]),
    pub(crate) seeds: &'a [Vec<u8>],
    /// Texts that mean something to the target.
    pub(crate) words: &'a [&'a str],
    /// The longest time for one input.
    pub(crate) slow: Duration,
}

impl Target<'_> {
    /// Whether the arguments name it, or no target.
    pub(crate) fn is_wanted(&self, arguments: &Arguments) -> bool {
        arguments.target.as_ref().is_none_or(|wanted| wanted == self.name)
    }

    /// Runs the target until its time is over; returns false after an input that panics or is slow, which is
    /// written to the working directory.
    pub(crate) fn survives(&self, arguments: &Arguments) -> bool {
        let Self { name, run, slow, .. } = *self;
        let mut random = Random::new(arguments.seed);
        let (start, mut runs, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
        while start.elapsed() < arguments.time {
            let input = self.changed(&mut random);
            let began = Instant::now();
            let survived = catch_unwind(|| run(&input)).is_ok();
            let took = began.elapsed();
            slowest = slowest.max(took);
            runs += 1;
            if !survived || took > slow {
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

    /// One seed, or the head of one and the tail of another, with some bytes or lines changed.
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
