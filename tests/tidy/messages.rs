//! All texts that people can read are in one golden file and are reviewed together: a message names what was
//! attempted, what is wrong, where, and what to do.
//!
//! A text is a literal of three words or more. Texts for programmers are left out: reasons of `expect` and of
//! lints. The texts of the embedded API server are kube-apiserver's, and `tests/conformance` compares them.

use super::tokens::literals;
use super::{is_test, production, root, sources};
use crate::golden;

/// The tokens before a literal that only programmers read.
const FOR_PROGRAMMERS: [&[&str]; 2] = [&["expect", "("], &["reason", "="]];

/// Returns the texts of a source, in its order.
fn messages(source: &str) -> Vec<String> {
    let texts = literals(production(source)).into_iter().filter_map(|(before, text)| {
        let is_message =
            text.split_whitespace().count() >= 3 && !FOR_PROGRAMMERS.contains(&before.as_slice());
        is_message.then(|| text.replace('\n', "\\n"))
    });
    texts.collect()
}

fn has_messages(path: &str) -> bool {
    let is_ours = path.starts_with("src/") || (path.starts_with("crates/") && path.contains("/src/"));
    is_ours
        && !is_test(path)
        && !["crates/store/", "crates/sim/"].iter().any(|crate_| path.starts_with(crate_))
}

#[test]
fn every_message_stands_in_the_list_that_is_reviewed() {
    let mut list = String::new();
    for (path, source) in sources().iter().filter(|(path, _)| has_messages(path)) {
        let found = messages(source);
        if !found.is_empty() {
            list += &format!("{path}\n    {}\n", found.join("\n    "));
        }
    }
    golden::check([(root().join("tests/golden/messages.txt"), list)]);
}

#[test]
fn a_text_of_three_words_is_a_message_unless_only_programmers_read_it() {
    let source = r##"
#[error("cannot read {path}")] struct A; #[expect(dead_code, reason = "one two three")] const B: &str = "two words";
fn c() { d.expect("it was checked"); e(r#"a "b" c"#); f("one \
    two three") } // "in a comment"
#[cfg(test)]
mod tests { const G: &str = "of a test"; }"##;
    assert_eq!(messages(source), ["cannot read {path}", "a \"b\" c", "one two three"]);
}
