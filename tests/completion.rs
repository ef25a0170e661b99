//! Shell completion and the plugin of kubectl, with the real bash and kubectl.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::cli::Cli;
use crate::kube::Kubectl;
use crate::rollout::stopped_hub;
use crate::wait::eventually;

const PROGRAM: &str = env!("CARGO_BIN_EXE_wheelwright");

/// Runs a script of bash, with a directory in front of the path.
fn bash(path: &Path, script: &str) -> String {
    let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash").args(["-c", script]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_completes_commands_and_the_names_of_a_hub() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, _, Cli { kubeconfig }) = stopped_hub(dir.path()).await;
    symlink(PROGRAM, dir.path().join("wheelwright")).unwrap();
    let candidates = |words: &str| {
        let script = format!(
            "source <(wheelwright completion bash); COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9; \
             _clap_complete_wheelwright wheelwright '' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        bash(dir.path(), &script)
    };
    let hub = format!("--kubeconfig {}", kubeconfig.display());
    // A hub that takes too long to answer offers no names.
    let offered = async |words: &str, name: &str| {
        eventually(&format!("{words} {name}"), async || candidates(words).lines().any(|line| line == name))
            .await;
    };
    offered("wheelwright", "status").await;
    offered(&format!("wheelwright rollout status {hub}"), "managed-serviceaccount").await;
    offered(&format!("wheelwright explain placement {hub}"), "fleet/aws").await;
    let unreachable = candidates("wheelwright rollout status --kubeconfig missing");
    assert!(!unreachable.contains("managed-serviceaccount"), "{unreachable}");
}

#[test]
fn kubectl_runs_the_program_as_a_plugin() {
    let dir = tempfile::tempdir().unwrap();
    symlink(PROGRAM, dir.path().join("kubectl-wheelwright")).unwrap();
    let kubectl = Kubectl::new(Path::new("/dev/null"), dir.path().join("home"));
    let mut command = kubectl.command(&["wheelwright", "rollout", "status", "--help"]);
    let output = command.env("PATH", dir.path()).output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("Usage: kubectl wheelwright rollout status "), "{help}");
}
