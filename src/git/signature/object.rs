//! Splits a signed object into the signed bytes and the signature.

use super::Refusal;

/// The lines that start a signature at the end of a tag.
const BEGINS: [&str; 3] =
    ["-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----", "-----BEGIN SSH SIGNATURE-----"];

/// A signed commit or tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    /// The exact signed bytes.
    pub(super) payload: Vec<u8>,
    pub(super) signature: String,
}

/// Splits a commit. The signature is the `gpgsig` header, and everything else is signed.
pub(super) fn commit(raw: &[u8]) -> Result<Signed, Refusal> {
    let (header, message) = header_and_message(raw);
    let mut payload = Vec::with_capacity(raw.len());
    let mut signature: Option<Vec<u8>> = None;
    let mut inside = false;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        let value = match (line.strip_prefix(b"gpgsig "), line.strip_prefix(b" ")) {
            (Some(_), _) if signature.is_some() => return Err(Refusal::Several),
            (Some(value), _) => {
                inside = true;
                Some(value)
            }
            (None, Some(value)) if inside => Some(value),
            (None, _) => {
                inside = false;
                None
            }
        };
        match value {
            Some(value) => signature.get_or_insert_default().extend_from_slice(value),
            None if line.starts_with(b"gpgsig") => return Err(foreign_header()),
            None => payload.extend_from_slice(line),
        }
    }
    payload.extend_from_slice(message);
    signed(payload, signature.ok_or(Refusal::Unsigned)?)
}

/// Splits a tag. The signature is at the end of the message, and everything before it is signed.
pub(super) fn tag(raw: &[u8], name: &str) -> Result<Signed, Refusal> {
    let (header, _) = header_and_message(raw);
    let mut headers = header.split(|byte| *byte == b'\n');
    if headers.any(|line| line.starts_with(b"gpgsig")) {
        return Err(foreign_header());
    }
    let named = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"tag "));
    if named != Some(name.as_bytes()) {
        // Otherwise, a server could serve the signed tag of an old version as the tag of a new one.
        let named = String::from_utf8_lossy(named.unwrap_or_default());
        return Err(Refusal::OtherName(object::text::plain(&named, 100)));
    }
    let (mut begin, mut at) = (None, 0);
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        if BEGINS.iter().any(|begins| line.starts_with(begins.as_bytes())) {
            if begin.is_some() {
                return Err(Refusal::Several);
            }
            begin = Some(at);
        }
        at += line.len();
    }
    let (payload, signature) = raw.split_at_checked(begin.ok_or(Refusal::Unsigned)?).unwrap_or((raw, &[]));
    signed(payload.to_vec(), signature.to_vec())
}

/// Splits an object into the header, which ends before the first empty line, and the rest.
fn header_and_message(raw: &[u8]) -> (&[u8], &[u8]) {
    let end = raw.windows(2).position(|pair| pair == b"\n\n").map_or(raw.len(), |at| at + 1);
    raw.split_at_checked(end).unwrap_or((raw, &[]))
}

fn signed(payload: Vec<u8>, signature: Vec<u8>) -> Result<Signed, Refusal> {
    let signature = String::from_utf8(signature).map_err(|_| Refusal::Unusable("it is not text".into()))?;
    Ok(Signed { payload, signature })
}

/// Rejects a signature for the other object format. git removes its header from the signed bytes, so the header
/// could hide content.
fn foreign_header() -> Refusal {
    Refusal::Unusable("it has a signature for a repository of another format".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "tree 1\nparent 2\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n";

    #[test]
    fn the_signed_content_is_the_commit_without_its_signature() {
        let raw =
            format!("{HEAD}gpgsig -----BEGIN X-----\n \n one\n -----END X-----\nencoding utf-8\n\ntext\n");
        let signed = commit(raw.as_bytes()).unwrap();
        assert_eq!(signed.payload, format!("{HEAD}encoding utf-8\n\ntext\n").into_bytes());
        assert_eq!(signed.signature, "-----BEGIN X-----\n\none\n-----END X-----\n");
    }

    #[test]
    fn a_commit_with_no_or_with_two_signatures_is_refused() {
        let two = format!("{HEAD}gpgsig a\ngpgsig b\n\ntext\n");
        let other = format!("{HEAD}gpgsig a\ngpgsig-sha256 b\n hidden\n\ntext\n");
        let message = format!("{HEAD}\ngpgsig a\n");
        assert_eq!(commit(two.as_bytes()), Err(Refusal::Several));
        assert_eq!(commit(other.as_bytes()), Err(foreign_header()));
        assert_eq!(commit(message.as_bytes()), Err(Refusal::Unsigned), "a message is no header");
    }

    #[test]
    fn a_tag_counts_under_the_name_that_is_signed() {
        let body = "object 1\ntype commit\ntag v1\ntagger A <a@x> 1 +0000\n\ntext\n";
        let raw = format!("{body}{}\none\n", BEGINS[2]);
        let signed = tag(raw.as_bytes(), "v1").unwrap();
        assert_eq!((signed.payload, signed.signature), (body.into(), format!("{}\none\n", BEGINS[2])));
        assert_eq!(tag(raw.as_bytes(), "v2"), Err(Refusal::OtherName("v1".into())));
        assert_eq!(tag(body.as_bytes(), "v1"), Err(Refusal::Unsigned));
        let two = format!("{raw}{}\n", BEGINS[0]);
        assert_eq!(tag(two.as_bytes(), "v1"), Err(Refusal::Several));
    }
}
