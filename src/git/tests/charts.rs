//! Downloads of charts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::forge::Forge;
use super::web::{Behavior, Page, Web};
use crate::git::{ChartSource, Downloads, Egress, Error};
use object::hex;

const ARCHIVE: &[u8] = b"an archive, which is not read here";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The login `me:hunter22` in base64.
const LOGIN: &str = "Basic bWU6aHVudGVyMjI=";

pub(crate) fn page(path: &str, body: impl Into<Vec<u8>>) -> Page {
    Page { path: path.to_owned(), head: "200 OK".into(), body: body.into(), ..Page::default() }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(Sha256::digest(bytes)))
}

/// A server of charts with these pages.
struct Server {
    _forge: Forge,
    web: Web,
    pages: Arc<Mutex<Vec<Page>>>,
}

impl Server {
    fn start(pages: Vec<Page>) -> Self {
        let (forge, pages) = (Forge::new(), Arc::new(Mutex::new(pages)));
        let behavior = Behavior {
            pages: Arc::clone(&pages),
            names: vec!["127.0.0.1", "localhost"],
            ..Behavior::default()
        };
        let web = Web::start(&forge, behavior);
        Self { _forge: forge, web, pages }
    }

    /// Fetches version 1.2.3 of the chart `web` from a repository on this server.
    fn fetch_with(&self, scheme: &str, egress: Egress) -> Result<Vec<u8>, String> {
        let reference = format!("{scheme}://{}/charts/web:1.2.3+a", self.web.address);
        let access = Downloads {
            credentials: self.web.credentials(&[("password", "secret password")]),
            egress,
            cancel: CancellationToken::new(),
            arrivals: Arc::default(),
        };
        let source = ChartSource::parse(&reference).unwrap();
        assert_eq!(source.to_string(), reference);
        let fetched = source.fetch(&access).map_err(|error| error.to_string());
        let sent =
            self.web.requests().into_iter().filter_map(|seen| seen.headers.get("authorization").cloned());
        assert!(sent.into_iter().all(|login| login == "Bearer t"), "the login of the repository is not sent");
        fetched
    }

    /// Fetches the chart with a login for these hosts of the server, which the operator names.
    fn fetch_as(&self, scheme: &str, hosts: &[&str], password: &str) -> Result<Vec<u8>, Error> {
        let port = self.web.address.port();
        let login = json!({"username": "me", "password": password});
        let auths = hosts.iter().map(|host| (format!("{host}:{port}"), login.clone()));
        let config = json!({"auths": auths.collect::<serde_json::Map<_, _>>()}).to_string();
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let access = Downloads {
            credentials: self.web.credentials(&[(".dockerconfigjson", &config), ("password", "of git")]),
            egress: Egress::Hosts { names, loopback: true },
            cancel: CancellationToken::new(),
            arrivals: Arc::default(),
        };
        let reference = format!("{scheme}://{}/charts/web:1.2.3+a", self.web.address);
        ChartSource::parse(&reference).unwrap().fetch(&access)
    }

    /// Returns the values of `Authorization` that a host has received, and forgets all requests.
    fn logins(&self, host: &str) -> BTreeSet<String> {
        let host = format!("{host}:{}", self.web.address.port());
        let seen = std::mem::take(&mut *self.web.seen.lock().unwrap());
        let here = seen.into_iter().filter(|seen| seen.headers["host"] == host);
        here.filter_map(|seen| seen.headers.get("authorization").cloned()).collect()
    }

    fn fetch(&self, scheme: &str) -> Result<Vec<u8>, String> {
        self.fetch_with(scheme, Egress::Hosts { names: Vec::new(), loopback: true })
    }
}

fn index(url: &str, digest: &str) -> Page {
    page(
        "/charts/index.yaml",
        format!(
            "apiVersion: v1\nentries:\n  other: []\n  web:\n  - {{version: 1.2.4, urls: [no]}}\n  - {{version: v1.2.3+a, urls: ['{url}'], digest: '{digest}'}}\n"
        ),
    )
}

