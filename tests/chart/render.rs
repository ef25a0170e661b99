//! Compares `wheelwright render --chart` with helm on the charts of this repository.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::kube::helm;

fn rendered(chart: &str, more: &[&str]) -> Output {
    let chart = format!("{}/charts/{chart}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.args(["render", "--chart", &chart, "--release", "wheelwright", "--namespace", helm::NAMESPACE]);
    command.args(["--kube-version", "1.36.0"]).args(more).stdin(Stdio::null()).output().unwrap()
}

/// Returns the objects sorted by kind and name. The pinned helm 3 sorts them in another order.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]));
    objects
}

#[test]
fn charts_of_this_repository_render_as_in_helm() {
    for (chart, set, json) in [
        ("wheelwright", "replicas=3", "replicas=3"),
        ("wheelwright-agent", "clusterName=c1", "clusterName=\"c1\""),
        ("wheelwright-registration-operator", "replicas=1", "replicas=1"),
    ] {
        let output = rendered(chart, &["--set", set]);
        assert!(output.status.success(), "{chart}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let objects = text.split("\n---").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let ours = sorted(objects.filter(Value::is_object).collect());
        assert_eq!(ours, sorted(helm::render(chart, &[json]).unwrap()), "{chart}");
    }
}

#[test]
fn a_value_that_the_chart_requires_is_asked_for_with_its_line() {
    let output = rendered("wheelwright-agent", &[]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("cannot render the chart") && error.contains(" line "), "{error}");
    assert!(error.contains("hint: "), "{error}");
}
