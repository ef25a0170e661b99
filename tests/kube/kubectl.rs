//! The pinned kubectl, with its own home directory.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{POLL, READY_WITHIN, assets};

/// kubectl with one kubeconfig file.
pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// Creates `home`, where kubectl keeps its discovery cache, if it does not exist.
    pub(crate) fn new(kubeconfig: &Path, home: PathBuf) -> Self {
        std::fs::create_dir_all(&home).unwrap();
        Self { kubeconfig: kubeconfig.to_owned(), home }
    }

    /// Returns the command, for callers that stream its output or stop it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assets().join("kubectl"));
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).stdin(Stdio::null());
        command
    }

    /// Runs kubectl and returns its standard output; panics if it fails. If the API server does not respond, reads are
    /// repeated, because a busy machine leaves it without CPU time.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let output = self.command(args).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            let is_away = ["Unable to connect to the server", "etcdserver: request timed out"]
                .iter()
                .any(|words| error.contains(words));
            if args.first() != Some(&"get") || !is_away || Instant::now() > deadline {
                return Self::text(args, output);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Runs kubectl with a document on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], document: &str) -> String {
        Self::text(args, self.output_with(args, document))
    }

    /// Installs custom resource definitions and waits until their kinds can be used.
    pub(crate) fn install(&self, definitions: impl Iterator<Item = CustomResourceDefinition>) {
        let definitions: Vec<CustomResourceDefinition> = definitions.collect();
        let documents: Vec<String> =
            definitions.iter().map(|crd| serde_json::to_string(crd).unwrap()).collect();
        self.run_with(&["apply", "--server-side", "-f", "-"], &documents.join("\n"));
        let kinds = definitions.iter().map(|crd| format!("{}.{}", crd.spec.names.plural, crd.spec.group));
        self.finds(&kinds.collect::<Vec<_>>());
    }

    /// Waits until clients discover kinds, named as `plural.group`. The API server establishes a definition before that.
    pub(crate) fn finds(&self, kinds: &[String]) {
        let list = ["api-resources", "--cached=false", "--output=name"];
        self.until(&list, |output| {
            let known = String::from_utf8_lossy(&output.stdout);
            kinds.iter().all(|kind| known.lines().any(|line| line == *kind))
        });
    }

    /// Waits until all custom resource definitions are established. kubectl fails if one has no conditions yet.
    pub(crate) fn establishes(&self) {
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=5s"];
        self.until(&wait, |output| output.status.success());
    }

    /// Runs kubectl until its output is as expected.
    fn until(&self, args: &[&str], is_expected: impl Fn(&Output) -> bool) {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let output = self.command(args).output().unwrap();
            if is_expected(&output) {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain for kubectl {args:?}: {output:?}");
            std::thread::sleep(POLL);
        }
    }

    /// Runs kubectl with a document on its standard input, and accepts any outcome.
    pub(crate) fn output_with(&self, args: &[&str], document: &str) -> Output {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let written = child.stdin.take().unwrap().write_all(document.as_bytes());
        let output = child.wait_with_output().unwrap();
        // If kubectl fails early, it prints the reason and reads nothing.
        assert!(written.is_ok() || !output.status.success(), "{written:?}");
        output
    }

    /// Runs kubectl and returns its standard error; panics if it succeeds.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "kubectl {} should fail, but printed:\n{out}{err}", args.join(" "));
        err.into_owned()
    }

    fn text(args: &[&str], output: Output) -> String {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {}: {}\n{out}{err}", args.join(" "), output.status);
        out.into_owned()
    }
}
