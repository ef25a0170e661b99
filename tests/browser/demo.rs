//! The demo in a browser: its embedded hub, operator and agents run a rollout until it stops.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::check_accessibility;
use super::chromium::Chromium;
use crate::kube::Directory;

/// The demo process; killed when the test ends.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        // Killing a demo that has already exited is harmless.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rollouts_of_the_demo_are_followed_to_their_stop_in_a_browser() {
    let dir = Directory::new("browser-demo");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["demo", "--stay", "--clusters", "4", "--dir"]).arg(dir.path("demo"));
    let mut demo = Demo(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = lines.inspect(|line| assert!(!line.contains('\u{1b}'), "no terminal reads {line:?}"));
    let url = lines.find_map(|line| Some(line.strip_prefix("== dashboard at ")?.to_owned())).unwrap();
    // The demo blocks if nobody reads its output.
    let printing = std::thread::spawn(move || lines.count());

    let followed = tokio::task::spawn_blocking(move || {
        let mut page = Chromium::open(&url);
        page.wait_for_text("4 of 4 available");
        page.wait_for_text("0.9.0 on ");
        page.wait_for_text("4 of 4 clusters done");
        page.wait_for_text("0.10.0 on ");
        page.wait("document.getElementById('cell:gcp-2').classList.contains('r')");
        page.wait_for_text("0.10.1");
        check_accessibility(&mut page);
        page.go(&format!("{url}cluster?of=gcp-2"));
        page.wait_for_text("Works and objects");
    });
    followed.await.unwrap();
    drop(demo);
    printing.join().unwrap();
}
