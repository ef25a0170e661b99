use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::recorder::Recorder;
use crate::git::{Credentials, Egress, Error, Provider, Remote, StatusRequest};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hunter22hunter22";

fn request(provider: Provider, repository: &str, address: &str) -> StatusRequest {
    StatusRequest {
        provider,
        address: address.into(),
        repository: Remote::parse(repository).unwrap(),
        commit: COMMIT.into(),
        context: "wheelwright/0c9c2e41/config/fleet".into(),
        state: "failure".into(),
        description: "x".repeat(500),
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn send(request: &StatusRequest) -> Result<(), Error> {
    let data = BTreeMap::from([("token".to_owned(), ByteString(TOKEN.into()))]);
    let credentials = Credentials::from_secret(&data).unwrap();
    request.send(credentials, Egress::Anywhere, CancellationToken::new(), now())
}

#[test]
fn each_provider_gets_the_request_of_its_api() {
    let description = format!("{}…", "x".repeat(139));
    let name = "wheelwright/0c9c2e41/config/fleet";
    let common = json!({"state": "failure", "context": name, "description": description});
    let cases = [
        (
            Provider::GitHub,
            "https://github.com/acme/fleet.git",
            format!("/repos/acme/fleet/statuses/{COMMIT}"),
            ("authorization", format!("Bearer {TOKEN}")),
            "application/vnd.github+json",
            common.clone(),
        ),
        (
            Provider::Gitea,
            "git@git.example:acme/fleet.git",
            format!("/repos/acme/fleet/statuses/{COMMIT}"),
            ("authorization", format!("token {TOKEN}")),
            "application/json",
            common,
        ),
        (
            Provider::GitLab,
            "ssh://git@git.example:2222/acme/team/fleet.git",
            format!("/projects/acme%2Fteam%2Ffleet/statuses/{COMMIT}"),
            ("private-token", TOKEN.to_owned()),
            "application/json",
            json!({"state": "failed", "name": name, "description": description}),
        ),
    ];
    for (provider, repository, path, (login, secret), accept, body) in cases {
        let server = Recorder::start(&["201 Created\n\n{}"]);
        let address = format!("http://{}/api/", server.address);
        assert_eq!(send(&request(provider, repository, &address)), Ok(()));
        let seen = server.requests();
        let [seen] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!(seen.line, format!("POST /api{path} HTTP/1.1"));
        assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), body);
        let mut headers = seen.headers.clone();
        headers.remove("content-length");
        let expected = [
            (login, secret.as_str()),
            ("accept", accept),
            ("content-type", "application/json"),
            ("host", &server.address.to_string()),
            ("user-agent", concat!("git/wheelwright-", env!("CARGO_PKG_VERSION"))),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
}

#[test]
fn the_address_of_the_api_comes_from_the_repository() {
    let endpoint = |provider, repository: &str, address: &str| {
        let endpoint = request(provider, repository, address).endpoint();
        endpoint.map(|endpoint| endpoint.to_string().replace(COMMIT, "SHA")).map_err(|error| error.reason())
    };
    let taken = [
        (Provider::GitHub, "https://github.com/a/b", "", "https://api.github.com/repos/a/b/statuses/SHA"),
        (Provider::GitHub, "git@github.com:a/b.git", "", "https://api.github.com/repos/a/b/statuses/SHA"),
        (
            Provider::GitHub,
            "https://ghe.example/a/b",
            "",
            "https://ghe.example/api/v3/repos/a/b/statuses/SHA",
        ),
        (Provider::Gitea, "https://h:3000/a/b", "", "https://h:3000/api/v1/repos/a/b/statuses/SHA"),
        (
            Provider::Gitea,
            "https://h/git/a/b",
            "https://h/git/api/v1",
            "https://h/git/api/v1/repos/a/b/statuses/SHA",
        ),
        (
            Provider::GitLab,
            "ssh://git@h:2222/a/b/c.git",
            "",
            "https://h/api/v4/projects/a%2Fb%2Fc/statuses/SHA",
        ),
    ];
    for (provider, repository, address, expected) in taken {
        assert_eq!(endpoint(provider, repository, address).as_deref(), Ok(expected));
    }
    let refused = [
        ("/srv/config.git", ""),
        ("https://h/fleet", ""),
        ("https://h/a%2F..%2Fb/c", ""),
        ("https://h/../c", ""),
        ("https://h/a/b", "http://git.example/api/v1"),
        ("https://h/a/b", "/api"),
        ("https://h/a/b", "https://user:pw@h/api"),
        ("https://h/a/b", "https://h/api?x="),
    ];
    for (repository, address) in refused {
        assert_eq!(
            endpoint(Provider::Gitea, repository, address),
            Err("InvalidURL"),
            "{repository} {address}"
        );
    }
}

#[test]
fn a_response_says_whether_and_when_to_retry() {
    let until = |time: &str| format!("throttled until {time}");
    let soon = until("2026-01-02T03:05:05Z");
    let cases = [
        (Provider::GitHub, "200 OK\n\n", "set".to_owned()),
        (
            Provider::GitHub,
            "401 Unauthorized\n\n{\"message\": \"Bad credentials\"}",
            "SourceUnauthorized".into(),
        ),
        (Provider::GitHub, "403 Forbidden\n\n", "SourceUnauthorized".into()),
        (Provider::GitHub, "404 Not Found\n\n", "SourceUnauthorized".into()),
        (Provider::GitHub, "422 Unprocessable\n\n{\"message\": \"No commit found\"}", "rejected".into()),
        (Provider::GitHub, "429 Too Many Requests\n\n", soon.clone()),
        (Provider::GitHub, "429 Too Many Requests\nRetry-After: 7\n\n", until("2026-01-02T03:04:12Z")),
        (
            Provider::GitHub,
            "429 Too Many Requests\nRetry-After: 999999999\n\n",
            until("2026-01-02T04:04:05Z"),
        ),
        (Provider::GitHub, "403 Forbidden\nRetry-After: 60\n\n", soon.clone()),
        (
            Provider::GitHub,
            "403 Forbidden\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1767323105\n\n",
            soon.clone(),
        ),
        (Provider::Gitea, "503 Service Unavailable\nRetry-After: 60\n\n", soon),
        (Provider::Gitea, "500 Internal Server Error\n\n<html>", "SourceUnreachable".into()),
        (Provider::Gitea, "302 Found\nLocation: https://evil.example/\n\n", "SourceUnreachable".into()),
        (
            Provider::Gitea,
            "400 Bad Request\n\n{\"message\": \"Cannot transition status\"}",
            "rejected".into(),
        ),
        (
            Provider::GitLab,
            "400 Bad Request\n\n{\"message\": \"Cannot transition status via :enqueue from :pending\"}",
            "set".into(),
        ),
        (
            Provider::GitLab,
            "400 Bad Request\n\n{\"error\": \"state does not have a valid value\"}",
            "rejected".into(),
        ),
    ];
    for (provider, answer, expected) in cases {
        let server = Recorder::start(&[answer]);
        let address = format!("http://{}/api", server.address);
        let result = match send(&request(provider, "https://git.example/a/b", &address)) {
            Ok(()) => "set".to_owned(),
            Err(Error::Throttled { until, .. }) => format!("throttled until {until}"),
            Err(Error::StatusRejected { .. }) => "rejected".to_owned(),
            Err(error) => error.reason().to_owned(),
        };
        assert_eq!(result, expected, "{provider:?}: {answer}");
    }
}

#[test]
fn a_service_that_repeats_the_token_does_not_bring_it_into_a_message() {
    let answer = format!("422 Unprocessable\n\n{{\"message\": \"bad token of\\u001b[31m {TOKEN}\"}}");
    let server = Recorder::start(&[&answer]);
    let address = format!("http://{}/api", server.address);
    let error =
        send(&request(Provider::GitHub, "https://git.example/a/b", &address)).unwrap_err().to_string();
    assert!(error.contains("422") && error.contains("bad token of"), "{error}");
    assert!(!error.contains(TOKEN) && !error.contains('\u{1b}'), "{error}");
}
