//! SSH signatures (OpenSSH, PROTOCOL.sshsig), and the list of allowed signers (ssh-keygen(1), ALLOWED
//! SIGNERS).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use ssh_key::public::KeyData;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};

use super::Refusal;
use super::object::Signed;

/// The namespace of git's signatures.
pub(super) const NAMESPACE: &str = "git";
/// The minimum size of an RSA key (NIST SP 800-131A).
const MIN_RSA_BITS: u32 = 2048;
/// The flag for a touch of the security key (OpenSSH, PROTOCOL.u2f).
const USER_PRESENT: u8 = 1;
/// The size of flags and counter after such a signature, in bytes.
const SECURITY_KEY_TRAILER: usize = 5;

/// The allowed signers, and the revoked keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Signers {
    allowed: Vec<AllowedSigner>,
    revoked: Vec<KeyData>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedSigner {
    principals: String,
    key: KeyData,
    valid_after: Option<Timestamp>,
    valid_before: Option<Timestamp>,
    /// True if the line applies to signatures of git.
    is_for_git: bool,
}

impl Signers {
    pub(super) fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// Adds the lines of an allowed signers file. Errors contain the line number.
    pub(super) fn allow(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in lines(text) {
            self.allowed.push(AllowedSigner::parse(line).map_err(|error| format!("line {number}: {error}"))?);
        }
        Ok(())
    }

    /// Adds revoked public keys. Errors contain the line number.
    pub(super) fn revoke(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in lines(text) {
            let key = PublicKey::from_openssh(line);
            let key = key.map_err(|e| {
                format!("line {number}: it is not a public key (a KRL is not supported): {e}")
            })?;
            self.revoked.push(key.key_data().clone());
        }
        Ok(())
    }

    /// Returns the signer of an object.
    pub(super) fn verify(&self, signed: &Signed, now: Timestamp) -> Result<String, Refusal> {
        let unusable = |error: String| Refusal::Unusable(error);
        let signature = SshSig::from_pem(signed.signature.trim()).map_err(|e| unusable(e.to_string()))?;
        let key = signature.public_key();
        let fingerprint = format!("the SSH key {}", key.fingerprint(HashAlg::Sha256));
        let of_key = |signer: &&AllowedSigner| signer.key == *key;
        let name = self.allowed.iter().find(of_key).map_or_else(
            || fingerprint.clone(),
            |signer| format!("{} ({fingerprint})", object::text::plain(&signer.principals, 100)),
        );
        if !self.allowed.iter().any(|signer| of_key(&signer)) && !self.revoked.contains(key) {
            return Err(Refusal::UnknownKey(name));
        }
        if signature.namespace() != NAMESPACE {
            let namespace = object::text::plain(signature.namespace(), 60);
            return Err(Refusal::WrongNamespace { signer: name, namespace });
        }
        check_strength(&signature, &name)?;
        let verified = PublicKey::from(key.clone()).verify(NAMESPACE, &signed.payload, &signature);
        verified.map_err(|_| Refusal::Invalid(name.clone()))?;
        if self.revoked.contains(key) {
            return Err(Refusal::Revoked(name));
        }
        // One valid line is enough. Otherwise, the last line determines the reason.
        let mut refusal = Refusal::UnknownKey(name.clone());
        for signer in self.allowed.iter().filter(of_key) {
            match signer.check(&name, now) {
                Ok(()) => return Ok(name),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

/// Returns the non-empty lines without comments, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Rejects weak keys and hashes, and signatures of security keys without a touch.
fn check_strength(signature: &SshSig, signer: &str) -> Result<(), Refusal> {
    let refuse =
        |reason: &str| Err(Refusal::NotForSigning { signer: signer.to_owned(), reason: reason.to_owned() });
    match signature.public_key() {
        KeyData::Rsa(key) if key.key_size() < MIN_RSA_BITS => {
            return refuse("is an RSA key of less than 2048 bits");
        }
        KeyData::Rsa(_) if signature.algorithm() == Algorithm::Rsa { hash: None } => {
            return refuse("signed with SHA-1");
        }
        KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => {
            let bytes = signature.signature_bytes();
            let flags = bytes.len().checked_sub(SECURITY_KEY_TRAILER).and_then(|at| bytes.get(at));
            if flags.is_none_or(|flags| flags & USER_PRESENT == 0) {
                return refuse("is a security key that was not touched");
            }
        }
        KeyData::Certificate(_) | KeyData::Dsa(_) | KeyData::Other(_) => {
            return refuse("is of an unsupported type");
        }
        _ => {}
    }
    Ok(())
}

impl AllowedSigner {
    /// Parses `principals [options] type key [comment]`.
    fn parse(line: &str) -> Result<Self, String> {
        let (principals, rest) = field(line);
        let mut signer = Self {
            principals: principals.trim_matches('"').to_owned(),
            key: KeyData::Ed25519(ssh_key::public::Ed25519PublicKey([0; 32])),
            valid_after: None,
            valid_before: None,
            is_for_git: true,
        };
        let (first, after) = field(rest);
        let key = if Algorithm::new(first).is_ok_and(|known| !matches!(known, Algorithm::Other(_))) {
            rest
        } else {
            signer.read_options(first)?;
            after
        };
        let key = PublicKey::from_openssh(key.trim()).map_err(|e| format!("it has no public key: {e}"))?;
        signer.key = key.key_data().clone();
        Ok(signer)
    }

    fn read_options(&mut self, options: &str) -> Result<(), String> {
        let mut rest = options;
        while !rest.is_empty() {
            let (option, after) = split_outside_quotes(rest, ',');
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = value.trim_matches('"');
            match name.to_ascii_lowercase().as_str() {
                "namespaces" => {
                    if value.contains(['?', '!']) || value.contains('*') && value != "*" {
                        return Err("patterns of namespaces are not supported; name them".into());
                    }
                    self.is_for_git = value.split(',').any(|one| matches!(one.trim(), NAMESPACE | "*"));
                }
                "valid-after" => self.valid_after = Some(time(value)?),
                "valid-before" => self.valid_before = Some(time(value)?),
                "cert-authority" => {
                    return Err("certificate authorities are not supported; name the keys".into());
                }
                _ => return Err(format!("the option {name:?} is unknown")),
            }
            rest = after;
        }
        Ok(())
    }

    fn check(&self, signer: &str, now: Timestamp) -> Result<(), Refusal> {
        let signer = signer.to_owned();
        match (self.valid_after, self.valid_before) {
            _ if !self.is_for_git => {
                let reason =
                    "may not sign for git: its line in allowed_signers names other namespaces".into();
                Err(Refusal::NotForSigning { signer, reason })
            }
            (Some(at), _) if now < at => Err(Refusal::NotYetValid { signer, at }),
            (_, Some(at)) if now >= at => Err(Refusal::Expired { signer, at }),
            _ => Ok(()),
        }
    }
}

/// Returns the first field of a line, and the rest.
fn field(line: &str) -> (&str, &str) {
    let (first, rest) = split_outside_quotes(line, ' ');
    (first, rest.trim_start())
}

fn split_outside_quotes(text: &str, by: char) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if !quoted && (c == by || by == ' ' && c == '\t') => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            }
            _ => {}
        }
    }
    (text, "")
}

