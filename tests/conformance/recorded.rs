//! Cases with hand-written requests and responses recorded from kube-apiserver.
//!
//! `requests/<area>.yaml` maps names of cases to their steps. A case with `each` is one case for every row.
//! `answers/<area>.yaml` contains kube-apiserver's responses; `BLESS=1` with a real API server rewrites it. The
//! responses of both hubs are compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use super::api::Api;
use super::exchange::{Exchange, Step};

/// Files of requests.
pub(super) const AREAS: &[&str] = &[
    "verbs",
    "patches",
    "apply",
    "lists",
    "schemas",
    "rbac",
    "subresources",
    "deletion",
    "options",
    "builtin",
    "operator",
    "admission",
];

/// Returns the cases of an area: their names and steps.
pub(super) fn cases(area: &str) -> BTreeMap<String, Vec<Step>> {
    let file: BTreeMap<String, Value> = read(&path("requests", area));
    let mut cases = BTreeMap::new();
    for (name, case) in file {
        let steps = case.get("steps").unwrap_or(&case).as_array().expect("a case has steps");
        let steps: Vec<Step> = steps.iter().map(Step::read).collect();
        match case.get("each").and_then(Value::as_object) {
            Some(rows) => cases.extend(rows.iter().map(|(row, value)| {
                let steps = steps.iter().map(|step| step.with_row(value)).collect();
                (format!("{name}/{row}"), steps)
            })),
            None => drop(cases.insert(name, steps)),
        }
    }
    cases
}

/// The responses to compare a run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The recorded responses.
    Recorded,
    /// The recorded responses, except in the cases of `differences.txt`, which must differ.
    RecordedButForDifferences,
    /// None: this run records the responses.
    Bless,
}

/// Returns the cases in which the embedded hub is known to respond differently.
pub(super) fn differences() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/differences.txt");
    let text = std::fs::read_to_string(path).expect("the list can be read");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Runs the cases of an area; returns the differences from the expected responses.
pub(super) async fn run(client: &kube::Client, area: &str, hold: Hold) -> Vec<String> {
    let bless = hold == Hold::Bless;
    let known = if hold == Hold::RecordedButForDifferences { differences() } else { BTreeSet::new() };
    let file = path("answers", area);
    let mut recorded: BTreeMap<String, Vec<Value>> = if bless { BTreeMap::new() } else { read(&file) };
    let (mut answers, mut failed) = (BTreeMap::new(), Vec::new());
    for (i, (name, steps)) in cases(area).into_iter().enumerate() {
        let mut exchange = Exchange::new(Api::new(client.clone(), format!("{area}-{i}")).await);
        let mut answered = Vec::new();
        for step in &steps {
            answered.push(exchange.send(step).await);
        }
        let expected = recorded.remove(&name).unwrap_or_default();
        let case = format!("{area}: {name}");
        if known.contains(case.as_str()) {
            match (0..steps.len()).find(|i| Some(&answered[*i]) != expected.get(*i)) {
                Some(i) => {
                    println!(
                        "{case}: {}\n    answered     {}\n    recorded {}",
                        steps[i], answered[i], expected[i]
                    )
                }
                None => failed.push(format!("{case}: differs no longer; take it off differences.txt")),
            }
            continue;
        }
        for (i, step) in steps.iter().enumerate().filter(|_| !bless) {
            let (found, expected) = (&answered[i], expected.get(i).unwrap_or(&Value::Null));
            if found != expected {
                failed.push(format!(
                    "{area}: {name}: {step}\n    answered     {found}\n    recorded {expected}"
                ));
            }
        }
        answers.insert(name, answered);
    }
    if bless {
        std::fs::write(&file, serde_saphyr::to_string(&answers).unwrap()).unwrap();
    }
    failed.extend(recorded.keys().map(|name| format!("{area}: {name} is recorded and has no requests")));
    failed
}

fn path(kind: &str, area: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/conformance/{kind}/{area}.yaml", env!("CARGO_MANIFEST_DIR")))
}

fn read<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
