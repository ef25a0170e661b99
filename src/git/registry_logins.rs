//! Logins of registries and repositories of charts, from a Secret of the type `kubernetes.io/dockerconfigjson`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Logins as `USER:PASSWORD`, by host.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct RegistryLogins(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Config {
    auths: BTreeMap<String, Login>,
}

/// `auth` is `USER:PASSWORD` in base64, and takes precedence.
#[derive(Deserialize)]
struct Login {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl RegistryLogins {
    /// Parses a configuration of docker. The reason for a failure quotes none of it.
    pub(super) fn parse(config: &str) -> Result<Self, String> {
        let refused = |error: serde_json::Error| match error.is_data() {
            true => "it has no \"auths\"".to_owned(),
            false => format!("it is not JSON, at line {} column {}", error.line(), error.column()),
        };
        let Config { auths } = serde_json::from_str(config).map_err(refused)?;
        // docker leaves an entry empty if a credential helper has its login.
        let is_empty = |login: &Login| {
            [&login.auth, &login.username, &login.password].iter().all(|text| text.is_empty())
        };
        let stored = auths.into_iter().filter(|(_, login)| !is_empty(login));
        let logins = stored.map(|(address, Login { auth, username, password })| {
            if auth.is_empty() {
                return Ok((host_of(&address), format!("{username}:{password}")));
            }
            let login = STANDARD.decode(auth.trim()).ok().and_then(|login| String::from_utf8(login).ok());
            let login = login.filter(|login| login.contains(':') && !login.contains(char::is_control));
            Ok((host_of(&address), login.ok_or("an \"auth\" in it is not USER:PASSWORD in base64")?))
        });
        logins.collect::<Result<_, String>>().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the login for the host of an address.
    pub(super) fn login(&self, address: &str) -> Option<&str> {
        self.0.get(&host_of(address)).map(String::as_str)
    }

    /// Returns all logins.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }
}

/// Returns the host of an address such as `https://index.docker.io/v1/`, with the port if there is one.
pub(super) fn host_of(address: &str) -> String {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = address.split('/').next().unwrap_or_default().to_ascii_lowercase();
    match host.as_str() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".into(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_for_the_registry_that_it_names() {
        let config = r#"{"auths": {"https://index.docker.io/v1/": {"auth": "bWU6aHVudGVyMjI="},
            "Registry.example:5000/team": {"username": "a", "password": "b"}, "helper.example": {}}}"#;
        let logins = RegistryLogins::parse(config).unwrap();
        for (address, expected) in [
            ("docker.io/me/fleet", Some("me:hunter22")),
            ("registry.example:5000/x", Some("a:b")),
            ("registry.example/x", None),
            ("helper.example/x", None),
            ("https://docker.io@evil.example/x", None),
        ] {
            assert_eq!(logins.login(address), expected, "{address}");
        }
        for config in ["", "{}", r#"{"auths": {"a": {"auth": "evil"}}}"#] {
            assert!(!RegistryLogins::parse(config).err().unwrap().contains("evil"), "{config}");
        }
    }
}