/// Parses `YYYYMMDD[HHMM[SS]][Z]`, always in UTC.
fn time(text: &str) -> Result<Timestamp, String> {
    let digits = text.strip_suffix('Z').unwrap_or(text);
    let padded = format!("{digits:0<14}");
    let parsed = DateTime::strptime("%Y%m%d%H%M%S", padded)
        .and_then(|time| time.to_zoned(TimeZone::UTC))
        .ok()
        .filter(|_| matches!(digits.len(), 8 | 12 | 14))
        .map(|time| time.timestamp());
    parsed.ok_or_else(|| format!("{text:?} is not a time such as 20260131 or 202601312359Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[test]
    fn a_line_of_allowed_signers_is_read_or_named() {
        let mut signers = Signers::default();
        let options = r#"namespaces="file,git",valid-after="20260101",valid-before="202602031405Z""#;
        signers
            .allow(&format!("# people\n\nalice@example.org {options} {KEY} a comment\nbob {KEY}\n"))
            .unwrap();
        let alice = &signers.allowed[0];
        assert_eq!(alice.principals, "alice@example.org");
        assert_eq!(alice.valid_after.unwrap().to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(alice.valid_before.unwrap().to_string(), "2026-02-03T14:05:00Z");
        for (line, part) in [
            ("alice", "line 1: it has no public key"),
            ("alice cert-authority ssh-ed25519 x", "certificate authorities"),
            ("alice zap=1 x", "the option \"zap\" is unknown"),
            (r#"alice namespaces="g*" x"#, "patterns of namespaces"),
            (r#"alice valid-before="soon" x"#, "\"soon\" is not a time"),
        ] {
            let error = Signers::default().allow(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
        assert!(Signers::default().revoke("SSHKRL\n").unwrap_err().contains("a KRL is not supported"));
    }
}
