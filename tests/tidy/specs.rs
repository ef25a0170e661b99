//! Checks that each spec struct is destructured where it is read, so that the compiler reports a new field that
//! nothing reads. A conversion between versions does not count.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::tokens;
use super::{assert_none, is_test, sources};

const CONVERSION: &str = "crates/api/src/addon/conversion.rs";

/// Structs that are read in another way, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("AddOnMeta", "it tells people about an add-on; no program reads it"),
    ("AppliedManifestWorkSpec", "the agent writes it, and reads its names alone"),
    ("ClientConfig", "the agent writes it for the clients of others"),
    ("ConfigCoordinates", "it is deprecated, and OCM's controllers ignore it too"),
    ("ConfigRepoInventorySpec", "the operator writes it, and reads its two lists in two functions"),
    ("DefaultConfig", "the hub stores v1alpha1, and the conversion destructures it"),
    ("LocalPlacementReference", "its name and its strategy are read in two functions"),
    ("ManagedClusterSpec", "each field has readers in several controllers"),
];

/// The API's types by name, each with the names in its bodies; kinds with two versions are merged.
#[derive(Default)]
struct Types<'t> {
    bodies: BTreeMap<&'t str, BTreeSet<&'t str>>,
    /// The structs with named fields.
    structs: BTreeSet<&'t str>,
}

impl<'t> Types<'t> {
    /// Reads the structs and enums that source texts define.
    fn defined(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut types = Self::default();
        for text in texts {
            let words = tokens(text);
            for at in 0..words.len() {
                let ["pub", keyword @ ("struct" | "enum"), name, ..] = words[at..] else { continue };
                let rest = &words[at + 3..];
                let start = rest.iter().position(|word| ["{", ";"].contains(word)).unwrap_or_default();
                let has_fields = rest.get(start) == Some(&"{");
                let body = if has_fields { block(rest) } else { &rest[..start] };
                types.bodies.entry(name).or_default().extend(body);
                if keyword == "struct" && has_fields {
                    types.structs.insert(name);
                }
            }
        }
        types
    }

    /// Returns the structs that make up specs.
    fn of_specs(&self) -> BTreeSet<&'t str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> =
            self.structs.iter().copied().filter(|name| name.ends_with("Spec")).collect();
        while let Some(name) = open.pop() {
            if let Some(body) = self.bodies.get(name).filter(|_| !found.contains(name)) {
                found.insert(name);
                open.extend(body);
            }
        }
        found.intersection(&self.structs).copied().collect()
    }
}

/// Returns the tokens up to the end of the first block.
fn block<'w, 't>(words: &'w [&'t str]) -> &'w [&'t str] {
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

/// Returns the types that a source text destructures without `..`. A block counts as a pattern if it drops a field
/// with `_`, as most drop the unknown fields, or if a value is assigned to it.
fn destructured(text: &str) -> BTreeSet<&str> {
    let words = tokens(text);
    let mut found = BTreeSet::new();
    for at in 1..words.len() {
        if words[at] != "{" || !words[at - 1].starts_with(char::is_uppercase) {
            continue;
        }
        let block = block(&words[at..]);
        let fields = top_level(block);
        let drops = fields.windows(2).any(|pair| pair == [":", "_"]);
        let is_assigned =
            matches!(words[at + block.len() + 1..], ["=", next, ..] if next != "=" && next != ">");
        let is_whole = !fields.windows(2).any(|pair| pair == [".", "."]);
        if is_whole && (drops || is_assigned) {
            found.insert(words[at - 1]);
        }
    }
    found
}

/// Returns a block's tokens that are not in an inner block.
fn top_level<'t>(block: &[&'t str]) -> Vec<&'t str> {
    let mut depth = 0;
    let mut found = Vec::new();
    for word in block {
        match *word {
            "{" => depth += 1,
            "}" => depth -= 1,
            word if depth == 1 => found.push(word),
            _ => {}
        }
    }
    found
}

#[test]
fn every_struct_of_a_spec_is_destructured_by_its_reader() {
    let files = sources();
    let production = || files.iter().filter(|(path, _)| !is_test(path));
    let api = production().filter(|(path, _)| path.starts_with("crates/api/"));
    let types = Types::defined(api.map(|(_, text)| text.as_str()));
    let specs = types.of_specs();
    assert!(specs.contains("PlacementSpec") && specs.contains("ClusterPredicate"), "{specs:?}");
    let readers = production().filter(|(path, _)| path.as_str() != CONVERSION);
    let read: BTreeSet<&str> = readers.flat_map(|(_, text)| destructured(text)).collect();
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    let missing = specs.difference(&read).filter(|name| !elsewhere.contains(*name));
    let stale = elsewhere.iter().filter(|name| read.contains(*name) || !specs.contains(*name));
    let missing = missing.map(|name| format!("no reader destructures {name} without `..`"));
    assert_none(missing.chain(stale.map(|name| format!("{name} needs no exception"))));
}

#[test]
fn structs_below_a_spec_are_found_also_through_enums() {
    let text = "pub struct ASpec { pub b: Vec<B>, pub e: E } pub struct B { pub c: u8 } pub enum E { F(F), G }
        pub struct F { pub h: H } pub struct H(I); pub struct I { } pub struct Status { pub j: J } pub struct J { }";
    assert_eq!(Types::defined([text]).of_specs(), BTreeSet::from(["ASpec", "B", "F", "I"]));
}

#[test]
fn a_struct_that_is_read_field_by_field_is_found() {
    let text = "let wire::ASpec { b: B { d, e: _ }, c: _ } = spec; let CSpec { b, .. } = spec; let c = DSpec { b };
        |E { f, unknown: _ }| f; match g { Some(G { h, unknown: _ }) => I { j: K { unknown: _ } } } if L { m } == n { }
        let O { p, unknown } = o;";
    assert_eq!(destructured(text), BTreeSet::from(["ASpec", "B", "E", "G", "K", "O"]));
}
