//! Checks that each spec is destructured where it is read, so that the compiler reports a new field without a
//! reader.

use std::collections::BTreeSet;

use super::public::block;
use super::tokens::tokens;
use super::{assert_none, is_test, sources};

/// Specs that are read in another way, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("AppliedManifestWorkSpec", "the agent writes it, and reads its names alone"),
    ("ClusterClaimSpec", "it has one field"),
    ("ConfigRepoInventorySpec", "the operator writes it, and reads its two lists in two functions"),
    ("ManagedClusterSetBindingSpec", "it has one field"),
    ("ManagedClusterSpec", "each field has readers in several controllers"),
];

/// Returns the specs of custom resources that a source text defines.
fn defined(text: &str) -> Vec<&str> {
    let words = tokens(text);
    let structs = words.windows(3).filter(|words| words[..2] == ["pub", "struct"]).map(|words| words[2]);
    structs.filter(|name| name.ends_with("Spec") && *name != "RegistrationSpec").collect()
}

/// Returns the types that a source text destructures without `..`.
fn destructured(text: &str) -> BTreeSet<&str> {
    let words = tokens(text);
    let patterns = words.split(|word| *word == "let").skip(1).filter_map(|words| {
        let at = words.iter().position(|word| *word == "{")?;
        let pattern = block(words);
        let is_pattern = words.get(pattern.len() + 1) == Some(&"=");
        let is_whole = !pattern.windows(2).any(|pair| pair == [".", "."]);
        words.get(at.checked_sub(1)?).copied().filter(|_| is_pattern && is_whole)
    });
    patterns.collect()
}

#[test]
fn every_spec_is_destructured_by_its_reader() {
    let files = sources();
    let (api, others): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/") && !is_test(path))
        .partition(|(path, _)| path.starts_with("crates/api/"));
    let specs: BTreeSet<&str> = api.iter().flat_map(|(_, text)| defined(text)).collect();
    assert!(specs.contains("PlacementSpec"), "{specs:?}");
    let read: BTreeSet<&str> = others.iter().flat_map(|(_, text)| destructured(text)).collect();
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    let missing = specs.difference(&read).filter(|name| !elsewhere.contains(*name));
    let stale = elsewhere.iter().filter(|name| read.contains(*name) || !specs.contains(*name));
    let missing = missing.map(|name| format!("no reader destructures {name} without `..`"));
    assert_none(missing.chain(stale.map(|name| format!("{name} needs no exception"))));
}

#[test]
fn a_spec_that_is_read_field_by_field_is_found() {
    assert_eq!(defined("pub struct ASpec { pub b: u8 } struct CSpec; pub struct D;"), ["ASpec"]);
    let text =
        "let wire::ASpec { b: B { d }, c: _ } = spec; let BSpec { b, .. } = spec; let c = CSpec { b };";
    assert_eq!(destructured(text), BTreeSet::from(["ASpec"]));
}
