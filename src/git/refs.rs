//! The reference to follow in a repository, and the commit that it points to.

use std::fmt::{Display, Formatter};

use git2::Oid;
use semver::{Version, VersionReq};

use super::Error;
use object::text;

/// The number of existing names in a message about a missing name.
const NAMES_IN_HINT: usize = 5;

/// The reference to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefSpec {
    /// The remote's HEAD, usually the tip of its default branch.
    Head,
    /// The tip of a branch.
    Branch(String),
    /// A tag, which should not move.
    Tag(String),
    /// The highest version tag within a range.
    Semver(VersionReq),
    /// One commit.
    Commit(String),
}

/// The advertised reference that a [`RefSpec`] resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The full name of the reference.
    pub(super) name: String,
    /// The commit or annotated tag that it points to.
    pub(super) id: Oid,
}

impl RefSpec {
    /// Follows a branch.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if the name is invalid for a branch.
    pub fn branch(name: &str) -> Result<Self, Error> {
        valid("branch", "refs/heads/", name).map(Self::Branch)
    }

    /// Follows a tag.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if the name is invalid for a tag.
    pub fn tag(name: &str) -> Result<Self, Error> {
        valid("tag", "refs/tags/", name).map(Self::Tag)
    }

    /// Follows the highest version within a range, such as `>=1.2, <2`.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if the range is invalid.
    pub fn semver(range: &str) -> Result<Self, Error> {
        version_range(range).map(Self::Semver)
    }

    /// Pins a commit.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] unless `id` is a full commit id.
    pub fn commit(id: &str) -> Result<Self, Error> {
        match Oid::from_str(id) {
            Ok(_) if id.len() == 40 => Ok(Self::Commit(id.to_ascii_lowercase())),
            _ if id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Err(Error::Ref(format!(
                    "ref.commit {id} is a SHA-256 name; only repositories of the format SHA-1 are supported"
                )))
            }
            _ => Err(Error::Ref(format!(
                "ref.commit {:?} is not a commit id of 40 hexadecimal digits",
                text::plain(id, 60)
            ))),
        }
    }

    /// Resolves the target among the advertised references, given as names with ids.
    pub(super) fn resolve(&self, url: &str, advertised: &[(String, Oid)]) -> Result<Option<Target>, Error> {
        let exactly = |name: String| {
            let found = advertised.iter().find(|(n, _)| *n == name);
            found.map(|(name, id)| Target { name: name.clone(), id: *id })
        };
        let (target, prefix) = match self {
            Self::Head => (exactly("HEAD".into()), "refs/heads/"),
            Self::Branch(branch) => (exactly(format!("refs/heads/{branch}")), "refs/heads/"),
            Self::Tag(tag) => (exactly(format!("refs/tags/{tag}")), "refs/tags/"),
            Self::Semver(range) => (highest(range, advertised), "refs/tags/"),
            Self::Commit(_) => return Ok(None),
        };
        target.map(Some).ok_or_else(|| Error::MissingRef {
            what: self.to_string(),
            url: url.into(),
            known: known(prefix, advertised),
        })
    }

    /// Returns true if a version range resolved to this commit before, but its tag has moved or is gone. If the
    /// tag is still there, the range now resolves to a higher version.
    pub(super) fn has_lost(&self, commit: &str, advertised: &[(String, Oid)]) -> bool {
        let Self::Semver(range) = self else { return false };
        // The commit of an annotated tag is advertised under the tag's name with the suffix `^{}`.
        let leads = |(name, id): &(String, Oid)| {
            id.to_string() == commit && version(range, name.strip_suffix("^{}").unwrap_or(name)).is_some()
        };
        !advertised.iter().any(leads)
    }

    /// Returns true if moving to a commit that does not descend from the last one is a rewind. Versions may be
    /// tagged on any branch, and a commit is pinned on purpose.
    pub(super) fn guards_history(&self) -> bool {
        match self {
            Self::Head | Self::Branch(_) | Self::Tag(_) => true,
            Self::Semver(_) | Self::Commit(_) => false,
        }
    }
}

