//! Compiles untrusted regular expressions: a pattern of ten characters can take 10 MiB and 50 ms.

use regex::{Error, Regex, RegexBuilder};

/// The maximum size of a compiled pattern, in bytes.
const MAX: usize = 1 << 20;
/// The minimum size to count for a compiled pattern, in bytes.
const MIN: usize = 512;

/// Compiles a pattern, and subtracts its size from the bytes left for all patterns of an object. The size is
/// rounded up to a power of two, or to all bytes that are left.
///
/// # Errors
/// Returns what is wrong with the pattern, or that it is too large.
pub fn compile_within(pattern: &str, bytes: &mut usize) -> Result<Regex, String> {
    let most = MAX.min(*bytes);
    let mut limit = MIN.min(most);
    loop {
        match RegexBuilder::new(pattern).size_limit(limit).build() {
            Ok(regex) => {
                *bytes -= limit;
                return Ok(regex);
            }
            Err(Error::CompiledTooBig(_)) if limit < most => limit = most.min(2 * limit),
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_share_the_bytes_that_are_left() {
        let mut bytes = 100_000;
        assert!(compile_within("^[a-z]+$", &mut bytes).unwrap().is_match("abc"));
        let left = bytes;
        assert!((95_000..100_000).contains(&left), "{left}");
        assert!(compile_within("(", &mut bytes).unwrap_err().contains("unclosed group"));
        assert!(compile_within(r"\w{100}", &mut bytes).unwrap_err().contains("exceeds size limit"));
        assert_eq!(bytes, left);
        while compile_within("^[a-z]+$", &mut bytes).is_ok() {}
        assert!(bytes < 5_000, "{bytes}");
        bytes = usize::MAX;
        assert!(compile_within(r"\w{100}", &mut bytes).unwrap_err().contains("exceeds size limit"));
    }
}
