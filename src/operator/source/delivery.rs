//! Parses webhooks from git servers, but only after verifying their raw bytes.
//!
//! | server | proof | header |
//! |---|---|---|
//! | GitHub | HMAC-SHA-256 of the body | `X-Hub-Signature-256: sha256=HEX` |
//! | Gitea, Forgejo | the same | `X-Gitea-Signature: HEX`, `X-Forgejo-Signature: HEX` |
//! | Bitbucket | the same | `X-Hub-Signature: sha256=HEX` |
//! | any | the same | `X-Signature: sha256=HEX` |
//! | GitLab | the secret itself | `X-Gitlab-Token: SECRET` |

use axum::http::HeaderMap;
use ring::hmac::{self, HMAC_SHA256};
use serde_json::Value;

use crate::git::Remote;
use api::gitops::v1alpha1::GitRef;

/// The minimum length of a secret in bytes. A shorter one can be guessed.
const MIN_SECRET: usize = 16;

/// The headers with an HMAC in order of precedence. The bool is true if the value starts with the name of the
/// hash.
const SIGNATURES: [(&str, bool); 5] = [
    ("x-hub-signature-256", true),
    ("x-gitea-signature", false),
    ("x-forgejo-signature", false),
    ("x-signature", true),
    ("x-hub-signature", true),
];
const TOKEN: &str = "x-gitlab-token";

/// The fields of a body with URLs of the repository, for all servers.
const URLS: [&str; 15] = [
    "/url",
    "/repository/clone_url",
    "/repository/ssh_url",
    "/repository/git_url",
    "/repository/html_url",
    "/repository/url",
    "/repository/git_http_url",
    "/repository/git_ssh_url",
    "/repository/homepage",
    "/repository/links/html/href",
    "/project/git_http_url",
    "/project/git_ssh_url",
    "/project/http_url",
    "/project/ssh_url",
    "/project/web_url",
];

/// The content of a verified delivery. It only triggers a fetch: the operator applies none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notice {
    urls: Vec<String>,
    refs: Vec<String>,
}

/// Verifies and parses a delivery. The error is the reason to ignore it.
pub(super) fn open(headers: &HeaderMap, body: &[u8], secret: &[u8]) -> Result<Notice, &'static str> {
    if secret.len() < MIN_SECRET {
        return Err("the token of the Secret has less than 16 bytes");
    }
    verify(headers, body, secret)?;
    let body: Value = serde_json::from_slice(body).map_err(|_| "its body is not JSON")?;
    Ok(Notice { urls: urls(&body), refs: refs(&body) })
}

/// Compares in constant time. The first known header in the request decides.
fn verify(headers: &HeaderMap, body: &[u8], secret: &[u8]) -> Result<(), &'static str> {
    let key = hmac::Key::new(HMAC_SHA256, secret);
    for (name, has_prefix) in SIGNATURES {
        let Some(value) = headers.get(name) else { continue };
        let value = value.to_str().map_err(|_| "its signature is not text")?;
        let digits = if has_prefix { value.strip_prefix("sha256=") } else { Some(value) };
        let tag = digits.and_then(bytes_of).ok_or("its signature is not SHA-256 in hexadecimal digits")?;
        return hmac::verify(&key, body, &tag).map_err(|_| "its signature is wrong");
    }
    let token = headers.get(TOKEN).ok_or("it has no signature")?;
    hmac::verify(&key, token.as_bytes(), hmac::sign(&key, secret).as_ref()).map_err(|_| "its token is wrong")
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs
        .map(|pair| pair.filter(|pair| pair.len() == 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}

fn urls(body: &Value) -> Vec<String> {
    let known = URLS.iter().filter_map(|pointer| body.pointer(pointer));
    let clones = items(body, "/repository/links/clone").filter_map(|link| link.get("href"));
    known.chain(clones).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn refs(body: &Value) -> Vec<String> {
    let one = body.pointer("/ref").and_then(Value::as_str).map(str::to_owned);
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let of_cloud = items(body, "/push/changes").flat_map(|change| {
        let sides = ["new", "old"].into_iter().filter_map(|side| change.get(side));
        sides.filter_map(|side| {
            let kind = if text(side, "type")? == "tag" { "tags" } else { "heads" };
            Some(format!("refs/{kind}/{}", text(side, "name")?))
        })
    });
    let of_server = items(body, "/changes").filter_map(|change| text(change.get("ref")?, "id"));
    one.into_iter().chain(of_cloud).chain(of_server).collect()
}

fn items<'a>(body: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    body.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

impl Notice {
    /// Returns true if a repository and reference may have changed. A delivery without a reference applies to
    /// all.
    pub(super) fn concerns(&self, url: &str, reference: &GitRef) -> bool {
        let Ok(ours) = Remote::parse(url) else { return false };
        let is_ours = |url: &String| Remote::parse(url).is_ok_and(|theirs| theirs.is_same_place(&ours));
        let GitRef { branch, tag, semver, commit, digest: _, unknown: _ } = reference;
        let is_followed = |name: &String| match (semver.as_str(), tag.as_str()) {
            ("", "") => {
                name.strip_prefix("refs/heads/") == Some(if branch.is_empty() { "main" } else { branch })
            }
            ("", tag) => name.strip_prefix("refs/tags/") == Some(tag),
            _ => name.starts_with("refs/tags/"),
        };
        // A pinned commit does not change.
        commit.is_empty()
            && self.urls.iter().any(is_ours)
            && (self.refs.is_empty() || self.refs.iter().any(is_followed))
    }
}

#[cfg(test)]
#[path = "tests/delivery.rs"]
mod tests;
