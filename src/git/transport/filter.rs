//! Asks a server to omit large files from a pack (gitprotocol-pack(5), "filter-request").
//!
//! libgit2 does not support filters, so its requests are rewritten in transit.

use std::borrow::Cow;

use super::advertisement::{length, pkt};
use crate::git::pack_limits::MAX_FILE_BYTES;

/// The server's capability to filter objects.
pub(super) const FILTER: &[u8] = b"filter";
/// The client's capability to complete deltas with its own objects. The server assumes that it has the omitted
/// files, so a request with a filter must not use this.
const THIN_PACK: &[u8] = b"thin-pack";
const FLUSH: &[u8] = b"0000";

/// Adds a filter for files above the size limit to a request for a pack. Returns any other request unchanged.
pub(super) fn without_large_files(request: &[u8]) -> Cow<'_, [u8]> {
    filtered(request).map_or(Cow::Borrowed(request), Cow::Owned)
}

fn filtered(request: &[u8]) -> Option<Vec<u8>> {
    let mut left = request;
    let mut next = || {
        let (line, after) = left.split_at_checked(length(left.first_chunk()?)?)?;
        left = after;
        Some((line, after))
    };
    let (first, _) = next()?;
    let wanted = first.get(FLUSH.len()..).filter(|line| line.starts_with(b"want "))?;
    let words = wanted.trim_ascii_end().split(|byte| *byte == b' ').filter(|word| *word != THIN_PACK);
    let mut out = pkt(&words.chain([FILTER]).collect::<Vec<_>>().join(&b' '));
    loop {
        let (line, after) = next()?;
        if line == FLUSH {
            // The filter omits files of at least this size.
            let filter = format!("filter blob:limit={}", MAX_FILE_BYTES + 1);
            return Some([&out, &*pkt(filter.as_bytes()), line, after].concat());
        }
        out.extend_from_slice(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";

    fn line(text: &str) -> String {
        format!("{:04x}{text}\n", text.len() + 5)
    }

    #[test]
    fn a_request_for_a_pack_asks_for_no_large_files_and_no_thin_pack() {
        let [second, deepen] = [format!("want {ONE}"), "deepen 16".to_owned()].map(|text| line(&text));
        let rest = format!("0000{}0009done\n", line(&format!("have {ONE}")));
        let first = line(&format!("want {ONE} side-band-64k thin-pack ofs-delta shallow "));
        let request = [&first, &second, &deepen, &rest].map(String::as_str).concat();
        let first = line(&format!("want {ONE} side-band-64k ofs-delta shallow filter"));
        let filter = line("filter blob:limit=8388609");
        let expected = [&first, &second, &deepen, &filter, &rest].map(String::as_str).concat();
        assert_eq!(without_large_files(request.as_bytes()), expected.as_bytes());
    }

    #[test]
    fn other_requests_stay_as_they_are() {
        let have = line(&format!("have {ONE}"));
        let cut = line(&format!("want {ONE} shallow"));
        for request in ["", "0000", "0009done\n", "none", &have, &cut] {
            assert_eq!(without_large_files(request.as_bytes()), request.as_bytes(), "{request}");
        }
    }
}
