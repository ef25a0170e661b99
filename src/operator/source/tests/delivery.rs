use serde_json::json;

use super::*;

const SECRET: &[u8] = b"0123456789abcdef";
const URL: &str = "https://git.example/team/fleet.git";

fn hex(body: &[u8], secret: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), body);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server's header, and its body for a push to `main`.
struct Server {
    name: &'static str,
    header: &'static str,
    value: fn(&[u8], &[u8]) -> String,
    body: Value,
}

fn servers() -> Vec<Server> {
    let prefixed = |body: &[u8], secret: &[u8]| format!("sha256={}", hex(body, secret));
    let server = |name, header, value, body| Server { name, header, value, body };
    let clone = json!({"clone_url": URL, "ssh_url": "git@git.example:team/fleet.git", "html_url": "https://git.example/team/fleet"});
    let gitlab = json!({"git_http_url": URL, "git_ssh_url": "git@git.example:team/fleet.git"});
    let cloud = json!({"links": {"html": {"href": "https://git.example/team/fleet"}}});
    let links = json!({"clone": [{"href": URL, "name": "http"}]});
    let main = "refs/heads/main";
    vec![
        server("GitHub", "x-hub-signature-256", prefixed, json!({"ref": main, "repository": clone})),
        server("Gitea", "x-gitea-signature", hex, json!({"ref": main, "repository": clone})),
        server("Forgejo", "x-forgejo-signature", hex, json!({"ref": main, "repository": clone})),
        server(
            "GitLab",
            "x-gitlab-token",
            |_, secret| String::from_utf8(secret.to_vec()).unwrap(),
            json!({"ref": main, "project": gitlab}),
        ),
        server(
            "Bitbucket Cloud",
            "x-hub-signature",
            prefixed,
            json!({"repository": cloud, "push": {"changes": [{"new": {"type": "branch", "name": "main"}, "old": null}]}}),
        ),
        server(
            "Bitbucket Data Center",
            "x-hub-signature",
            prefixed,
            json!({"repository": {"links": links}, "changes": [{"ref": {"id": main}}]}),
        ),
        server("any", "x-signature", prefixed, json!({"url": URL, "ref": main})),
    ]
}

fn branch(name: &str) -> GitRef {
    GitRef { branch: name.into(), ..GitRef::default() }
}

fn headers(name: &'static str, value: &str) -> HeaderMap {
    [(axum::http::HeaderName::from_static(name), value.parse().unwrap())].into_iter().collect()
}

#[test]
fn a_push_at_every_server_concerns_its_repository_and_reference() {
    for Server { name, header, value, body } in servers() {
        let body = body.to_string().into_bytes();
        let notice = open(&headers(header, &value(&body, SECRET)), &body, SECRET);
        let notice = notice.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(notice.concerns(URL, &branch("main")), "{name}: {notice:?}");
        assert!(
            notice.concerns("ssh://git@git.example:2222/team/fleet", &branch("main")),
            "{name}: {notice:?}"
        );
        assert!(!notice.concerns(URL, &branch("wheelwright/status")), "{name}: our own report");
        assert!(!notice.concerns("https://git.example/team/other", &branch("main")), "{name}");
        assert!(!notice.concerns("https://other.example/team/fleet", &branch("main")), "{name}");
    }
}

#[test]
fn a_delivery_without_the_right_proof_is_ignored() {
    for Server { name, header, value, body } in servers() {
        let body = body.to_string().into_bytes();
        let wrong = headers(header, &value(&body, b"another secret of 16"));
        assert!(open(&wrong, &body, SECRET).is_err(), "{name}: another secret");
        assert!(open(&HeaderMap::new(), &body, SECRET).is_err(), "{name}: no proof");
        assert!(open(&headers(header, ""), &body, SECRET).is_err(), "{name}: an empty proof");
        let short = open(&headers(header, &value(&body, b"")), &body, b"");
        assert!(short.unwrap_err().contains("less than 16 bytes"), "{name}: an empty secret");
        if header != TOKEN {
            let other = [&body[..], b" "].concat();
            assert!(
                open(&headers(header, &value(&body, SECRET)), &other, SECRET).is_err(),
                "{name}: other bytes"
            );
        }
    }
    let sha1 = headers("x-hub-signature", "sha1=0000000000000000000000000000000000000000");
    assert_eq!(open(&sha1, b"{}", SECRET), Err("its signature is not SHA-256 in hexadecimal digits"));
}

#[test]
fn a_body_of_another_shape_is_ignored() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "\"x\"",
        "{\"repository\": []}",
        "{\"ref\": {}, \"repository\": {\"clone_url\": 1}}",
        "{\"push\": {\"changes\": {\"new\": 1}}}",
        "{\"push\": {\"changes\": [{\"new\": null}, [], 1]}}",
        &deep,
    ];
    for body in bodies {
        let proof = headers("x-signature", &format!("sha256={}", hex(body.as_bytes(), SECRET)));
        let concerned =
            open(&proof, body.as_bytes(), SECRET).is_ok_and(|notice| notice.concerns(URL, &branch("main")));
        assert!(!concerned, "{}", body.get(..40).unwrap_or(body));
    }
}

#[test]
fn tags_concern_versions_and_a_named_commit_never_changes() {
    let notice = Notice { urls: vec![URL.into()], refs: vec!["refs/tags/v1.0.0".into()] };
    let tag = GitRef { tag: "v1.0.0".into(), ..GitRef::default() };
    let other = GitRef { tag: "v2.0.0".into(), ..GitRef::default() };
    let semver = GitRef { semver: "^1".into(), ..GitRef::default() };
    let commit = GitRef { commit: "0".repeat(40), ..GitRef::default() };
    let concerned = [&tag, &other, &semver, &commit, &branch("main")].map(|one| notice.concerns(URL, one));
    assert_eq!(concerned, [true, false, true, false, false]);
}

#[test]
fn any_bytes_are_a_delivery_or_ignored() {
    let seeds: Vec<Vec<u8>> = servers().iter().map(|server| server.body.to_string().into()).collect();
    let run = |bytes: &[u8]| {
        let proof = headers("x-signature", &format!("sha256={}", hex(bytes, SECRET)));
        if let Ok(notice) = open(&proof, bytes, SECRET) {
            let _ = notice.concerns(URL, &branch("main"));
        }
        if let Ok(value) = axum::http::HeaderValue::from_bytes(bytes) {
            for name in ["x-hub-signature-256", "x-gitea-signature", TOKEN] {
                let forged =
                    [(axum::http::HeaderName::from_static(name), value.clone())].into_iter().collect();
                assert!(open(&forged, b"{}", SECRET).is_err(), "{name}");
            }
        }
    };
    let words = ["{", "}", "[", "]", "\"", ":", ",", "null", "refs/heads/", "://", "sha256=", "+f"];
    crate::fuzz::Target { name: "delivery", run: &run, seeds: &seeds, words: &words }.fuzz();
}
