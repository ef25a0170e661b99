//! Drives a headless chromium with the DevTools protocol over a pipe: JSON messages that end with a zero byte.
//!
//! The pipe needs no port, WebSocket or driver, so a hundred lines replace a crate.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum wait for a response, sized for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// A browser with one page.
pub(crate) struct Chromium {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    next: u64,
    session: String,
    /// The prefix of the URLs that the page may request.
    origin: String,
    /// Number of requests by the page, all to its own origin.
    pub(crate) requests: u64,
    /// Number of bytes that the page received, including headers.
    pub(crate) received: u64,
    // The last field, so that the browser exits before its files are removed.
    _dir: TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Killing a browser that has already exited is harmless.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Chromium {
    /// Starts the browser and opens a page.
    pub(crate) fn open(url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (to, from) = (dir.path().join("commands"), dir.path().join("messages"));
        let made = Command::new("mkfifo").args([&to, &from]).status().unwrap();
        assert!(made.success());
        // The browser reads commands from descriptor 3 and writes messages to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec chromium "$@" 3<"$0/commands" 4>"$0/messages""#]).arg(dir.path());
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"]);
        command.args(["--no-first-run", "--disable-dev-shm-usage", "--window-size=1200,900"]);
        command.arg(format!("--user-data-dir={}", dir.path().join("profile").display())).arg("about:blank");
        command.env("HOME", dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let commands = File::options().write(true).open(&to).unwrap();
        let messages = read(File::open(&from).unwrap());
        let mut browser = Self {
            child,
            commands,
            messages,
            next: 0,
            session: String::new(),
            origin: url.splitn(4, '/').take(3).map(|part| format!("{part}/")).collect(),
            requests: 0,
            received: 0,
            _dir: dir,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session =
            browser.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        browser.call("Security.setIgnoreCertificateErrors", json!({"ignore": true}));
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            browser.call(domain, json!({}));
        }
        browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        browser.call("Performance.enable", json!({"timeDomain": "threadTicks"}));
        browser.go(url);
        browser
    }

    /// Loads a page.
    pub(crate) fn go(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{url}: {answer}");
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Sends a command and waits for its response, which must not be an error.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer =
                self.messages.recv_timeout(WITHIN).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["method"] == "Network.dataReceived" {
                self.received += answer["params"]["dataLength"].as_u64().unwrap();
            }
            if answer["method"] == "Network.requestWillBeSent" {
                let url = answer["params"]["request"]["url"].as_str().unwrap();
                // A data: URL contains its own content.
                assert!(url.starts_with(&self.origin) || url.starts_with("data:"), "the page asks for {url}");
                self.requests += 1;
            }
            if answer["id"] == self.next {
                return answer.get("error").cloned().map_or_else(|| Ok(answer["result"].clone()), Err);
            }
        }
    }

    /// Returns the value of an expression in the page; promises are awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression:.200}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Runs a statement that may leave the page.
    pub(crate) fn press(&mut self, statement: &str) {
        self.evaluate(&format!("setTimeout(() => {{ {statement} }}); true"));
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let deadline = Instant::now() + WITHIN;
        let params = json!({"expression": format!("Boolean({expression})"), "returnByValue": true});
        // While a page is being replaced, expressions cannot be evaluated.
        while !self.try_call("Runtime.evaluate", params.clone()).is_ok_and(|it| it["result"]["value"] == true)
        {
            if Instant::now() > deadline {
                let text = self.evaluate("document.body.innerText");
                panic!("waited in vain for {expression}; the page says:\n{text}");
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the page shows a text.
    pub(crate) fn wait_for_text(&mut self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Waits until the page has a button whose name, including screen-reader text, begins with a text.
    pub(crate) fn wait_for_button(&mut self, name: &str) {
        let buttons = "[...document.querySelectorAll('summary, button')]";
        self.wait(&format!("{buttons}.some(one => one.textContent.startsWith({}))", json!(name)));
    }

    /// Returns the CPU time that the page's thread has used.
    pub(crate) fn cpu_time(&mut self) -> Duration {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let tasks = metrics["metrics"].as_array().unwrap().iter().find(|one| one["name"] == "TaskDuration");
        Duration::from_secs_f64(tasks.unwrap()["value"].as_f64().unwrap())
    }

    /// Returns a screenshot of the page, in PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }
}

/// Reads messages on its own thread, so that a wait for one can time out.
fn read(pipe: File) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(pipe).split(0) {
            let Ok(message) = message else { return };
            if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                return;
            }
        }
    });
    receiver
}
