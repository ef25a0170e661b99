//! Versions and constraints as in `Masterminds/semver` v3. Unlike in Cargo, versions may lack parts, `||` and
//! hyphens express ranges, and a constraint without a pre-release matches no pre-release.

use std::cmp::Ordering;
use std::fmt;

use crate::value::Value;

/// Returns true if a text is one version with all three numbers.
pub fn is_exact_version(text: &str) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    numbers.split('.').count() == 3 && Version::parse(text).is_ok()
}

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: String,
    meta: String,
    original: String,
}

impl Version {
    /// Parses a version. Like `NewVersion`, accepts a leading `v` and missing parts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "invalid semantic version".to_owned();
        let rest = text.strip_prefix('v').unwrap_or(text);
        let (rest, meta) = rest.split_once('+').map_or((rest, None), |(rest, meta)| (rest, Some(meta)));
        let (numbers, pre) = rest.split_once('-').map_or((rest, None), |(rest, pre)| (rest, Some(pre)));
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() > 3
            || pre.is_some_and(|pre| !is_suffix(pre))
            || meta.is_some_and(|meta| !is_suffix(meta))
        {
            return Err(invalid());
        }
        let part = |at: usize| match parts.get(at) {
            None => Ok(0),
            Some(part) if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) => {
                part.parse().map_err(|_| invalid())
            }
            Some(_) => Err(invalid()),
        };
        Ok(Self {
            major: part(0)?,
            minor: part(1)?,
            patch: part(2)?,
            pre: pre.unwrap_or_default().to_owned(),
            meta: meta.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        })
    }

    pub(crate) fn field(&self, name: &str, args: &[Value]) -> Result<Option<Value>, String> {
        let other = || match args.first() {
            Some(Value::Object(object)) => match &**object {
                crate::object::Object::Version(version) => Ok(version.clone()),
                _ => Err("expected *semver.Version".to_owned()),
            },
            _ => Err("expected *semver.Version".to_owned()),
        };
        let number = |number: u64| Value::Int64(i64::try_from(number).unwrap_or(i64::MAX));
        Ok(Some(match name {
            "Major" => number(self.major),
            "Minor" => number(self.minor),
            "Patch" => number(self.patch),
            "Prerelease" => Value::str(self.pre.as_str()),
            "Metadata" => Value::str(self.meta.as_str()),
            "Original" => Value::str(self.original.as_str()),
            "String" => Value::str(self.to_string()),
            "Compare" => Value::Int(self.order(&other()?) as i64),
            "Equal" => Value::Bool(self.order(&other()?).is_eq()),
            "GreaterThan" => Value::Bool(self.order(&other()?).is_gt()),
            "LessThan" => Value::Bool(self.order(&other()?).is_lt()),
            _ => return Ok(None),
        }))
    }

    fn order(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| order_of_pre(&self.pre, &other.pre))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.meta.is_empty() {
            write!(f, "+{}", self.meta)?;
        }
        Ok(())
    }
}

fn is_suffix(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    text.split('.').all(is_part)
}

