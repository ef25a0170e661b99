//! The git servers. Each serves `config.git` from a directory on loopback, with the services that it needs.
//!
//! All of them reject a push while the repository contains a file `refuse`, with its text as the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::kube::{built, free_port};
use crate::running::Running;
use crate::sources::run;
use crate::webhook::write_certificates;

/// The reason for rejecting a push.
pub(super) const REASON: &str = "only the release team may push here";
const USER: &str = "fleet";
const PASSWORD: &str = "rolling stock";

/// A git server that stops when dropped.
pub(super) struct GitServer {
    pub(super) url: String,
    pub(super) port: u16,
    /// The data of a Secret that allows reading and writing the repository.
    pub(super) user: Value,
    /// The data of a Secret that the server does not accept.
    pub(super) stranger: Value,
    /// The server's message when it rejects a push.
    pub(super) refusal: &'static str,
    /// True if it always sends the whole history of a commit.
    pub(super) sends_whole_history: bool,
    _processes: Vec<Running>,
}

impl GitServer {
    fn new(url: String, port: u16, [user, stranger]: [Value; 2], processes: Vec<Running>) -> Self {
        let (refusal, sends_whole_history) = (REASON, false);
        Self { url, port, user, stranger, refusal, sends_whole_history, _processes: processes }
    }

    fn https(dir: &Path, port: u16, processes: Vec<Running>) -> Self {
        let ca = fs::read_to_string(dir.join("ca.crt")).unwrap();
        let login = |password: &str| json!({"ca.crt": ca, "username": USER, "password": password});
        let url = format!("https://127.0.0.1:{port}/config.git");
        Self::new(url, port, [login(PASSWORD), login("guessed")], processes)
    }

    fn ssh(dir: &Path, port: u16, path: &str, processes: Vec<Running>) -> Self {
        let file = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let known = format!("[127.0.0.1]:{port} {}", file("host.pub"));
        let key = |name: &str| json!({"ssh-privatekey": file(name), "known_hosts": known});
        let url = format!("ssh://{}@127.0.0.1:{port}{path}", run(dir, "id", &["-un"]));
        Self::new(url, port, [key("client"), key("stranger")], processes)
    }
}

/// C git's http-backend behind nginx, connected by FastCGI.
pub(super) fn nginx(dir: &Path) -> GitServer {
    write_certificates(dir);
    write_hook(dir);
    let (port, directory) = (free_port(), dir.display());
    let backend = run(dir, "git", &["--exec-path"]) + "/git-http-backend";
    fs::write(dir.join("users"), format!("{USER}:{{PLAIN}}{PASSWORD}\n")).unwrap();
    // A single process leaves no workers behind when it is killed.
    let config = format!(
        "daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {directory}/bodies; proxy_temp_path {directory}/proxied; fastcgi_temp_path {directory}/answers;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {directory}/tls.crt; ssl_certificate_key {directory}/tls.key;
    location / {{
      auth_basic git; auth_basic_user_file {directory}/users;
      fastcgi_pass unix:{directory}/fcgi;
      fastcgi_param SCRIPT_FILENAME {backend};
      fastcgi_param GIT_PROJECT_ROOT {directory};
      fastcgi_param GIT_HTTP_EXPORT_ALL 1;
      fastcgi_param PATH_INFO $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param REMOTE_USER $remote_user;
    }}
  }}
}}
"
    );
    fs::write(dir.join("nginx.conf"), config).unwrap();
    let mut fcgiwrap = Command::new("/usr/sbin/fcgiwrap");
    fcgiwrap.arg("-s").arg(format!("unix:{directory}/fcgi"));
    let mut nginx = Command::new("/usr/sbin/nginx");
    nginx.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf"));
    let processes = vec![
        Running::spawn(&mut fcgiwrap, "fcgiwrap", dir, dir),
        Running::spawn(&mut nginx, "nginx", dir, dir),
    ];
    GitServer::https(dir, port, processes)
}

