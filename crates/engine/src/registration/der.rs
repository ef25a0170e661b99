//! Decodes untrusted DER (X.690) in memory bounded by the input size.

use x509_cert::der::{AnyRef, Decode, Reader as _, Result, SliceReader, Tag, Tagged as _};

/// The maximum nesting depth. A certificate request has about eight levels.
const DEPTH: usize = 32;

/// Decodes one value after checking the lengths of all nested values. For owned values, the decoder allocates up
/// to 256 MiB from the claimed length before it looks at the bytes.
///
/// # Errors
/// Fails if the bytes are not exactly one value of the type, claim more bytes than there are, or nest deeper
/// than 32 levels.
pub fn decode<'a, T: Decode<'a>>(der: &'a [u8]) -> Result<T> {
    check_lengths(der, DEPTH)?;
    T::from_der(der)
}

/// Checks that each value ends within its parent.
fn check_lengths(der: &[u8], depth: usize) -> Result<()> {
    let mut reader = SliceReader::new(der)?;
    while !reader.is_finished() {
        let value = AnyRef::decode(&mut reader)?;
        if value.tag().is_constructed() {
            let depth = depth.checked_sub(1).ok_or_else(|| Tag::Sequence.value_error())?;
            check_lengths(value.value(), depth)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of a number and a two-byte string.
    const WHOLE: &[u8] = &[0x30, 0x07, 0x02, 0x01, 0x05, 0x0c, 0x02, b'a', b'b'];

    #[test]
    fn a_length_beyond_the_value_around_it_is_refused_before_anything_is_decoded() {
        assert!(check_lengths(WHOLE, DEPTH).is_ok());
        for (at, length) in [(1, 8), (3, 6), (6, 3), (6, 0x7f)] {
            let mut der = WHOLE.to_vec();
            der[at] = length;
            assert!(check_lengths(&der, DEPTH).is_err(), "{der:x?}");
        }
        // A string that claims 100 MiB.
        let huge = [0x30, 0x06, 0x0c, 0x84, 0x06, 0x40, 0x00, 0x00];
        assert!(check_lengths(&huge, DEPTH).is_err());
    }

    #[test]
    fn values_too_deep_are_refused() {
        let nested = |levels: usize| {
            (0..levels).fold(vec![0x05, 0x00], |inner, _| {
                [&[0x30, u8::try_from(inner.len()).unwrap()], inner.as_slice()].concat()
            })
        };
        assert!(check_lengths(&nested(DEPTH), DEPTH).is_ok());
        assert!(check_lengths(&nested(DEPTH + 1), DEPTH).is_err());
    }
}
