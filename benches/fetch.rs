//! Measures the cost of the first fetch of a repository with a long history and of fetching the next commit,
//! compared to C git with `--depth 1` against the same `git daemon`.
//!
//! `cargo bench --bench fetch [-- MIB_OF_HISTORY [REFERENCES [FILES]]]`
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench fails by panicking, and measures by the real clock"
)]

use std::io::{BufWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use wheelwright::git::{Credentials, History, Mirror, RefSpec, Remote};

/// Runs the command given as arguments and prints its peak memory in KiB.
const PEAK: &str = "import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let [role, url, cache, accepted] = args.as_slice()
        && role == "fetch"
    {
        return fetch(url, Path::new(cache), accepted);
    }
    let mut numbers = args.iter().map(|word| word.parse::<usize>().unwrap());
    let (history, references, files) =
        (numbers.next().unwrap_or(64), numbers.next().unwrap_or(2_000), numbers.next().unwrap_or(5_000));
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("config.git");
    git(dir.path(), &["init", "-q", "--bare", "-b", "main", "config.git"]);
    import(&repository, |out| {
        write_history(out, history);
        write_tip(out, references, files);
    });
    let daemon = Daemon::start(dir.path());
    let (ours, theirs) = (dir.path().join("cache"), dir.path().join("clone.git"));
    std::fs::create_dir(&ours).unwrap();
    let program = std::env::current_exe().unwrap();
    let tip = || git(&repository, &["rev-parse", "main"]);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    println!("{history} MiB of history, {references} references, {files} files at the tip");
    let mut accepted = "-".to_owned();
    for what in ["first fetch", "next commit"] {
        let fetch = [path(&program), "fetch".into(), daemon.url.clone(), path(&ours), accepted.clone()];
        daemon.measure(&format!("{what}, wheelwright"), &fetch);
        let git = match what {
            "first fetch" => vec!["clone", "-q", "--bare", "--depth", "1", "-b", "main", &daemon.url],
            _ => vec!["-C", theirs.to_str().unwrap(), "fetch", "-q", "--depth", "1", "origin", "+main:main"],
        };
        let mut command: Vec<String> = ["git"].iter().chain(&git).map(|word| (*word).to_owned()).collect();
        if what == "first fetch" {
            command.push(path(&theirs));
        }
        daemon.measure(&format!("{what}, git --depth 1"), &command);
        accepted = tip();
        import(&repository, |out| {
            let head = "commit refs/heads/main\ncommitter a <a@example.com> 2 +0000\ndata 4\nnext\nfrom refs/heads/main^0\n";
            writeln!(out, "{head}M 100644 inline next.yaml\ndata 5\nnext\n").unwrap();
        });
    }
}

/// Fetches as the operator does, in a separate process.
fn fetch(url: &str, cache: &Path, accepted: &str) {
    let mut mirror = Mirror::open(cache, Remote::parse(url).unwrap(), Credentials::default()).unwrap();
    let accepted = Some(accepted).filter(|accepted| *accepted != "-");
    mirror.fetch(&RefSpec::branch("main").unwrap(), History { accepted, allowed: None }).unwrap();
}

/// Runs git and returns its output.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Feeds a stream to `git fast-import`.
fn import(repository: &Path, write: impl FnOnce(&mut dyn std::io::Write)) {
    let mut command = Command::new("git");
    command.args(["fast-import", "--quiet"]).current_dir(repository).stdin(Stdio::piped());
    let mut import = command.spawn().unwrap();
    let mut out = BufWriter::new(import.stdin.take().unwrap());
    write(&mut out);
    drop(out);
    assert!(import.wait().unwrap().success());
}

/// Writes commits that each contain an incompressible file of 1 MiB.
fn write_history(out: &mut dyn std::io::Write, commits: usize) {
    let mut random = 88_172_645_463_325_252_u64;
    for _ in 0..commits {
        let mut noise = Vec::with_capacity(1 << 20);
        while noise.len() < 1 << 20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            noise.extend(random.to_le_bytes());
        }
        writeln!(out, "commit refs/heads/main\ncommitter a <a@example.com> 1 +0000\ndata 3\nold").unwrap();
        writeln!(out, "M 100644 inline noise\ndata {}", noise.len()).unwrap();
        out.write_all(&noise).unwrap();
        writeln!(out).unwrap();
    }
}

/// Writes the commit at the tip, which contains only small files, and references to it.
fn write_tip(out: &mut dyn std::io::Write, references: usize, files: usize) {
    writeln!(out, "commit refs/heads/main\nmark :1\ncommitter a <a@example.com> 1 +0000\ndata 3\ntip")
        .unwrap();
    writeln!(out, "D noise").unwrap();
    for file in 0..files {
        let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{file}}}\n");
        writeln!(out, "M 100644 inline {}/{file}.yaml\ndata {}\n{map}", file / 100, map.len()).unwrap();
    }
    for reference in 0..references {
        writeln!(out, "reset refs/tags/v{reference}\nfrom :1\n").unwrap();
    }
}

/// `git daemon` behind a proxy that counts the bytes it sends.
struct Daemon {
    child: Child,
    url: String,
    sent: Arc<AtomicUsize>,
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // Run the server directly: as a child of `git`, it would survive when `git` is killed.
        let mut command = Command::new(Path::new(&git(dir, &["--exec-path"])).join("git-daemon"));
        command.args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"]).arg(format!("--port={port}"));
        let child = command.arg(format!("--base-path={}", dir.display())).arg(dir).spawn().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        let (proxy, sent) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(AtomicUsize::new(0)));
        let url = format!("git://{}/config.git", proxy.local_addr().unwrap());
        let counted = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in proxy.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || pass_on(server, client, &counted));
            }
        });
        Self { child, url, sent }
    }

    /// Runs a command and prints its duration, the bytes the server sent, and its peak memory.
    fn measure(&self, name: &str, command: &[String]) {
        let (before, began) = (self.sent.load(Ordering::Relaxed), Instant::now());
        let output = Command::new("python3").args(["-c", PEAK]).args(command).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let took = began.elapsed().as_secs_f64();
        let sent = self.sent.load(Ordering::Relaxed) - before;
        let peak: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        println!("{name:30} {took:6.2} s {:8} kB sent {:6} MiB of memory", sent / 1_000, peak >> 10);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pass_on(mut server: TcpStream, mut client: TcpStream, sent: &AtomicUsize) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = server.read(&mut buffer)
        && length > 0
    {
        sent.fetch_add(length, Ordering::Relaxed);
        if client.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Write);
}
