use serde_json::{Value as Json, json};

use crate::limits::MAX_LONE_DASHES;
use crate::{Reading, documents};

fn read(text: &str) -> Vec<Json> {
    documents(text.as_bytes()).unwrap().iter().map(|node| node.to_json(Reading::Objects).unwrap()).collect()
}

fn refused(text: &str, line: u32, reason: &str) {
    let malformed = documents(text.as_bytes()).unwrap_err();
    assert_eq!((malformed.line, malformed.reason.contains(reason)), (line, true), "{text:?}: {malformed:?}");
}

#[test]
fn documents_are_split_at_their_separators() {
    assert_eq!(read("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(read("a: |\n  ---\n  x\n"), [json!({"a": "---\nx\n"})]);
    assert_eq!(read(""), [] as [Json; 0]);
    refused("a: 1\n--- b\n", 2, "only a comment");
}

#[test]
fn a_time_in_brackets_or_braces_is_a_string() {
    let times = "a: 2024-1-1 1:02:03\nb: [2024-1-1 1:02:03, 2024-1-1]\nc: {d: 2024-1-1 1:02:03}\n";
    let (time, date, text) = ("2024-01-01T01:02:03Z", "2024-01-01T00:00:00Z", "2024-1-1 1:02:03");
    assert_eq!(read(times), [json!({"a": time, "b": [text, date], "c": {"d": text}})]);
}

#[test]
fn a_lone_dash_in_brackets_or_braces_is_a_string() {
    assert_eq!(
        read("a: [-, -x, é, -]\nb: {c: -}\n---\n[-]"),
        [json!({"a": ["-", "-x", "é", "-"], "b": {"c": "-"}}), json!(["-"])]
    );
    refused(&format!("a: [{}]", "-,".repeat(MAX_LONE_DASHES + 1)), 1, "cannot start with '-'");
}

#[test]
fn a_block_at_the_end_has_the_line_breaks_of_the_text() {
    assert_eq!(read("a: |\n  x\n  y"), [json!({"a": "x\ny"})]);
    assert_eq!(read("a: |\n  x\n  y\n"), [json!({"a": "x\ny\n"})]);
    assert_eq!(read("a: |\n  x\n\n\n"), [json!({"a": "x\n"})]);
    assert_eq!(read("a: |\n  x\n  "), [json!({"a": "x\n"})]);
    assert_eq!(read("a: |\n  x\nb: y"), [json!({"a": "x\n", "b": "y"})]);
}

#[test]
fn nodes_know_their_lines() {
    let nodes = documents(b"a: 1\n---\nb:\n  c:\n    - d\n").unwrap();
    assert_eq!(nodes[1].as_map().unwrap()["b"].line, 3);
    assert_eq!(nodes[1].get("b").unwrap().get("c").unwrap().as_list().unwrap()[0].line, 5);
}

#[test]
fn aliases_and_merge_keys_are_expanded() {
    let text = "base: &base {a: 1, b: 2}\nother: &o {b: 3, c: 4}\nx:\n  <<: [*base, *o]\n  a: 9\ny: *base\n";
    let documents = read(text);
    assert_eq!(documents[0]["x"], json!({"a": 9, "b": 2, "c": 4}));
    assert_eq!(documents[0]["y"], json!({"a": 1, "b": 2}));
}

#[test]
fn documents_that_would_be_misread_or_lose_data_are_refused() {
    refused("a: 1\na: 2\n", 2, "twice");
    refused("a: !foo b\n", 1, "tag");
    refused("a: *nowhere\n", 1, "");
    refused("a: &x [*x]\n", 1, "a value that contains it");
    refused("? [a]\n: b\n", 1, "cannot be a key");
    refused("a: {{ .Values.x }}\n", 1, "");
    refused("a: [\n", 1, "");
    refused("a:\n\tb: 1\n", 2, "");
    refused("a: !!python/object:os.system b\n", 1, "tag");
    // `kubectl kustomize` rejects these too.
    refused("a: x\nb: y\0z\n", 2, "");
    refused("a: x\nb: y\u{7}z\n", 2, "");
    refused("a: x\nb: y\u{7f}z\n", 2, "");
    refused("a: x\nb: y\u{85}z\n", 3, "");
    refused("a: x\nb: \"\\ud800\"\n", 2, "");
    for utf16 in [b"\xff\xfea\0:\0", b"\xfe\xff\0a\0:"] {
        assert!(documents(utf16).unwrap_err().reason.contains("UTF-16"));
    }
    assert_eq!(documents(b"a: x\nb: \xed\xa0\x80\n").unwrap_err().reason, "not UTF-8 text");
    assert_eq!(documents(b"a\0:\0").unwrap_err().line, 1);
}

#[test]
fn escapes_breaks_and_marks_are_as_kubectl_reads_them() {
    assert_eq!(read("a: \"x\\0y\"\n"), [json!({"a": "x\0y"})]);
    assert_eq!(read("a: \"x\\Ny\"\n"), [json!({"a": "x\u{85}y"})]);
    assert_eq!(read("a: 1\u{85}b: 2\n"), [json!({"a": 1, "b": 2})]);
    assert_eq!(read("\u{feff}a: x\u{feff}y\n"), [json!({"a": "x\u{feff}y"})]);
}

#[test]
fn numbers_that_no_type_can_hold_are_strings() {
    let digits = "1".repeat(1_000_000);
    for number in ["1e999999", "-1e999999", "0xffffffffffffffffffffffffffffffffffffffff", &digits] {
        assert_eq!(read(&format!("a: {number}\n")), [json!({"a": number})], "{number:.50}");
    }
}

#[test]
fn floods_are_refused_in_time() {
    let deep = "[".repeat(100_000);
    assert!(documents(deep.as_bytes()).is_err());
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let items = format!("*a{},", level - 1).repeat(10);
        laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let malformed = documents(laughs.as_bytes()).unwrap_err();
    assert!(malformed.reason.contains("aliases"), "{malformed:?}");
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100));
    let malformed = documents(text.as_bytes()).unwrap_err();
    assert!(malformed.reason.contains("copy more than"), "{malformed:?}");
    let malformed = documents("---\na\n".repeat(1_000_000).as_bytes()).unwrap_err();
    assert_eq!(malformed.reason, "the file has more than 10000 documents");
    let malformed = documents(format!("a: {}", "x".repeat(50 << 20)).as_bytes()).unwrap_err();
    assert_eq!(malformed.reason, "the file has more than 16777216 bytes");
}
