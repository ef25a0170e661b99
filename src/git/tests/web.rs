//! A git server over HTTPS: git's own `git http-backend` behind a small CGI server.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::ByteString;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::forge::Forge;
use crate::git::Credentials;
use crate::pki::{Authority, Identity, Profile, Subject, Usage};

#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
}

/// A GitHub App from the server's view.
#[derive(Clone, Debug)]
pub(crate) struct App {
    /// The public key (PKCS#1).
    pub(super) public_key: Vec<u8>,
    /// The lifetime of its tokens from `now`, in seconds.
    pub(super) lifetime: i64,
    /// The server's time.
    pub(super) now: jiff::Timestamp,
}

impl App {
    /// Returns the next token, if the request's proof is from app 7 and still valid.
    fn issues(&self, seen: &Received) -> Option<String> {
        let proof = seen.headers.get("authorization")?.strip_prefix("Bearer ")?;
        let (message, signature) = proof.rsplit_once('.')?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        key.verify(message.as_bytes(), &decode(signature)?).ok()?;
        let claims: serde_json::Value = serde_json::from_slice(&decode(message.split_once('.')?.1)?).ok()?;
        let (from, to, now) = (claims["iat"].as_i64()?, claims["exp"].as_i64()?, self.now.as_second());
        (claims["iss"] == "7" && from <= now && now < to && to - from <= 600).then(|| {
            let expires = jiff::Timestamp::from_second(now + self.lifetime).unwrap();
            serde_json::json!({"token": "ghs_1", "expires_at": expires.to_string(), "permissions": {"contents": "read"}}).to_string()
        })
    }
}

