//! Pseudo-random values for `randAlphaNum` and its relatives.
//!
//! The crate has no source of randomness: the caller gives a seed, and the same seed gives the same values.

use sha2::{Digest as _, Sha256};

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
