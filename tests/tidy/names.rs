//! Checks names: tests are named after their claims and kept apart from production code, which never depends on
//! being under test.

use super::tokens::tokens;
use super::{assert_none, is_test, sources};

fn problems(path: &str, text: &str) -> Vec<String> {
    let words = tokens(text);
    let mut problems = Vec::new();
    for (at, window) in words.windows(2).enumerate() {
        match window {
            ["fn", name] if is_coded(name) => {
                problems.push(format!("{path}: the test {name} is named by a code; name its claim"));
            }
            ["bug" | "cfg", "!"] if !is_test(path) && decides_by_test(&words[at..]) => {
                problems.push(format!("{path}: production code decides by whether it is tested"));
            }
            _ => {}
        }
    }
    problems.extend(unmarked_test_file(path, &words));
    problems
}

/// Returns true if a name begins with a code (`t38_…`) or with `test_`.
fn is_coded(name: &str) -> bool {
    let (first, _) = name.split_once('_').unwrap_or_default();
    let is_code = first.chars().skip(1).all(|c| c.is_ascii_digit()) && first.len() > 1;
    first == "test" || (is_code && first.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Returns true if code contains `bug!(…)`, or `cfg!(…)` with `test`.
fn decides_by_test(words: &[&str]) -> bool {
    let arguments = words.iter().take_while(|word| **word != ")");
    words[0] == "bug" || arguments.into_iter().any(|word| *word == "test")
}

/// Returns a problem if a module that is compiled only for tests is not called `tests`, because a path must show
/// that it is test code.
fn unmarked_test_file(path: &str, words: &[&str]) -> Option<String> {
    let unmarked = words.windows(10).find_map(|window| match window {
        ["#", "[", "cfg", "(", "test", ")", "]", "mod", name, ";"] if *name != "tests" => Some(name),
        _ => None,
    })?;
    (!is_test(path)).then(|| format!("{path}: the module {unmarked} is for tests only; move it into tests/"))
}

#[test]
fn tests_are_marked_and_named_by_their_claim() {
    let checked = sources().into_iter().filter(|(path, _)| !path.starts_with("tests/tidy/"));
    assert_none(checked.flat_map(|(path, text)| problems(&path, &text)));
}

#[test]
fn codes_seeded_bugs_and_unmarked_test_files_are_found() {
    let count = |path, text| problems(path, text).len();
    assert_eq!(count("a.rs", "fn t38_w10_secrets_are_redacted() {} fn test_it() {}"), 2);
    assert_eq!(count("a.rs", "fn a1() {} fn utf8_is_text() {} fn tests_pass() {} fn x_y() {}"), 0);
    assert_eq!(count("a.rs", "let x = bug!(OneSlotTooMany) || cfg!(test);"), 2);
    assert_eq!(count("a.rs", "let x = debug!(\"bug!\") || cfg!(unix);"), 0);
    assert_eq!(count("a/tests.rs", "let x = cfg!(test);"), 0);
    assert_eq!(count("a.rs", "#[cfg(test)]\nmod harness;"), 1);
    assert_eq!(count("a.rs", "#[cfg(test)]\nmod tests; #[cfg(test)] mod rows { }"), 0);
    assert_eq!(count("a/tests/mod.rs", "#[cfg(test)]\nmod harness;"), 0);
}
