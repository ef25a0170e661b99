//! Runs our processes in tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Polling interval.
const POLL: Duration = Duration::from_millis(100);

/// Returns the command that serves the repositories in a directory with git's own server. It avoids the `git`
/// program, whose child server would survive when `git` is killed.
pub(crate) fn git_daemon(dir: &Path, port: u16) -> Command {
    let programs = Command::new("git").arg("--exec-path").output().unwrap().stdout;
    let programs = PathBuf::from(String::from_utf8(programs).unwrap().trim());
    let mut command = Command::new(programs.join("git-daemon"));
    command.args(["--export-all", "--reuseaddr", "--listen=127.0.0.1"]).arg(format!("--port={port}"));
    command.arg(format!("--base-path={}", dir.display()));
    command
}

/// Returns the program in whose image a command line runs: `agent` or, for example, `/work agent`.
pub(crate) fn program(args: &[&str]) -> &'static str {
    match args.iter().take(2).any(|arg| *arg == "agent") {
        true => env!("CARGO_BIN_EXE_wheelwright-agent"),
        false => env!("CARGO_BIN_EXE_wheelwright"),
    }
}

/// One of our processes. It ends with the test, and its log is printed if the test fails.
pub(crate) struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn start(name: &str, dir: &Path, args: &[&str]) -> Self {
        Self::start_program(program(args), name, dir, args)
    }

    pub(crate) fn start_program(program: &str, name: &str, dir: &Path, args: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(args), name, dir, dir)
    }

    /// Serves the repositories in a directory with git's own server.
    pub(crate) fn git_daemon(dir: &Path, port: u16) -> Self {
        Self::spawn(&mut git_daemon(dir, port), "git-daemon", dir, dir)
    }

    /// Starts a process whose home directory differs from its log directory.
    pub(crate) fn start_at_home(name: &str, dir: &Path, home: &Path, args: &[&str]) -> Self {
        Self::spawn(Command::new(program(args)).args(args), name, dir, home)
    }

    pub(crate) fn spawn(command: &mut Command, name: &str, dir: &Path, home: &Path) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        command.env("HOME", home).env("XDG_CACHE_HOME", dir.join("cache")).env_remove("NO_COLOR");
        command.stdin(Stdio::null());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { name: name.into(), child, log }
    }

    /// Sends SIGTERM to the process. Returns true if it exits in time.
    pub(crate) fn terminate(mut self, within: Duration) -> bool {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let until = std::time::Instant::now() + within;
        while std::time::Instant::now() < until {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(POLL);
        }
        false
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(40).collect();
            eprintln!("== the end of {}'s log", self.name);
            lines.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
