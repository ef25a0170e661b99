//! The subject of a PKCS #10 request (RFC 2986), read strictly: whatever is not exactly as expected makes the request unreadable.
//!
//! Nothing is verified here. The signer verifies the request and signs the same bytes; this only says whom they name.

/// Whom a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The one common name.
    pub(super) common_name: String,
    /// The organizations, in order.
    pub(super) organizations: Vec<String>,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// Reads the subject of a request in DER.
///
/// A request whose subject has no or several common names, or attributes beside common name and organization, is refused: two readers
/// could take it for different things.
pub(super) fn subject(der: &[u8]) -> Option<Subject> {
    let (request, rest) = element(der, SEQUENCE)?;
    let (info, _) = element(request, SEQUENCE).filter(|_| rest.is_empty())?;
    let (_version, after) = element(info, INTEGER)?;
    let (mut name, _) = element(after, SEQUENCE)?;
    let mut subject = Subject::default();
    let mut common_names = 0;
    while !name.is_empty() {
        let (mut set, rest) = element(name, SET)?;
        name = rest;
        while !set.is_empty() {
            let (attribute, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (id, value) = element(attribute, OBJECT_IDENTIFIER)?;
            let (text, rest) = element(value, UTF8_STRING).or_else(|| element(value, PRINTABLE_STRING))?;
            let text = std::str::from_utf8(text).ok().filter(|_| rest.is_empty())?.to_owned();
            if id == COMMON_NAME {
                common_names += 1;
                subject.common_name = text;
            } else if id == ORGANIZATION {
                subject.organizations.push(text);
            } else {
                return None;
            }
        }
    }
    (common_names == 1).then_some(subject)
}

/// The content of the element of a tag at the start of `der`, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    if *first != tag {
        return None;
    }
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        // Definite lengths of up to four bytes: 4 GiB is more than any request.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], content].concat()
    }

    fn attribute(id: [u8; 3], text: &str) -> Vec<u8> {
        wrap(
            SET,
            &wrap(SEQUENCE, &[wrap(OBJECT_IDENTIFIER, &id), wrap(UTF8_STRING, text.as_bytes())].concat()),
        )
    }

    /// A request that names someone, without the key and signature that nobody here looks at.
    pub(crate) fn request(common_name: &str, organizations: &[&str]) -> Vec<u8> {
        let organizations = organizations.iter().flat_map(|name| attribute(ORGANIZATION, name));
        let name: Vec<u8> = organizations.chain(attribute(COMMON_NAME, common_name)).collect();
        wrap(SEQUENCE, &wrap(SEQUENCE, &[wrap(INTEGER, &[0]), wrap(SEQUENCE, &name)].concat()))
    }

    #[test]
    fn a_subject_is_read_as_it_is_or_not_at_all() {
        let subject = |der: &[u8]| super::subject(der);
        let want = Subject { common_name: "n".into(), organizations: vec!["a".into(), "b".into()] };
        assert_eq!(subject(&request("n", &["a", "b"])), Some(want));
        for cut in 0..request("n", &["a"]).len() {
            assert_eq!(subject(&request("n", &["a"])[..cut]), None, "cut at {cut}");
        }
        let named_twice = [attribute(COMMON_NAME, "a"), attribute(COMMON_NAME, "b")].concat();
        let twice =
            wrap(SEQUENCE, &wrap(SEQUENCE, &[wrap(INTEGER, &[0]), wrap(SEQUENCE, &named_twice)].concat()));
        assert_eq!(subject(&twice), None, "two common names");
    }
}
