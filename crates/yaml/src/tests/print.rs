use serde_json::{Map, Value as Json, json};

use crate::order::natural_order;
use crate::print;

fn check(value: Json, expected: &str) {
    let Json::Object(map) = json!({ "k": value }) else { panic!() };
    assert_eq!(print(&map), format!("k:{expected}\n"), "{map:?}");
}

#[test]
fn ambiguous_strings_are_quoted() {
    for (text, expected) in [
        ("plain", " plain"),
        ("", " \"\""),
        ("yes", " \"yes\""),
        ("1.10", " \"1.10\""),
        ("0644", " \"0644\""),
        ("2024-01-01", " \"2024-01-01\""),
        ("12:30", " \"12:30\""),
        ("12:30:99", " 12:30:99"),
        ("a: b", " 'a: b'"),
        ("a #b", " 'a #b'"),
        ("a#b", " a#b"),
        ("- a", " '- a'"),
        ("-a", " -a"),
        ("*", " '*'"),
        ("it's", " it's"),
        ("'it'", " '''it'''"),
        ("tab\there", " \"tab\\there\""),
        (" lead", " ' lead'"),
        ("smile \u{1f600}", " \"smile \\U0001F600\""),
        ("grüße", " grüße"),
    ] {
        check(json!(text), expected);
    }
}

#[test]
fn texts_of_lines_are_blocks() {
    check(json!("a\nb\n"), " |\n  a\n  b");
    check(json!("a\nb"), " |-\n  a\n  b");
    check(json!("a\n\n"), " |+\n  a\n");
    check(json!(" a\nb"), " |2-\n   a\n  b");
    check(json!("a \nb"), " \"a \\nb\"");
}

#[test]
fn long_plain_text_folds_at_spaces() {
    let text = "word ".repeat(20);
    let expected = format!(" {}\n  word word word word", "word ".repeat(16).trim_end());
    check(json!(text.trim_end()), &expected);
}

#[test]
fn lists_are_printed_below_their_key_and_nest() {
    check(json!([1, [2, 3], {"a": [4], "b": {}}]), "\n- 1\n- - 2\n  - 3\n- a:\n  - 4\n  b: {}");
    check(json!([]), " []");
    check(json!({"x": {"y": null}}), "\n  x:\n    \"y\": null");
}

#[test]
fn numbers_are_short() {
    for (float, expected) in [
        (1.5, "1.5"),
        (1e20, "1e+20"),
        (1234567.5, "1.2345675e+06"),
        (0.00001, "1e-05"),
        (100000.5, "100000.5"),
    ] {
        check(json!(float), &format!(" {expected}"));
    }
    check(json!(u64::MAX), " 18446744073709551615");
}

#[test]
fn a_key_that_would_read_as_a_merge_is_quoted() {
    check(json!({"<<": "<<"}), "\n  \"<<\": <<");
}

#[test]
fn line_breaks_that_some_readers_do_not_recognize_are_escaped() {
    check(json!("x\n- y\u{2028}z"), " \"x\\n- y\\Lz\"");
    check(json!("x\u{2029}z"), " \"x\\Pz\"");
}

#[test]
fn keys_whose_order_is_cyclic_are_printed() {
    let keys = (0..200).map(|number| match number % 3 {
        0 => format!("{number}"),
        1 => format!("{}a", number / 10),
        _ => format!("{}0", number / 7),
    });
    let map: Map<String, Json> = keys.map(|key| (key, Json::Null)).collect();
    let fields = map.len();
    assert_eq!(print(&map).lines().count(), fields);
}

#[test]
fn keys_are_in_natural_order() {
    let mut keys = vec!["b", "a10", "a2", "a-b", "ab", "A", "_", "1", "a"];
    keys.sort_by(|a, b| natural_order(a, b));
    assert_eq!(keys, ["_", "1", "A", "a", "a-b", "a2", "a10", "ab", "b"]);
}
