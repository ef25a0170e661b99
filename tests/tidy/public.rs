//! Checks that another crate uses every public item of a member crate by its name: functions, constants and
//! statics; methods after a dot or in a path; modules in a path; types and traits, unless a public signature
//! contains them.
//!
//! The check misses an item whose name another crate uses for something else.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::tokens;
use super::{Files, assert_none, is_test, sources};

/// Files with names that other crates use without writing them, and how.
const UNWRITTEN: &[(&str, &str)] = &[("crates/api/src/kind.rs", "the macro of a kind uses it")];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Published {
    Value,
    Method,
    Type,
    Module,
}

/// The words of source files, by path.
type Words<'t> = BTreeMap<&'t str, Vec<&'t str>>;

/// Returns the names that a source text publishes.
fn published<'t>(words: &[&'t str]) -> Vec<(Published, &'t str)> {
    let after_pub = words.split(|word| *word == "pub").skip(1);
    after_pub
        .filter_map(|words| match words {
            ["fn", name, rest @ ..] | ["const" | "unsafe" | "async", "fn", name, rest @ ..] => {
                Some((if takes_self(rest) { Published::Method } else { Published::Value }, *name))
            }
            ["static", name, ..] => Some((Published::Value, *name)),
            ["const", name, ":", ..] => Some((Published::Value, *name)),
            ["struct" | "enum" | "union" | "trait" | "type", name, ..] => Some((Published::Type, *name)),
            ["mod", name, ..] => Some((Published::Module, *name)),
            _ => None,
        })
        .collect()
}

/// Returns whether the first parameter is `self`, from the tokens after the name of a function.
fn takes_self(words: &[&str]) -> bool {
    let parameters = words[until(words, &["("]).len()..].iter().skip(1);
    parameters.take_while(|word| ![":", ",", ")"].contains(word)).any(|word| *word == "self")
}

/// Returns the names in the public items of a source text beside their own names: the signatures of
/// functions, the types of fields, the bodies of enums and traits. An alias and an associated type always
/// count.
fn signatures<'t>(words: &[&'t str]) -> BTreeSet<&'t str> {
    let mut found = BTreeSet::new();
    for at in 0..words.len() {
        let part = match &words[at..] {
            ["pub", "enum" | "union" | "trait", _, rest @ ..] | ["kind", "!", rest @ ..] => block(rest),
            ["pub", "mod" | "use" | "(", ..] => &[],
            ["type", _, rest @ ..] => until(rest, &[";"]),
            ["pub", "fn" | "struct" | "const" | "static", _, rest @ ..]
            | ["pub", "unsafe" | "async", "fn", _, rest @ ..] => until(rest, &["{", ";", "="]),
            ["pub", rest @ ..] => until(rest, &[",", "}", ";"]),
            _ => &[],
        };
        found.extend(part);
    }
    found
}

/// Returns the tokens before the first one of `ends`, outside of brackets.
fn until<'w, 't>(words: &'w [&'t str], ends: &[&str]) -> &'w [&'t str] {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate() {
        match *word {
            word if depth == 0 && ends.contains(&word) => return &words[..at],
            "(" | "[" | "<" => depth += 1,
            ")" | "]" => depth -= 1,
            ">" if at == 0 || !["-", "="].contains(&words[at - 1]) => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return &words[..at];
        }
    }
    words
}

/// Returns the tokens up to the end of the first block.
pub(super) fn block<'w, 't>(words: &'w [&'t str]) -> &'w [&'t str] {
    let mut depth = 0;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" => depth += 1,
            "}" if depth == 1 => return &words[..at],
            "}" => depth -= 1,
            _ => {}
        }
    }
    words
}

/// Returns the names that are part of a path in a source text, with those of imports.
fn entered<'t>(words: &[&'t str]) -> BTreeSet<&'t str> {
    let paths = words.windows(2).filter(|pair| pair.contains(&"::")).flatten().copied();
    let imports = words.split(|word| *word == "use").skip(1).flat_map(|rest| until(rest, &[";"]).to_vec());
    paths.chain(imports).collect()
}

