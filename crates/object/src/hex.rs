/// Encodes bytes as lowercase hexadecimal digits.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_gives_two_digits() {
        assert_eq!(hex([0x00, 0x0a, 0xff]), "000aff");
    }
}
