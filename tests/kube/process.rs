//! Runs a control plane's processes, and the scripts that build programs.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use super::Directory;

/// Number of log lines to show when a process fails.
const TAIL: usize = 20;
/// Range of the ports. It is below the system's range for outgoing connections, so that no connection takes a port
/// before its server does.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A child that is killed when dropped.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(name: &'static str, mut command: Command, dir: &Directory) -> Self {
        let log = dir.path(&format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|e| panic!("cannot start {name}: {e}"));
        Self { name, child, log }
    }

    /// Returns all output of the process.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended with {status}:\n{}", self.name, self.log_tail());
        }
    }

    /// Returns the end of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("{}:\n{}", self.log.display(), lines[lines.len().saturating_sub(TAIL)..].join("\n"))
    }

    pub(super) fn kill(&mut self) {
        // A child that has already exited needs no signal.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a loopback port on which no process listens. Each process returns a port only once.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    // Concurrent test processes start at different ports.
    let start = u16::try_from(std::process::id().wrapping_mul(131) % u32::from(span)).unwrap();
    for _ in 0..span {
        let offset = (u32::from(start) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(span);
        let port = PORTS.start + u16::try_from(offset).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {} and {}", PORTS.start, PORTS.end);
}

/// Runs a build script, which builds only what is missing, and returns the path that it prints.
pub(crate) fn built(script: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let built = Command::new(path).stderr(Stdio::inherit()).output();
    let built = built.unwrap_or_else(|error| panic!("{script} does not run: {error}"));
    assert!(built.status.success(), "{script} failed; see above");
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}
