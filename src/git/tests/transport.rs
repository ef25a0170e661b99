use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};

use super::forge::{Forge, Server};
use super::push::files;
use super::web::{Behavior, Web};
use crate::git::{Arrivals, Commit, Credentials, Error, History, Mirror, RefSpec, Retry, TransportLimits};
use k8s_openapi::ByteString;

fn fetch(mirror: &mut Mirror) -> Result<String, Error> {
    let checkout = mirror.fetch(&RefSpec::branch("main").unwrap(), History::default())?;
    Ok(checkout.revision.clone())
}

pub(super) fn report(content: &str) -> Commit {
    Commit { branch: "wheelwright/status".into(), ..files("", &[("README.md", content)]) }
}

fn mirror(forge: &Forge, url: &str, credentials: Credentials) -> Mirror {
    let mut mirror = forge.mirror("cache", url);
    mirror.set_credentials(credentials).unwrap();
    mirror
}

/// Pushes a report that compresses to no less than half its size.
fn push_counts_what_is_sent(mirror: &Mirror) {
    let noise: String = (0_u32..2_000).map(|i| format!("{:08x}", i.wrapping_mul(2_654_435_761))).collect();
    mirror.arrivals.take_sent();
    mirror.push(&report(&noise), &Retry::default()).unwrap();
    let sent = mirror.arrivals.take_sent();
    assert!((5_000..20_000).contains(&sent), "{sent} bytes");
    assert_eq!(mirror.arrivals.take_sent(), 0);
}

#[test]
fn https_fetches_and_pushes() {
    let forge = Forge::new();
    let first = forge.commit("main", &[("a", "1")]);
    let web = Web::start(&forge, Behavior::default());
    let mut mirror = mirror(&forge, &web.url, web.credentials(&[]));
    assert_eq!(fetch(&mut mirror).unwrap(), first);
    let second = forge.commit("main", &[("a", &"2".repeat(100_000))]);
    assert_eq!(fetch(&mut mirror).unwrap(), second);
    let pushed = mirror.push(&report("1"), &Retry::default()).unwrap().unwrap();
    let again = mirror.push(&report("2"), &Retry::default()).unwrap().unwrap();
    assert_eq!(forge.history("wheelwright/status"), [again, pushed]);
    push_counts_what_is_sent(&mirror);
    assert!(web.requests().iter().all(|seen| !seen.headers.contains_key("authorization")));
}

#[test]
fn a_push_that_is_too_large_is_refused_and_a_busy_server_is_unreachable() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let cases = [
        (413, "SourceRefused"),
        (429, "SourceUnreachable"),
        (500, "SourceUnreachable"),
        (503, "SourceUnreachable"),
    ];
    for (status, reason) in cases {
        let web = Web::start(&forge, Behavior { push_status: Some(status), ..Behavior::default() });
        let error = mirror(&forge, &web.url, web.credentials(&[])).push(&report("1"), &Retry::default());
        let error = error.unwrap_err();
        assert_eq!(error.reason(), reason, "{status}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
    }
}

#[test]
fn a_token_and_a_client_certificate_prove_who_we_are() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    // base64 of me:hunter22
    let authorization = Some("Basic bWU6aHVudGVyMjI=".to_owned());
    let web = Web::start(&forge, Behavior { authorization, client_certificate: true, ..Behavior::default() });
    let certificate = web.client_certificate();
    let all = [("username", "me"), ("token", "hunter22"), certificate[0], certificate[1]];
    assert_eq!(fetch(&mut mirror(&forge, &web.url, web.credentials(&all))), Ok(commit));
    let wrong = [("token", "wrong"), certificate[0], certificate[1]];
    let error = fetch(&mut mirror(&forge, &web.url, web.credentials(&wrong))).unwrap_err();
    assert_eq!(error.reason(), "SourceUnauthorized", "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    let error = fetch(&mut mirror(&forge, &web.url, web.credentials(&all[..2]))).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "no certificate: {error}");
}

