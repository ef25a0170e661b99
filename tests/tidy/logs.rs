//! Checks that the operations page lists the keys of the log lines.

use std::collections::BTreeSet;

use super::tokens::tokens;
use super::{is_test, production, root, sources};

const LEVELS: [&str; 5] = ["trace", "debug", "info", "warn", "error"];

/// Returns the keys of a source's log lines and spans.
fn keys(source: &str) -> BTreeSet<&str> {
    let words = tokens(source);
    let mut found = BTreeSet::new();
    for (index, window) in words.windows(3).enumerate() {
        if let [name, "!", "("] = window
            && LEVELS.contains(&name.strip_suffix("_span").unwrap_or(name))
        {
            found.extend(arguments(&words[index + 3..]).into_iter().filter_map(key));
        }
    }
    found
}

/// Returns a macro's arguments, given the tokens after its opening parenthesis.
fn arguments<'w, 't>(words: &'w [&'t str]) -> Vec<&'w [&'t str]> {
    let mut depth = 0;
    let end = words.iter().position(|word| {
        depth += i32::from(["(", "[", "{"].contains(word)) - i32::from([")", "]", "}"].contains(word));
        depth < 0
    });
    let mut depth = 0;
    let split = |word: &&str| {
        depth += i32::from(["(", "[", "{"].contains(word)) - i32::from([")", "]", "}"].contains(word));
        depth == 0 && *word == ","
    };
    words[..end.unwrap_or(words.len())].split(split).collect()
}

/// Returns an argument's key, from `key = value` or the name of a value.
fn key<'t>(argument: &[&'t str]) -> Option<&'t str> {
    match argument {
        [key, "=", ..] | [key] | ["%" | "?", key] => Some(*key).filter(|key| *key != "\""),
        _ => None,
    }
}

#[test]
fn every_log_key_is_in_the_table_of_the_observability_page() {
    let files = sources();
    let is_ours = |path: &str| {
        !is_test(path) && (path.starts_with("src/") || path.starts_with("crates/") && path.contains("/src/"))
    };
    let sources = files.iter().filter(|(path, _)| is_ours(path));
    let found: BTreeSet<&str> = sources.flat_map(|(_, source)| keys(production(source))).collect();
    let page = std::fs::read_to_string(root().join("docs/observability.md")).unwrap();
    let table = page.split("| Key | Value |").nth(1).unwrap().split("\n\n").next().unwrap();
    let listed = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let listed: BTreeSet<&str> = listed.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(found, listed, "the keys of the log lines, and those of docs/observability.md");
}

#[test]
fn the_keys_of_a_log_line_are_its_names_and_the_names_of_its_values() {
    let source = r#"
        tracing::warn!(kind = %kind.gvk, error = message(&error, 1), %key, ?user, steps, "cannot {what}");
        info_span!("reconcile", controller, id = a.b());
        println!("{}", other = 1);
    "#;
    let expected = ["controller", "error", "id", "key", "kind", "steps", "user"];
    assert_eq!(keys(source).into_iter().collect::<Vec<_>>(), expected);
}
