//! Commands on a terminal emulator that keeps the screen and its scrollback.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vt100::Parser;

use crate::kube::Directory;
use crate::sources::Hub;
use crate::wait::eventually;

/// More lines than the demo prints.
const SCROLLBACK: usize = 10_000;
/// The start of a group's row in the picture. In the demo's documents, more blanks precede it.
const ROW: &str = "  fleet/aws canary  ";
const CTRL_C: &[u8] = b"\x03";

/// A terminal and the program running on it.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Parser>>,
    program: Child,
}

impl Terminal {
    fn start(mut program: Command, rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        let end = || OwnedFd::try_clone(&slave).unwrap();
        set_size(&master, rows, columns);
        let program = program.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(Parser::new(rows, columns, SCROLLBACK)));
        let (mut output, shown) = (File::from(master.try_clone().unwrap()), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails once the program has exited.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { keyboard: File::from(master), screen, program }
    }

    fn resize(&self, rows: u16, columns: u16) {
        let mut screen = self.screen.lock().unwrap();
        set_size(&self.keyboard, rows, columns);
        screen.screen_mut().set_size(rows, columns);
    }

    /// Returns the lines in the scrollback and on the screen.
    fn lines(&self) -> (Vec<String>, Vec<String>) {
        let mut parser = self.screen.lock().unwrap();
        let screen = parser.screen_mut();
        let columns = screen.size().1;
        screen.set_scrollback(SCROLLBACK);
        let mut out = Vec::new();
        for offset in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(offset);
            out.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        (out, screen.rows(0, columns).collect())
    }

    /// Waits for a text on the screen. Until then, at most one picture may be shown.
    async fn wait_for(&self, text: &str) {
        eventually(text, async || {
            let (out, screen) = self.lines();
            let pictures = out.iter().chain(&screen).filter(|line| line.starts_with(ROW)).count();
            assert!(pictures <= 1, "{pictures} pictures:\n{}\n{}", out.join("\n"), screen.join("\n"));
            screen.iter().any(|line| line.contains(text))
        })
        .await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A program that has already exited needs no signal.
        drop(self.program.kill());
        self.program.wait().unwrap();
    }
}

fn set_size(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

fn wheelwright(arguments: &[&str]) -> Command {
    // Ctrl-C reaches the programs attached to this controlling terminal.
    let mut command = Command::new("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_wheelwright")]).args(arguments);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_leaves_the_lines_above_and_follows_the_height_of_the_terminal() {
    let hub = Hub::start().await;
    let kubeconfig = hub.dir.path().join("kubeconfig");
    let mut command = Command::new("setsid");
    command.args(["--ctty", "sh", "-c", "echo above; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_wheelwright")]);
    command.args(["status", "--watch", "--kubeconfig"]).arg(kubeconfig).env("TERM", "xterm");
    let terminal = Terminal::start(command, 5, 120);
    terminal.wait_for(" more lines").await;
    terminal.resize(24, 120);
    terminal.wait_for("0 of 0 available").await;
    let all = <[Vec<String>; 2]>::from(terminal.lines()).concat();
    assert_eq!(all[0], "above", "{all:#?}");
    assert_eq!(all.iter().filter(|line| line.contains("no operator has a lease")).count(), 1, "{all:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_picture_of_the_demo_stays_in_one_place_while_lines_scroll_and_the_terminal_changes() {
    let dir = Directory::new("terminal");
    let directory = dir.path("demo");
    let demo = ["demo", "--stay", "--clusters", "6", "--dir", directory.to_str().unwrap()];
    let mut terminal = Terminal::start(wheelwright(&demo), 24, 100);
    terminal.wait_for("log of all parts in").await;
    terminal.wait_for("  fleet/aws canary  ✓ aws-1 0.9.0").await;

    // Three clusters of a group are shown side by side, or below each other on a narrow terminal.
    terminal.wait_for("✓ aws-2 0.9.0  ✓ aws-3 0.9.0").await;
    terminal.resize(24, 30);
    terminal.wait_for(" aws-3 0.").await;
    terminal.resize(30, 110);
    terminal.wait_for("✓ aws-2 0.10.0  ✓ aws-3 0.10.0").await;

    // At the end everything stays on screen, and the picture keeps updating.
    terminal.wait_for("try, on the hub: wheelwright").await;
    terminal.wait_for("  fleet/aws canary  ↩ aws-1 0.10.0").await;
    let hub = directory.join("hub.kubeconfig");
    let mut release = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    release.args(["rollout", "resume", "managed-serviceaccount", "--release", "--kubeconfig"]).arg(hub);
    let released = release.output().unwrap();
    assert!(released.status.success(), "{}", String::from_utf8_lossy(&released.stderr));
    terminal.wait_for("  fleet/aws canary  ↻ aws-1 0.10.1").await;

    terminal.keyboard.write_all(CTRL_C).unwrap();
    eventually("the demo ends", async || terminal.program.try_wait().unwrap().is_some()).await;
    let all = || <[Vec<String>; 2]>::from(terminal.lines()).concat();
    eventually("the picture is gone", async || !all().iter().any(|line| line.starts_with(ROW))).await;
    let all = all();
    assert!(all[0].starts_with("== log of all parts in"), "{}", all[0]);
    let of_the_log =
        all.iter().find(|line| ["INFO", "WARN", "ERROR"].iter().any(|level| line.contains(level)));
    assert_eq!(of_the_log, None, "the log goes to a file");
    assert!(std::fs::read_to_string(directory.join("demo.log")).unwrap().contains("INFO"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_demo_that_is_to_stay_keeps_its_processes() {
    let dir = Directory::new("failed-demo");
    let directory = dir.path("demo");
    let demo = ["demo", "--stay", "--clusters", "2", "--dir", directory.to_str().unwrap()];
    let mut terminal = Terminal::start(wheelwright(&demo), 24, 200);
    terminal.wait_for("repository at").await;
    std::fs::remove_dir_all(directory.join("fleet.git")).unwrap();
    terminal.wait_for("the demo failed").await;
    terminal.wait_for("try, on the hub: wheelwright").await;
    let mut get = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    get.args(["get", "clusters", "--kubeconfig"]).arg(directory.join("hub.kubeconfig"));
    assert!(get.status().unwrap().success());

    terminal.keyboard.write_all(CTRL_C).unwrap();
    eventually("the demo ends", async || terminal.program.try_wait().unwrap().is_some()).await;
}
