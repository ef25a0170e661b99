//! Golden traces of all scenarios under `tests/golden/rollout`.
//!
//! A case is a YAML file of two documents, scenario and outcomes, next to the expected trace.

use std::fs;
use std::path::Path;

use crate::golden;
use crate::rollout::simulation::{Outcomes, Scenario, run};

const START: &str = "2026-03-02T08:00:00Z";

fn trace(case: &Path) -> String {
    let text = fs::read_to_string(case).unwrap();
    let (scenario, outcomes) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let scenario = Scenario::read(scenario).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    let outcomes = if outcomes.trim().is_empty() {
        Outcomes::default()
    } else {
        Outcomes::read(outcomes).unwrap_or_else(|e| panic!("{}: {e}", case.display()))
    };
    let title: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    format!("{title}\n{}", run(scenario.into_input(), &outcomes, START.parse().unwrap()).unwrap().table())
}

#[test]
fn golden_traces_are_as_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/rollout");
    let cases = golden::cases(&folder, "yaml");
    assert!(cases.len() >= 20, "golden cases are missing");
    golden::check(cases.iter().map(|case| (case.with_extension("trace"), trace(case))));
}

/// Checks that the trace and the picture in the documentation come from its example.
#[test]
fn the_documented_example_is_real() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulate.md");
    let text = fs::read_to_string(&page).unwrap();
    let block = |fence: &str, at: usize| {
        let (_, after) = text.split(&format!("```{fence}\n")).enumerate().nth(at + 1).unwrap();
        after.split("```").next().unwrap().to_owned()
    };
    let (scenario, outcomes, shown) = (block("yaml", 0), block("yaml", 1), block("text", 0));
    let input = Scenario::read(&scenario).unwrap().into_input();
    let trace = run(input, &Outcomes::read(&outcomes).unwrap(), START.parse().unwrap()).unwrap();
    golden::check([(page.with_extension("svg"), trace.svg()), (page, text.replace(&shown, &trace.table()))]);
}
