//! The pinned helm, and the charts as it renders them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::built;

/// The namespace for which the charts are rendered.
pub(crate) const NAMESPACE: &str = "wheelwright-system";

/// Returns the path of helm, building it if it does not exist.
pub(crate) fn program() -> PathBuf {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    HELM.get_or_init(|| built("tests/helm/build")).clone()
}

/// Renders a chart in `charts/` with values such as `replicas=1`.
///
/// # Errors
/// helm rejects the values.
pub(crate) fn render(chart: &str, values: &[&str]) -> Result<Vec<Value>, String> {
    render_in(NAMESPACE, chart, values)
}

/// Returns the notes that helm prints after installing a chart in `charts/` with values.
pub(crate) fn notes(kubeconfig: &Path, chart: &str, values: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let chart = format!("{}/charts/{chart}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(program());
    command.args(["install", "wheelwright", &chart, "--dry-run=client", "--namespace", NAMESPACE]);
    command.arg("--kubeconfig").arg(kubeconfig);
    for value in values {
        command.args(["--set-json", value]);
    }
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.split_once("NOTES:\n").unwrap().1.to_owned()
}

/// Renders a chart like [`render`], for another namespace.
///
/// # Errors
/// helm rejects the values.
pub(crate) fn render_in(namespace: &str, chart: &str, values: &[&str]) -> Result<Vec<Value>, String> {
    let home = tempfile::tempdir().unwrap();
    let chart = format!("{}/charts/{chart}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(program());
    command.args(["template", "wheelwright", &chart, "--namespace", namespace, "--kube-version", "1.36.0"]);
    for value in values {
        command.args(["--set-json", value]);
    }
    let output = command.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = text.split("\n---").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    Ok(documents.filter(|document| document.is_object()).collect())
}
