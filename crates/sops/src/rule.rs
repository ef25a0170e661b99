//! The rule of a file that distinguishes encrypted from plain values.

use regex::Regex;

use crate::cipher::PREFIX;
use crate::error::Error;
use crate::tree::Value;
use object::pattern::compile_within;

/// The suffix of keys with plain values in a file without a rule.
const DEFAULT_SUFFIX: &str = "_unencrypted";

/// The rule of a file. It looks at every key on the path of a value.
pub(crate) enum Rule {
    /// Values below matching keys are encrypted.
    Encrypted(Matcher),
    /// Values below matching keys are plain.
    Plain(Matcher),
    /// Comments determine which values are encrypted. They are not read: a value that looks encrypted is decrypted,
    /// and the MAC protects the others.
    Comments,
}

/// The keys that a rule matches.
pub(crate) enum Matcher {
    Suffix(String),
    Pattern(Regex),
}

impl Rule {
    /// Reads the rule in the metadata.
    pub(crate) fn parse(metadata: &Value) -> Result<Self, Error> {
        let text = |field: &str| metadata.text_at(field).filter(|text| !text.is_empty());
        let suffix = |text: &str| Matcher::Suffix(text.to_owned());
        let mut rules = Vec::new();
        rules.extend(text("unencrypted_suffix").map(|text| Ok(Self::Plain(suffix(text)))));
        rules.extend(text("encrypted_suffix").map(|text| Ok(Self::Encrypted(suffix(text)))));
        rules.extend(text("unencrypted_regex").map(|text| pattern(text).map(Self::Plain)));
        rules.extend(text("encrypted_regex").map(|text| pattern(text).map(Self::Encrypted)));
        rules.extend(text("unencrypted_comment_regex").map(|_| Ok(Self::Comments)));
        rules.extend(text("encrypted_comment_regex").map(|_| Ok(Self::Comments)));
        if rules.len() > 1 {
            return Err(Error::Malformed("it has several rules for what is encrypted".into()));
        }
        rules.pop().unwrap_or_else(|| Ok(Self::Plain(suffix(DEFAULT_SUFFIX))))
    }

    /// Returns true if the rule matches a key.
    pub(crate) fn matches(&self, key: &str) -> bool {
        match self {
            Self::Encrypted(matcher) | Self::Plain(matcher) => matcher.matches(key),
            Self::Comments => false,
        }
    }

    /// Returns true if a value is encrypted. `is_matched` is true if the rule matches a key on its path.
    pub(crate) fn encrypts(&self, value: &Value, is_matched: bool) -> bool {
        match self {
            Self::Encrypted(_) => is_matched,
            Self::Plain(_) => !is_matched,
            Self::Comments => matches!(value, Value::Text(text) if text.starts_with(PREFIX.as_bytes())),
        }
    }
}

impl Matcher {
    fn matches(&self, key: &str) -> bool {
        match self {
            Self::Suffix(suffix) => key.ends_with(suffix.as_str()),
            Self::Pattern(pattern) => pattern.is_match(key),
        }
    }
}

fn pattern(text: &str) -> Result<Matcher, Error> {
    // A file has one rule, so it may take as much as a pattern may.
    let mut bytes = usize::MAX;
    let pattern = compile_within(text, &mut bytes);
    let refuse = |_| Error::Malformed("its regular expression is invalid or too large".into());
    pattern.map(Matcher::Pattern).map_err(refuse)
}