#[test]
fn a_bearer_token_is_sent_as_a_bearer_token() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let authorization = Some("Bearer tok12345".to_owned());
    let web = Web::start(&forge, Behavior { authorization, ..Behavior::default() });
    let with = |key| fetch(&mut mirror(&forge, &web.url, web.credentials(&[(key, "tok12345")])));
    assert_eq!(with("bearerToken"), Ok(commit));
    assert_eq!(with("token").unwrap_err().reason(), "SourceUnauthorized");
}

#[test]
fn a_refusal_has_the_words_of_the_server_and_the_time_that_it_names() {
    let forge = Forge::new();
    let cases = [
        (403, "Content-Type: text/plain\r\n", "You may not push.", "SourceUnauthorized", None),
        (
            400,
            "Content-Type: text/html; charset=utf-8\r\n",
            "<title>No certificate</title>",
            "SourceUnreachable",
            None,
        ),
        (429, "Retry-After: 120\r\n", "", "SourceUnreachable", Some(120)),
        (429, "", "", "SourceUnreachable", Some(60)),
        (503, "Retry-After: 99999\r\n", "", "SourceUnreachable", Some(3600)),
        (503, "", "", "SourceUnreachable", None),
    ];
    for (status, headers, page, reason, pause) in cases {
        let refusal = Some((status, headers, page));
        let web = Web::start(&forge, Behavior { refusal, ..Behavior::default() });
        let error = fetch(&mut mirror(&forge, &web.url, web.credentials(&[]))).unwrap_err();
        assert_eq!((error.reason(), error.pause()), (reason, pause.map(Duration::from_secs)), "{error}");
        let words = page.trim_start_matches("<title>").trim_end_matches("</title>");
        assert!(error.to_string().contains(&format!("HTTP status {status}")), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_content_type_with_a_parameter_is_accepted() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let web = Web::start(&forge, Behavior { charset: true, ..Behavior::default() });
    assert_eq!(fetch(&mut mirror(&forge, &web.url, web.credentials(&[]))), Ok(commit));
}

#[test]
fn a_push_waits_for_the_hooks_of_the_server() {
    let forge = Forge::new();
    forge.hook("pre-receive", "sleep 4");
    let web = Web::start(&forge, Behavior::default());
    let mut mirror = mirror(&forge, &web.url, web.credentials(&[]));
    let limit = Duration::from_secs(3);
    mirror.transport = TransportLimits { connect: limit, idle: limit, ..TransportLimits::default() };
    let pushed = mirror.push(&report("1"), &Retry::default()).unwrap().unwrap();
    assert_eq!(forge.history("wheelwright/status"), [pushed]);
}

#[test]
fn a_pack_that_the_server_does_not_unpack_is_refused_with_its_reason() {
    let forge = Forge::new();
    forge.repo().config().unwrap().set_i64("receive.maxInputSize", 100).unwrap();
    let (web, git) = (Web::start(&forge, Behavior::default()), forge.serve());
    for mut mirror in [mirror(&forge, &web.url, web.credentials(&[])), forge.mirror("git", &git.url)] {
        mirror.transport = TransportLimits::default();
        let error = mirror.push(&report("1"), &Retry::default()).unwrap_err();
        assert!(matches!(error, Error::PushRejected { .. }), "{error}");
        assert!(error.to_string().contains("unpack "), "{error}");
        assert!(error.to_string().contains("exceeds"), "{error}");
    }
}

#[test]
fn a_redirect_within_the_host_is_followed() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let moved = |host: String| Behavior { moved: Some(("/old.git", host)), ..Behavior::default() };
    let web = Web::start(&forge, moved(String::new()));
    let mut mirror = mirror(&forge, &web.url.replace("config", "old"), web.credentials(&[]));
    assert_eq!(fetch(&mut mirror), Ok(commit));
    mirror.push(&report("1"), &Retry::default()).unwrap().unwrap();

    let elsewhere = Web::start(&forge, moved("https://git.example".into()));
    let mut mirror =
        self::mirror(&forge, &elsewhere.url.replace("config", "old"), elsewhere.credentials(&[]));
    let error = fetch(&mut mirror).unwrap_err().to_string();
    let hint = "it redirects to \"https://git.example/config.git\"; if that is right, make it the URL";
    assert!(error.contains(hint), "{error}");
}

#[test]
fn a_redirect_is_not_followed_with_or_without_credentials() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let elsewhere = Web::start(&forge, Behavior::default());
    let to = |scheme: &str| {
        format!("{scheme}://{}/config.git/info/refs?service=git-upload-pack", elsewhere.address)
    };
    for to in [to("https"), to("http"), "http://169.254.169.254/latest".into(), "/elsewhere".into()] {
        let web = Web::start(&forge, Behavior { redirect: Some(to), ..Behavior::default() });
        for further in [&[][..], &[("token", "hunter22")]] {
            let mut mirror = mirror(&forge, &web.url, web.credentials(further));
            let error = fetch(&mut mirror).unwrap_err();
            assert!(error.to_string().contains("it redirects to"), "{error}");
            assert!(mirror.push(&report("1"), &Retry::default()).is_err());
        }
        let lines: Vec<_> = web.requests().iter().map(|seen| seen.line.clone()).collect();
        assert!(lines.len() == 4 && lines.iter().all(|line| line.starts_with("GET /config.git/info/refs")));
    }
    assert!(elsewhere.requests().is_empty(), "it received a request: {:?}", elsewhere.requests());
}

