//! Packed charts, compared with the helm and kustomize that our rendering must match. helm packs them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::kube::built;

const PARENT: &str = "apiVersion: v2\nname: site\nversion: 1.2.3\ndependencies:\n\
    - {name: common, version: 0.1.0, repository: 'file://../common'}\n\
    - {name: web, version: 0.1.0, repository: 'file://../web', alias: front}\n";
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-{{ .Chart.Name }}'}\n\
    data:\n  v: '{{ .Values.v }}'\n  common: '{{ include \"common\" . }}'\n\
    {{ range $path, $_ := .Files.Glob \"**\" }}  {{ $path }}: x\n{{ end }}";

/// Runs a program in a directory, and returns its output.
pub(super) fn run(program: &Path, arguments: &[&str], dir: &Path) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(dir).env("HOME", dir).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Writes a chart with two subcharts, which `helm dependency build` packs.
fn write_charts(helm: &Path, dir: &Path) {
    write(
        dir,
        &[
            ("site/Chart.yaml", PARENT),
            ("site/.helmignore", "secret\n*.bak\n"),
            ("site/values.yaml", "v: site\nfront: {v: front}\n"),
            ("site/secret", "ignored"),
            ("site/kept", "kept"),
            ("site/templates/a.yaml", TEMPLATE),
            ("common/Chart.yaml", "{apiVersion: v2, name: common, version: 0.1.0, type: library}"),
            ("common/templates/_a.tpl", "{{ define \"common\" }}shared{{ end }}"),
            ("web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
            ("web/.helmignore", "ignored\n"),
            ("web/ignored", "ignored"),
            ("web/a.bak", "kept, as the rules of the parent do not hold here"),
            ("web/values.yaml", "v: web\n"),
            ("web/crds/a.yaml", "kind: CustomResourceDefinition\nmetadata: {name: a}\n"),
            ("web/templates/a.yaml", TEMPLATE),
        ],
    );
    run(helm, &["dependency", "update", "site"], dir);
    assert!(dir.join("site/charts/web-0.1.0.tgz").is_file());
}

#[test]
fn packed_charts_render_as_in_helm() {
    let helm = built("tests/kustomize/build").join("helm");
    let ours = Path::new(env!("CARGO_BIN_EXE_wheelwright"));
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    write_charts(&helm, dir);
    run(&helm, &["package", "site"], dir);
    // A file of the archive that its ignore rules name.
    run(Path::new("tar"), &["-czf", "unusual-1.2.3.tgz", "site"], dir);
    for chart in ["site", "site-1.2.3.tgz", "unusual-1.2.3.tgz"] {
        let options = ["--namespace", "shop", "--include-crds", "--kube-version", "1.36.0", "--set", "v=set"];
        let expected = run(&helm, &[&["template", "release-name", chart][..], &options].concat(), dir);
        for part in ["v: 'front'", "v: 'set'", "common: 'shared'", "kept: x", "a.bak: x"] {
            assert!(expected.contains(part), "{expected}");
        }
        assert_eq!(expected.contains("secret: x"), chart.starts_with("unusual"), "{expected}");
        assert_eq!(
            run(ours, &[&["render", "--chart", chart][..], &options].concat(), dir),
            expected,
            "{chart}"
        );
    }
}

#[test]
fn kustomizations_with_packed_charts_render_as_in_kustomize() {
    let programs = built("tests/kustomize/build");
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    write_charts(&programs.join("helm"), dir);
    let charts = "helmGlobals: {chartHome: .}\nhelmCharts:\n- {name: site, namespace: shop, releaseName: a, includeCRDs: true}\n";
    write(dir, &[("kustomization.yaml", charts)]);
    let helm = programs.join("helm").display().to_string();
    let build = ["build", "--enable-helm", "--helm-command", &helm, "."];
    let kustomize = || run(&programs.join("kustomize"), &build, dir);
    let expected = kustomize();
    assert!(expected.contains("v: front"), "{expected}");
    let ours = Path::new(env!("CARGO_BIN_EXE_wheelwright"));
    assert_eq!(run(ours, &["render", "."], dir), expected);

    // kustomize would pull this chart to site-1.2.3/site.
    run(&programs.join("helm"), &["package", "site"], dir);
    std::fs::remove_dir_all(dir.join("site")).unwrap();
    std::fs::create_dir(dir.join("site-1.2.3")).unwrap();
    run(Path::new("tar"), &["-xzf", "site-1.2.3.tgz", "-C", "site-1.2.3"], dir);
    let pulled = charts.replace("name: site,", "name: site, repo: 'https://charts.invalid', version: 1.2.3,");
    write(dir, &[("kustomization.yaml", &pulled)]);
    let expected = kustomize();
    std::fs::remove_dir_all(dir.join("site-1.2.3")).unwrap();
    assert_eq!(run(ours, &["render", "."], dir), expected);
}

#[test]
fn a_damaged_archive_is_named() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    write(
        dir,
        &[("c-1.0.0.tgz", "not an archive"), ("c/Chart.yaml", PARENT), ("c/charts/web.tgz", "neither")],
    );
    for (chart, expected) in [
        ("c-1.0.0.tgz", "cannot render the chart c-1.0.0.tgz: the file is not a gzip archive"),
        (
            "c",
            "cannot render the chart c, charts/web.tgz: error unpacking subchart web.tgz in site: the file is not a gzip archive",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let output = command.args(["render", "--chart", chart]).current_dir(dir).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
    }
}
