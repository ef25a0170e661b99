//! Checks the controller names in code that treats a controller specially: after a rename, a comparison with the
//! old name would never match.

use std::collections::BTreeSet;

use super::{assert_none, is_test, production, sources};

/// The text that precedes a name that is compared with a controller's name.
const COMPARED: [&str; 4] = ["controller == \"", "controller != \"", "controller: \"", ".includes(\""];

/// The lists of controller names.
const LISTS: [&str; 4] =
    ["const APPLIES: ", "const EXCLUDED: ", "const WORK_CONTROLLERS: ", "let always = ["];

/// Returns the texts between two marks.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Vec<&'t str> {
    text.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// Returns the names that a source text compares with controller names.
fn compared(text: &str) -> BTreeSet<&str> {
    let text = production(text);
    let matched = between(text, "match controller {", "_ =>");
    let lists = LISTS.iter().flat_map(|list| between(text, list, ";\n"));
    let single = COMPARED.iter().flat_map(|before| between(text, before, "\""));
    single.chain(matched.into_iter().chain(lists).flat_map(quoted)).collect()
}

#[test]
fn code_that_compares_the_name_of_a_controller_names_one() {
    let files = sources();
    let files = files.iter().filter(|(path, _)| !is_test(path));
    let files: Vec<_> =
        files.filter(|(path, _)| path.starts_with("src/") || path.starts_with("crates/")).collect();
    let names: BTreeSet<&str> =
        files.iter().flat_map(|(_, text)| between(text, "const NAME: &'static str = \"", "\"")).collect();
    for list in LISTS {
        assert!(
            files.iter().any(|(_, text)| text.contains(list)),
            "no file has {list:?}; take it off the list"
        );
    }
    let used: Vec<_> = files
        .iter()
        .flat_map(|(path, text)| compared(text).into_iter().map(move |name| (path, name)))
        .collect();
    assert!(used.len() > 20, "the comparisons are written differently: {used:?}");
    let unknown = used.into_iter().filter(|(_, name)| !names.contains(name));
    assert_none(unknown.map(|(path, name)| format!("{path}: no controller has the name {name}")));
}

#[test]
fn compared_names_are_found() {
    let check =
        |text, expected: &[&str]| assert_eq!(compared(text), expected.iter().copied().collect(), "{text}");
    check("if act.controller != \"a\" && b.controller == \"b\" {}", &["a", "b"]);
    check("let D { controller: \"a\", key } = d; s.includes(\"b\")", &["a", "b"]);
    check("match controller {\n \"a\" | \"b\" => c(\"a\"),\n _ => d(\"e\"),\n}", &["a", "b"]);
    check("const EXCLUDED: [&str; 2] = [\"a\", \"b\"];\nconst C: &str = \"c\";\n", &["a", "b"]);
    check("let name = \"a\"; name == \"b\"", &[]);
}