/// A response to GET requests for a path, which may include a query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) path: String,
    /// The required value of `Authorization`.
    pub(crate) authorization: Option<&'static str>,
    /// The status and the headers, without the length.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The number of bytes that the server does not send.
    pub(crate) withheld: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Behavior {
    /// Responses that do not reach git. The first page that fits is sent.
    pub(crate) pages: Arc<Mutex<Vec<Page>>>,
    /// The names in the certificate.
    pub(crate) names: Vec<&'static str>,
    /// The required value of `Authorization`.
    pub(crate) authorization: Option<String>,
    /// True if the server requests a client certificate.
    pub(crate) client_certificate: bool,
    /// The GitHub App that the server issues tokens to.
    pub(crate) app: Option<App>,
    /// The URL that every request is redirected to.
    pub(crate) redirect: Option<String>,
    /// The age of the certificate, which is valid for an hour.
    pub(crate) issued_ago: Duration,
    /// The path of a repository that redirects to `/config.git`, and the prefix of that path.
    pub(crate) moved: Option<(&'static str, String)>,
    /// The status, additional headers and page of every response.
    pub(crate) refusal: Option<(u16, &'static str, &'static str)>,
    /// True if a proxy adds a parameter to the type of responses.
    pub(crate) charset: bool,
    /// The status of the response to a push.
    pub(crate) push_status: Option<u16>,
    /// Changes a response that contains a pack.
    pub(crate) damage: Option<fn(Vec<u8>) -> Vec<u8>>,
}

impl Behavior {
    fn page(&self, seen: &Received) -> Option<Page> {
        let target = seen.line.strip_prefix("GET ")?.split(' ').next()?;
        let path = target.split('?').next()?;
        let authorization = seen.headers.get("authorization").map(String::as_str);
        let fits = |page: &&Page| {
            [path, target].contains(&page.path.as_str())
                && (page.authorization.is_none() || page.authorization == authorization)
        };
        self.pages.lock().unwrap().iter().find(fits).cloned()
    }

    /// Returns the response to a request that does not reach git.
    fn without_git(&self, seen: &Received) -> Option<String> {
        if let Some(to) = &self.redirect {
            return Some(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
        }
        if let Some((status, headers, page)) = self.refusal {
            let length = page.len();
            let head = format!("HTTP/1.1 {status} Refused\r\n{headers}Content-Length: {length}\r\n\r\n");
            return Some(head + page);
        }
        let (from, host) = self.moved.as_ref()?;
        let rest = seen.line.split(' ').nth(1)?.strip_prefix(from)?;
        let head = format!("HTTP/1.1 301 Moved Permanently\r\nLocation: {host}/config.git{rest}\r\n");
        Some(head + "Content-Length: 0\r\n\r\n")
    }
}

/// The server. It stops when dropped.
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(super) seen: Arc<Mutex<Vec<Received>>>,
    authority: Authority,
    client: Identity,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    pub(crate) fn start(forge: &Forge, behavior: Behavior) -> Self {
        #[expect(clippy::disallowed_methods, reason = "TLS compares certificates with the real clock")]
        let now = jiff::Timestamp::now();
        let issued = now - behavior.issued_ago;
        let authority = Authority::create("test", issued).unwrap();
        let issue = |names: &[&str], usage| {
            let subject = Subject::new("test", &[]);
            let lifetime = Duration::from_secs(3600);
            authority.issue(&Profile { subject, names, usage, lifetime }, issued).unwrap()
        };
        let names = if behavior.names.is_empty() { vec!["127.0.0.1"] } else { behavior.names.clone() };
        let config = Arc::new(tls(&authority, &issue(&names, Usage::Server), behavior.client_certificate));
        let client = issue(&[], Usage::Client);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, ending) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (root, log, end) = (forge.root(), Arc::clone(&seen), Arc::clone(&ending));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let (root, log, behavior) = (root.clone(), Arc::clone(&log), behavior.clone());
                std::thread::spawn(move || {
                    // A client may disconnect early.
                    let _ = answer(StreamOwned::new(connection, stream), &root, &behavior, &log);
                });
            }
        });
        let url = format!("https://{address}/config.git");
        Self { url, address, seen, authority, client, ending, thread: Some(thread) }
    }

    /// Returns credentials that trust the server, with additional keys in the Secret.
    pub(crate) fn credentials(&self, further: &[(&str, &str)]) -> Credentials {
        Credentials::from_secret(&self.secret(further)).unwrap()
    }

    /// Returns the data of a Secret that trusts the server, with more keys.
    pub(crate) fn secret(&self, further: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        let authority = self.authority.certificate_pem();
        let data = [("ca.crt", authority.as_str())].into_iter().chain(further.iter().copied());
        data.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec()))).collect()
    }

    /// Returns a client certificate and its key, as keys of a Secret.
    pub(crate) fn client_certificate(&self) -> [(&str, &str); 2] {
        [("tls.crt", &self.client.certificate), ("tls.key", &self.client.key)]
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tls(authority: &Authority, identity: &Identity, asks: bool) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = if asks {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate_der().into()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    builder.with_single_cert(chain, key).unwrap()
}

fn answer(
    stream: impl Read + Write,
    root: &PathBuf,
    behavior: &Behavior,
    log: &Mutex<Vec<Received>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut seen = Received::default();
    stream.read_line(&mut seen.line)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        seen.headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    log.lock().unwrap().push(seen.clone());
    let header = |name: &str| seen.headers.get(name).cloned().unwrap_or_default();
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body)?;
    let out = stream.get_mut();
    if let Some(page) = behavior.page(&seen) {
        let sent = page.body.len() - page.withheld;
        write!(out, "HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n", page.head, page.body.len())?;
        return out.write_all(&page.body[..sent]);
    }
    if let Some(answer) = behavior.without_git(&seen) {
        return out.write_all(answer.as_bytes());
    }
    if let Some(app) = &behavior.app
        && seen.line.starts_with("POST /api/v3/app/installations/42/access_tokens ")
    {
        let Some(body) = app.issues(&seen) else {
            return write!(out, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
        };
        return write!(out, "HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
    if behavior.authorization.as_ref().is_some_and(|needed| *needed != header("authorization")) {
        return write!(out, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    }
    let mut words = seen.line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if let Some(status) = behavior.push_status
        && path.ends_with("/git-receive-pack")
    {
        return write!(out, "HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n");
    }
    let mut backend = Command::new("git")
        .args(["-c", "safe.directory=*", "-c", "http.receivepack=true", "http-backend"])
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The backend reads the whole request before it answers, so this cannot deadlock.
    backend.stdin.take().unwrap().write_all(&body)?;
    let output = backend.wait_with_output()?.stdout;
    let end = output.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let head = if behavior.charset { charset(&head) } else { head };
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let rest = &output[(end + 4).min(output.len())..];
    let head =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len());
    let answer = [head.as_bytes(), rest].concat();
    let answer = match behavior.damage {
        Some(damage) if path.ends_with("/git-upload-pack") => damage(answer),
        Some(_) | None => answer,
    };
    out.write_all(&answer)?;
    out.flush()
}

/// Adds a parameter to the type of a response.
fn charset(head: &str) -> String {
    let with_charset = |line: &str| {
        let more = if line.starts_with("Content-Type:") { "; charset=utf-8" } else { "" };
        format!("{line}{more}")
    };
    head.lines().map(with_charset).collect::<Vec<_>>().join("\r\n")
}
