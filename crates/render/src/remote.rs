//! Remote bases, and their copies in the repository.

/// The directory in which `kustomize localize` stores copies.
const COPIES: &str = "localized-files";

/// Returns the path of the local copy of a remote URL, relative to the kustomization. Returns None if the text is
/// not a remote URL.
pub(super) fn vendored(text: &str) -> Option<String> {
    let (url, query) = text.split_once('?').unwrap_or((text, ""));
    let reference =
        query.split('&').find_map(|pair| pair.strip_prefix("ref=").or_else(|| pair.strip_prefix("version=")));
    let url = url.strip_prefix("git::").unwrap_or(url);
    let (is_remote, rest) = match url.split_once("://") {
        Some((_, rest)) => (true, rest.rsplit_once('@').map_or(rest, |(_, rest)| rest)),
        None => match url.strip_prefix("git@") {
            Some(rest) => (true, rest),
            None => (
                url.starts_with("github.com/")
                    || url.starts_with("gh:")
                    || url.contains(".git//")
                    || !query.is_empty(),
                url,
            ),
        },
    };
    if !is_remote {
        return None;
    }
    let (repository, path) = rest.split_once("//").unwrap_or((rest, ""));
    let repository = repository.replacen(':', "/", 1);
    let repository = repository.strip_suffix(".git").unwrap_or(&repository);
    let parts = [COPIES, repository, reference.unwrap_or_default(), path];
    let safe = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
    Some(parts.iter().flat_map(|part| part.split('/')).filter(safe).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_resources_are_recognized_and_have_a_place_for_copies() {
        for (text, expected) in [
            ("https://github.com/o/r//base?ref=v1", Some("localized-files/github.com/o/r/v1/base")),
            ("git@github.com:o/r.git//base?ref=v1", Some("localized-files/github.com/o/r/v1/base")),
            ("github.com/o/r?ref=v1", Some("localized-files/github.com/o/r/v1")),
            ("git::ssh://git@host/o/r.git", Some("localized-files/host/o/r")),
            ("https://host/a/../../b.yaml", Some("localized-files/host/a/b.yaml")),
            ("file:///etc/passwd", Some("localized-files/etc/passwd")),
            ("../base", None),
            ("a.yaml", None),
        ] {
            assert_eq!(vendored(text).as_deref(), expected, "{text}");
        }
    }
}
