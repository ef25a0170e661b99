//! Checks imports: between crates in their manifests, between modules of the root package in their paths. In
//! folders to be read bottom-up, modules must not form cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::dependencies::dependencies;
use super::tokens::tokens;
use super::{Files, assert_none, is_test, production, read, sources};

/// The crates that a member's manifest may name. ARCHITECTURE.md lists the same edges.
const CRATES: &[(&str, &[&str])] = &[
    // Besides the shell, this is the only member that acts, and only in the files that its page names.
    ("addon-sdk", &["addon-lifecycle", "api", "engine", "object", "reconcile", "shell"]),
    ("addon-lifecycle", &["api", "engine", "object", "reconcile"]),
    ("object", &[]),
    ("api", &["object"]),
    ("yaml", &[]),
    ("chart", &["yaml"]),
    ("sops", &["object", "yaml"]),
    ("render", &["chart", "object", "sops", "yaml"]),
    ("seal", &["api", "object"]),
    ("reconcile", &["api", "object"]),
    ("cel", &["object"]),
    ("engine", &["api", "cel", "object"]),
    ("controllers", &["addon-lifecycle", "api", "engine", "object", "reconcile", "render", "seal", "yaml"]),
    // The shell knows none of our kinds, so it can run the controllers of the hub, agent and add-ons alike.
    ("shell", &["object", "reconcile"]),
    ("store", &["cel", "object"]),
    ("preview", &["api", "controllers", "engine", "object", "reconcile", "seal", "store"]),
    // Only tests and benchmarks use it.
    ("sim", &["api", "controllers", "engine", "object", "preview", "reconcile", "seal", "store"]),
];

/// The modules and crates that a module of the root package may use.
const MODULES: &[(&str, &[&str])] = &[
    ("git", &["object"]),
    ("pki", &["engine"]),
    ("apiserver", &["pki", "api", "object", "store"]),
    ("serve", &["pki", "shell", "api", "controllers", "object", "reconcile"]),
    ("dashboard", &["pki", "serve", "shell", "api", "controllers", "engine", "object"]),
    // These two only connect parts and decide nothing, so they do not import the engine.
    ("operator", &["git", "pki", "serve", "shell", "api", "controllers", "object", "reconcile", "seal"]),
    ("agent", &["pki", "serve", "shell", "api", "controllers", "object", "reconcile", "seal"]),
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
            "chart",
            "controllers",
            "engine",
            "object",
            "preview",
            "reconcile",
            "render",
            "seal",
            "store",
        ],
    ),
    ("bin", &["cli"]),
    ("main", &["cli"]),
];

/// The folders whose modules must not form cycles.
const LAYERED: &[&str] = &[
    "crates/addon-lifecycle/src",
    "crates/addon-sdk/src",
    "crates/addon-sdk/src/hub",
    "crates/api/src",
    "crates/cel/src",
    "crates/controllers/src",
    "crates/controllers/src/agent",
    "crates/controllers/src/hub",
    "crates/controllers/src/hub/addon_config",
    "crates/controllers/src/hub/addon_deploy",
    "crates/controllers/src/hub/config_repo",
    "crates/controllers/src/hub/replica_set",
    "crates/controllers/src/registration_operator",
    "crates/engine/src",
    "crates/engine/src/addon",
    "crates/engine/src/report",
    "crates/engine/src/rollout",
    "crates/engine/src/sync",
    "crates/engine/src/work",
    "crates/object/src",
    "crates/reconcile/src",
    "crates/reconcile/src/dispatcher",
    "crates/render/src",
    "crates/render/src/generate",
    "crates/render/src/kustomization",
    "crates/render/src/transform",
    "crates/render/src/transform/replacements",
    "crates/shell/src",
    "crates/shell/src/client",
    "crates/shell/src/election",
    "crates/sim/src",
    "crates/store/src",
    "crates/store/src/admission",
    "crates/store/src/builtin",
    "crates/store/src/crd",
    "crates/yaml/src",
    "src/agent",
    "src/apiserver",
    "src/cli",
    "src/cli/commands",
    "src/dashboard",
    "src/git",
    "src/git/transport",
    "src/operator",
    "src/operator/source",
    "src/pki",
    "src/serve",
];

/// Returns the crates that a member's own code depends on.
fn crates(manifest: &str) -> impl Iterator<Item = &str> {
    let own = dependencies(manifest).into_iter().filter(|dependency| !dependency.is_of_tests);
    own.filter_map(|dependency| dependency.package.strip_prefix("wheelwright-"))
}

