use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use ring::signature::{KeyPair as _, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_util::sync::CancellationToken;

use super::forge::Forge;
use super::recorder::Recorder;
use super::web::{App, Behavior, Web};
use crate::git::{Credentials, Egress, Error, History, Mirror, Provider, RefSpec, Remote, StatusRequest};

/// Returns a new key, in the format that GitHub offers for download, and its public half.
fn key(forge: &Forge, name: &str) -> (String, Vec<u8>) {
    let file = forge.root().join(name);
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"]).arg(&file);
    assert!(command.status().expect("ssh-keygen is installed").success());
    let pem = std::fs::read_to_string(file).unwrap();
    let PrivateKeyDer::Pkcs1(der) = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap() else {
        panic!("{pem}")
    };
    let public = RsaKeyPair::from_der(der.secret_pkcs1_der()).unwrap().public_key().as_ref().to_vec();
    (pem, public)
}

struct Server {
    forge: Forge,
    web: Web,
    key: String,
    now: Timestamp,
}

impl Server {
    /// Returns a server that issues tokens with a given lifetime to app 7, installation 42.
    fn start(lifetime: i64) -> Self {
        let forge = Forge::new();
        let (key, public_key) = key(&forge, "app-key");
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let authorization = Some(format!("Basic {}", STANDARD.encode("x-access-token:ghs_1")));
        let app = Some(App { public_key, lifetime, now });
        let web = Web::start(&forge, Behavior { authorization, app, ..Behavior::default() });
        Self { forge, web, key, now }
    }

    fn credentials(&self, key: &str, now: Timestamp) -> Credentials {
        let api = format!("https://{}/api/v3", self.web.address);
        let keys = [
            ("githubAppID", "7"),
            ("githubAppInstallationID", "42"),
            ("githubAppPrivateKey", key),
            ("githubAppBaseURL", api.as_str()),
        ];
        self.web.credentials(&keys).at(now)
    }

    fn fetch(&self, mirror: &mut Mirror, key: &str, now: Timestamp) -> Result<String, Error> {
        mirror.set_credentials(self.credentials(key, now))?;
        let checkout = mirror.fetch(&RefSpec::branch("main").unwrap(), History::default())?;
        Ok(checkout.revision.clone())
    }

    fn issued(&self) -> usize {
        self.web.requests().iter().filter(|seen| seen.line.contains("/access_tokens ")).count()
    }
}

#[test]
fn a_github_app_fetches_with_a_token_that_it_asks_for_once() {
    let server = Server::start(3600);
    let mut mirror = server.forge.mirror("cache", &server.web.url);
    for content in ["1", "2"] {
        let commit = server.forge.commit("main", &[("a", content)]);
        assert_eq!(server.fetch(&mut mirror, &server.key, server.now), Ok(commit));
    }
    assert_eq!(server.issued(), 1);
}

#[test]
fn a_token_is_replaced_before_it_expires() {
    let server = Server::start(3600);
    let mut mirror = server.forge.mirror("cache", &server.web.url);
    server.forge.commit("main", &[("a", "1")]);
    server.fetch(&mut mirror, &server.key, server.now).unwrap();
    let later = |minutes| server.now + SignedDuration::from_mins(minutes);
    server.fetch(&mut mirror, &server.key, later(49)).unwrap();
    assert_eq!(server.issued(), 1);
    // The server's clock does not move, so it rejects the proof of an hour later. The test only needs the proof
    // to be sent.
    let refused = server.fetch(&mut mirror, &server.key, later(51)).unwrap_err();
    assert_eq!((server.issued(), matches!(refused, Error::Auth { .. })), (2, true), "{refused}");
}

#[test]
fn a_token_that_a_server_refuses_is_replaced_within_the_fetch() {
    let server = Server::start(3600);
    let mut mirror = server.forge.mirror("cache", &server.web.url);
    let commit = server.forge.commit("main", &[("a", "1")]);
    let credentials = server.credentials(&server.key, server.now);
    let ends = server.now + SignedDuration::from_hours(1);
    credentials.github_app().unwrap().keep("ghs_0".into(), ends);
    mirror.set_credentials(credentials).unwrap();
    let fetched = mirror.fetch(&RefSpec::branch("main").unwrap(), History::default()).unwrap();
    assert_eq!((fetched.revision.as_str(), server.issued()), (commit.as_str(), 1));
}

#[test]
fn another_key_of_the_app_gets_no_token_and_the_message_says_what_to_check() {
    let server = Server::start(3600);
    let mut mirror = server.forge.mirror("cache", &server.web.url);
    server.forge.commit("main", &[("a", "1")]);
    let (wrong, _) = key(&server.forge, "wrong-key");
    let error = server.fetch(&mut mirror, &wrong, server.now).unwrap_err().to_string();
    assert!(
        error.contains("401 Unauthorized for the GitHub App; check its id, its installation and its key"),
        "{error}"
    );
    assert!(!error.contains("PRIVATE KEY"), "{error}");
    assert!(server.fetch(&mut mirror, &server.key, server.now).is_ok());
}

#[test]
fn a_service_that_repeats_the_token_of_an_app_does_not_bring_it_into_a_message() {
    let issued = r#"{"token": "ghs_hunter22", "expires_at": "2026-01-02T04:04:05Z"}"#;
    let answers = [
        format!("201 Created\n\n{issued}"),
        "422 Unprocessable\n\n{\"message\": \"bad ghs_hunter22\"}".to_owned(),
    ];
    let server = Recorder::start(&answers.each_ref().map(String::as_str));
    let address = format!("http://{}/api", server.address);
    let (key, _) = key(&Forge::new(), "app-key");
    let keys = [
        ("githubAppID", "7"),
        ("githubAppInstallationID", "42"),
        ("githubAppPrivateKey", &key),
        ("githubAppBaseURL", &address),
    ];
    let data = keys.map(|(name, value)| (name.to_owned(), ByteString(value.into())));
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let credentials = Credentials::from_secret(&BTreeMap::from(data)).unwrap().at(now);
    let request = StatusRequest {
        provider: Provider::GitHub,
        address: address.clone(),
        repository: Remote::parse("https://git.example/acme/fleet").unwrap(),
        commit: "0123456789abcdef0123456789abcdef01234567".into(),
        context: "wheelwright".into(),
        state: "success".into(),
        description: String::new(),
    };
    let error = request.send(credentials, Egress::Anywhere, CancellationToken::new(), now).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("422") && error.contains("bad [redacted]"), "{error}");
}
