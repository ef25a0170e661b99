//! Checks that docs/mutants.md says of each file of the safety core whether its mutants were run.

use std::collections::BTreeSet;

use super::{Files, assert_none, is_test, production, read, root};

/// Returns the texts in quotes of a list: `NAME = ["a", "b"]`.
fn quoted<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let list = text.split(&format!("\n{name} = [")).nth(1).and_then(|rest| rest.split("\n]").next());
    let list = list.map(|list| list.split("]\n").next().unwrap_or(list)).unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Returns the files that the tables of the page name.
fn named(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once(".rs` |"))
        .map(|(file, _)| file)
        .collect()
}

/// Returns the files with functions that no table names and that are not left out, and the named files that
/// do not exist.
fn problems(page: &str, files: &Files, (core, left_out): (&[&str], &[&str])) -> Vec<String> {
    let is_of =
        |path: &str, globs: &[&str]| globs.iter().any(|glob| path.starts_with(glob.trim_end_matches("**")));
    let short = |path: &str| {
        path.split_once("/src/").and_then(|(_, path)| path.strip_suffix(".rs")).map(str::to_owned)
    };
    let there: BTreeSet<String> = files.keys().filter_map(|path| short(path)).collect();
    let decides = |(path, text): &(&String, &String)| {
        let has_functions = production(text).split_whitespace().any(|word| word == "fn");
        has_functions && !is_test(path) && is_of(path, core) && !is_of(path, left_out)
    };
    let due = files.iter().filter(decides).filter_map(|(path, _)| short(path));
    let named = named(page);
    let missing = due.filter(|file| !named.contains(file.as_str()));
    let missing = missing.map(|file| format!("docs/mutants.md has no row for {file}.rs"));
    let gone = named.iter().filter(|file| !there.contains(**file));
    missing.chain(gone.map(|file| format!("docs/mutants.md names {file}.rs, which does not exist"))).collect()
}

#[test]
fn each_file_of_the_safety_core_has_a_row_of_its_mutants() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (tool, config) = (text("tools/mutants.py"), text(".cargo/mutants.toml"));
    let (core, left_out) = (quoted(&tool, "SAFETY_CORE"), quoted(&config, "exclude_globs"));
    assert!(!core.is_empty() && !left_out.is_empty());
    assert_none(problems(
        &text("docs/mutants.md"),
        &read(&["crates/engine/src", "crates/controllers/src"], ".rs"),
        (&core, &left_out),
    ));
}

#[test]
fn files_without_a_row_and_rows_without_a_file_are_found() {
    let file = |path: &str, text: &str| (format!("crates/engine/src/{path}"), text.to_owned());
    let files = Files::from([
        file("sync/plan.rs", "fn plan() {}"),
        file("sync/new.rs", "fn decide() {}"),
        file("sync/mod.rs", "mod plan;"),
        file("sync/told.rs", "fn tell() {}"),
        file("sync/seen/a.rs", "fn see() {}"),
        file("report/page.rs", "fn page() {}"),
    ]);
    let page = "| `sync/plan.rs` | 1 |\n| `sync/gone.rs` | 2 |\n";
    let globs = ["crates/engine/src/sync/told.rs", "crates/engine/src/sync/seen/**"];
    let found = problems(page, &files, (&["crates/engine/src/sync/**"], &globs));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("sync/new.rs") && found[1].contains("sync/gone.rs"), "{found:?}");
    assert_eq!(quoted("\nA = [\"a\", \"b\"]\nB = [\"c\"]\n", "A"), ["a", "b"]);
    assert_eq!(quoted("x\nB = [\n    \"c\", # why\n    \"d\",\n]\n", "B"), ["c", "d"]);
}
