//! Credentials of a remote, read from a Secret.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::Error;
use super::github::{AppKeys, GithubApp};
use super::known_hosts::KnownHosts;
use super::registry_logins::RegistryLogins;
use super::remote::{Remote, Transport};
use super::transport::Proxy;
use object::text::REDACTED;

/// The minimum length in bytes of a value that is redacted. Shorter values occur in ordinary words.
const SHORTEST_SECRET: usize = 6;

/// The secrets that prove our identity to a remote, and the host keys that prove the remote's identity. The
/// keys of the Secret are described in docs/git-access.md, "Private repositories" and "GitHub Apps".
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    username: Option<String>,
    password: Option<String>,
    bearer: Option<String>,
    github_app: Option<GithubApp>,
    ssh_key: Option<String>,
    known_hosts: KnownHosts,
    authorities: Option<String>,
    client_certificate: Option<(String, String)>,
    /// The host that may see the client certificate in a download, with its port if it has one.
    certified_host: Option<String>,
    proxy: Option<Proxy>,
    registries: RegistryLogins,
}

/// Shows which fields are set, but never their values.
impl Debug for Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { username, password, bearer, github_app, ssh_key, known_hosts, authorities, .. } = self;
        let Self { client_certificate, proxy, registries, .. } = self;
        f.debug_struct("Credentials")
            .field("username", &username.is_some())
            .field("password", &password.is_some())
            .field("bearer", &bearer.is_some())
            .field("github_app", &github_app.is_some())
            .field("ssh_key", &ssh_key.is_some())
            .field("known_hosts", &!known_hosts.is_empty())
            .field("authorities", &authorities.is_some())
            .field("client_certificate", &client_certificate.is_some())
            .field("proxy", &proxy.is_some())
            .field("registries", &!registries.is_empty())
            .finish()
    }
}

