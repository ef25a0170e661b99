//! Known host keys of SSH servers, in the format of OpenSSH's `known_hosts`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The host keys in a Secret. There is no trust on first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownHosts {
    lines: Vec<Line>,
    /// Revoked keys, for any host in their lines.
    revoked: Vec<Vec<u8>>,
    /// True if unsupported `@cert-authority` lines were skipped.
    has_authorities: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    hosts: Vec<Pattern>,
    key: Vec<u8>,
}

/// The hosts that a line matches.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// `host`, or `[host]:port`, without wildcards.
    Plain(String),
    /// `|1|salt|hash`: HMAC-SHA1 of the name.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// The result of comparing a server's key with `known_hosts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostKeyMatch {
    /// The key is known for the host.
    Match,
    /// Other keys are known for the host, or this key is revoked.
    Mismatch,
    /// No key is known for the host.
    Unknown,
}

impl KnownHosts {
    /// Parses the file. An invalid line is an error, because a typo must not silently drop a key.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut known = Self::default();
        for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
            if line.starts_with("@cert-authority") {
                known.has_authorities = true;
                continue;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed =
                || format!("line {number} is not `host[,host] type base64-key`, without wildcards");
            match line.strip_prefix("@revoked") {
                Some(line) => {
                    known.revoked.push(key(line.split_ascii_whitespace().skip(1)).ok_or_else(malformed)?)
                }
                None => known.lines.push(Line::parse(line).ok_or_else(malformed)?),
            }
        }
        Ok(known)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn has_only_authorities(&self) -> bool {
        self.has_authorities && self.is_empty()
    }

    /// Returns the types of the known keys of a host.
    pub(super) fn key_types(&self, host: &str, port: u16) -> Vec<String> {
        let name = name(host, port);
        let about = self.lines.iter().filter(|line| line.hosts.iter().any(|pattern| pattern.matches(&name)));
        about.filter_map(|line| key_type(&line.key)).collect()
    }

    /// Compares a server's key with the known keys.
    pub(super) fn check(&self, host: &str, port: u16, key: &[u8]) -> HostKeyMatch {
        let name = name(host, port);
        let about: Vec<_> = self
            .lines
            .iter()
            .filter(|line| line.hosts.iter().any(|pattern| pattern.matches(&name)))
            .collect();
        if self.revoked.iter().any(|revoked| revoked == key) {
            HostKeyMatch::Mismatch
        } else if about.is_empty() {
            HostKeyMatch::Unknown
        } else if about.iter().any(|line| line.key == key) {
            HostKeyMatch::Match
        } else {
            HostKeyMatch::Mismatch
        }
    }
}

/// Returns the name of a host as it appears in the file.
fn name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// Returns the type at the start of a key (RFC 4253, section 6.6).
fn key_type(key: &[u8]) -> Option<String> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    String::from_utf8(rest.get(..length)?.to_vec()).ok()
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let hosts = words.next()?.split(',').map(Pattern::parse).collect::<Option<_>>()?;
        Some(Self { hosts, key: key(words)? })
    }
}

/// Parses the type and the key in a line.
fn key<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Vec<u8>> {
    let (_type, key) = (words.next()?, words.next()?);
    STANDARD.decode(key).ok().filter(|key| !key.is_empty())
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix("|1|") else {
            return (!text.contains(['*', '?', '!'])).then(|| Self::Plain(text.to_ascii_lowercase()));
        };
        let (salt, hash) = rest.split_once('|')?;
        Some(Self::Hashed { salt: STANDARD.decode(salt).ok()?, hash: STANDARD.decode(hash).ok()? })
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Plain(plain) => *plain == name.to_ascii_lowercase(),
            Self::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::verify(&key, name.as_bytes(), hash).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> KnownHosts {
        KnownHosts::parse(text).unwrap()
    }

    #[test]
    fn only_the_key_on_record_is_taken() {
        let known = hosts(
            "# comment\n\ngit.example,10.0.0.1 ssh-ed25519 QUJD me@x\n[git.example]:2222 ssh-rsa REVG\n@revoked bad.example ssh-rsa R0hJ\n",
        );
        assert_eq!(known.check("git.example", 22, b"ABC"), HostKeyMatch::Match);
        assert_eq!(known.check("GIT.example", 22, b"ABC"), HostKeyMatch::Match);
        assert_eq!(known.check("10.0.0.1", 22, b"ABC"), HostKeyMatch::Match);
        assert_eq!(known.check("git.example", 22, b"DEF"), HostKeyMatch::Mismatch);
        assert_eq!(known.check("git.example", 2222, b"DEF"), HostKeyMatch::Match);
        assert_eq!(known.check("git.example", 2200, b"ABC"), HostKeyMatch::Unknown);
        assert_eq!(known.check("bad.example", 22, b"GHI"), HostKeyMatch::Mismatch);
        assert_eq!(known.check("git.example", 2222, b"GHI"), HostKeyMatch::Mismatch);
        assert_eq!(KnownHosts::default().check("git.example", 22, b"ABC"), HostKeyMatch::Unknown);
    }

    #[test]
    fn hashed_host_names_match() {
        let salt = b"0123456789abcdefghij";
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
        let hash = hmac::sign(&key, b"git.example");
        let line =
            format!("|1|{}|{} ssh-ed25519 QUJD", STANDARD.encode(salt), STANDARD.encode(hash.as_ref()));
        assert_eq!(hosts(&line).check("git.example", 22, b"ABC"), HostKeyMatch::Match);
        assert_eq!(hosts(&line).check("git.examplf", 22, b"ABC"), HostKeyMatch::Unknown);
    }

    #[test]
    fn a_revoked_key_belongs_to_no_host() {
        let known = hosts("git.example ssh-ed25519 QUJD\n@revoked * ssh-ed25519 QUJD\n");
        assert_eq!(known.check("git.example", 22, b"ABC"), HostKeyMatch::Mismatch);
    }

    #[test]
    fn a_wildcard_is_an_error() {
        for host in ["*", "*.example", "git?", "!git.example,git.example"] {
            let read = KnownHosts::parse(&format!("{host} ssh-ed25519 QUJD\n"));
            assert!(read.unwrap_err().contains("without wildcards"), "{host}");
        }
    }

    #[test]
    fn a_line_that_is_not_a_host_key_is_an_error() {
        assert!(KnownHosts::parse("git.example ssh-ed25519\n").unwrap_err().contains("line 1"));
        assert!(KnownHosts::parse("\ngit.example ssh-ed25519 !!!\n").unwrap_err().contains("line 2"));
    }

    #[test]
    fn any_bytes_are_known_hosts_or_refused() {
        let seeds = [
            b"git.example,10.0.0.1 ssh-ed25519 QUJD me@x\n@revoked [git.example]:2222 ssh-rsa REVG\n"
                .to_vec(),
            b"|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-rsa R0hJ\n".to_vec(),
        ];
        let run = |bytes: &[u8]| {
            if let Ok(known) = KnownHosts::parse(&String::from_utf8_lossy(bytes)) {
                let _ = (known.check("git.example", 22, bytes), known.key_types("git.example", 22));
            }
        };
        let words = ["|1|", "@revoked ", "[", "]:", ",", " ", "\n", "AAAA", "="];
        crate::fuzz::Target { name: "known_hosts", run: &run, seeds: &seeds, words: &words }.fuzz();
    }
}
