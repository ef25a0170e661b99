//! Compares the rollout engine with OCM's own library, on thousands of small random fleets.
//!
//! `tests/ocm/build` builds a program around the library. Each [`Case`] is passed to it, and to the engine through
//! the documented input of `wheelwright simulate rollout`. Every difference must be described by a row of the
//! table in the documentation of `engine::rollout`: for every case, [`answer`] without rows must equal the
//! library's answer, and with all rows the engine's.
//!
//! `WHEELWRIGHT_OCM_CASES=200000` plays more cases.

mod case;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use engine::rollout::advance;
use engine::rollout::simulation::{Scenario, decision_json};
use jiff::Timestamp;
use serde_json::Value;

use crate::kube::built;
use case::{Case, now};
use rows::{Answer, Row, answer};

const CASES: u64 = 10_000;
/// One in this many cases also runs the command itself.
const BY_COMMAND: u64 = 25;
/// Maximum count of the cases that need a row.
const ENOUGH: usize = 50;
/// Number of unexplained answers to print.
const SHOWN: usize = 5;

/// Returns the library's answers, one for each case.
fn library(cases: &[Case]) -> Vec<Option<Answer>> {
    let mut child =
        Command::new(built("tests/ocm/build")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut questions = child.stdin.take().unwrap();
    let text: String = cases.iter().map(|case| format!("{}\n", case.library_input())).collect();
    let writer = std::thread::spawn(move || questions.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let answers: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(library_answer).collect();
    assert_eq!(answers.len(), cases.len());
    answers
}

fn library_answer(line: &str) -> Option<Answer> {
    let value: Value = serde_json::from_str(line).unwrap();
    if value["error"] != "" {
        return None;
    }
    let rollout = value["rollout"].as_object().unwrap().iter();
    Some(Answer {
        rollout: rollout
            .map(|(name, status)| (name.clone(), known_status(status.as_str().unwrap())))
            .collect(),
        timed_out: strings(&value["timedOut"]),
        removed: strings(&value["removed"]),
        breach: value["breach"].as_bool().unwrap(),
        recheck: value["recheckAfter"].as_f64().map(|seconds| (seconds * 1000.0).round() as i64),
    })
}

fn known_status(status: &str) -> &'static str {
    ["ToApply", "Progressing", "Succeeded", "Failed"].into_iter().find(|known| *known == status).unwrap()
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Returns the engine's answer, using the input and output of `simulate rollout`.
fn engine_output(case: &Case) -> Value {
    let input = Scenario::read(&case.scenario().to_string()).unwrap().into_input();
    decision_json(&advance(&input, now()))
}

fn engine_answer(output: &Value) -> Option<Answer> {
    if !output["refused"].as_array().unwrap().is_empty() {
        assert_eq!(output["start"], Value::Array(Vec::new()), "nothing starts by a refused strategy");
        return None;
    }
    let status = |name: &str| {
        let cluster = &output["clusters"][name];
        match cluster["state"].as_str().unwrap() {
            "Starting" => "ToApply",
            "Progressing" if cluster["reported"] == false => "ToApply",
            "Soaking" => "Succeeded",
            same => known_status(same),
        }
    };
    Some(Answer {
        rollout: strings(&output["rollOut"]).into_iter().map(|name| (name.clone(), status(&name))).collect(),
        timed_out: strings(&output["timedOut"]),
        removed: strings(&output["removed"]),
        breach: !output["breach"].is_null(),
        recheck: output["recheck"].as_str().map(|at| {
            let at: Timestamp = at.parse().unwrap();
            i64::try_from(at.duration_since(now()).as_millis()).unwrap()
        }),
    })
}

#[test]
fn only_documented_differences_tell_the_engine_from_ocms_library() {
    let count = std::env::var("WHEELWRIGHT_OCM_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let cases: Vec<Case> = (0..count).map(Case::from_seed).collect();
    let (none, all) = (BTreeSet::new(), BTreeSet::from(Row::ALL.map(|(row, _)| row)));
    let (mut differing, mut unexplained) = (0, Vec::new());
    let mut needed: BTreeMap<&str, usize> = BTreeMap::new();
    for ((seed, case), library) in cases.iter().enumerate().zip(library(&cases)) {
        let engine = engine_answer(&engine_output(case));
        for (who, rows, given) in [("library", &none, &library), ("engine", &all, &engine)] {
            let expected = answer(case, rows);
            if expected != *given {
                unexplained.push(format!(
                    "seed {seed}: {}\n{who}: {given:?}\nexpected: {expected:?}",
                    case.scenario()
                ));
            }
        }
        if library == engine {
            continue;
        }
        differing += 1;
        for (row, name) in Row::ALL {
            let cases = needed.entry(name).or_default();
            let others = all.iter().copied().filter(|other| *other != row).collect();
            *cases += usize::from(*cases < ENOUGH && answer(case, &others) != engine);
        }
    }
    let first: Vec<_> = unexplained.iter().take(SHOWN).map(String::as_str).collect();
    assert!(
        first.is_empty(),
        "{} of {count} answers are not explained by the rows\n{}",
        unexplained.len(),
        first.join("\n\n")
    );
    println!(
        "{count} cases, {differing} answered differently; cases that need a row, up to {ENOUGH}: {needed:?}"
    );
    assert!(needed.values().all(|cases| *cases > 0), "a row explains nothing");
}

#[test]
fn every_row_of_the_table_is_a_switch_here() {
    let documentation = include_str!("../../crates/engine/src/rollout/mod.rs");
    let rows = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("//! | ")?.split_once(" |"))
        .map(|(name, _)| name);
    let documented: Vec<&str> = rows.filter(|name| *name != "row").collect();
    assert_eq!(documented, Row::ALL.map(|(_, name)| name));
}

#[test]
fn the_command_answers_as_the_engine_does() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..BY_COMMAND {
        let case = Case::from_seed(seed);
        let file = dir.path().join(format!("{seed}.json"));
        std::fs::write(&file, case.scenario().to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command
            .args(["simulate", "rollout", "-o", "json", "--now", &now().to_string(), "--input"])
            .arg(&file);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            serde_json::from_slice::<Value>(&output.stdout).unwrap(),
            engine_output(&case),
            "seed {seed}"
        );
    }
}