#[test]
fn a_server_that_does_not_prove_its_name_is_refused() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let other_name = Web::start(&forge, Behavior { names: vec!["git.example"], ..Behavior::default() });
    let unknown_authority = Web::start(&forge, Behavior::default());
    let expired = Web::start(&forge, Behavior { issued_ago: Duration::from_hours(2), ..Behavior::default() });
    let token = [("token", "hunter22")];
    for (url, credentials) in [
        (&other_name.url, other_name.credentials(&token)),
        (&unknown_authority.url, other_name.credentials(&token)),
        (&expired.url, expired.credentials(&token)),
    ] {
        let error = fetch(&mut mirror(&forge, url, credentials)).unwrap_err();
        assert_eq!(error.reason(), "HostKeyMismatch", "{error}");
    }
    assert!([other_name, unknown_authority, expired].iter().all(|web| web.requests().is_empty()));
}

#[test]
fn https_uses_the_proxy_in_the_secret() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let web = Web::start(&forge, Behavior::default());
    let target = web.address;
    let proxy = Server::start("http", "", move |mut stream| {
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        // base64 of me:pw
        if !request.contains("Proxy-Authorization: Basic bWU6cHc=\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
            return;
        }
        assert!(request.starts_with(&format!("CONNECT {target} HTTP/1.1\r\n")), "{request}");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let server = std::net::TcpStream::connect(target).unwrap();
        let (mut from, mut to) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut { server }, &mut stream);
    });
    let through = |login: &str| {
        let url = format!("http://{login}@{}", proxy.address);
        fetch(&mut mirror(&forge, &web.url, web.credentials(&[("proxy", &url)])))
    };
    assert_eq!(through("me:pw"), Ok(commit));
    let error = through("me:wrong").unwrap_err();
    assert!(error.to_string().contains("refuses the user name and password of the proxy"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[test]
fn a_proxy_that_cannot_be_reached_is_named_once() {
    let forge = Forge::new();
    let web = Web::start(&forge, Behavior::default());
    let error = fetch(&mut mirror(&forge, &web.url, web.credentials(&[("proxy", "http://127.0.0.1:1")])));
    let error = error.unwrap_err().to_string();
    let start = format!("cannot reach {}: proxy 127.0.0.1:1: Connection refused", web.url);
    assert!(error.starts_with(&start) && error.matches("if this persists").count() == 1, "{error}");
}

#[test]
fn the_connection_to_a_trickling_server_is_abandoned() {
    let forge = Forge::new();
    let server = Server::trickling();
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.transport = TransportLimits { total: Duration::from_secs(1), ..TransportLimits::default() };
    let error = fetch(&mut mirror).unwrap_err();
    assert_eq!(error.reason(), "SourceTimeout", "{error}");
}

#[test]
fn a_fetch_from_a_trickling_server_ends_when_it_is_cancelled() {
    let forge = Forge::new();
    let server = Server::trickling();
    let mut mirror = forge.mirror("cache", &server.url);
    let cancel = mirror.cancel.clone();
    let fetching = std::thread::spawn(move || fetch(&mut mirror));
    while server.connections.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    cancel.cancel();
    assert_eq!(fetching.join().unwrap().unwrap_err().reason(), "SourceTimeout");
}

#[test]
fn references_without_end_are_refused() {
    let forge = Forge::new();
    const LINE: &[u8] = b"003d1111111111111111111111111111111111111111 refs/heads/abcd\n";
    assert_eq!(LINE.len(), 0x3d);
    let server = Server::endless(LINE, LINE, Duration::ZERO);
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.transport = TransportLimits { advertisement_bytes: 1 << 20, ..TransportLimits::default() };
    let error = fetch(&mut mirror).unwrap_err();
    assert_eq!(error.reason(), "SourceRefused", "{error}");
    assert!(error.to_string().contains("a list of references of more than 1 MiB"), "{error}");
}

#[test]
fn a_pack_that_is_too_large_is_refused_while_it_arrives() {
    let forge = Forge::new();
    let noise: String = (0_u32..200_000).map(|i| format!("{:08x}", i.wrapping_mul(2_654_435_761))).collect();
    forge.commit("main", &[("noise", &noise)]);
    let web = Web::start(&forge, Behavior::default());
    let mut mirror = mirror(&forge, &web.url, web.credentials(&[]));
    mirror.transport = TransportLimits { bytes: 100_000, ..TransportLimits::default() };
    let error = fetch(&mut mirror).unwrap_err();
    assert!(error.to_string().contains("an answer of more than"), "{error}");
    mirror.transport = TransportLimits::default();
    mirror.arrivals = Arc::new(Arrivals::new(100_000));
    let error = fetch(&mut mirror).unwrap_err();
    assert!(error.to_string().contains("responses from all repositories"), "{error}");
    mirror.arrivals = Arc::default();
    assert!(fetch(&mut mirror).is_ok());
}

/// Returns the offset of an HTTP response's body.
fn body(answer: &[u8]) -> usize {
    answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4
}

#[test]
fn a_pack_that_is_cut_changed_or_compressed_is_an_error_and_the_next_one_is_taken() {
    let forge = Forge::new();
    let noise: String = (0_u32..20_000).map(|i| format!("{:08x}", i.wrapping_mul(2_654_435_761))).collect();
    let commit = forge.commit("main", &[("noise", &noise)]);
    let cut = |answer: Vec<u8>| answer[..answer.len() / 2].to_vec();
    // The checksum is at the end of the pack's last packet line. Lines with progress may follow it.
    let changed = |mut answer: Vec<u8>| {
        let (mut at, mut last) = (body(&answer), 0);
        while let Some(length) = answer.get(at..at + 4) {
            let length = usize::from_str_radix(str::from_utf8(length).unwrap(), 16).unwrap();
            if length > 4 && answer[at + 4] == 1 {
                last = at + length - 1;
            }
            at += length.max(4);
        }
        // The response before the pack lists the commits without parents.
        if last > 0 {
            answer[last] ^= 1;
        }
        answer
    };
    let compressed = |answer: Vec<u8>| {
        let body = body(&answer);
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![b'0'; 64 << 20]).unwrap();
        let bomb = bomb.finish().unwrap();
        let head = String::from_utf8_lossy(&answer[..body])
            .replace("Connection:", "Content-Encoding: gzip\r\nConnection:");
        let length = format!("Content-Length: {}", answer.len() - body);
        let head = head.replace(&length, &format!("Content-Length: {}", bomb.len()));
        [head.as_bytes(), &bomb].concat()
    };
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let damages: [(Damage, &str); 3] =
        [(cut, "SourceUnreachable"), (changed, "SourceRefused"), (compressed, "SourceUnreachable")];
    for (damage, reason) in damages {
        let web = Web::start(&forge, Behavior { damage: Some(damage), ..Behavior::default() });
        let error = fetch(&mut mirror(&forge, &web.url, web.credentials(&[]))).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        let web = Web::start(&forge, Behavior::default());
        assert_eq!(fetch(&mut mirror(&forge, &web.url, web.credentials(&[]))), Ok(commit.clone()));
    }
}

#[test]
fn lines_of_the_protocol_that_are_malformed_are_an_error() {
    let forge = Forge::new();
    for line in [&b"0001"[..], b"0003", b"fffg", b"ffff", b"not git at all", b""] {
        let server = Server::start("git", "config.git", move |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(line);
        });
        let error = fetch(&mut forge.mirror("cache", &server.url)).unwrap_err();
        assert_eq!(error.reason(), "SourceUnreachable", "{line:?}: {error}");
    }
}

