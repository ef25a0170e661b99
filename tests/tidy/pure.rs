//! Checks that members decide but do not act: they use no files, environment, network, processes or threads from
//! the standard library, and have no async code.
//!
//! Their manifests exclude the crates that act; this check covers the standard library and the language.

use std::collections::BTreeSet;

use super::imports::branches;
use super::tokens::tokens;
use super::{assert_none, is_test, production, sources};

/// Standard library modules that act.
const MODULES: [&str; 6] = ["env", "fs", "net", "os", "process", "thread"];

/// Words in code that waits or prints.
const WORDS: [&str; 6] = ["async", "eprintln", "println", "stderr", "stdin", "stdout"];

/// Files and directories that may use some of them, with the reason.
const MAY: &[(&str, &[&str], &str)] = &[
    ("crates/shell/", &["async", "env", "fs", "process", "thread"], "the shell acts"),
    ("crates/addon-sdk/src/agent.rs", &["async", "fs"], "it runs the agent of an add-on"),
    ("crates/addon-sdk/src/command.rs", &["async", "net", "stderr"], "it is a command line"),
    ("crates/addon-sdk/src/health.rs", &["async", "net"], "it serves the probes of the kubelet"),
    ("crates/addon-sdk/src/manager.rs", &["async", "env", "net"], "it runs the manager of an add-on"),
    ("crates/chart/src/funcs/certificates.rs", &["net"], "it parses addresses with the types of the module"),
    ("crates/chart/src/pki/certificate.rs", &["net"], "the names of a certificate may be addresses"),
    ("crates/chart/src/schema/format.rs", &["net"], "it parses addresses with the types of the module"),
    (
        "crates/engine/src/placement/cluster_secret.rs",
        &["net"],
        "it parses addresses with the types of the module",
    ),
    ("crates/store/src/format.rs", &["net"], "it parses addresses with the types of the module"),
];

/// Returns the acting modules and words that a source text uses.
fn used(text: &str) -> BTreeSet<&str> {
    let words = tokens(production(text));
    let is_std = |at: &usize| words[*at..].starts_with(&["std", "::"]);
    let paths = (0..words.len()).filter(is_std).flat_map(|at| branches(&words[at + 2..]));
    let modules = paths.filter(|module| MODULES.contains(module));
    modules.chain(words.iter().copied().filter(|word| WORDS.contains(word))).collect()
}

fn problems(path: &str, text: &str) -> Vec<String> {
    let may = MAY.iter().filter(|(prefix, ..)| path.starts_with(prefix));
    let may: Vec<&str> = may.flat_map(|(_, may, _)| may.iter().copied()).collect();
    let wrong = used(text).into_iter().filter(|word| !may.contains(word));
    wrong.map(|word| format!("{path}: a member that decides must not use {word}")).collect()
}

#[test]
fn crates_that_decide_do_not_act() {
    let files = sources();
    let members: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/") && !is_test(path))
        .collect();
    let wrong = members.iter().flat_map(|(path, text)| problems(path, text));
    let stale = MAY.iter().flat_map(|(prefix, may, _)| {
        let inside = members.iter().filter(|(path, _)| path.starts_with(prefix));
        let used: BTreeSet<&str> = inside.flat_map(|(_, text)| used(text)).collect();
        let unused = may.iter().filter(move |word| !used.contains(*word));
        unused.map(move |word| format!("{prefix} uses no {word}; take it off the list"))
    });
    assert_none(wrong.chain(stale));
}

#[test]
fn files_environment_network_processes_threads_and_async_code_are_found() {
    let check =
        |text, expected: &[&str]| assert_eq!(used(text), expected.iter().copied().collect(), "{text}");
    check("let a = std::fs::read(b); std::thread::spawn(c);", &["fs", "thread"]);
    check(
        "use std::{collections::BTreeMap, env, io::{self, stderr}}; use std::net::TcpStream;",
        &["env", "net", "stderr"],
    );
    check("use std::process::Command; async fn a() { std::io::stdout() }", &["async", "process", "stdout"]);
    check("use std::io::Write; // std::fs\n let env = env!(\"A\"); a::fs(\"std::fs\"); thread_local!{}", &[]);
    check("use std::mem;\nfn fs() {}\n#[cfg(test)]\nmod tests { use std::fs; }", &[]);
    assert_eq!(problems("crates/engine/src/a.rs", "use std::{fs, env};").len(), 2);
    assert_eq!(problems("crates/shell/src/a.rs", "use std::{fs, env};"), [""; 0]);
    assert_eq!(problems("crates/addon-sdk/src/agent.rs", "use std::{fs, env};").len(), 1);
}
