//! Asks a server to leave large files out of a pack (gitprotocol-pack(5), "filter-request").
//!
//! libgit2 knows no filters, so its requests are changed on their way.

use std::borrow::Cow;

use super::advertisement::{length, pkt};
use crate::git::pack_limits::MAX_FILE_BYTES;

/// The capability of a server that leaves out what a filter names.
pub(super) const FILTER: &[u8] = b"filter";
/// The capability of a client that completes deltas with objects that it has. The server believes that it has the files
/// that were left out, so a request with a filter goes without.
const THIN_PACK: &[u8] = b"thin-pack";
const FLUSH: &[u8] = b"0000";

/// Adds a filter for files that are too large to be read to a request for a pack. Any other request stays as it is.
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
            // A filter leaves out files of at least its size.
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
