//! The branches that ConfigRepos follow, and those that get their reports.

use api::gitops::v1alpha1::{ConfigRepo, Report};

/// Returns whether a ConfigRepo follows a branch of a repository.
pub(in crate::hub) fn follows(repo: &ConfigRepo, url: &str, branch: &str) -> bool {
    repo.spec.r#ref.name() == branch && place(&repo.spec.url) == place(url)
}

/// Returns the URL that the reports of a ConfigRepo go to.
pub(in crate::hub) fn url_of<'a>(report: &'a Report, repo: &'a ConfigRepo) -> &'a str {
    if report.url.is_empty() { &repo.spec.url } else { &report.url }
}

/// Returns the host and the path of a URL, as in `https://host:port/path.git` and `user@host:path`. Protocol,
/// user and port may differ for one repository.
fn place(url: &str) -> (String, &str) {
    let (authority, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        None => url.split_once(':').unwrap_or(("", url)),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(host, _)| host);
    let path = path.trim_matches('/');
    (host.to_ascii_lowercase(), path.strip_suffix(".git").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

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
