//! The golden cases of kustomizations with charts, rendered by kustomize with the helm that our rendering must
//! match.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kube::built;

/// Adds the directories below `dir` that contain kustomize output.
fn find(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, found);
        } else {
            found.push(dir.to_owned());
        }
    }
}

#[test]
fn kustomizations_with_charts_are_expected_to_render_as_in_kustomize() {
    let programs = built("tests/kustomize/build");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/render");
    let mut cases = Vec::new();
    find(&golden.join("expected"), &mut cases);
    cases.retain(|case| case.strip_prefix(golden.join("expected")).unwrap().starts_with("helm"));
    assert!(cases.len() >= 6, "{cases:?}");
    let home = tempfile::tempdir().unwrap();
    for case in cases {
        let input = golden.join("input").join(case.strip_prefix(golden.join("expected")).unwrap());
        let mut kustomize = Command::new(programs.join("kustomize"));
        kustomize.args(["build", "--enable-helm", "--helm-command"]).arg(programs.join("helm")).arg(&input);
        let output = kustomize.env("HOME", home.path()).stdin(Stdio::null()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {}", input.display(), String::from_utf8_lossy(&output.stderr));
        let expected = std::fs::read_to_string(case.join("objects.yaml")).unwrap();
        assert_eq!(printed, expected, "{}", input.display());
    }
}