/// An sshd that serves one connection at a time, and a key that it accepts.
struct Sshd {
    server: Server,
    key: String,
    host_key: String,
    user: String,
    _dir: tempfile::TempDir,
}

impl Sshd {
    fn start() -> Self {
        Self::with("", "")
    }

    /// Starts sshd with additional configuration lines, and a passphrase for the client's key.
    fn with(further: &str, passphrase: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for name in ["host", "client"] {
            let keygen = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-f", &path(name)])
                .args(["-N", if name == "client" { passphrase } else { "" }])
                .status();
            assert!(keygen.expect("the tests over ssh need OpenSSH").success());
        }
        std::fs::copy(path("client.pub"), path("authorized_keys")).unwrap();
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n{further}\n",
            path("host"),
            path("authorized_keys")
        );
        std::fs::write(path("config"), config).unwrap();
        let file = path("config");
        let server = Server::start("ssh", "", move |stream| {
            // A server run by root needs this directory for privilege separation.
            let _ = std::fs::create_dir_all("/run/sshd");
            let output = stream.try_clone().unwrap();
            let sshd = Command::new("/usr/sbin/sshd")
                .args(["-i", "-f", &file])
                .stdin(std::os::fd::OwnedFd::from(stream))
                .stdout(std::os::fd::OwnedFd::from(output))
                .stderr(std::process::Stdio::null())
                .spawn();
            sshd.expect("the tests over ssh need openssh-server").wait().unwrap();
        });
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        Self {
            server,
            key: std::fs::read_to_string(path("client")).unwrap(),
            host_key: std::fs::read_to_string(path("host.pub")).unwrap(),
            user: String::from_utf8(user).unwrap().trim().to_owned(),
            _dir: dir,
        }
    }

    fn url(&self, forge: &Forge) -> String {
        format!("ssh://{}@{}{}", self.user, self.server.address, forge.path().display())
    }

    fn credentials(&self, host_key: &str) -> Credentials {
        let known = format!("[127.0.0.1]:{} {host_key}", self.server.address.port());
        let data = [("ssh-privatekey", self.key.clone()), ("known_hosts", known)];
        let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
        Credentials::from_secret(&data.into()).unwrap()
    }

    fn mirror(&self, forge: &Forge, credentials: Credentials) -> Result<Mirror, Error> {
        let cache = forge.root().join("cache-ssh");
        std::fs::create_dir_all(&cache).unwrap();
        Mirror::open(&cache, crate::git::Remote::parse(&self.url(forge)).unwrap(), credentials)
    }
}

