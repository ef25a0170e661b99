//! Addresses of repositories, with a strict grammar.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};

use super::Error;

/// The maximum length of a URL in bytes.
const MAX_URL: usize = 2048;

/// The address of a repository. It never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The form for libgit2.
    url: String,
    transport: Transport,
}

/// The way to reach a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// `https`; for loopback hosts also `http` and `git`.
    Net {
        /// The host, without brackets.
        host: String,
    },
    /// `ssh`, also written `user@host:path`.
    Ssh {
        /// The host, without brackets.
        host: String,
        /// The port; 22 by default.
        port: u16,
        /// The user; `git` by default.
        user: String,
    },
    /// A directory on this machine.
    Local(PathBuf),
}

/// The host and port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    /// The host, without brackets.
    pub(super) host: &'a str,
    pub(super) port: u16,
}

impl Remote {
    /// Parses an address.
    ///
    /// Valid forms are `https://host/path`, `ssh://[user@]host[:port]/path`, `user@host:path`, `file:///path`
    /// and `/path`. Loopback hosts also allow `http://` and `git://`, which cannot prove the server's identity.
    ///
    /// # Errors
    /// Returns [`Error::Url`] with the reason if the address is rejected.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Err(Error::Url(format!("invalid repository URL: {reason}")));
        if text.is_empty() || text.len() > MAX_URL {
            return refuse("it is empty or longer than 2048 bytes");
        }
        if text.starts_with('-') || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("it starts with `-`, or contains spaces or control characters");
        }
        if !text.is_ascii() {
            return refuse(
                "it contains characters outside ASCII; write host names in punycode and paths percent-encoded",
            );
        }
        if text.starts_with('/') {
            return Ok(Self { url: text.into(), transport: Transport::Local(text.into()) });
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Self::with_scheme(text, scheme, rest);
        }
        let parts = text.split_once('@').and_then(|(user, rest)| Some((user, rest.split_once(':')?)));
        match parts.map(|(user, (host, path))| (user, host, path.strip_prefix('/').unwrap_or(path))) {
            Some((_, _, path)) if path.contains(['?', '#']) => refuse("it has a query or a fragment"),
            Some((user, host, path)) if is_user(user) && is_host(host) && is_path(path) => {
                let transport = Transport::Ssh { host: host.into(), port: 22, user: user.into() };
                Ok(Self { url: format!("ssh://{user}@{host}/{path}"), transport })
            }
            _ => refuse("use https://, ssh://, user@host:path, file:/// or an absolute path"),
        }
    }

    fn with_scheme(text: &str, scheme: &str, rest: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Err(Error::Url(format!("invalid repository URL: {reason}")));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if scheme == "file" {
            if !authority.is_empty() || path.is_empty() {
                return refuse("file:// needs an absolute path and no host, as in file:///srv/config.git");
            }
            return Ok(Self { url: text.into(), transport: Transport::Local(format!("/{path}").into()) });
        }
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let (host, port) = split_port(host);
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return refuse("its port is not between 1 and 65535"),
        };
        if path.contains(['?', '#']) {
            return refuse("it has a query or a fragment");
        }
        if !is_host(host) || !is_path(path) {
            return refuse("its host or its path is missing or malformed");
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        match scheme {
            "https" | "http" | "git" if user.is_some() => {
                refuse("it contains a user name or password; put credentials in the Secret")
            }
            "https" => Ok(Self { url: text.into(), transport: Transport::Net { host: bare } }),
            "http" | "git" if is_loopback(&bare) => {
                Ok(Self { url: text.into(), transport: Transport::Net { host: bare } })
            }
            "http" | "git" => {
                refuse("http:// and git:// do not prove the identity of the server; use https:// or ssh://")
            }
            "ssh" if !user.is_none_or(is_user) => {
                refuse("its user name is malformed, or it contains a password; put keys in the Secret")
            }
            "ssh" => {
                let user = user.unwrap_or("git").to_owned();
                let url = format!(
                    "ssh://{user}@{host}{}/{path}",
                    port.map(|p| format!(":{p}")).unwrap_or_default()
                );
                Ok(Self { url, transport: Transport::Ssh { host: bare, port: port.unwrap_or(22), user } })
            }
            "oci" => refuse("oci:// is the address of an artifact, and this needs a git repository"),
            _ => refuse("its scheme is not one of https, ssh and file"),
        }
    }

    /// Returns the directory of a local repository.
    pub fn local(&self) -> Option<&Path> {
        match &self.transport {
            Transport::Local(path) => Some(path),
            Transport::Net { .. } | Transport::Ssh { .. } => None,
        }
    }

    /// Returns true if the address is on this machine: a directory, or a protocol that is only allowed on
    /// loopback. Not every user who may write a ConfigRepo may read such a repository.
    pub fn is_local(&self) -> bool {
        self.local().is_some() || self.url.starts_with("http:") || self.url.starts_with("git:")
    }

    /// Returns the host and port to connect to; `None` for a directory.
    pub(super) fn address(&self, default_port: u16) -> Option<Address<'_>> {
        let Transport::Net { host } = &self.transport else { return None };
        let port = split_port(self.authority()).1.and_then(|port| port.parse().ok());
        Some(Address { host, port: port.unwrap_or(default_port) })
    }

    /// Returns the host of a git server, with the https port if there is one; `None` for a directory.
    pub fn host(&self) -> Option<String> {
        match &self.transport {
            Transport::Net { .. } => Some(self.authority().to_owned()),
            Transport::Ssh { host, .. } if host.contains(':') => Some(format!("[{host}]")),
            Transport::Ssh { host, .. } => Some(host.clone()),
            Transport::Local(_) => None,
        }
    }

    /// Returns the host with the port, if there is one, and the ssh user.
    pub(super) fn authority(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_once('/').map_or(rest, |(authority, _)| authority)
    }

    /// Returns the path on the server, including the first slash.
    pub(super) fn path(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the address in the form for libgit2.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns true if another address has the same host and path. Protocol, port and user may differ.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let place = |remote: &Self| {
            let path = remote.path().trim_matches('/').trim_end_matches(".git").to_owned();
            match &remote.transport {
                Transport::Net { host } | Transport::Ssh { host, .. } => (host.to_ascii_lowercase(), path),
                Transport::Local(_) => (String::new(), remote.identity()),
            }
        };
        place(self) == place(other)
    }

    /// Returns the normalized address, which identifies the repository.
    pub fn identity(&self) -> String {
        let url = self.url.trim_end_matches('/');
        let url = url.strip_suffix(".git").unwrap_or(url);
        match (&self.transport, url.split_once("://")) {
            (Transport::Local(path), _) => path.to_string_lossy().trim_end_matches('/').to_owned(),
            (_, Some((scheme, rest))) => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                format!("{scheme}://{}/{path}", authority.to_ascii_lowercase())
            }
            (_, None) => url.to_owned(),
        }
    }
}

