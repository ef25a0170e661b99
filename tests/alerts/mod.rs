//! The alerts and the dashboard: promtool checks and tests them, and every metric that they use exists.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::kube::built;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn text(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap()
}

/// Returns the names of the metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("wheelwright_")).collect()
}

/// Returns true if the docs list a metric; a histogram has series with three names.
fn is_documented(name: &str, docs: &str) -> bool {
    let ends = ["_bucket", "_count", "_sum"].iter().filter_map(|end| name.strip_suffix(end));
    let histogram = ends.map(|base| format!("| `{base}` | histogram |")).any(|row| docs.contains(&row));
    histogram
        || (docs.contains(&format!("| `{name}` |")) && !docs.contains(&format!("| `{name}` | histogram |")))
}

#[test]
fn every_metric_that_alerts_and_dashboard_name_exists() {
    let docs = text("docs/metrics.md");
    for (path, at_least) in
        [("charts/wheelwright/files/alerts.yaml", 9), ("charts/wheelwright/files/dashboard.json", 12)]
    {
        let text = text(path);
        let named = metrics(&text);
        // Annotations contain commands and metrics too.
        let unknown: Vec<_> = named
            .iter()
            .filter(|name| !is_documented(name, &docs) && !docs.contains(&format!("`{name}` | histogram")))
            .collect();
        assert!(unknown.is_empty() && named.len() >= at_least, "{path}: {unknown:?} of {named:?}");
    }
    assert!(
        !is_documented("wheelwright_absent", &docs)
            && !is_documented("wheelwright_write_duration_seconds", &docs)
    );
    let dashboard: Value = serde_json::from_str(&text("charts/wheelwright/files/dashboard.json")).unwrap();
    assert!(
        dashboard["panels"].as_array().unwrap().iter().all(|panel| panel["targets"][0]["expr"].is_string())
    );
}

/// Returns the labels that the docs list for a metric; histogram buckets have an additional one.
fn labels_of<'d>(name: &str, docs: &'d str) -> BTreeSet<&'d str> {
    let row = |name: &str| docs.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    let ends = ["", "_bucket", "_count", "_sum"].iter().filter_map(|end| name.strip_suffix(end));
    let row = ends.into_iter().find_map(row).unwrap_or_else(|| panic!("no row for {name}"));
    let labels = row.split('|').nth(3).unwrap().split(',').map(str::trim).filter(|label| !label.is_empty());
    labels.chain(name.ends_with("_bucket").then_some("le")).collect()
}

/// Labels of the scrape targets: of the replicas, and of the hubs if one Prometheus has several.
const OF_TARGETS: [&str; 3] = ["instance", "pod", "cluster"];

