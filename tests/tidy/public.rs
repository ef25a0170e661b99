//! What a member crate publishes is used by another crate: functions, methods, constants and statics, by
//! their names.
//!
//! A name that another crate uses for something else hides a mistake, so the check finds most and not all.
//! Types are left to the compiler: `unreachable_pub` and `private_interfaces` say which of them a published
//! signature needs.

use std::collections::BTreeSet;

use super::tokens::tokens;
use super::{Files, assert_none, is_test, sources};

/// Files whose constants may be there before their reader.
const AHEAD: &[(&str, &str)] = &[
    (
        "crates/api/src/names.rs",
        "a string that lives in clusters is reserved before the feature that writes it",
    ),
    ("crates/api/src/kind.rs", "the macro of a kind uses it"),
];

/// The names that a source text publishes.
fn published(text: &str) -> Vec<&str> {
    let words = tokens(text);
    let after_pub = words.split(|word| *word == "pub").skip(1);
    after_pub
        .filter_map(|words| match words {
            ["fn" | "static", name, ..] => Some(*name),
            ["const" | "unsafe" | "async", "fn", name, ..] => Some(*name),
            ["const", name, ":", ..] => Some(*name),
            _ => None,
        })
        .collect()
}

/// The names that a crate publishes and no file outside of its `src` mentions.
fn unused(files: &Files, source: &str) -> Vec<String> {
    let (own, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| path.starts_with(source));
    let used: BTreeSet<&str> = others.iter().flat_map(|(_, text)| tokens(text)).collect();
    let own = own.iter().filter(|(path, _)| !is_test(path) && !AHEAD.iter().any(|(ahead, _)| ahead == path));
    own.flat_map(|(path, text)| {
        let names = published(text).into_iter().filter(|name| !used.contains(name));
        names.map(move |name| format!("{path}: no other crate uses {name}; make it pub(crate) or less"))
    })
    .collect()
}

#[test]
fn every_published_function_and_constant_is_used_by_another_crate() {
    let files = sources();
    let crates: BTreeSet<&str> = files
        .keys()
        .filter_map(|path| path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name))
        .collect();
    assert!(crates.contains("engine"), "{crates:?}");
    assert_none(crates.iter().flat_map(|name| unused(&files, &format!("crates/{name}/src/"))));
}

#[test]
fn a_published_name_that_no_other_crate_uses_is_found() {
    let text = "pub fn a() {} pub(crate) fn b() {} pub const C: u8 = 1; impl D { pub const fn e(&self) {} } pub static F: u8 = 1;";
    let files = |other: &str| {
        let own = ("crates/own/src/lib.rs".to_owned(), text.to_owned());
        Files::from([own, ("crates/other/src/lib.rs".to_owned(), other.to_owned())])
    };
    assert_eq!(published(text), ["a", "C", "e", "F"]);
    assert_eq!(unused(&files("a(); C; e; F"), "crates/own/src/"), Vec::<String>::new());
    let found = unused(&files("b(); // a C\n e; F"), "crates/own/src/");
    assert_eq!(found.len(), 2, "{found:?}");
}
