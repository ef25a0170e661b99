//! Pseudo-random values for `randAlphaNum` and its relatives.
//!
//! The crate has no source of randomness: the caller gives a seed, and the same seed gives the same values.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use sha2::{Digest as _, Sha256};

/// The values that differ at each rendering: random ones and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Decides the values that templates draw at random.
    pub seed: [u8; 32],
    /// The time that `now` returns.
    pub now: jiff::Timestamp,
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
    random: RefCell<Random>,
    now: jiff::Timestamp,
    was_asked: Cell<bool>,
    draws: RefCell<Vec<Draw>>,
}

impl Source {
    /// The calls that are remembered: enough to name the one that matters.
    const MAX_DRAWS: usize = 1_000;

    pub(crate) fn new(fresh: Fresh) -> Self {
        Self {
            random: RefCell::new(Random::new(fresh.seed)),
            now: fresh.now,
            was_asked: Cell::default(),
            draws: RefCell::default(),
        }
    }

    pub(crate) fn random(&self) -> RefMut<'_, Random> {
        self.was_asked.set(true);
        self.random.borrow_mut()
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.was_asked.set(true);
        self.now
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

/// A stream of bytes made from a seed by SHA-256 in counter mode.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    seed: [u8; 32],
    counter: u64,
    left: Vec<u8>,
}

impl Random {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, counter: 0, left: Vec::new() }
    }

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
