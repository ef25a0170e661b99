//! The allowed imports: between crates by their manifests, between modules of the root package by their
//! paths.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::dependencies;
use super::tokens::tokens;
use super::{assert_none, is_test, read};

/// The crates that a member may name in its manifest. ARCHITECTURE.md has the same edges.
const CRATES: &[(&str, &[&str])] = &[
    // Beside the shell it is the only member that acts, in the files that its page names.
    ("addon-sdk", &["api", "engine", "object", "reconcile", "shell"]),
    ("object", &[]),
    ("api", &["object"]),
    ("render", &["object"]),
    ("reconcile", &["api", "object"]),
    ("cel", &["object"]),
    ("engine", &["api", "cel", "object"]),
    ("controllers", &["api", "engine", "object", "reconcile", "render"]),
    // It knows none of our kinds, so it runs the controllers of hub, agent and add-ons alike.
    ("shell", &["object", "reconcile"]),
    ("store", &["cel", "object"]),
    ("sim", &["api", "controllers", "engine", "object", "reconcile", "store"]),
];

/// The modules and crates that a module of the root package may use.
const MODULES: &[(&str, &[&str])] = &[
    ("git", &["object"]),
    ("pki", &["engine"]),
    ("apiserver", &["pki", "api", "object", "store"]),
    ("serve", &["pki", "shell", "api", "controllers", "object", "reconcile"]),
    ("dashboard", &["pki", "serve", "shell", "api", "controllers", "engine", "object"]),
    // These two only connect parts and decide nothing, so they import no engine.
    ("operator", &["git", "pki", "serve", "shell", "api", "controllers", "object", "reconcile"]),
    ("agent", &["pki", "serve", "shell", "api", "controllers", "object", "reconcile"]),
    (
        "cli",
        &[
            "agent",
            "apiserver",
            "dashboard",
            "git",
            "operator",
            "serve",
            "shell",
            "api",
            "controllers",
            "engine",
            "object",
            "reconcile",
            "render",
            "sim",
            "store",
        ],
    ),
    ("main", &["cli"]),
];

/// Returns the crates that a member's own code depends on.
fn crates(manifest: &str) -> impl Iterator<Item = &str> {
    let own = dependencies(manifest).into_iter().filter(|dependency| !dependency.is_of_tests);
    own.filter_map(|dependency| dependency.package.strip_prefix("wheelwright-"))
}

/// Returns the first names of all paths of a source text: `crate::a`, and `b` of `b::c` unless `b` is
/// declared or imported in the file.
fn heads(text: &str) -> BTreeSet<&str> {
    let words = tokens(text);
    let nearby = nearby(&words);
    let mut heads = BTreeSet::new();
    for at in 0..words.len() {
        let is_head = words.get(at + 1) == Some(&"::") && (at == 0 || words[at - 1] != "::");
        if !is_head {
            continue;
        }
        match words[at] {
            "crate" | "wheelwright" => heads.extend(branches(&words[at + 2..])),
            head if nearby.contains(head) => {}
            head => {
                heads.insert(head);
            }
        }
    }
    heads
}

/// Returns the names that `mod` or `use super::…` declare in a file.
fn nearby<'a>(words: &[&'a str]) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, pair) in words.windows(2).enumerate() {
        match pair {
            ["mod", name] => {
                found.insert(*name);
            }
            ["super" | "self", "::"] => found.extend(branches(&words[at + 2..])),
            _ => {}
        }
    }
    found
}

/// Returns the first names of a path, or of each path of a group `{a::b, c}`.
pub(super) fn branches<'a>(words: &[&'a str]) -> Vec<&'a str> {
    if words.first() != Some(&"{") {
        return words.first().into_iter().copied().collect();
    }
    let mut found = Vec::new();
    let mut depth = 0;
    for pair in words.windows(2) {
        match pair[0] {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && ["{", ","].contains(&pair[0]) {
            found.push(pair[1]);
        }
    }
    found
}

/// Returns the module of the root package that a file belongs to.
fn module(path: &str) -> &str {
    let inside = path.trim_start_matches("src/");
    inside.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

fn problems(path: &str, text: &str, modules: &BTreeMap<&str, &[&str]>) -> Vec<String> {
    let module = module(path);
    let Some(may) = modules.get(module) else {
        return vec![format!("{path}: tests/tidy/imports.rs does not say what the module {module} may use")];
    };
    let is_known = |head: &str| modules.contains_key(head) || CRATES.iter().any(|(name, _)| *name == head);
    let is_allowed = |head: &str| head == module || may.contains(&head);
    let wrong = heads(text).into_iter().filter(|head| is_known(head) && !is_allowed(head));
    wrong.map(|head| format!("{path}: {module} must not use {head}")).collect()
}

#[test]
fn manifests_name_only_the_crates_they_may() {
    let manifests = read(&["crates"], "/Cargo.toml");
    let members = manifests.iter().filter(|(path, _)| path.split('/').count() == 3);
    let may: BTreeMap<&str, &[&str]> = CRATES.iter().copied().collect();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, manifest) in members {
        let name = path.split('/').nth(1).unwrap();
        seen.insert(name);
        let wrong = crates(manifest).filter(|used| !may.get(name).is_some_and(|may| may.contains(used)));
        problems.extend(wrong.map(|used| format!("{path}: {name} must not use {used}")));
    }
    assert_eq!(seen, may.into_keys().collect(), "the table names every member");
    assert_none(problems);
}

#[test]
fn modules_of_the_root_package_use_only_what_they_may() {
    let modules: BTreeMap<&str, &[&str]> = MODULES.iter().copied().collect();
    let sources = read(&["src"], ".rs");
    let production = sources.iter().filter(|(path, _)| !is_test(path) && *path != "src/lib.rs");
    assert_none(production.flat_map(|(path, text)| problems(path, text, &modules)));
}

#[test]
fn a_wrong_manifest_and_a_wrong_import_are_found() {
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nwheelwright-api.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\nwheelwright-sim.workspace = true\n";
    assert_eq!(crates(manifest).collect::<Vec<_>>(), ["api"]);
    let modules: BTreeMap<&str, &[&str]> = MODULES.iter().copied().collect();
    let count = |path, text| problems(path, text, &modules).len();
    assert_eq!(count("src/git/push.rs", "use object::Key; use crate::git::{push, error::Error};"), 0);
    assert_eq!(count("src/git/push.rs", "use crate::{git::push, shell::{self, now}};"), 1);
    assert_eq!(count("src/git/push.rs", "use base64::engine::general_purpose; // engine::rollout"), 0);
    assert_eq!(
        count("src/operator/mod.rs", "let x = engine::rollout::advance(); let y = crate::cli::Ui;"),
        2
    );
    assert_eq!(count("src/new.rs", ""), 1);
}
