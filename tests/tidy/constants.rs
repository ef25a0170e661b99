//! Checks that a string constant stands once, and that names on the wire are written by their constants: so
//! one place says what a string means, and a change of it reaches every reader.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{constants, literals};
use super::{Files, assert_none, is_test, production, sources};

/// Shorter strings are words that several places use for something of their own.
const SHORTEST: usize = 10;
/// The beginning of the paths of the files with the names on the wire.
const NAMES: &str = "crates/api/src/names";

/// Strings of several constants, with the reason.
const TWICE: &[(&str, &str)] = &[
    ("Progressing", "several kinds have a condition of this type, and it is OCM's word for a rollout"),
    ("wheelwright", "the program, in a kubeconfig and before the names of metrics"),
];

/// Names on the wire that are also written without their constants, with the reason.
const WRITTEN: &[(&str, &str)] = &[
    ("open-cluster-management", "the doctor looks for all namespaces that begin so"),
    ("work-agent", "a controller and a part of OCM's agent have the name of the field manager"),
];

/// The files of strings, by the string.
type Places<'f> = BTreeMap<String, Vec<&'f str>>;

/// Returns the strings of several constants.
fn twice(files: &Files) -> Places<'_> {
    let mut found = Places::new();
    for (path, text) in files {
        for value in constants(production(text)).into_iter().filter(|value| value.len() >= SHORTEST) {
            found.entry(value).or_default().push(path);
        }
    }
    found.retain(|_, paths| paths.len() > 1);
    found
}

/// Returns the names on the wire that stand in a file other than their own. A name of one plain word, such as
/// the type of a condition, has other meanings elsewhere.
fn written(files: &Files) -> Places<'_> {
    let (names, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| path.starts_with(NAMES));
    let names = names.into_iter().flat_map(|(_, text)| constants(text));
    let is_plain = |name: &str| name.chars().all(char::is_alphanumeric);
    let names: BTreeSet<String> = names.filter(|name| name.len() >= SHORTEST && !is_plain(name)).collect();
    let mut found = Places::new();
    for (path, text) in others {
        let values = literals(production(text)).into_iter().map(|(_, value)| value);
        for value in values.filter(|value| names.contains(value)) {
            found.entry(value).or_default().push(path);
        }
    }
    found
}

/// Returns a problem for each string that is no exception, and for each exception that no string needs.
fn problems(found: &Places<'_>, exceptions: &[(&str, &str)], what: &str) -> Vec<String> {
    let is_exception = |value: &str| exceptions.iter().any(|(exception, _)| *exception == value);
    let new = found.iter().filter(|(value, _)| !is_exception(value));
    let new = new.map(|(value, paths)| format!("{value:?} {what}: {}", paths.join(", ")));
    let stale = exceptions.iter().filter(|(value, _)| !found.contains_key(*value));
    new.chain(stale.map(|(value, _)| format!("{value:?} needs no exception"))).collect()
}

/// Returns the sources of production code.
fn production_files() -> Files {
    let is_production = |path: &str| (path.starts_with("src/") || path.contains("/src/")) && !is_test(path);
    sources().into_iter().filter(|(path, _)| is_production(path)).collect()
}

#[test]
fn a_string_constant_stands_once() {
    let files = production_files();
    assert_none(problems(&twice(&files), TWICE, "stands in several constants"));
}

#[test]
fn a_name_on_the_wire_is_written_by_its_constant() {
    let files = production_files();
    assert_none(problems(&written(&files), WRITTEN, "is a constant of names.rs"));
}

#[test]
fn a_string_of_two_constants_is_found() {
    let files = [
        ("crates/a/src/b.rs", "const A: &str = \"0123456789\"; pub(crate) const B: &str =\n \"short\";"),
        ("src/a.rs", "fn f() { pub const A: &str = r#\"0123456789\"#; } const B: &str = \"short\";"),
        ("src/b.rs", "const A: &str = B; let a: &str = \"0123456789\"; // const A: &str = \"0123456789\";"),
        ("src/c.rs", "#[cfg(test)]\nmod tests { const A: &str = \"0123456789\"; }"),
    ];
    let files: Files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let places = vec!["crates/a/src/b.rs", "src/a.rs"];
    assert_eq!(twice(&files), Places::from([("0123456789".to_owned(), places)]));
}

#[test]
fn a_name_without_its_constant_is_found() {
    let names =
        "pub const A: &str = \"example.com/a\"; pub const B: &str = \"PlainWords\"; pub const C: &str = A;";
    let files = [
        ("crates/api/src/names.rs", names),
        ("crates/a/src/b.rs", "f(\"example.com/a\", \"PlainWords\", \"example.com/\");"),
        ("src/a.rs", "f(A); // \"example.com/a\"\n#[cfg(test)]\nmod tests { f(\"example.com/a\"); }"),
    ];
    let files: Files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let places = vec!["crates/a/src/b.rs"];
    assert_eq!(written(&files), Places::from([("example.com/a".to_owned(), places)]));
}

#[test]
fn an_exception_that_no_string_needs_is_found() {
    let found = Places::from([("a".to_owned(), vec!["b.rs", "c.rs"]), ("d".to_owned(), vec!["e.rs"])]);
    let exceptions = [("d", "a reason"), ("f", "a reason")];
    assert_eq!(
        problems(&found, &exceptions, "is bad"),
        ["\"a\" is bad: b.rs, c.rs", "\"f\" needs no exception"]
    );
}