#[test]
fn over_ssh_commits_are_fetched_and_pushed() {
    let (forge, sshd) = (Forge::new(), Sshd::start());
    let first = forge.commit("main", &[("a", "1")]);
    let mut mirror = sshd.mirror(&forge, sshd.credentials(&sshd.host_key)).unwrap();
    assert_eq!(fetch(&mut mirror).unwrap(), first);
    let second = forge.commit("main", &[("a", &"2".repeat(5_000_000))]);
    assert_eq!(fetch(&mut mirror).unwrap(), second, "more than a window of ssh");
    let pushed = mirror.push(&report("1"), &Retry::default()).unwrap().unwrap();
    assert_eq!(forge.history("wheelwright/status"), [pushed]);
    push_counts_what_is_sent(&mirror);
}

#[test]
fn over_ssh_only_the_known_host_and_our_own_key_are_taken() {
    let (forge, sshd, other) = (Forge::new(), Sshd::start(), Sshd::start());
    forge.commit("main", &[("a", "1")]);
    let with = |credentials| fetch(&mut sshd.mirror(&forge, credentials).unwrap()).unwrap_err();
    let error = with(sshd.credentials(&other.host_key));
    assert_eq!(error.reason(), "HostKeyMismatch", "{error}");
    let error = with(other.credentials(&sshd.host_key));
    assert_eq!(error.reason(), "HostKeyMismatch", "the line is for another port: {error}");
    let stranger = Sshd { key: other.key.clone(), ..Sshd::start() };
    let mut mirror = stranger.mirror(&forge, stranger.credentials(&stranger.host_key)).unwrap();
    let error = fetch(&mut mirror).unwrap_err();
    assert_eq!(error.reason(), "SourceUnauthorized", "{error}");
}

