//! Pseudo-random values for `randAlphaNum`, `genCA` and their relatives.
//!
//! The crate has no source of randomness: the caller gives a seed, and the same seed gives the same values. Each call
//! draws from a stream of its own, which is derived from the seed and from where the call stands in the chart. So what a
//! call returns does not change when calls are added or removed elsewhere.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use sha2::{Digest as _, Sha256};

/// The values that differ at each rendering: random ones and the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    /// Decides the values that templates draw at random.
    pub seed: [u8; 32],
    /// The time that `now` returns, and from which certificates are valid.
    pub now: jiff::Timestamp,
}

impl fmt::Debug for Fresh {
    /// Leaves out the seed, from which every password of the release follows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Fresh {
    /// Returns the values of a release, for which `seed` is shared with other releases.
    pub fn of_release(seed: &[u8; 32], namespace: &str, release: &str, now: jiff::Timestamp) -> Self {
        Self { seed: digest(&[seed, namespace.as_bytes(), release.as_bytes()]), now }
    }
}

/// The use of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its documents are wanted.
    Documents,
    /// It is compared with another one, to find out whether random values reach a document. Keys and hashes of the
    /// cheapest kind will do.
    Comparison,
}

/// A call of a function whose value differs at each rendering.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) function: &'static str,
    /// File, line and column.
    pub(crate) location: String,
    /// The file that was being rendered.
    pub(crate) output: Rc<str>,
}

/// The source of fresh values for the templates of a rendering, with a record of who asked.
#[derive(Debug)]
pub(crate) struct Source {
    fresh: Fresh,
    pub(crate) purpose: Purpose,
    /// The calls so far, by their key.
    calls: RefCell<BTreeMap<[u8; 32], u64>>,
    was_asked: Cell<bool>,
    draws: RefCell<Vec<Draw>>,
}

impl Source {
    /// The calls that are remembered: enough to name the one that matters.
    const MAX_DRAWS: usize = 1_000;

    pub(crate) fn new(fresh: Fresh, purpose: Purpose) -> Self {
        let (calls, was_asked, draws) = Default::default();
        Self { fresh, purpose, calls, was_asked, draws }
    }

    /// Returns the stream of a call. Calls with the same key, such as those of a loop, are numbered.
    pub(crate) fn random(&self, key: &[&[u8]]) -> Random {
        self.was_asked.set(true);
        let key = digest(key);
        let mut calls = self.calls.borrow_mut();
        let number = calls.entry(key).or_insert(0);
        let seed = digest(&[&self.fresh.seed, &key, &number.to_le_bytes()]);
        *number += 1;
        Random { seed, counter: 0, left: Vec::new() }
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.was_asked.set(true);
        self.fresh.now
    }

    /// Returns whether a fresh value was asked for since the last call of this.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked.take()
    }

    pub(crate) fn record(&self, draw: Draw) {
        let mut draws = self.draws.borrow_mut();
        if draws.len() < Self::MAX_DRAWS {
            draws.push(draw);
        }
    }

    pub(crate) fn into_draws(self) -> Vec<Draw> {
        self.draws.into_inner()
    }
}

/// Returns the SHA-256 of parts and their lengths.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A stream of bytes made from a seed by SHA-256 in counter mode.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: [u8; 32],
    counter: u64,
    left: Vec<u8>,
}

impl Random {
    pub(crate) fn byte(&mut self) -> u8 {
        if self.left.is_empty() {
            let mut hash = Sha256::new();
            hash.update(self.seed);
            hash.update(self.counter.to_le_bytes());
            self.left = hash.finalize().to_vec();
            self.counter += 1;
        }
        self.left.pop().unwrap_or(0)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// Returns a number below the bound, without bias.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let number = (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()));
            if number < limit {
                return number % bound;
            }
        }
    }
}