impl Display for Remote {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

/// Splits `host:port`. The colons of a bracketed IPv6 address belong to the host.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_user(user: &str) -> bool {
    !user.is_empty()
        && !user.starts_with('-')
        && user.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    !host.is_empty()
        && !host.starts_with(['-', '.'])
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

fn is_path(path: &str) -> bool {
    !path.trim_matches('/').is_empty() && !path.starts_with('-')
}

/// Returns true if a host is this machine. An IPv6 address must have no brackets.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_grammars_are_taken() {
        let taken = [
            "https://git.example/team/config.git",
            "https://git.example:8443/config",
            "ssh://git@git.example:2222/team/config.git",
            "git@git.example:team/config.git",
            "file:///srv/config.git",
            "/srv/config.git",
            "http://127.0.0.1:3000/x",
            "git://localhost/x",
            "https://[::1]:80/x",
        ];
        for url in taken {
            assert!(Remote::parse(url).is_ok(), "{url}: {:?}", Remote::parse(url));
        }
        let refused = [
            "",
            "-oProxyCommand=x",
            "--upload-pack=touch /tmp/x",
            "ext::sh -c id",
            "ext::sh",
            "fd::17",
            "file://host/x",
            "file://",
            "http://git.example/x",
            "git://10.0.0.1/x",
            "https://user:pw@git.example/x",
            "https://token@git.example/x",
            "ssh://git:pw@git.example/x",
            "ssh://-oProxyCommand=id/x",
            "git@-oProxyCommand=id:x",
            "git@host:-x",
            "git@host:/-x",
            "git@host:x#y",
            "https://git.example:0/x",
            "https://git.example:99999/x",
            "https://git.example",
            "https://git.example/",
            "https:///x",
            "https://exa\u{0301}mple.org/x",
            "https://git.example/x\ny",
            "https://git.example/x\0",
            "https://git.example/a b",
            "https://git.example/a?service=x",
            "ssh://git.example/a#b",
            "relative/path",
            "host:path",
            "ftp://git.example/x",
        ];
        for url in refused {
            assert_eq!(Remote::parse(url).map_err(|e| e.reason()), Err("InvalidURL"), "{url}");
        }
    }

    #[test]
    fn equivalent_spellings_are_one_repository() {
        let identity = |url: &str| Remote::parse(url).unwrap().identity();
        assert_eq!(identity("https://Git.Example/team/x.git"), identity("https://git.example/team/x/"));
        assert_eq!(identity("git@git.example:team/x.git"), identity("ssh://git@git.example/team/x"));
        assert_eq!(identity("file:///srv/x.git"), identity("/srv/x.git/"));
        assert_ne!(identity("https://git.example/team/x"), identity("https://git.example/team/X"));
    }

    #[test]
    fn any_bytes_are_a_url_or_refused() {
        let seeds = [
            "https://git.example:8443/team/config.git",
            "ssh://git@[::1]:22/x",
            "git@host:x",
            "file:///srv/x",
        ]
        .map(|url| url.as_bytes().to_vec());
        let run = |bytes: &[u8]| {
            if let Ok(remote) = Remote::parse(&String::from_utf8_lossy(bytes)) {
                assert_eq!(Remote::parse(&remote.url), Ok(remote));
            }
        };
        let words = ["://", "@", ":", "/", "..", "[::1]", "%2f", "?", "#", "-o", "0x7f.1", "\u{e4}"];
        crate::fuzz::Target { name: "url", run: &run, seeds: &seeds, words: &words }.fuzz();
    }
}
