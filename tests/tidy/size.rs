//! Checks that files and lines are short, and that a `mod.rs` has little code.

use super::{assert_none, is_test, production, sources};

/// Most lines of a file.
const LINES: usize = 400;
/// Files that are longer, and why that is better than two files.
const LONGER: &[(&str, &str)] = &[
    (
        "crates/api/src/cluster/v1beta1/placement.rs",
        "one kind a file, and its fields carry their documentation",
    ),
    ("crates/engine/src/rollout/oracle.rs", "the promises of a rollout are read side by side"),
    ("tests/ocm/rows.rs", "each row is a difference from OCM, and they are switched one by one"),
];

/// Most columns of a line.
const COLUMNS: usize = 110;
/// Number of lines that are wider; it may only decrease.
const WIDE: usize = 90;

/// Most lines of functions in a `mod.rs`, without comments: dispatch, such as a controller or a command.
const DISPATCH: usize = 70;

/// Returns the number of lines of the functions of a source text, without comments.
fn function_lines(text: &str) -> usize {
    let mut lines = 0;
    let mut end = None;
    for line in production(text).lines() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        if end.is_none() && starts_function(code) {
            end = Some(format!("{indent}}}"));
        }
        let Some(close) = &end else { continue };
        lines += usize::from(!code.is_empty() && !code.starts_with("//"));
        let is_over = line == close || (starts_function(code) && code.ends_with(['}', ';']));
        if is_over {
            end = None;
        }
    }
    lines
}

fn starts_function(code: &str) -> bool {
    let before = code.split("fn ").next().unwrap_or_default();
    let is_item = before.chars().all(|c| c.is_ascii_lowercase() || " ():".contains(c));
    before.len() < code.len() && is_item
}

/// Returns whether a line is wider than the limit and can be broken: a comment in sentences, or code without
/// a literal. Tables, drawings, links and literals cannot.
fn is_wide(line: &str) -> bool {
    let text = line.trim_start();
    let comment = ["///", "//!", "//"].iter().find_map(|mark| text.strip_prefix(mark));
    let fits = match comment.map(str::trim) {
        Some(words) => words.starts_with(['|', '▲', '└']) || words.contains('─') || !words.contains(' '),
        None => text.contains('"') || text.ends_with('\\'),
    };
    !fits && line.chars().count() > COLUMNS
}

fn too_long(path: &str, text: &str, longer: &[(&str, &str)]) -> Option<String> {
    let lines = text.lines().count();
    let is_listed = longer.iter().any(|(listed, _)| *listed == path);
    match (lines > LINES, is_listed) {
        (true, false) => Some(format!("{path} has {lines} lines, more than {LINES}; divide it")),
        (false, true) => {
            Some(format!("{path} has {lines} lines; take it off the list in tests/tidy/size.rs"))
        }
        (true, true) | (false, false) => None,
    }
}

#[test]
fn no_file_is_long() {
    assert_none(sources().iter().filter_map(|(path, text)| too_long(path, text, LONGER)));
}

#[test]
fn a_mod_file_has_little_code() {
    let files = sources();
    let files = files.iter().filter(|(path, _)| path.ends_with("/mod.rs") && !is_test(path));
    let larger = files.filter_map(|(path, text)| {
        let lines = function_lines(text);
        let what =
            || format!("{path} has {lines} lines of functions, more than {DISPATCH}; name a file for some");
        (lines > DISPATCH).then(what)
    });
    assert_none(larger);
}

#[test]
fn the_functions_of_a_mod_file_are_counted() {
    let text = "mod a;\nstruct B {\n    c: fn(D),\n}\n\npub(in crate::e) async fn f() {\n    // g\n    h();\n}\n
impl I {\n    const fn j(&self) -> K { L }\n}\n\nfn m() {\n    n(|| {\n        o();\n    });\n}\n\n#[cfg(test)]\nmod tests {\n    fn p() {\n    }\n}\n";
    assert_eq!(function_lines(text), 3 + 1 + 5);
}

#[test]
fn wide_lines_become_fewer() {
    let files = sources();
    let wide = files.iter().flat_map(|(path, text)| {
        let lines = text.lines().enumerate().filter(|(_, line)| is_wide(line));
        lines.map(move |(at, _)| format!("{path}:{}", at + 1))
    });
    let wide: Vec<_> = wide.collect();
    assert!(wide.len() <= WIDE, "{} lines have more than {COLUMNS} columns: {}", wide.len(), wide.join(" "));
}

#[test]
fn a_wide_line_is_found_unless_it_cannot_be_broken() {
    let long = "x ".repeat(COLUMNS);
    for line in [format!("/// {long}"), format!("    //! {long}"), format!("let a = {long};")] {
        assert!(is_wide(&line), "{line}");
    }
    let link = "x".repeat(COLUMNS);
    for line in [format!("/// <https://{link}>"), format!("//! | {long} |"), format!("f(\"{long}\")")] {
        assert!(!is_wide(&line), "{line}");
    }
}

#[test]
fn a_long_file_is_found_and_so_is_a_reason_that_is_no_longer_one() {
    let longer = [("b.rs", "one table")];
    let check = |path, lines| too_long(path, &"x\n".repeat(lines), &longer).is_some();
    assert!(check("a.rs", LINES + 1) && !check("a.rs", LINES));
    assert!(check("b.rs", LINES) && !check("b.rs", LINES + 1));
}
