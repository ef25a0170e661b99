//! The error of a server that cannot unpack a push (gitprotocol-pack(5), "Report Status").
//!
//! libgit2 parses this line but drops the reason.

use super::advertisement::length;

/// The band of the report, if the response has bands.
const REPORT_BAND: u8 = 1;

/// The maximum number of bytes to keep of a response. The reason is at the start of the report, after the
/// output of hooks.
pub(super) const MAX_ANSWER: usize = 64 << 10;

/// Returns the reason in the response to a push; `None` if the server unpacked it, or has not reported it.
pub(super) fn unpack_failure(answer: &[u8]) -> Option<String> {
    let banded: Vec<u8> =
        lines(answer).filter_map(|line| line.strip_prefix(&[REPORT_BAND])).flat_map(<[u8]>::to_vec).collect();
    let reason = lines(&banded).chain(lines(answer)).find_map(|line| line.strip_prefix(b"unpack "))?;
    let reason = String::from_utf8_lossy(reason).trim().to_owned();
    (reason != "ok").then_some(reason)
}

/// Returns the content of each line.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let (line, after) = left.split_at_checked(length(left.first_chunk()?)?)?;
        left = after;
        line.get(4..)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(content: &str) -> String {
        format!("{:04x}{content}", content.len() + 4)
    }

    #[test]
    fn the_reason_is_found_with_and_without_bands() {
        let failed =
            format!("{}{}0000", line("unpack error Pack exceeds the limit\n"), line("ng refs/heads/x n/a\n"));
        let progress = line("\u{2}unpack nothing here\n");
        for answer in [failed.clone(), format!("{progress}{}0000", line(&format!("\u{1}{failed}")))] {
            assert_eq!(
                unpack_failure(answer.as_bytes()).as_deref(),
                Some("error Pack exceeds the limit"),
                "{answer}"
            );
        }
        for answer in ["", "0000", "zzzz", &line("unpack ok\n"), &line("ng unpack \n"), "00ffunpack x"] {
            assert_eq!(unpack_failure(answer.as_bytes()), None, "{answer}");
        }
    }
}
