//! The server's list of references at the start (gitprotocol-pack(5), "Reference Discovery").

/// The length of an id and the following space.
const ID: usize = 41;

/// The references that libgit2 may see before a push. It walks the objects of every reference that the mirror
/// has, without a limit, so it only sees the checked ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::git) struct PushedReference {
    /// The name of the reference to push.
    pub(in crate::git) name: String,
    /// The commits whose objects were checked.
    pub(in crate::git) checked: Vec<String>,
}

/// Parses a server's list of references.
#[derive(Debug, Default)]
pub(super) struct Advertisement {
    /// Passes on only the references for a push; `None` passes on all.
    only: Option<PushedReference>,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    /// The server's capabilities; `None` before the first reference, which has them after a NUL. The rest of
    /// the list contains names that anybody with push access can choose.
    capabilities: Option<Vec<u8>>,
    has_reference: bool,
    is_over: bool,
}

/// The server's object ids are SHA-256.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IsSha256;

impl Advertisement {
    pub(super) fn new(only: Option<PushedReference>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Takes the next bytes of the list, and returns the bytes for libgit2.
    ///
    /// # Errors
    /// Fails if the server's object ids are SHA-256.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, IsSha256> {
        let passes_all = self.only.is_none();
        if self.is_over || passes_all && self.capabilities.is_some() {
            return Ok(bytes.to_vec());
        }
        let mut arrived = std::mem::take(&mut self.rest);
        arrived.extend_from_slice(bytes);
        let (mut left, mut passed) = (arrived.as_slice(), Vec::new());
        while let Some(length) = left.first_chunk().map(length) {
            let Some(length) = length else {
                // libgit2 rejects a line with an invalid length.
                self.is_over = true;
                passed.extend_from_slice(left);
                left = &[];
                break;
            };
            let Some((line, after)) = left.split_at_checked(length) else { break };
            left = after;
            self.line(line, &mut passed)?;
            if self.is_over || passes_all && self.capabilities.is_some() {
                passed.extend_from_slice(left);
                left = &[];
                break;
            }
        }
        self.rest = left.to_vec();
        Ok(passed)
    }

    /// Returns true if the server has a capability.
    pub(super) fn has(&self, capability: &[u8]) -> bool {
        let capabilities = self.capabilities.as_deref().unwrap_or_default();
        capabilities.split(u8::is_ascii_whitespace).any(|one| one == capability)
    }

    /// Parses a line with its length, and passes on the part for libgit2.
    fn line(&mut self, line: &[u8], passed: &mut Vec<u8>) -> Result<(), IsSha256> {
        let content = line.get(4..).unwrap_or_default();
        let mut parts = content.splitn(2, |byte| *byte == 0);
        let (reference, capabilities) = (parts.next().unwrap_or_default(), parts.next());
        if self.capabilities.is_none()
            && let Some(capabilities) = capabilities
        {
            if capabilities.split(u8::is_ascii_whitespace).any(|one| one == b"object-format=sha256") {
                return Err(IsSha256);
            }
            self.capabilities = Some(readable(capabilities).to_vec());
        }
        let Some(only) = &self.only else {
            match capabilities {
                Some(capabilities) if readable(capabilities) != capabilities => {
                    passed.extend(with_capabilities(reference, readable(capabilities)));
                }
                Some(_) | None => passed.extend_from_slice(line),
            }
            return Ok(());
        };
        let Some(capabilities) = &self.capabilities else {
            // An http comment or an error.
            if content.is_empty() || content.starts_with(b"#") || content.starts_with(b"ERR ") {
                passed.extend_from_slice(line);
            }
            return Ok(());
        };
        if content.is_empty() {
            if !self.has_reference {
                passed.extend(with_capabilities(&none(), capabilities));
            }
            passed.extend_from_slice(line);
            self.is_over = true;
        } else if only.has(reference.trim_ascii_end()) {
            let reference = reference.trim_ascii_end();
            let line =
                if self.has_reference { pkt(reference) } else { with_capabilities(reference, capabilities) };
            passed.extend(line);
            self.has_reference = true;
        }
        Ok(())
    }
}

impl PushedReference {
    /// Returns true if a line with an id and a name may be passed on. The push compares the id of its own
    /// reference before it walks any objects.
    fn has(&self, line: &[u8]) -> bool {
        let Some((id, name)) = line.split_at_checked(ID) else { return false };
        name == self.name.as_bytes() || self.checked.iter().any(|one| one.as_bytes() == id.trim_ascii_end())
    }
}

/// Returns the capabilities without an object format at the end, as in go-git's list, because libgit2 rejects
/// that (`set_data` in its `smart_pkt.c`). Its default is SHA-1.
fn readable(capabilities: &[u8]) -> &[u8] {
    capabilities.trim_ascii_end().strip_suffix(b" object-format=sha1").unwrap_or(capabilities)
}