/// Returns the first names of all paths in a source text: `crate::a`, and `b` for `b::c` unless the file declares
/// or imports `b`.
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

/// Returns the names that a file declares with `mod` or imports with `use super::…`.
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

/// Returns the first name of a path, or of each path in a group `{a::b, c}`.
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

/// Returns the module path of a file or folder.
fn path_of(file: &str) -> Vec<&str> {
    let inside = file.split_once("src").map_or("", |(_, inside)| inside.trim_end_matches(".rs"));
    inside.split('/').filter(|name| !["", "lib", "main", "mod"].contains(name)).collect()
}

/// Adds the paths that start with `before` and continue with these tokens. Returns the number of tokens read.
fn expand<'t>(words: &[&'t str], before: &[&'t str], found: &mut Vec<Vec<&'t str>>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if *word == "{" {
            while words.get(at).is_some_and(|word| *word != "}") {
                at += expand(&words[at..], &path, found).max(1);
                at += words[at..].iter().take_while(|word| ![",", "}"].contains(word)).count();
                at += usize::from(words.get(at) == Some(&","));
            }
            return at + 1;
        }
        path.push(*word);
        if words.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

/// Returns the paths from `crate` that a source text names with `crate::…` and `super::…`.
fn named<'t>(words: &[&'t str], own: &[&'t str]) -> Vec<Vec<&'t str>> {
    let mut found = Vec::new();
    for at in 0..words.len() {
        if words.get(at + 1) != Some(&"::") || at > 0 && words[at - 1] == "::" {
            continue;
        }
        let supers = words[at..].chunks(2).take_while(|pair| *pair == ["super", "::"]).count();
        match words[at] {
            "crate" => expand(&words[at + 2..], &[], &mut found),
            "super" if supers <= own.len() => {
                expand(&words[at + 2 * supers..], &own[..own.len() - supers], &mut found)
            }
            _ => 0,
        };
    }
    found
}

/// Returns a folder's modules that are on a cycle, or between two cycles.
fn in_circles<'f>(folder: &str, files: &'f Files) -> BTreeSet<&'f str> {
    let above = path_of(folder);
    let inside = format!("{folder}/");
    let mut uses: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with(&inside) && !is_test(path)) {
        let own = path_of(path);
        let Some(module) = own.get(above.len()) else { continue };
        let paths = named(&tokens(production(text)), &own);
        let within = paths.iter().filter(|path| path.starts_with(&above));
        let used = within.filter_map(|path| path.get(above.len())).filter(|used| *used != module);
        uses.extend(used.map(|used| (*module, *used)));
    }
    loop {
        let users: BTreeSet<&str> = uses.iter().map(|(user, _)| *user).collect();
        let used: BTreeSet<&str> = uses.iter().map(|(_, used)| *used).collect();
        let before = uses.len();
        uses.retain(|(user, of)| users.contains(of) && used.contains(user));
        if uses.len() == before {
            return users;
        }
    }
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
fn modules_of_a_layered_folder_use_each_other_in_no_circle() {
    let files = sources();
    let names = |folder: &str| in_circles(folder, &files).into_iter().collect::<Vec<_>>().join(", ");
    let circles = LAYERED.iter().map(|folder| (folder, names(folder))).filter(|(_, names)| !names.is_empty());
    assert_none(circles.map(|(folder, names)| format!("{folder} has a circle of its modules {names}")));
}

#[test]
fn a_circle_of_modules_is_found() {
    let circle = |texts: [&str; 3]| {
        let paths = ["crates/x/src/hub/a.rs", "crates/x/src/hub/b/mod.rs", "crates/x/src/hub/b/inner.rs"];
        let files: Files = paths.map(str::to_owned).into_iter().zip(texts.map(str::to_owned)).collect();
        in_circles("crates/x/src/hub", &files).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(circle(["use super::b::B;", "", "use crate::hub::a::A;"]), ["a", "b"]);
    assert_eq!(circle(["use crate::{y, hub::{c, b}};", "let a = super::a::of();", ""]), ["a", "b"]);
    assert_eq!(circle(["use super::b;", "", "use super::super::a;"]), ["a", "b"]);
    let without = "#[cfg(test)]\nmod tests { use crate::hub::a::A; }";
    assert_eq!(circle(["use super::b::{self, C as D};", without, "use super::c; use crate::a;"]), [""; 0]);
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