#[test]
fn over_ssh_the_message_of_the_server_is_reported() {
    let (forge, sshd) = (Forge::new(), Sshd::start());
    std::fs::remove_dir_all(forge.path()).unwrap();
    let mut mirror = sshd.mirror(&forge, sshd.credentials(&sshd.host_key)).unwrap();
    let error = fetch(&mut mirror).unwrap_err();
    assert!(error.to_string().contains("does not appear to be a git repository"), "{error}");
    assert_eq!(error.reason(), "SourceUnauthorized", "{error}");
}

#[test]
fn over_ssh_a_service_that_refuses_the_repository_refuses_access() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let command = "if [ \"${SSH_ORIGINAL_COMMAND%% *}\" = git-upload-pack ]; then exec sh -c \"$SSH_ORIGINAL_COMMAND\"; fi; echo; echo 'ERROR: The key is read only.' >&2; exit 1";
    let read_only = Sshd::with(&format!("ForceCommand {command}"), "");
    let mut mirror = read_only.mirror(&forge, read_only.credentials(&read_only.host_key)).unwrap();
    fetch(&mut mirror).unwrap();
    let error = mirror.push(&report("1"), &Retry::default()).unwrap_err();
    assert!(matches!(error, Error::Auth { .. }), "{error}");
    assert!(error.to_string().contains("exit status 1: ERROR: The key is read only."), "{error}");
    let absent = Sshd::with("ForceCommand exit 127", "");
    let mut mirror = absent.mirror(&forge, absent.credentials(&absent.host_key)).unwrap();
    let error = fetch(&mut mirror).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "no git on the server: {error}");
    assert!(error.to_string().contains("it gives no reason"), "{error}");
}

#[test]
fn over_ssh_a_locked_key_needs_its_passphrase() {
    let (forge, sshd) = (Forge::new(), Sshd::with("", "correct horse"));
    let commit = forge.commit("main", &[("a", "1")]);
    let fetched = |password: Option<&str>| {
        let known = format!("[127.0.0.1]:{} {}", sshd.server.address.port(), sshd.host_key);
        let data = [("ssh-privatekey", sshd.key.as_str()), ("known_hosts", &known)];
        let data = data.into_iter().chain(password.map(|password| ("password", password)));
        let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
        let credentials = Credentials::from_secret(&data.collect()).unwrap();
        fetch(&mut sshd.mirror(&forge, credentials).unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(fetched(Some("correct horse")), Ok(commit), "however long it takes to unlock it");
    assert!(fetched(None).unwrap_err().contains("add its passphrase as the key password"));
    assert!(fetched(Some("wrong")).unwrap_err().contains("with the passphrase in the key password"));
}

#[test]
fn over_ssh_the_connection_to_a_silent_server_is_abandoned() {
    let (forge, sshd) = (Forge::new(), Sshd::start());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ssh://git@{}/x.git", silent.local_addr().unwrap());
    let cache = forge.root().join("silent");
    std::fs::create_dir_all(&cache).unwrap();
    let remote = crate::git::Remote::parse(&url).unwrap();
    let mut mirror = Mirror::open(&cache, remote, sshd.credentials(&sshd.host_key)).unwrap();
    mirror.transport = TransportLimits { connect: Duration::from_millis(300), ..TransportLimits::default() };
    assert_eq!(fetch(&mut mirror).unwrap_err().reason(), "SourceUnreachable");
}