impl Display for RefSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Head => write!(f, "HEAD"),
            Self::Branch(name) => write!(f, "branch {name}"),
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Semver(range) => write!(f, "a version tag in {range}"),
            Self::Commit(id) => write!(f, "commit {id}"),
        }
    }
}

pub(super) fn version_range(range: &str) -> Result<VersionReq, Error> {
    VersionReq::parse(range).map_err(|e| {
        Error::Ref(format!("ref.semver {:?} is not a version range: {e}", text::plain(range, 60)))
    })
}

fn valid(kind: &str, prefix: &str, name: &str) -> Result<String, Error> {
    if !name.starts_with('-') && git2::Reference::is_valid_name(&format!("{prefix}{name}")) {
        return Ok(name.to_owned());
    }
    Err(Error::Ref(format!("ref.{kind} {:?} is not a valid {kind} name", text::plain(name, 60))))
}

/// Returns the highest version in a range. Ignores a leading `v`. Build metadata counts last, as in [`Version`]'s
/// order.
fn highest(range: &VersionReq, advertised: &[(String, Oid)]) -> Option<Target> {
    let versions = advertised.iter().filter_map(|(name, id)| Some((version(range, name)?, name, id)));
    versions.max().map(|(_, name, id)| Target { name: name.clone(), id: *id })
}

/// Returns the version of a tag, if it is within the range.
fn version(range: &VersionReq, name: &str) -> Option<Version> {
    let tag = name.strip_prefix("refs/tags/")?;
    Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok().filter(|version| range.matches(version))
}

fn known(prefix: &str, advertised: &[(String, Oid)]) -> String {
    let names: Vec<_> = advertised
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(prefix))
        .filter(|n| !n.ends_with("^{}"))
        .collect();
    if names.is_empty() {
        return format!(", which has no {}", if prefix == "refs/heads/" { "branches" } else { "tags" });
    }
    let shown: Vec<_> = names.iter().take(NAMES_IN_HINT).map(|name| text::plain(name, 60)).collect();
    let more = if names.len() > shown.len() { ", …" } else { "" };
    format!("; it has {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(names: &[&str]) -> Vec<(String, Oid)> {
        let id = |i: usize| Oid::from_str(&format!("{:040x}", i + 1)).unwrap();
        names.iter().enumerate().map(|(i, name)| ((*name).to_owned(), id(i))).collect()
    }

    fn check(spec: RefSpec, names: &[&str], expected: &str) {
        let found = spec.resolve("u", &advertised(names)).map(|target| target.map(|t| t.name));
        assert_eq!(found.unwrap().as_deref(), Some(expected));
    }

    #[test]
    fn a_semver_range_takes_the_highest_version_tag() {
        let tags = [
            "refs/heads/9.0.0",
            "refs/tags/v1.2.0",
            "refs/tags/1.10.0",
            "refs/tags/v2.0.0",
            "refs/tags/nonsense",
            "refs/tags/1.11.0-rc.1",
        ];
        check(RefSpec::Head, &["HEAD", "refs/heads/main"], "HEAD");
        check(RefSpec::semver(">=1, <2").unwrap(), &tags, "refs/tags/1.10.0");
        check(RefSpec::semver("*").unwrap(), &tags, "refs/tags/v2.0.0");
    }

    #[test]
    fn a_missing_branch_is_named_with_those_that_exist() {
        let names = ["refs/heads/main", "refs/heads/dev"];
        let error = RefSpec::branch("prod").unwrap().resolve("https://h/x", &advertised(&names)).unwrap_err();
        assert_eq!(error.to_string(), "branch prod does not exist in https://h/x; it has main, dev");
        assert_eq!(error.reason(), "RefNotFound");
    }

    #[test]
    fn names_that_look_like_options_are_refused() {
        for name in ["--output=x", "-x", "a b", "a..b", "a\nb", "a\0b", "", "/x", "x.lock", "a~1"] {
            assert!(RefSpec::branch(name).is_err(), "{name:?}");
            assert!(RefSpec::tag(name).is_err(), "{name:?}");
        }
        assert!(RefSpec::commit("HEAD").is_err() && RefSpec::commit("abc123").is_err());
        assert!(RefSpec::semver("latest").is_err());
    }
}