/// Returns the line with the capabilities of a server that has no references.
fn none() -> Vec<u8> {
    [&[b'0'; ID - 1][..], b" capabilities^{}"].concat()
}

fn with_capabilities(reference: &[u8], capabilities: &[u8]) -> Vec<u8> {
    pkt(&[reference, b"\0", capabilities.trim_ascii_end()].concat())
}

/// Returns a line with its length and a line feed.
pub(super) fn pkt(content: &[u8]) -> Vec<u8> {
    let length = format!("{:04x}", content.len() + 5);
    [length.as_bytes(), content, b"\n"].concat()
}

/// Returns the length of a line, including the four digits of the length. Values below four have no line.
pub(super) fn length(digits: &[u8; 4]) -> Option<usize> {
    let length = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some(length.max(digits.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const DEEP: &str = "dddddddddddddddddddddddddddddddddddddddd";
    const BRANCH: &str = "refs/heads/report";

    fn line(text: &str) -> String {
        format!("{:04x}{text}\n", text.len() + 5)
    }

    /// Passes on a list in pieces of one size.
    fn pass(only: Option<PushedReference>, list: &str, piece: usize) -> Result<String, IsSha256> {
        let mut advertisement = Advertisement::new(only);
        let pieces = list.as_bytes().chunks(piece).map(|bytes| advertisement.take(bytes));
        Ok(String::from_utf8(pieces.collect::<Result<Vec<_>, _>>()?.concat()).unwrap())
    }

    #[test]
    fn the_format_of_a_repository_is_a_capability_and_no_name_of_a_branch() {
        let service = format!("{}0000", line("# service=git-upload-pack"));
        let branch = "refs/heads/object-format=sha256";
        let named = line(&format!("{ONE} {branch}\0side-band-64k symref=HEAD:{branch} agent=git"));
        let others = line(&format!("{ONE} {branch}"));
        let sha256 = line(&format!("{ONE} HEAD\0side-band-64k object-format=sha256"));
        for piece in [1, 3, 7, 1 << 16] {
            for before in ["", &service] {
                let list = format!("{before}{named}{others}0000");
                assert_eq!(pass(None, &list, piece).as_deref(), Ok(list.as_str()), "{piece}");
                let list = format!("{before}{sha256}{others}0000");
                assert_eq!(pass(None, &list, piece), Err(IsSha256), "{piece}");
            }
        }
        assert!(pass(None, "nonsense object-format=sha256", 5).is_ok());
    }

    #[test]
    fn a_list_of_capabilities_does_not_end_with_the_format_of_the_objects() {
        let with = |capabilities: &str| {
            let others = line(&format!("{ONE} refs/heads/a"));
            format!("{}{others}0000", line(&format!("{ONE} {BRANCH}\0{capabilities}")))
        };
        let only = Some(PushedReference { name: BRANCH.into(), checked: vec![ONE.into()] });
        for piece in [1, 3, 7, 1 << 16] {
            for only in [None, only.clone()] {
                let passed = pass(only, &with("shallow object-format=sha1"), piece);
                assert_eq!(passed, Ok(with("shallow")), "{piece}");
            }
        }
        let between = with("shallow object-format=sha1 agent=git");
        assert_eq!(pass(None, &between, 64), Ok(between));
    }

    #[test]
    fn a_push_shows_libgit2_no_commit_that_was_not_checked() {
        let only = || Some(PushedReference { name: BRANCH.into(), checked: vec![ONE.into()] });
        let service = format!("{}0000", line("# service=git-receive-pack"));
        let deep = line(&format!("{DEEP} refs/heads/a\0report-status agent=git"));
        let (have, smuggled) = (line(&format!("{DEEP} .have")), line(&format!("{DEEP} refs/heads/first")));
        let own = line(&format!("{ONE} {BRANCH}"));
        let same = line(&format!("{ONE} refs/heads/same"));
        let first = line(&format!("{ONE} {BRANCH}\0report-status agent=git"));
        let empty = line(&format!("{} capabilities^{{}}\0report-status agent=git", "0".repeat(40)));
        for piece in [1, 3, 7, 1 << 16] {
            for before in ["", &service] {
                let check = |list: &str, expected: &str| {
                    let passed = pass(only(), &format!("{before}{list}"), piece);
                    assert_eq!(passed, Ok(format!("{before}{expected}")), "{piece}");
                };
                check(&format!("{deep}{have}{own}{have}{same}0000"), &format!("{first}{same}0000"));
                check(&format!("{smuggled}{deep}0000"), &format!("{empty}0000"));
                check(&format!("{empty}0000"), &format!("{empty}0000"));
                check(&format!("{first}0000answer"), &format!("{first}0000answer"));
            }
        }
        let moved = line(&format!("{DEEP} {BRANCH}\0report-status"));
        let passed = pass(only(), &format!("{moved}0000"), 64);
        assert_eq!(passed, Ok(format!("{moved}0000")), "the negotiation refuses it");
    }
}