/// C git behind OpenSSH.
pub(super) fn openssh(dir: &Path) -> GitServer {
    write_keys(dir);
    write_hook(dir);
    // A server run by root uses this directory for privilege separation.
    let _ = fs::create_dir_all("/run/sshd");
    let (port, directory) = (free_port(), dir.display());
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\n\
         UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n"
    );
    fs::write(dir.join("sshd_config"), config).unwrap();
    let mut sshd = Command::new("/usr/sbin/sshd");
    sshd.args(["-D", "-e", "-f"]).arg(dir.join("sshd_config"));
    let path = format!("{directory}/config.git");
    GitServer::ssh(dir, port, &path, vec![Running::spawn(&mut sshd, "sshd", dir, dir)])
}

/// JGit's servlet on Jetty.
pub(super) fn jgit(dir: &Path) -> GitServer {
    let (port, _, java) = start_jgit(dir);
    GitServer::https(dir, port, vec![java])
}

/// JGit behind Apache MINA.
pub(super) fn jgit_over_ssh(dir: &Path) -> GitServer {
    let (_, port, java) = start_jgit(dir);
    GitServer::ssh(dir, port, "/config.git", vec![java])
}

fn start_jgit(dir: &Path) -> (u16, u16, Running) {
    write_certificates(dir);
    write_keys(dir);
    let store = [
        "pkcs12",
        "-export",
        "-in",
        "tls.crt",
        "-inkey",
        "tls.key",
        "-out",
        "tls.p12",
        "-passout",
        "pass:password",
    ];
    run(dir, "openssl", &store);
    let classes = built("tests/gitservers/jgit/build");
    let (https, ssh) = (free_port(), free_port());
    let mut java = Command::new("java");
    java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    java.arg(format!("{0}:{0}/*", classes.display())).arg("GitServer").arg(dir);
    java.args([https.to_string(), ssh.to_string(), format!("{USER}:{PASSWORD}")]);
    (https, ssh, Running::spawn(&mut java, "jgit", dir, dir))
}

/// dulwich, written in Python. It runs hooks from disk but does not forward their output.
pub(super) fn dulwich(dir: &Path) -> GitServer {
    write_certificates(dir);
    write_hook(dir);
    let port = free_port();
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", built("tests/gitservers/dulwich/build"));
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gitservers/dulwich/server.py")).arg(dir);
    python.args([port.to_string(), format!("{USER}:{PASSWORD}")]);
    let server = GitServer::https(dir, port, vec![Running::spawn(&mut python, "dulwich", dir, dir)]);
    GitServer { refusal: "pre-receive hook declined", ..server }
}

/// go-git, written in Go. `git -c protocol.version=0 clone --depth 1` fails with it: "expected shallow list".
pub(super) fn go_git(dir: &Path) -> GitServer {
    write_certificates(dir);
    let port = free_port();
    let mut go_git = Command::new(built("tests/gitservers/go-git/build"));
    go_git.arg(dir).args([port.to_string(), format!("{USER}:{PASSWORD}")]);
    let server = GitServer::https(dir, port, vec![Running::spawn(&mut go_git, "go-git", dir, dir)]);
    GitServer { sends_whole_history: true, ..server }
}

/// Writes the hook that rejects pushes, for servers that run hooks from disk.
fn write_hook(dir: &Path) {
    let hook = dir.join("config.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\ncd \"$GIT_DIR\" || exit\n[ ! -e refuse ] || { cat refuse >&2; exit 1; }\n";
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes the keys of the server, of an accepted client, and of a rejected one.
fn write_keys(dir: &Path) {
    for name in ["host", "client", "stranger"] {
        // MINA reads this key type without additional libraries.
        run(dir, "ssh-keygen", &["-q", "-t", "ecdsa", "-N", "", "-f", name]);
    }
    fs::copy(dir.join("client.pub"), dir.join("authorized_keys")).unwrap();
}
