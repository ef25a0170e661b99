//! Prime numbers for RSA keys.
//!
//! The search starts at a random number and takes the first prime, so that a later version of a library finds the
//! same one. Small factors rule out most numbers, so it takes half the time of the search in the crate `rsa`.

use std::sync::LazyLock;

use num_bigint_dig::prime::probably_prime;
use rsa::BigUint;

use crate::random::Random;

/// The public exponent of RSA keys.
pub(super) const EXPONENT: u32 = 65_537;
/// Number of primality tests for a candidate, as in Go.
const ROUNDS: usize = 20;
/// Number of candidates after a random number. In practice, at least one of them is prime.
const TRIED: u32 = 1 << 20;

/// The odd primes below 2^14.
static SMALL: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut small: Vec<u32> = Vec::new();
    for number in (3..1 << 14).step_by(2) {
        let has_no_factor = |prime: &u32| number % prime != 0;
        if small.iter().take_while(|prime| *prime * *prime <= number).all(has_no_factor) {
            small.push(number);
        }
    }
    small
});

/// Returns a random prime whose two highest bits are set, so that the product of two has twice the bits.
pub(super) fn prime(random: &mut Random, bits: usize) -> BigUint {
    loop {
        let mut bytes = random.bytes(bits / 8);
        if let Some(first) = bytes.first_mut() {
            *first |= 0xc0;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        if let Some(found) = first_prime(&BigUint::from_bytes_be(&bytes)).filter(|found| found.bits() == bits)
        {
            return found;
        }
    }
}

fn first_prime(start: &BigUint) -> Option<BigUint> {
    let rest = |divisor: u32| {
        (start % divisor).to_bytes_be().iter().fold(0, |rest, byte| rest << 8 | u32::from(*byte))
    };
    let rests: Vec<(u32, u32)> = SMALL.iter().map(|small| (*small, rest(*small))).collect();
    let rest_of_exponent = rest(EXPONENT);
    let is_candidate = |step: &u32| {
        // The prime minus one must have no factor in common with the exponent, which is itself prime.
        (rest_of_exponent + step) % EXPONENT != 1
            && rests.iter().all(|(small, rest)| !(rest + step).is_multiple_of(*small))
    };
    let mut candidates = (0..TRIED).step_by(2).filter(is_candidate).map(|step| start + step);
    candidates.find(|candidate| probably_prime(candidate, ROUNDS))
}
