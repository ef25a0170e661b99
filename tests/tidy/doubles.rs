//! Checks that a name means one type in a crate, and a published name one type in the workspace, because a
//! diff shows a name without its module.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::tokens;
use super::{assert_none, is_test, production, sources};

/// Names that stand for several types of a crate, with the reason; none is added without one.
const DOUBLES: &[(&str, &[&str], &str)] = &[
    (
        "api",
        &[
            "ClusterManagementAddOnSpec",
            "ClusterManagementAddOnStatus",
            "ClusterSelector",
            "ConfigReference",
            "ManagedClusterAddOnSpec",
            "ManagedClusterAddOnStatus",
            "RegistrationConfig",
            "RegistrationType",
        ],
        "OCM names them so, in two versions",
    ),
    ("engine", &["Member"], "the oracle describes the same cluster without the code that it judges"),
    ("controllers", &["Writes"], "each is private to its controller"),
    ("engine", &["Counts", "Groups"], "one of the two is an alias that is private to its file"),
    ("reconcile", &["Run", "Shared"], "aliases, each private to its file"),
    ("render", &["Frame", "Shape"], "one of the two is private to its file"),
    ("render", &["Result"], "an alias with the error of its file"),
    ("shell", &["Attempt"], "one of the two is private to its file"),
    ("sim", &["KindWatch"], "the same of two programs that run a dispatcher"),
    ("store", &["Check", "Estimate", "Fields", "On"], "each is private to its folder"),
    ("root", &["Args", "Component", "Format", "Verb"], "each command has its own"),
    ("root", &["Error"], "each module with errors of its own has one"),
    ("root", &["Names"], "it stands in the function that uses it"),
    ("root", &["Address", "Bootstrap", "Credentials"], "those of the agent, named with its module"),
    ("root", &["Body", "Claims", "Reader", "Writer"], "those of the API server, private to it"),
    ("root", &["Connection", "Connections", "Wire"], "of git and of the API server, private to each"),
    ("root", &["Line", "Refusal", "State"], "private to its folder"),
];

/// Names that several crates publish for one notion, with what each of them has of it.
const PUBLISHED: &[(&[&str], &str)] = &[
    (
        &["Approval", "Joining", "OnBreach", "RollOut", "Superseding", "Takeover"],
        "the field of a spec, and what the engine reads from it",
    ),
    (&["Column"], "the printer column of a definition, and of a served kind"),
    (&["Error"], "each module with errors of its own has one"),
    (&["HeldObjects"], "deletions that wait, in an overview and in a preview"),
    (&["ListType"], "the list type of server-side apply: of a built-in kind, and of a schema"),
    (&["Style"], "of a YAML scalar, and of the text of a command; no crate uses both"),
    (&["Subject"], "the subject of a certificate: in a kind of OCM, and in X.509"),
    (&["Subresource"], "of a write, and of a served kind"),
];

/// Returns the crate of a source file of production.
fn crate_of(path: &str) -> Option<&str> {
    match path.strip_prefix("crates/") {
        Some(inside) => inside.split_once("/src/").map(|(name, _)| name),
        None => path.starts_with("src/").then_some("root"),
    }
}

/// Returns the structs, enums, unions, traits and aliases that a source text defines. Associated types, with
/// a bound or in an `impl`, are no names of their own.
fn defined(text: &str) -> BTreeSet<&str> {
    let words = tokens(production(text));
    let mut found = BTreeSet::new();
    let mut depth = 0_usize;
    for pair in words.windows(2) {
        match pair {
            ["{", _] => depth += 1,
            ["}", _] => depth = depth.saturating_sub(1),
            ["struct" | "enum" | "union" | "trait", name] if name.starts_with(char::is_uppercase) => {
                found.insert(*name);
            }
            ["type", name] if depth == 0 => {
                found.insert(*name);
            }
            _ => {}
        }
    }
    found
}

fn doubles<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> BTreeSet<(&'t str, &'t str)> {
    let mut count: BTreeMap<_, usize> = BTreeMap::new();
    for (path, text) in files.into_iter().filter(|(path, _)| !is_test(path)) {
        for name in crate_of(path).into_iter().flat_map(|of| defined(text).into_iter().map(move |n| (of, n)))
        {
            *count.entry(name).or_default() += 1;
        }
    }
    count.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect()
}

/// Returns the types that a source text publishes.
fn published(text: &str) -> BTreeSet<&str> {
    let words = tokens(production(text));
    let names = words.windows(3).filter_map(|window| match window {
        ["pub", "struct" | "enum" | "union" | "trait" | "type", name] => Some(*name),
        _ => None,
    });
    names.collect()
}

/// Returns the names of types that several crates publish.
fn published_doubles<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> BTreeSet<&'t str> {
    let mut crates: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in files.into_iter().filter(|(path, _)| !is_test(path)) {
        for name in published(text) {
            crates.entry(name).or_default().extend(crate_of(path));
        }
    }
    crates.into_iter().filter(|(_, crates)| crates.len() > 1).map(|(name, _)| name).collect()
}

#[test]
fn a_name_means_one_type_in_a_crate() {
    let files = sources();
    let found = doubles(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let allowed: BTreeSet<(&str, &str)> =
        DOUBLES.iter().flat_map(|(of, names, _)| names.iter().map(|name| (*of, *name))).collect();
    let new = found.difference(&allowed);
    let new = new.map(|(of, name)| format!("{of} has several types {name}; a diff does not tell them apart"));
    let stale = allowed.difference(&found).map(|(of, name)| format!("{of} has one type {name}; unlist it"));
    assert_none(new.chain(stale));
}

#[test]
fn a_published_name_means_one_type_in_the_workspace() {
    let files = sources();
    let found = published_doubles(files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let allowed: BTreeSet<&str> = PUBLISHED.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    let problem = |name| format!("several crates publish a type {name}; a diff does not tell them apart");
    let new = found.difference(&allowed).map(problem);
    let stale = allowed.difference(&found);
    let stale = stale.map(|name| format!("at most one crate publishes a type {name}; unlist it"));
    assert_none(new.chain(stale));
}

#[test]
fn a_name_of_two_types_is_found() {
    let files = [
        ("crates/a/src/b.rs", "pub struct A; enum B { C } impl D for A { type E = F; } type G = H;"),
        ("crates/a/src/c.rs", "trait A {} struct C; type G<T> = I<T>; trait J { type E; }"),
        ("crates/a/src/tests/c.rs", "struct B;"),
        ("crates/d/src/b.rs", "struct B; #[cfg(test)]\nmod tests { struct C; }"),
        ("src/b.rs", "struct B; // struct B\n"),
    ];
    assert_eq!(doubles(files), BTreeSet::from([("a", "A"), ("a", "G")]));
}

#[test]
fn a_published_name_of_two_crates_is_found() {
    let files = [
        ("crates/a/src/b.rs", "pub struct A; pub(crate) struct B; pub type C<T> = D<T>; pub enum E {}"),
        ("crates/a/src/c.rs", "pub struct E;"),
        ("crates/b/src/b.rs", "pub trait A {} pub struct B; struct E;"),
        ("crates/b/src/tests/c.rs", "pub struct E;"),
        ("src/b.rs", "pub struct C; // pub struct E\n"),
    ];
    assert_eq!(published_doubles(files), BTreeSet::from(["A", "C"]));
}