fn order_of_pre(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    TildeOrEqual,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// Longer operators come before their prefixes.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterEqual),
    ("=>", Operator::GreaterEqual),
    ("<=", Operator::LessEqual),
    ("=<", Operator::LessEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::TildeOrEqual),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

struct Constraint {
    operator: Operator,
    version: Version,
    /// True if a part is missing or a wildcard. The next fields say which one.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

/// Returns true if a version satisfies a constraint.
pub(crate) fn satisfies(constraint: &str, version: &Version) -> Result<bool, String> {
    let mut any = false;
    for group in constraint.split("||") {
        let constraints = group_of(group).ok_or_else(|| format!("improper constraint: {constraint}"))?;
        let takes_pre = constraints.iter().any(|constraint| !constraint.version.pre.is_empty());
        any |= constraints.iter().all(|constraint| constraint.matches(version, takes_pre));
    }
    Ok(any)
}

fn group_of(text: &str) -> Option<Vec<Constraint>> {
    // Spaces may separate an operator from its version. A hyphen between spaces forms a range.
    let spaced = text.replace(',', " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut constraints = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if let (Some(&"-"), Some(high)) = (words.get(at + 1), words.get(at + 2)) {
            constraints.push(Constraint::parse(Operator::GreaterEqual, word)?);
            constraints.push(Constraint::parse(Operator::LessEqual, high)?);
            at += 3;
            continue;
        }
        let operator =
            OPERATORS.iter().find_map(|(text, operator)| Some((word.strip_prefix(text)?, *operator)));
        let (version, operator) = operator.unwrap_or((word, Operator::TildeOrEqual));
        let version = if version.is_empty() {
            at += 1;
            words.get(at)?
        } else {
            version
        };
        constraints.push(Constraint::parse(operator, version)?);
        at += 1;
    }
    (!constraints.is_empty()).then_some(constraints)
}

impl Constraint {
    fn parse(operator: Operator, text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(end);
        let parts: Vec<&str> = numbers.split('.').collect();
        let is_wild = |at: usize| parts.get(at).is_none_or(|part| matches!(*part, "x" | "X" | "*"));
        if parts.len() > 3 || parts.first().is_some_and(|part| part.is_empty()) {
            return None;
        }
        let part = |at: usize| parts.get(at).copied().unwrap_or("0");
        let (numbers, minor_dirty, patch_dirty, dirty) = if is_wild(0) {
            ("0.0.0".to_owned(), false, false, true)
        } else if is_wild(1) {
            (format!("{}.0.0", part(0)), true, false, true)
        } else if is_wild(2) {
            (format!("{}.{}.0", part(0), part(1)), false, true, true)
        } else {
            (numbers.to_owned(), false, false, false)
        };
        let version = Version::parse(&format!("{numbers}{suffix}")).ok()?;
        Some(Self { operator, version, dirty, minor_dirty, patch_dirty })
    }

    fn matches(&self, version: &Version, takes_pre: bool) -> bool {
        if !version.pre.is_empty() && self.version.pre.is_empty() && !takes_pre {
            return false;
        }
        let order = version.order(&self.version);
        match self.operator {
            Operator::Less => order.is_lt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::LessEqual if !self.dirty => order.is_le(),
            Operator::LessEqual => {
                version.major < self.version.major
                    || version.major == self.version.major
                        && (version.minor <= self.version.minor || self.minor_dirty)
            }
            Operator::Greater => self.greater(version, order),
            Operator::NotEqual => self.differs(version, order),
            Operator::Tilde => self.tilde(version, order),
            Operator::TildeOrEqual if self.dirty => self.tilde(version, order),
            Operator::TildeOrEqual => order.is_eq(),
            Operator::Caret => self.caret(version, order),
        }
    }

    fn greater(&self, version: &Version, order: Ordering) -> bool {
        match version.major.cmp(&self.version.major) {
            _ if !self.dirty => order.is_gt(),
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal if self.minor_dirty => false,
            Ordering::Equal if self.patch_dirty => version.minor > self.version.minor,
            Ordering::Equal => order.is_gt(),
        }
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        if !self.dirty {
            return order.is_ne();
        }
        if version.major != self.version.major {
            return true;
        }
        if self.minor_dirty {
            return false;
        }
        if version.minor != self.version.minor {
            return true;
        }
        if self.patch_dirty {
            return order_of_pre(&version.pre, &self.version.pre).is_ne();
        }
        order.is_ne()
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let con = &self.version;
        if order.is_lt() {
            return false;
        }
        if (con.major, con.minor, con.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        version.major == con.major && (version.minor == con.minor || self.minor_dirty)
    }

    fn caret(&self, version: &Version, order: Ordering) -> bool {
        let con = &self.version;
        if order.is_lt() {
            return false;
        }
        if con.major > 0 || self.minor_dirty {
            return version.major == con.major;
        }
        if version.major > 0 {
            return false;
        }
        if con.minor > 0 || self.patch_dirty {
            return version.minor == con.minor;
        }
        version.minor == 0 && version.patch == con.patch
    }
}
