//! HTTP proxies for https (RFC 9110, section 9.3.6, CONNECT).

use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Session;
use crate::git::Error;
use crate::git::remote::Address;

/// The maximum size of a proxy's response.
const MAX_ANSWER: usize = 8192;

#[derive(Clone, PartialEq, Eq)]
pub(in crate::git) struct Proxy {
    host: String,
    port: u16,
    /// `user:password`.
    login: Option<Vec<u8>>,
}

impl Proxy {
    /// Parses `http://[user:password@]host[:port]`. User and password may be percent-encoded.
    pub(in crate::git) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (login, authority) =
            rest.rsplit_once('@').map_or((None, rest), |(login, host)| (Some(login), host));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, 80),
        };
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let address = address.filter(|address| address.parse::<Ipv6Addr>().is_ok());
        let is_host = address.is_some() || !host.is_empty() && !host.contains(['/', ' ', ':']);
        let login = login.map(|login| percent_decode_str(login).collect());
        is_host.then(|| Self { host: address.unwrap_or(host).to_owned(), port, login })
    }

    /// Returns the proxy for a host from the environment (`HTTPS_PROXY` or `ALL_PROXY`, except for hosts in
    /// `NO_PROXY`).
    ///
    /// # Errors
    /// Fails if the value is not a proxy of this kind. Connections must not bypass a proxy that an
    /// administrator has set.
    pub(super) fn from_env(host: &str) -> Result<Option<Self>, String> {
        let variable = |name: &str| {
            let value = std::env::var(name).or_else(|_| std::env::var(name.to_lowercase())).ok();
            value.filter(|value| !value.is_empty())
        };
        let excepted = variable("NO_PROXY").unwrap_or_default();
        let named = ["HTTPS_PROXY", "ALL_PROXY"].into_iter().find_map(|name| Some((name, variable(name)?)));
        let Some((name, value)) = named.filter(|_| !is_excepted(&excepted, host)) else { return Ok(None) };
        Self::parse(&value).map(Some).ok_or_else(|| {
            format!(
                "the environment variable {name} of the operator is not http://[user:password@]host[:port], and git over https goes \
                 through no other proxy; set one, name {host} in NO_PROXY, or set the key proxy of the Secret"
            )
        })
    }

    /// Connects to a proxy that the administrator has set.
    pub(super) async fn reach(&self, session: &Session) -> Result<TcpStream, Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        stream.map_err(|e| session.unreachable(format!("proxy {}:{}: {e}", self.host, self.port)))
    }

    /// Connects to a proxy from a Secret. It must be on a host that repositories may be on.
    pub(super) async fn reach_as_repository(&self, session: &Session) -> Result<TcpStream, Error> {
        session.connect(&self.host, self.port).await.map_err(|error| match error {
            Error::Unreachable { reason, .. } => {
                session.unreachable(format!("proxy {}:{}: {reason}", self.host, self.port))
            }
            refused => refused,
        })
    }

    /// Opens a tunnel to an address through a connection to the proxy.
    pub(super) async fn connect(
        &self,
        session: &Session,
        mut stream: TcpStream,
        to: Address<'_>,
    ) -> Result<TcpStream, Error> {
        session.check_host(to.host)?;
        let failed =
            |reason: String| session.unreachable(format!("proxy {}:{}: {reason}", self.host, self.port));
        let target = format!("{}:{}", to.host, to.port);
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(login) = &self.login {
            request.push_str(&format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(login)));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await.map_err(|e| failed(e.to_string()))?;
        let mut answer = Vec::new();
        // Bytes after the response belong to the server, so read the response byte by byte.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > MAX_ANSWER {
                return Err(failed("its response is too long".into()));
            }
            answer.push(stream.read_u8().await.map_err(|e| failed(e.to_string()))?);
        }
        let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some("200") => Ok(stream),
            Some("407") => Err(failed("it refuses the user name and password of the proxy".into())),
            _ => Err(failed(line)),
        }
    }
}

/// Returns true if a list of names, addresses and networks contains a host.
fn is_excepted(list: &str, host: &str) -> bool {
    let list = list.replace("*.", ".");
    let all = Matcher::builder().all("http://proxy.invalid").no(list).build();
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let url = Uri::builder().scheme("https").authority(host).path_and_query("/").build();
    url.is_ok_and(|url| all.intercept(&url).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_host_and_perhaps_a_port_and_a_login() {
        let proxy = |host: &str, port, login: Option<&str>| {
            Some(Proxy { host: host.into(), port, login: login.map(|login| login.as_bytes().to_vec()) })
        };
        for (text, expected) in [
            ("http://proxy.example:3128/", proxy("proxy.example", 3128, None)),
            ("proxy.example", proxy("proxy.example", 80, None)),
            ("http://[fd00::1]:3128", proxy("fd00::1", 3128, None)),
            ("http://me:pw@proxy.example", proxy("proxy.example", 80, Some("me:pw"))),
            ("http://me:p%40%3Aw@proxy.example", proxy("proxy.example", 80, Some("me:p@:w"))),
        ] {
            assert!(Proxy::parse(text) == expected, "{text}");
        }
        for text in ["", "https://proxy.example", "socks5://proxy.example:1080", "http://proxy.example:x"] {
            assert!(Proxy::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn hosts_and_domains_are_excepted() {
        for host in ["git.example", "a.b.internal", "internal"] {
            assert!(is_excepted("git.example, .internal", host), "{host}");
        }
        for host in ["notgit.example", "git.example.org", "xinternal"] {
            assert!(!is_excepted("git.example, .internal", host), "{host}");
        }
        assert!(is_excepted("*", "anything"));
        assert!(is_excepted("*.internal", "a.internal"));
        assert!(is_excepted("10.0.0.0/8, fd00::/8", "10.1.2.3") && !is_excepted("10.0.0.0/8", "11.1.2.3"));
        assert!(is_excepted("fd00::/8", "fd00::7"));
    }
}