/// The pages of a registry that asks for a token, as Docker Hub and GitHub do.
fn registry(address: std::net::SocketAddr, digest: &str, size: usize, archive: Page) -> Vec<Page> {
    let manifest = serde_json::json!({"schemaVersion": 2, "config": {"mediaType": CONFIG, "digest": "sha256:0", "size": 1},
        "layers": [{"mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov", "digest": "sha256:0", "size": 1},
            {"mediaType": CONTENT, "digest": digest, "size": size}]});
    let path = "/v2/charts/web/manifests/1.2.3_a";
    let asks = format!(
        "401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"https://{address}/token\",service=\"a b\",scope=\"x\""
    );
    vec![
        Page { authorization: Some("Bearer t"), ..page(path, manifest.to_string()) },
        Page { head: asks, ..page(path, "") },
        page("/token", r#"{"token": "t"}"#),
        Page {
            path: format!("/v2/charts/web/blobs/{digest}"),
            authorization: archive.authorization.or(Some("Bearer t")),
            ..archive
        },
    ]
}

#[test]
fn a_chart_of_a_classic_repository_is_found_in_its_index() {
    let server = Server::start(Vec::new());
    let is = |expected: Result<&[u8], &str>, pages: Vec<Page>| {
        *server.pages.lock().unwrap() = pages;
        match (server.fetch("https"), expected) {
            (Ok(archive), Ok(expected)) => assert_eq!(archive, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}: {expected}"),
            (fetched, expected) => panic!("{fetched:?} {expected:?}"),
        }
    };
    let archive = || page("/charts/web.tgz", ARCHIVE);
    let right = digest(ARCHIVE);
    is(Ok(ARCHIVE), vec![index("web.tgz", &right), archive()]);
    is(Ok(ARCHIVE), vec![index("web.tgz", ""), archive()]);
    let absolute = format!("https://{}/charts/web.tgz?a=b", server.web.address);
    is(Ok(ARCHIVE), vec![index(&absolute, &right[7..]), archive()]);
    let moved = |to: &str| Page { head: format!("302 Found\r\nLocation: {to}"), ..page("/moved", "") };
    is(
        Ok(ARCHIVE),
        vec![
            index("moved", &right),
            Page { path: "/charts/moved".into(), ..moved("/charts/web.tgz") },
            archive(),
        ],
    );

    is(Err("not sha256:00"), vec![index("web.tgz", "00"), archive()]);
    is(
        Err("HTTP status 404"),
        vec![index("web.tgz", ""), Page { head: "404 Not Found".into(), ..archive() }],
    );
    is(Err("requires a login"), vec![Page { head: "401 Unauthorized".into(), ..index("", "") }]);
    is(
        Err("/charts/web.tgz responds with HTTP status 404 Not Found"),
        vec![index("web.tgz?token=hunter22", ""), Page { head: "404 Not Found".into(), ..archive() }],
    );
    is(Err("index.yaml has no chart web"), vec![page("/charts/index.yaml", "entries: {}")]);
    is(
        Err("index.yaml has no version 1.2.3+a of the chart web"),
        vec![page("/charts/index.yaml", "entries: {web: [{version: 1.2.3}]}")],
    );
    is(Err("index.yaml cannot be read"), vec![page("/charts/index.yaml", "entries: [")]);
    is(Err("is not an https:// address"), vec![index("http://127.0.0.1/web.tgz", "")]);
    is(Err("is not an https:// address"), vec![index("file:///etc/passwd", "")]);
    is(Err("cannot reach"), vec![index("web.tgz", ""), Page { withheld: 1, ..archive() }]);
    is(
        Err("sends more than 8388608 bytes"),
        vec![index("web.tgz", ""), page("/charts/web.tgz", vec![0; (8 << 20) + 1])],
    );
    let endless = Page { path: "/charts/index.yaml".into(), ..moved("/charts/index.yaml") };
    is(Err("redirects too many times"), vec![endless]);
}

#[test]
fn a_redirect_to_another_host_is_followed_only_if_the_operator_names_the_host() {
    let server = Server::start(Vec::new());
    let to = format!("https://localhost:{}/charts/web.tgz", server.web.address.port());
    *server.pages.lock().unwrap() = vec![
        index("moved", ""),
        Page { head: format!("302 Found\r\nLocation: {to}"), ..page("/charts/moved", "") },
        page("/charts/web.tgz", ARCHIVE),
    ];
    let refused = server.fetch("https").unwrap_err();
    assert!(
        refused.ends_with(
            "redirects to another host; to allow this, name it with the operator's flag --git-hosts=localhost"
        ),
        "{refused}"
    );
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let allowed = server.fetch_with("https", Egress::Hosts { names, loopback: true });
    assert_eq!(allowed.as_deref(), Ok(ARCHIVE));
}

#[test]
fn charts_come_only_from_hosts_that_the_operator_may_reach() {
    let server = Server::start(vec![index("web.tgz", ""), page("/charts/web.tgz", ARCHIVE)]);
    for (egress, expected) in [
        (Egress::Hosts { names: Vec::new(), loopback: false }, "which no git server can have"),
        (
            Egress::Hosts { names: vec!["git.example.com".into()], loopback: true },
            "127.0.0.1 is not in the operator's flag --git-hosts",
        ),
    ] {
        let refused = server.fetch_with("https", egress.clone()).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
        let refused = server.fetch_with("oci", egress).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(server.web.requests().is_empty());
}

#[test]
fn a_chart_of_a_registry_is_verified_by_its_digest() {
    let server = Server::start(Vec::new());
    let address = server.web.address;
    let is = |expected: Result<&[u8], &str>, pages: Vec<Page>| {
        *server.pages.lock().unwrap() = pages;
        match (server.fetch("oci"), expected) {
            (Ok(archive), Ok(expected)) => assert_eq!(archive, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}: {expected}"),
            (fetched, expected) => panic!("{fetched:?} {expected:?}"),
        }
    };
    let (right, size) = (digest(ARCHIVE), ARCHIVE.len());
    is(Ok(ARCHIVE), registry(address, &right, size, page("", ARCHIVE)));
    let asked: Vec<String> = server.web.requests().into_iter().map(|seen| seen.line).collect();
    assert!(
        asked.contains(
            &"GET /token?service=a%20b&scope=repository%3Acharts%2Fweb%3Apull HTTP/1.1\r\n".to_owned()
        ),
        "{asked:?}"
    );

    is(
        Err("not sha256:"),
        registry(address, &right, size, page("", b"another archive, of the same size.".as_slice())),
    );
    is(Err("sends more than 34 bytes"), registry(address, &right, size, page("", [ARCHIVE, b"!"].concat())));
    is(Err("cannot reach"), registry(address, &right, size, Page { withheld: 1, ..page("", ARCHIVE) }));
    is(
        Err("its content has 8388609 bytes, and at most 8388608 are allowed"),
        registry(address, &right, (8 << 20) + 1, page("", ARCHIVE)),
    );
    is(Err("its content has no SHA-256 digest"), registry(address, "md5:0", size, page("", ARCHIVE)));
    let mut image = registry(address, &right, size, page("", ARCHIVE));
    image[0].body = String::from_utf8(image[0].body.clone())
        .unwrap()
        .replace(CONFIG, "application/vnd.oci.image.config.v1+json")
        .into_bytes();
    is(Err("is not a Helm chart"), image);
    let mut private = registry(address, &right, size, page("", ARCHIVE));
    private[1].head = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"".into();
    is(Err("requires a login"), private);
    let mut plain = registry(address, &right, size, page("", ARCHIVE));
    plain[1].head = plain[1].head.replace("https://", "http://");
    is(Err("is not an https:// address"), plain);
}

/// Returns the pages, which require a login.
fn private(pages: Vec<Page>) -> Vec<Page> {
    let asks = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"charts\"";
    let refusals: Vec<_> =
        pages.iter().map(|one| Page { head: asks.into(), ..page(&one.path, "") }).collect();
    let allowed = pages.into_iter().map(|one| Page { authorization: Some(LOGIN), ..one });
    allowed.chain(refusals).collect()
}

fn redirect(path: &str, to: &str) -> Page {
    Page { head: format!("302 Found\r\nLocation: {to}"), ..page(path, "") }
}

/// Returns the pages of a registry whose token service requires a login.
fn private_registry(address: std::net::SocketAddr) -> Vec<Page> {
    let mut pages = registry(address, &digest(ARCHIVE), ARCHIVE.len(), page("", ARCHIVE));
    let token = pages.remove(2);
    pages.extend(private(vec![token]));
    pages
}

#[test]
fn a_private_chart_needs_the_login_for_its_host() {
    let server = Server::start(Vec::new());
    let (address, digest) = (server.web.address, digest(ARCHIVE));
    let classic = private(vec![index("web.tgz", &digest), page("/charts/web.tgz", ARCHIVE)]);
    let mut basic = private_registry(address);
    for one in &mut basic {
        one.authorization = one.authorization.map(|_| LOGIN);
        one.head = one.head.replace("Bearer realm", "Basic realm");
    }
    let cases = [("https", classic), ("oci", private_registry(address)), ("oci", basic)];
    for (scheme, pages) in cases {
        *server.pages.lock().unwrap() = pages;
        assert_eq!(server.fetch_as(scheme, &["127.0.0.1"], "hunter22").as_deref(), Ok(ARCHIVE));
        for (hosts, password, expected) in [
            (
                ["127.0.0.1"],
                "another22",
                format!("{address} refuses the login: HTTP status 401 Unauthorized"),
            ),
            (["localhost"], "hunter22", format!("{address} requires a login")),
        ] {
            let refused = server.fetch_as(scheme, &hosts, password).unwrap_err();
            let message = refused.to_string();
            assert_eq!(refused.reason(), "ChartUnauthorized", "{message}");
            let advice =
                format!("{expected}; check the login for {address} in the Secret of spec.charts.secretRef");
            assert!(message.ends_with(&advice) && !message.contains(password), "{message}");
        }
    }
}

#[test]
fn a_login_is_sent_to_no_other_host_than_its_own() {
    let server = Server::start(Vec::new());
    let port = server.web.address.port();
    let there = |path: &str| format!("https://localhost:{port}{path}");
    let is_kept = |scheme: &str, hosts: &[&str], pages: Vec<Page>| {
        *server.pages.lock().unwrap() = pages;
        let fetched = server.fetch_as(scheme, hosts, "hunter22");
        assert_eq!(server.logins("localhost"), BTreeSet::new(), "{fetched:?}");
        fetched.map_err(|error| error.to_string())
    };
    let archive = || page("/charts/web.tgz", ARCHIVE);
    let both = ["127.0.0.1", "localhost"];

    let elsewhere = || private(vec![index(&there("/charts/web.tgz"), "")]);
    for hosts in [&both[..1], &both[..]] {
        let pages = [elsewhere(), vec![archive()]].concat();
        assert_eq!(is_kept("https", hosts, pages).as_deref(), Ok(ARCHIVE));
        let refused = is_kept("https", hosts, [elsewhere(), private(vec![archive()])].concat()).unwrap_err();
        assert!(refused.contains(&format!("localhost:{port} refuses access, and the login is sent only to")));
        let registry = format!("oci://localhost:{port}/charts/web:1.2.3_a");
        let pages = [private(vec![index(&registry, "")]), private_registry(server.web.address)].concat();
        let refused = is_kept("https", hosts, pages).unwrap_err();
        assert!(refused.contains("the login is sent only to"), "{refused}");
    }

    let moved = private(vec![redirect("/charts/index.yaml", &there("/moved/index.yaml"))]);
    let other = Page { path: "/moved/index.yaml".into(), ..index("web.tgz", "") };
    let pages = [moved.clone(), vec![other.clone()], private(vec![archive()])].concat();
    assert_eq!(is_kept("https", &both, pages).as_deref(), Ok(ARCHIVE));
    let refused = is_kept("https", &both, [moved, private(vec![other])].concat()).unwrap_err();
    assert!(refused.contains("redirects to localhost, which gets no login"), "{refused}");

    let plain = private(vec![index(&format!("http://{}/charts/web.tgz", server.web.address), "")]);
    let refused = is_kept("https", &both, plain).unwrap_err();
    assert!(refused.contains("is not an https:// address"), "{refused}");
}

#[test]
fn a_login_answers_no_challenge_of_a_host_that_the_registry_redirects_to() {
    let server = Server::start(Vec::new());
    let there = format!("https://localhost:{}", server.web.address.port());
    // The registry itself asks for no login.
    let mut pages = registry(server.web.address, &digest(ARCHIVE), ARCHIVE.len(), page("", ARCHIVE));
    let asks = format!("401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"{there}/token\"");
    pages[0].authorization = None;
    pages[3] = redirect(&pages[3].path, &format!("{there}/blob"));
    pages.push(Page { head: asks, ..page("/blob", "") });
    *server.pages.lock().unwrap() = pages;
    let refused = server.fetch_as("oci", &["127.0.0.1", "localhost"], "hunter22").unwrap_err().to_string();
    assert_eq!(server.logins("localhost"), BTreeSet::new(), "{refused}");
    assert!(refused.contains("redirects to localhost, which gets no login"), "{refused}");
}

#[test]
fn a_login_that_a_server_repeats_is_not_shown() {
    let server = Server::start(Vec::new());
    for repeated in
        ["entries: {web: me:hunter22}", "entries: {web: bWU6aHVudGVyMjI=}", "entries: {web: hunter22}"]
    {
        *server.pages.lock().unwrap() = vec![page("/charts/index.yaml", repeated)];
        let message = server.fetch_as("https", &["127.0.0.1"], "hunter22").unwrap_err().to_string();
        assert!(message.contains("[redacted]"), "{message}");
        assert!(!message.contains("hunter22") && !message.contains("bWU6"), "{message}");
    }
    for url in ["https://hunter22.invalid/a", "https://127.0.0.1:1/hunter22", "/hunter22"] {
        *server.pages.lock().unwrap() = vec![index(url, "")];
        let message = server.fetch_as("https", &["127.0.0.1"], "hunter22").unwrap_err().to_string();
        assert!(message.contains("[redacted]") && !message.contains("hunter22"), "{message}");
    }
}
