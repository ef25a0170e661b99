//! The branches that ConfigRepos follow, and the ones that receive their reports.

use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoReport};

/// Returns true if a ConfigRepo follows a branch of a repository.
pub(super) fn follows(repo: &ConfigRepo, url: &str, branch: &str) -> bool {
    repo.spec.r#ref.name() == branch && place(&repo.spec.url) == place(url)
}

/// Returns true if two URLs point to the same repository. If the protocol is the same, the port must match too,
/// because another port may belong to another server. So must the user of SSH, because a path may be relative to the
/// user. The user of HTTP is only a credential.
pub fn is_same_repository(one: &str, other: &str) -> bool {
    let [(protocol, server, _), (other_protocol, other_server, _)] = [one, other].map(parts);
    let is_one_server = match protocol {
        _ if protocol != other_protocol => true,
        "http" | "https" => without_user(server).eq_ignore_ascii_case(without_user(other_server)),
        _ => server.eq_ignore_ascii_case(other_server),
    };
    is_one_server && place(one) == place(other)
}

/// Returns the URL to which a ConfigRepo reports.
pub(super) fn url_of<'a>(report: &'a ConfigRepoReport, repo: &'a ConfigRepo) -> &'a str {
    if report.url.is_empty() { &repo.spec.url } else { &report.url }
}

/// Splits a URL such as `https://host:port/path.git` or `user@host:path` into protocol, authority (user, host and
/// port) and path.
fn parts(url: &str) -> (&str, &str, &str) {
    match (url.split_once("://"), url.split_once(':')) {
        (Some((protocol, rest)), _) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            (protocol, authority, path)
        }
        (None, Some((authority, path))) => ("ssh", authority, path),
        (None, None) => ("file", "", url),
    }
}

/// Returns the host and path of a URL. Protocol, user and port may differ for the same repository.
fn place(url: &str) -> (String, &str) {
    let (_, authority, path) = parts(url);
    let host = without_user(authority);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(host, _)| host);
    let path = path.trim_matches('/');
    (host.to_ascii_lowercase(), path.strip_suffix(".git").unwrap_or(path))
}

/// Returns the host and port of an authority.
fn without_user(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_spelling_is_the_same_repository_and_another_server_is_not() {
        let one = "https://git.example/team/fleet";
        let with_token = "https://ci:secret@git.example/team/fleet.git";
        for same in [one, with_token, "https://GIT.example/team/fleet.git/", "git@git.example:team/fleet.git"]
        {
            assert!(is_same_repository(one, same) && is_same_repository(same, one), "{same}");
        }
        for other in ["https://git.example/team/other", "https://git.example:8443/team/fleet"] {
            assert!(!is_same_repository(one, other), "{other}");
        }
        assert!(!is_same_repository("ssh://a@git.example/~/fleet", "ssh://b@git.example/~/fleet"));
        assert!(!is_same_repository("a@git.example:fleet", "b@git.example:fleet"));
    }

    #[test]
    fn one_repository_has_several_urls() {
        let urls = [
            "https://git.example/team/fleet",
            "https://GIT.example:8443/team/fleet.git/",
            "ssh://git@git.example:22/team/fleet.git",
            "git@git.example:team/fleet.git",
            "git@git.example:/team/fleet",
        ];
        for url in urls {
            assert_eq!(place(url), ("git.example".into(), "team/fleet"), "{url}");
        }
        assert_eq!(place("file:///srv/fleet.git"), place("/srv/fleet"));
        assert_ne!(place("https://git.example/team/other"), place(urls[0]));
        assert_ne!(place("https://other.example/team/fleet"), place(urls[0]));
        assert_eq!(place("https://[::1]/a").0, "[::1]");
    }
}
