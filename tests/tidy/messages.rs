//! All texts that people can read are in one golden file and are reviewed together: a message names what was
//! attempted, what is wrong, where, and what to do.
//!
//! A text is a literal of three words or more. Texts for programmers are left out: reasons of `expect` and of
//! lints, and the simulator, except the preview behind `wheelwright plan`. The texts of the embedded API
//! server are kube-apiserver's, and `tests/conformance` compares them.

use serde_json::Value;

use super::tokens::literals;
use super::{is_test, production, read, root, sources};
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
    let is_simulator = path.starts_with("crates/sim/") && !path.starts_with("crates/sim/src/preview/");
    is_ours && !is_test(path) && !path.starts_with("crates/store/") && !is_simulator
}

/// Returns the texts of a file of a chart: the answers of admission policies, the notes after an
/// installation, and the refusals of templates.
fn messages_of_chart(path: &str, text: &str) -> Vec<String> {
    if path.ends_with("/admission-policies.yaml") {
        let policies: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let validations = policies.iter().filter_map(|policy| policy["spec"]["validations"].as_array());
        let answer =
            |one: &Value| one["messageExpression"].as_str().or(one["message"].as_str()).map(str::to_owned);
        return validations.flatten().filter_map(answer).collect();
    }
    if path.ends_with("/NOTES.txt") {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("{{"));
        return lines.filter(|line| line.split_whitespace().count() >= 3).map(str::to_owned).collect();
    }
    let refusals = ["fail \"", "required \""].iter().flat_map(|call| text.split(call).skip(1));
    refusals.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn every_message_stands_in_the_list_that_is_reviewed() {
    let sources = sources().into_iter().filter(|(path, _)| has_messages(path));
    let of_sources = sources.map(|(path, source)| (messages(&source), path));
    let charts = read(&["charts"], ".yaml").into_iter().chain(read(&["charts"], ".txt"));
    let of_charts = charts.map(|(path, text)| (messages_of_chart(&path, &text), path));
    let mut list = String::new();
    for (found, path) in of_sources.chain(of_charts) {
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

#[test]
fn the_messages_of_a_chart_are_answers_of_policies_refusals_of_templates_and_notes() {
    let policies = "spec: {}\n---\nspec:\n  validations:\n  - {expression: a, message: not so}\n  \
                    - messageExpression: >-\n      'no ' +\n      name\n";
    for (path, text, expected) in [
        ("a/admission-policies.yaml", policies, &["not so", "'no ' + name"][..]),
        ("a/templates/b.yaml", "{{ fail \"c is d\" }}\ne: {{ required \"f is \" .g }}", &["c is d", "f is "]),
        (
            "a/templates/NOTES.txt",
            "{{- if .h }}\n  It runs now.\n{{- end }}\n\nrun this\n",
            &["It runs now."],
        ),
    ] {
        assert_eq!(messages_of_chart(path, text), expected, "{path}");
    }
}