/// Returns the names that a crate publishes and no file outside of its `src` uses.
fn unused(files: &Words<'_>, source: &str) -> Vec<String> {
    let (own, others): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| path.starts_with(source));
    let used: BTreeSet<&str> = others.iter().flat_map(|(_, words)| words.iter().copied()).collect();
    let entered: BTreeSet<&str> = others.iter().flat_map(|(_, words)| entered(words)).collect();
    let own: Vec<_> = own.into_iter().filter(|(path, _)| !is_test(path)).collect();
    let signatures: BTreeSet<&str> = own.iter().flat_map(|(_, words)| signatures(words)).collect();
    let after = |pair: &[&str]| [".", "::"].contains(&pair[0]);
    let called = others.iter().flat_map(|(_, words)| words.windows(2).filter(|pair| after(pair)));
    let called: BTreeSet<&str> = called.map(|pair| pair[1]).collect();
    let is_used = |kind, name| match kind {
        Published::Value => used.contains(name),
        Published::Method => called.contains(name),
        Published::Type => used.contains(name) || signatures.contains(name),
        Published::Module => entered.contains(name),
    };
    let own = own.iter().filter(|(path, _)| !UNWRITTEN.iter().any(|(unwritten, _)| unwritten == *path));
    own.flat_map(|(path, words)| {
        let names = published(words).into_iter().filter(|(kind, name)| !is_used(*kind, *name));
        names.map(move |(_, name)| format!("{path}: no other crate uses {name}; make it pub(crate) or less"))
    })
    .collect()
}

fn words(files: &Files) -> Words<'_> {
    files.iter().map(|(path, text)| (path.as_str(), tokens(text))).collect()
}

#[test]
fn every_published_name_is_used_by_another_crate() {
    let files = sources();
    let files = words(&files);
    let crates: BTreeSet<&str> = files
        .keys()
        .filter_map(|path| path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name))
        .collect();
    assert!(crates.contains("engine"), "{crates:?}");
    assert_none(crates.iter().flat_map(|name| unused(&files, &format!("crates/{name}/src/"))));
}

/// Returns the names of `text` that no other crate uses, where one other file has the text `other`.
fn unused_beside(text: &str, other: &str) -> Vec<String> {
    let own = ("crates/own/src/lib.rs".to_owned(), text.to_owned());
    let files = Files::from([own, ("crates/other/src/lib.rs".to_owned(), other.to_owned())]);
    let name = |problem: String| problem.split([' ', ';']).nth(5).unwrap_or_default().to_owned();
    unused(&words(&files), "crates/own/src/").into_iter().map(name).collect()
}

#[test]
fn a_published_name_that_no_other_crate_uses_is_found() {
    let text = "pub fn a() {} pub(crate) fn b() {} pub const C: u8 = 1; impl D { pub const fn e(&self) {} } pub static F: u8 = 1;";
    assert_eq!(unused_beside(text, "a(); C; d.e(); F"), [""; 0]);
    assert_eq!(unused_beside(text, "b(); // a C\n D::e; F"), ["a", "C"]);
}

#[test]
fn a_published_method_that_no_other_crate_calls_is_found() {
    let text = "impl A { pub fn b(&self) {} pub fn c<T: Fn(u8)>(&'a mut self) {} pub fn d(mut self) {} pub fn e() {} }";
    assert_eq!(unused_beside(text, "let (b, c, d) = A::e();"), ["b", "c", "d"]);
    assert_eq!(unused_beside(text, "a.b().c(); map(A::d); e"), [""; 0]);
}

#[test]
fn a_published_type_that_no_signature_and_no_other_crate_names_is_found() {
    let text = "pub struct A { pub b: Vec<(B, u8)>, c: C } pub struct B; pub struct C; pub(crate) fn d(_: D) {} pub struct D;
        pub fn e<X>(_: E, _: Box<dyn Fn(X) -> F>) -> G { H } pub struct E; pub struct F; pub struct G; pub struct H;
        pub enum I { J(J) } pub struct J; pub trait K { fn l() -> L; } pub struct L; impl K for M { type N = N; } pub struct M; pub struct N;";
    assert_eq!(unused_beside(text, "A; e; I; K"), ["C", "D", "H", "M"]);
}

#[test]
fn a_published_module_that_no_other_crate_enters_is_found() {
    let text = "pub mod a; pub mod b; pub mod c; mod d;";
    assert_eq!(unused_beside(text, "use own::{a::E, f}; own::b::g(); let c = 1;"), ["c"]);
}
