//! Golden traces: every scenario under `tests/golden/rollout` and the trace it must give.
//!
//! A case is a YAML file of two documents, scenario and outcomes, and the trace beside it. `BLESS=1` writes the traces anew; they
//! are reviewed like code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rollout::simulation::{Outcomes, Scenario, run};

const START: &str = "2026-03-02T08:00:00Z";

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/rollout");
    let mut cases: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    cases.sort();
    cases
}

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
    let bless = std::env::var_os("BLESS").is_some();
    let cases = cases();
    assert!(cases.len() >= 20, "golden cases are missing");
    let mut wrong = Vec::new();
    for case in cases {
        let (found, golden) = (trace(&case), case.with_extension("trace"));
        if bless {
            fs::write(&golden, &found).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != found {
            wrong.push(format!(
                "{}: run with BLESS=1 and review\n--- expected\n{expected}\n--- found\n{found}",
                golden.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The example of the documentation is played, and the trace and the picture it shows are what comes out.
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
    let (found, picture) = (trace.table(), page.with_extension("svg"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&page, text.replace(&shown, &found)).unwrap();
        fs::write(&picture, trace.svg()).unwrap();
    } else {
        assert_eq!(shown, found, "run with BLESS=1 and review");
        assert_eq!(fs::read_to_string(&picture).unwrap(), trace.svg(), "run with BLESS=1 and review");
    }
}
