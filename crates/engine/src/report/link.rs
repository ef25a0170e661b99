//! Links to the pages of git servers.

/// Returns the address of a repository in a browser; `None` if it has none. Git servers with pages serve them at the
/// address of the repository, over HTTPS.
pub fn repository_link(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "ssh"))?;
    let (authority, path) = rest.split_once('/')?;
    let (_, address) = authority.rsplit_once('@').unwrap_or(("", authority));
    // The port belongs to the SSH server.
    let host = if scheme == "ssh" { address.split(':').next()? } else { address };
    Some(format!("https://{host}/{}", path.trim_end_matches('/').trim_end_matches(".git")))
}

/// Returns the address of a commit in a browser; `None` if it has none.
pub fn commit_link(url: &str, commit: &str) -> Option<String> {
    let repository = repository_link(url).filter(|_| !commit.is_empty())?;
    // GitHub, GitLab and Gitea have this path, Bitbucket has another.
    let part = if repository.starts_with("https://bitbucket.org/") { "commits" } else { "commit" };
    Some(format!("{repository}/{part}/{commit}"))
}

/// Returns the address of the history of a file on a branch in a browser; `None` if it has none.
pub fn history_link(url: &str, branch: &str, file: &str) -> Option<String> {
    let repository = repository_link(url).filter(|_| !branch.is_empty())?;
    // GitHub has this path; GitLab and Gitea redirect from it. Bitbucket has another.
    let part = if repository.starts_with("https://bitbucket.org/") { "history-node" } else { "commits" };
    Some(format!("{repository}/{part}/{branch}/{file}"))
}

/// Returns true if a URL may contain a password or token: before an `@`, unless that is only a user of SSH, or in a
/// query. The operator does not fetch from `https://user:token@host/path`, but a spec may have it.
pub(super) fn may_have_credentials(url: &str) -> bool {
    let is_ssh_user = url.rsplit_once('@').is_none_or(|(before, after)| match before.split_once("://") {
        Some((scheme, user)) => scheme == "ssh" && !user.contains([':', '/']),
        None => !before.contains([':', '/']) && after.contains(':'),
    });
    !is_ssh_user || url.contains(['?', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_of_a_file_has_an_address_on_servers_with_pages() {
        let link = |url, branch| history_link(url, branch, "hubs/1/clusters/d0/c1.json");
        let file = "wheelwright/status/hubs/1/clusters/d0/c1.json";
        let expected = [
            ("https://github.com/team/fleet.git", "https://github.com/team/fleet/commits"),
            ("ssh://git@git.example.com:2222/team/fleet", "https://git.example.com/team/fleet/commits"),
            ("https://bitbucket.org/team/fleet", "https://bitbucket.org/team/fleet/history-node"),
        ];
        for (url, start) in expected {
            assert_eq!(link(url, "wheelwright/status"), Some(format!("{start}/{file}")));
        }
        assert_eq!(link("/srv/fleet", "wheelwright/status"), None);
        assert_eq!(link("https://github.com/team/fleet", ""), None, "no report yet");
    }
}
