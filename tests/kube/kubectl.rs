//! The pinned kubectl, with its own home directory.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::assets;

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

    /// Runs kubectl and returns its standard output; panics if it fails.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        Self::text(args, self.command(args).output().unwrap())
    }

    /// Runs kubectl with a document on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], document: &str) -> String {
        Self::text(args, self.output_with(args, document))
    }

    /// Installs custom resource definitions and waits until they are served.
    pub(crate) fn install(&self, definitions: impl Iterator<Item = CustomResourceDefinition>) {
        let definitions: Vec<String> = definitions.map(|crd| serde_json::to_string(&crd).unwrap()).collect();
        self.run_with(&["apply", "--server-side", "-f", "-"], &definitions.join("\n"));
        self.run(&["wait", "--for=condition=Established", "crd", "--all"]);
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