impl Credentials {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key of the Secret, but never its value.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let field = |names: &[&str]| -> Result<Option<String>, Error> {
            let Some((name, value)) = names.iter().find_map(|name| Some((name, data.get(*name)?))) else {
                return Ok(None);
            };
            let text = std::str::from_utf8(&value.0)
                .map_err(|_| Error::Credentials(format!("key {name} of the Secret is not text")))?;
            Ok(Some(text.to_owned()))
        };
        let line = |names: &[&str]| -> Result<Option<String>, Error> {
            let Some(text) = field(names)? else { return Ok(None) };
            let text = text.trim_end_matches(['\r', '\n']);
            // A line break would end the header or the credential helper line that contains the value
            // (CVE-2020-5260).
            if text.is_empty() || text.contains(|c: char| c.is_control()) {
                return Err(Error::Credentials(format!(
                    "key {} of the Secret is empty or contains control characters",
                    names.join(" or ")
                )));
            }
            Ok(Some(text.to_owned()))
        };
        let known_hosts = field(&["known_hosts"])?.unwrap_or_default();
        let client_certificate = match (field(&["tls.crt"])?, field(&["tls.key"])?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::Credentials("the Secret has only one of tls.crt and tls.key".into())),
        };
        let proxy = line(&["proxy"])?.map(|url| {
            let reason = "key proxy of the Secret is not http://[user:password@]host:port";
            Proxy::parse(&url).ok_or_else(|| Error::Credentials(reason.into()))
        });
        let github_app = match ["githubAppID", "githubAppInstallationID"].map(|name| line(&[name])) {
            [Ok(None), Ok(None)] => None,
            [app, installation] => {
                let missing = "githubAppID, githubAppInstallationID and githubAppPrivateKey belong together";
                let missing = || Error::Credentials(format!("the Secret lacks a key: {missing}"));
                Some(GithubApp::read(AppKeys {
                    app: app?.ok_or_else(missing)?,
                    installation: installation?.ok_or_else(missing)?,
                    private_key: field(&["githubAppPrivateKey"])?.ok_or_else(missing)?,
                    api: line(&["githubAppBaseURL"])?,
                })?)
            }
        };
        let credentials = Self {
            github_app,
            username: line(&["username"])?,
            password: line(&["token", "password"])?,
            bearer: line(&["bearerToken"])?,
            ssh_key: field(&["ssh-privatekey", "identity"])?,
            known_hosts: KnownHosts::parse(&known_hosts)
                .map_err(|e| Error::Credentials(format!("key known_hosts of the Secret: {e}")))?,
            authorities: field(&["ca.crt"])?,
            client_certificate,
            certified_host: None,
            proxy: proxy.transpose()?,
            registries: match field(&[".dockerconfigjson"])? {
                Some(config) => RegistryLogins::parse(&config).map_err(|reason| {
                    Error::Credentials(format!("key .dockerconfigjson of the Secret: {reason}"))
                })?,
                None => RegistryLogins::default(),
            },
        };
        let Self { password, ssh_key, authorities, client_certificate, proxy, .. } = &credentials;
        let has_login =
            password.is_some() || credentials.github_app.is_some() || !credentials.registries.is_empty();
        let is_empty = !has_login && ssh_key.is_none() && authorities.is_none();
        if is_empty && client_certificate.is_none() && proxy.is_none() {
            let keys = "password, token, githubAppID, .dockerconfigjson, ca.crt, tls.crt with tls.key, proxy, or ssh-privatekey with known_hosts";
            return Err(Error::Credentials(format!("the credentials Secret has none of the keys {keys}")));
        }
        Ok(credentials)
    }

    /// Sets the time at which tokens must be valid.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        if let Some(app) = &mut self.github_app {
            app.at(now);
        }
        self
    }

    /// Reuses the token that was issued for an earlier read of the same Secret.
    pub(super) fn keep_token_of(&mut self, before: &Self) {
        if let (Some(app), Some(before)) = (&mut self.github_app, &before.github_app) {
            app.keep_token_of(before);
        }
    }

    /// Returns the certificate authorities and the proxy only, for other servers than the remote.
    pub(crate) fn without_login(&self) -> Self {
        let (authorities, proxy) = (self.authorities.clone(), self.proxy.clone());
        Self { authorities, proxy, ..Self::default() }
    }

    /// Lets downloads from a host use the client certificate.
    #[must_use]
    pub(super) fn certified_for(self, host: Option<String>) -> Self {
        Self { certified_host: host, ..self }
    }

    /// Returns what downloads from a host use: the certificate authorities, the proxy, and the client certificate if it
    /// is for this host.
    pub(super) fn for_download(&self, host: Option<String>) -> Self {
        let is_certified = host.is_some() && host == self.certified_host;
        let client_certificate = self.client_certificate.clone().filter(|_| is_certified);
        Self { client_certificate, ..self.without_login() }
    }

    /// Reads the certificates and the proxy in the Secret of a receiver of notifications.
    ///
    /// # Errors
    /// As [`Credentials::from_secret`].
    pub(super) fn for_receiver(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let is_used = |key: &str| matches!(key, "ca.crt" | "tls.crt" | "tls.key" | "proxy");
        let data: BTreeMap<_, _> = data
            .iter()
            .filter(|(key, _)| is_used(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if data.is_empty() { Ok(Self::default()) } else { Self::from_secret(&data) }
    }

    /// Reads the data of a Secret for charts: the logins of hosts, the certificate authorities and the proxy. If it has
    /// no authorities or no proxy, `repository` supplies them.
    ///
    /// # Errors
    /// Returns [`Error::Credentials`] if it has none of them. A commit names the repositories of charts, so a login
    /// without a host could be sent anywhere.
    pub(crate) fn for_charts(data: &BTreeMap<String, ByteString>, repository: &Self) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Credentials(format!("spec.charts.secretRef: {reason}"));
        let charts = Self::from_secret(data).map_err(|error| refuse(&error.to_string()))?;
        let Self { authorities, proxy, registries, .. } = charts;
        if authorities.is_none() && proxy.is_none() && registries.is_empty() {
            let reason = "the Secret has no login that names its host; create it with kubectl create secret docker-registry";
            return Err(refuse(reason));
        }
        Ok(Self {
            authorities: authorities.or_else(|| repository.authorities.clone()),
            proxy: proxy.or_else(|| repository.proxy.clone()),
            registries,
            ..Self::default()
        })
    }

    /// Returns the GitHub App of the Secret.
    pub(super) fn github_app(&self) -> Option<&GithubApp> {
        self.github_app.as_ref()
    }

    /// Checks that the credentials for a remote are set, before any connection.
    pub(super) fn check(&self, remote: &Remote) -> Result<(), Error> {
        match remote.transport() {
            Transport::Ssh { .. } if self.ssh_key.is_none() => Err(Error::Credentials(format!(
                "{remote} needs a credentials Secret with the keys ssh-privatekey and known_hosts"
            ))),
            Transport::Ssh { .. } if self.known_hosts.has_only_authorities() => {
                Err(Error::Credentials(format!(
                    "known_hosts of the credentials Secret for {remote} has only lines of @cert-authority, and certificates of hosts are not supported; add the host keys themselves"
                )))
            }
            Transport::Ssh { host, port, .. } if self.known_hosts.is_empty() => {
                Err(Error::Credentials(format!(
                    "the credentials Secret for {remote} has no known_hosts, and an unknown host is never trusted; \
                 add the output of `ssh-keyscan -p {port} {host}`, checked against what the host publishes"
                )))
            }
            Transport::Ssh { .. } | Transport::Net { .. } | Transport::Local(_) => Ok(()),
        }
    }

    /// Returns the value of the `Authorization` header, if there are credentials for https.
    pub(super) fn authorization(&self) -> Option<String> {
        match &self.bearer {
            Some(token) => Some(format!("Bearer {token}")),
            None => self.login().map(|login| format!("Basic {}", STANDARD.encode(login))),
        }
    }

    /// Returns the value of the `Authorization` header for the registry of the configuration. `address` is its host,
    /// with a path.
    pub(super) fn login_for(&self, address: &str) -> Option<String> {
        self.login_of_host(address).or_else(|| self.authorization())
    }

    /// Returns the value of the `Authorization` header for the host of an address, if there is a login for this host.
    pub(super) fn login_of_host(&self, address: &str) -> Option<String> {
        self.registries.login(address).map(|login| format!("Basic {}", STANDARD.encode(login)))
    }

    fn login(&self) -> Option<String> {
        let password = self.password.as_deref()?;
        Some(format!("{}:{password}", self.username.as_deref().unwrap_or("git")))
    }

    /// Redacts the tokens, passwords and logins sent to a server, which may repeat them in its response.
    pub(super) fn hide(&self, text: &str) -> String {
        let app = self.github_app.as_ref();
        let logins = [self.login(), app.and_then(GithubApp::login)];
        let tokens = [self.password.clone(), self.bearer.clone(), app.and_then(GithubApp::token)];
        let passwords = |login: &str| {
            [Some(login.to_owned()), login.split_once(':').map(|(_, password)| password.to_owned())]
        };
        let values =
            logins.into_iter().chain(tokens).chain(self.registries.all().flat_map(passwords)).flatten();
        values.filter(|value| value.len() >= SHORTEST_SECRET).fold(text.to_owned(), |text, value| {
            text.replace(&STANDARD.encode(&value), REDACTED).replace(&value, REDACTED)
        })
    }

    /// Returns the token or password for https.
    pub(super) fn token(&self) -> Option<&str> {
        self.bearer.as_deref().or(self.password.as_deref())
    }

    /// Returns the key for ssh and its passphrase.
    pub(super) fn ssh_key(&self) -> (&str, Option<&str>) {
        (self.ssh_key.as_deref().unwrap_or_default(), self.password.as_deref())
    }

    pub(super) fn known_hosts(&self) -> &KnownHosts {
        &self.known_hosts
    }

    /// Returns the certificates of the authorities that the server's certificate is verified against.
    pub(super) fn authorities(&self) -> Option<&str> {
        self.authorities.as_deref()
    }

    /// Returns the certificate that proves our identity, and its key.
    pub(super) fn client_certificate(&self) -> Option<(&str, &str)> {
        self.client_certificate.as_ref().map(|(certificate, key)| (certificate.as_str(), key.as_str()))
    }

    pub(super) fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn data(keys: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        keys.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec()))).collect()
    }

    fn secret(keys: &[(&str, &str)]) -> Result<Credentials, Error> {
        Credentials::from_secret(&data(keys))
    }

    #[test]
    fn a_secret_names_the_key_that_is_missing_or_wrong() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "none of the keys"),
            (&[("username", "me")], "none of the keys"),
            (&[("tls.crt", "x")], "only one of tls.crt and tls.key"),
            (&[("githubAppID", "1")], "belong together"),
            (
                &[("githubAppID", "1"), ("githubAppInstallationID", "../2"), ("githubAppPrivateKey", "x")],
                "githubAppInstallationID of the Secret is not a number",
            ),
            (
                &[("githubAppID", "1"), ("githubAppInstallationID", "2"), ("githubAppPrivateKey", "x")],
                "it is not a PEM key",
            ),
            (&[("proxy", "socks5://x:1")], "key proxy of the Secret"),
            (&[("password", "a\nhost=evil")], "key token or password"),
            (&[("ssh-privatekey", "k"), ("known_hosts", "nonsense")], "known_hosts of the Secret: line 1"),
        ];
        for (data, part) in cases {
            let message = secret(data).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains("evil"));
        }
    }

    #[test]
    fn the_docs_have_the_keys_of_a_secret_and_no_others() {
        let between = |text: &'static str, from: &str, to: &str| {
            text.split_once(from).unwrap().1.split_once(to).unwrap().0
        };
        let read = between(include_str!("credentials.rs"), "pub fn from_secret", "    /// Sets the time");
        let literals = read.split('"').skip(1).step_by(2);
        let keys: BTreeSet<&str> =
            literals.filter(|text| !text.is_empty() && !text.contains(char::is_whitespace)).collect();
        let page = include_str!("../../docs/git-access.md");
        let page = between(page, "\n## Private repositories\n", "\n## Servers\n");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let documented: BTreeSet<&str> = rows.flat_map(|(key, _)| key.split('`').step_by(2)).collect();
        assert_eq!(keys, documented);
        assert!(keys.contains("known_hosts") && keys.len() == 16, "{keys:?}");
    }

    #[test]
    fn ssh_without_known_hosts_never_connects() {
        let remote = Remote::parse("git@git.example:x").unwrap();
        let error = secret(&[("identity", "key")]).unwrap().check(&remote).unwrap_err();
        assert!(error.to_string().contains("ssh-keyscan -p 22 git.example"), "{error}");
        assert!(Credentials::default().check(&remote).is_err());
        assert!(Credentials::default().check(&Remote::parse("https://git.example/x").unwrap()).is_ok());
    }

    #[test]
    fn host_certificates_are_not_supported_and_the_message_says_so() {
        let known = "@cert-authority *.example ssh-ed25519 AAAA";
        let credentials = secret(&[("identity", "key"), ("known_hosts", known)]).unwrap();
        let error = credentials.check(&Remote::parse("git@git.example:x").unwrap()).unwrap_err();
        assert!(error.to_string().contains("add the host keys themselves"), "{error}");
    }

    #[test]
    fn values_of_a_secret_are_never_shown() {
        let parts = [
            ("token", "hunter22"),
            ("bearerToken", "hunter22"),
            ("ssh-privatekey", "hunter22"),
            ("tls.crt", "hunter22"),
            ("tls.key", "hunter22"),
            ("proxy", "http://me:hunter22@proxy.example"),
        ];
        let shown = format!("{:?}", secret(&parts).unwrap());
        assert!(!shown.contains("hunter22") && shown.contains("proxy: true"), "{shown}");
    }

    #[test]
    fn secrets_repeated_by_a_server_are_hidden() {
        let credentials = secret(&[("username", "me"), ("password", "hunter22")]).unwrap();
        let header = credentials.authorization().unwrap();
        let encoded = STANDARD.encode("hunter22");
        let text = format!("no hunter22 here, me:hunter22, {header}, {encoded}");
        assert_eq!(credentials.hide(&text), "no [redacted] here, [redacted], Basic [redacted], [redacted]");
        let short = secret(&[("password", "no")]).unwrap();
        assert_eq!(short.hide("no note"), "no note");
        let config = r#"{"auths": {"registry.example": {"username": "me", "password": "hunter22"}}}"#;
        let host = secret(&[(".dockerconfigjson", config)]).unwrap();
        assert_eq!(host.hide(&text), "no [redacted] here, [redacted], Basic [redacted], [redacted]");
    }

    #[test]
    fn a_download_uses_the_client_certificate_only_for_its_own_host() {
        let keys = [("tls.crt", "x"), ("tls.key", "y"), ("ca.crt", "a"), ("password", "hunter22")];
        let [own, other] = ["registry.example:5000", "registry.example"].map(|host| Some(host.to_owned()));
        let certified = secret(&keys).unwrap().certified_for(own.clone());
        assert_eq!(certified.for_download(own.clone()).client_certificate(), Some(("x", "y")));
        for (credentials, host) in [(&certified, other), (&certified, None), (&secret(&keys).unwrap(), None)]
        {
            assert_eq!(credentials.for_download(host).client_certificate(), None);
        }
        let download = certified.for_download(own);
        assert_eq!((download.authorities(), download.authorization()), (Some("a"), None));
    }

    #[test]
    fn a_secret_for_charts_has_logins_of_hosts_and_what_it_lacks_is_that_of_the_repository() {
        let repository =
            secret(&[("password", "hunter22"), ("ca.crt", "a"), ("proxy", "a.example:1")]).unwrap();
        let config = r#"{"auths": {"registry.example": {"username": "me", "password": "hunter22"}}}"#;
        let charts = data(&[(".dockerconfigjson", config), ("ca.crt", "b"), ("token", "t")]);
        let merged = Credentials::for_charts(&charts, &repository).unwrap();
        assert_eq!(merged.authorities(), Some("b"));
        assert!(merged.proxy() == repository.proxy());
        assert!(merged.login_of_host("registry.example/x").is_some());
        assert_eq!((merged.authorization(), merged.login_of_host("charts.example/x")), (None, None));
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("username", "me"), ("password", "hunter22")], "no login that names its host"),
            (&[("user", "me"), ("pass", "hunter22")], "none of the keys password"),
            (
                &[(".dockerconfigjson", "hunter22")],
                "key .dockerconfigjson of the Secret: it is not JSON, at line 1 column 1",
            ),
            (
                &[(".dockerconfigjson", r#"{"user": "hunter22"}"#)],
                "key .dockerconfigjson of the Secret: it has no \"auths\"",
            ),
        ];
        for (keys, expected) in cases {
            let message = Credentials::for_charts(&data(keys), &repository).unwrap_err().to_string();
            assert!(message.starts_with("spec.charts.secretRef: "), "{message}");
            assert!(message.contains(expected) && !message.contains("hunter22"), "{message}");
        }
    }
}
