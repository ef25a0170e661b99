//! Generates unique names from a seed, because member crates have no randomness.

use object::Random;

/// A sequence of uids and name suffixes that depends only on its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids(Random);

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// Returns a version 4 UUID.
    pub(super) fn uid(&mut self) -> String {
        let (a, b) = (self.0.draw(), self.0.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | (b >> 48) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }

    /// Returns an address for a service, from 10.96.0.0/12.
    pub(super) fn address(&mut self) -> String {
        let bits = self.0.draw();
        format!("10.{}.{}.{}", 96 + (bits >> 16) % 16, (bits >> 8) & 0xff, 1 + bits % 254)
    }

    /// Returns the suffix for `metadata.generateName`: five characters that cannot form words.
    pub(super) fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let bits = self.0.draw();
        let pick = |i: u32| {
            ALPHABET.get(usize::try_from((bits >> (8 * i)) & 0xff).unwrap_or(0) % ALPHABET.len()).copied()
        };
        (0..5).filter_map(pick).map(char::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let (mut a, mut b, mut c) = (Ids::new(1), Ids::new(1), Ids::new(2));
        let (first, second) = (a.uid(), a.uid());
        assert_eq!((first.clone(), second.clone()), (b.uid(), b.uid()));
        assert!(first != second && first != c.uid());
        assert_eq!((first.len(), first.as_bytes()[14], a.suffix().len()), (36, b'4', 5));
    }
}
