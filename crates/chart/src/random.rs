//! Pseudo-random values for `randAlphaNum`, `genCA` and related functions.
//!
//! The crate has no source of randomness: the caller provides a seed, and the same seed gives the same values.
//! Each call has a separate stream, derived from the seed and the location of the call in the chart. Adding or
//! removing calls elsewhere therefore does not change its result.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use sha2::{Digest as _, Sha256};

/// The values that differ in each rendering: random values and the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    /// The seed of all random values in templates.
    pub seed: [u8; 32],
    /// The time that `now` returns, and the start of the validity of certificates.
    pub now: jiff::Timestamp,
}

impl fmt::Debug for Fresh {
    /// Omits the seed, from which every password of the release can be derived.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Fresh {
    /// Returns the values of a release. Several releases can share `seed`.
    pub fn of_release(seed: &[u8; 32], namespace: &str, release: &str, now: jiff::Timestamp) -> Self {
        Self { seed: digest(&[seed, namespace.as_bytes(), release.as_bytes()]), now }
    }
}

/// The purpose of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To return its documents.
    Documents,
    /// To compare it with another rendering, in order to detect random values in documents. The cheapest keys and
    /// hashes suffice.
    Comparison,
}

/// A call of a function whose result differs in each rendering.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) function: &'static str,
    /// File, line and column.
    pub(crate) location: String,
    /// The file being rendered.
    pub(crate) output: Rc<str>,
}

/// Provides fresh values to the templates of a rendering, and records the calls.
#[derive(Debug)]
pub(crate) struct Source {
    fresh: Fresh,
    pub(crate) purpose: Purpose,
    /// The number of calls so far, by key.
    calls: RefCell<BTreeMap<[u8; 32], u64>>,
    was_asked: Cell<bool>,
    draws: RefCell<Vec<Draw>>,
}

impl Source {
    /// Maximum number of recorded calls. This is enough to find the relevant one.
    const MAX_DRAWS: usize = 1_000;

    pub(crate) fn new(fresh: Fresh, purpose: Purpose) -> Self {
        let (calls, was_asked, draws) = Default::default();
        Self { fresh, purpose, calls, was_asked, draws }
    }

    /// Returns the stream of a call. Calls with the same key, such as in a loop, are numbered.
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

    /// Returns true if a fresh value was requested since the last call of this method.
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

/// Returns the SHA-256 of the parts and their lengths.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A stream of bytes, generated from a seed by SHA-256 in counter mode.
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

    /// Returns a uniformly distributed number below the bound.
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