/// Returns unknown labels: labels that an expression matches or groups by but its metrics lack, and labels that
/// are shown but missing from its groups.
fn unknown_labels<'t>(expression: &'t str, shown: &[&'t str], docs: &str) -> Vec<&'t str> {
    let mut unknown = Vec::new();
    for (at, _) in expression.match_indices('{') {
        let metric =
            expression[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
        let matchers = expression[at + 1..].split('}').next().unwrap().split(',');
        let labels = matchers.map(|matcher| matcher.split(['=', '!']).next().unwrap().trim());
        let known = |label: &&str| OF_TARGETS.contains(label) || labels_of(metric, docs).contains(label);
        unknown.extend(labels.filter(|label| !known(label)));
    }
    let groups = |keyword: &str| -> BTreeSet<&str> {
        let groups = expression.split(keyword).skip(1).map(|rest| rest.split(')').next().unwrap());
        groups.flat_map(|group| group.split(',').map(str::trim)).collect()
    };
    let (by, without) = (groups("by ("), groups("without ("));
    let mut all: BTreeSet<&str> =
        metrics(expression).into_iter().flat_map(|metric| labels_of(metric, docs)).collect();
    all.extend(OF_TARGETS);
    unknown.extend(by.union(&without).filter(|label| !all.contains(*label)));
    let grouped = if without.is_empty() { by } else { all.difference(&without).copied().collect() };
    unknown.extend(shown.iter().filter(|label| !grouped.contains(*label)));
    unknown
}

#[test]
fn every_label_that_alerts_and_dashboard_use_exists() {
    let docs = text("docs/metrics.md");
    let wrong =
        "sum by (le, repo) (rate(wheelwright_write_duration_seconds_bucket{ok=\"1\", action=~\"a\"}[5m]))";
    assert_eq!(unknown_labels(wrong, &["le", "kind"], &docs), ["ok", "repo", "kind"]);
    let wrong = "sum without (state, repo) (max without (pod) (wheelwright_rollout_clusters{cluster=\"a\"}))";
    assert_eq!(unknown_labels(wrong, &["workload", "state", "kind"], &docs), ["repo", "state", "kind"]);

    let alerts: Value = serde_saphyr::from_str(&text("charts/wheelwright/files/alerts.yaml")).unwrap();
    for rule in alerts["groups"][0]["rules"].as_array().unwrap() {
        let annotations = rule["annotations"].as_object().unwrap().values();
        let shown = annotations.flat_map(|text| text.as_str().unwrap().split("$labels.").skip(1));
        let shown: Vec<&str> = shown.map(|text| text.split([' ', '}']).next().unwrap()).collect();
        let unknown = unknown_labels(rule["expr"].as_str().unwrap(), &shown, &docs);
        assert_eq!(unknown, Vec::<&str>::new(), "{rule}");
    }
    let dashboard: Value = serde_json::from_str(&text("charts/wheelwright/files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    for target in panels.flat_map(|panel| panel["targets"].as_array().unwrap()) {
        let legend = target["legendFormat"].as_str().unwrap().split("{{").skip(1);
        let shown: Vec<&str> = legend.map(|text| text.split("}}").next().unwrap().trim()).collect();
        let unknown = unknown_labels(target["expr"].as_str().unwrap(), &shown, &docs);
        assert_eq!(unknown, Vec::<&str>::new(), "{target}");
    }
}

#[test]
fn every_alert_is_explained_in_the_docs() {
    let (alerts, page) = (text("charts/wheelwright/files/alerts.yaml"), text("docs/alerts.md"));
    let alerts: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, alerts);
}

fn promtool(arguments: &[&str]) -> String {
    let output =
        Command::new(built("tests/promtool/build")).args(arguments).current_dir(ROOT).output().unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}: {printed}");
    printed
}

#[test]
fn alerts_are_valid_and_fire_when_they_should() {
    let printed = promtool(&["check", "rules", "charts/wheelwright/files/alerts.yaml"]);
    assert!(printed.contains("16 rules found"), "{printed}");
    let dir = tempfile::tempdir().unwrap();
    for file in ["charts/wheelwright/files/alerts.yaml", "tests/alerts/cases.yaml"] {
        let name = file.rsplit('/').next().unwrap();
        std::fs::copy(format!("{ROOT}/{file}"), dir.path().join(name)).unwrap();
    }
    let (alerts, cases) = (text("charts/wheelwright/files/alerts.yaml"), text("tests/alerts/cases.yaml"));
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels");
        assert!(cases.contains(&fires), "{name} fires in no case");
    }
    promtool(&["test", "rules", dir.path().join("cases.yaml").to_str().unwrap()]);
}

#[test]
fn every_expression_of_the_dashboard_is_valid() {
    let dashboard: Value = serde_json::from_str(&text("charts/wheelwright/files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let rule = |(n, expr): (usize, &str)| json!({"record": format!("panel:{n}"), "expr": expr});
    let rules: Vec<Value> = expressions.enumerate().map(rule).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    std::fs::write(file.path(), groups.to_string()).unwrap();
    let printed = promtool(&["check", "rules", file.path().to_str().unwrap()]);
    assert!(printed.contains(&format!("{} rules found", rules.len())), "{printed}");
}
