use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{MAX_LENGTH, paths};
use object::steps::{MAX_STEPS, StepsLeft};

fn manifest() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "annotations": {"a.b/c": "1", "x": "2"}, "labels": {"app": "web"}},
        "spec": {
            "replicas": 3, "paused": false, "none": null, "n": 1.5,
            "template": {"spec": {
                "containers": [
                    {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                    {"name": "istio-proxy", "image": "p:1", "args": ["--a", "--b"]},
                    {"name": "b", "image": "b:1"},
                ],
                "empty": [],
            }},
            "webhooks": [{"name": "w", "clientConfig": {"caBundle": "Q0E="}}, {"name": "v", "clientConfig": {}}, {"name": "u"}],
        },
    })
}

fn found(expression: &str) -> Result<Vec<Vec<String>>, String> {
    paths(expression, &manifest(), &mut StepsLeft(MAX_STEPS))
}

/// Returns the path to an existing value with all steps as strings and resolved negative indexes.
fn existing(path: &[Value], manifest: &Value) -> Option<Vec<String>> {
    let mut value = manifest;
    let mut names = Vec::new();
    for step in path {
        let name = match (value, step) {
            (Value::Array(items), Value::Number(at)) => {
                let at = at.as_f64().unwrap() as i64;
                (if at < 0 { at + items.len() as i64 } else { at }).to_string()
            }
            (_, Value::String(name)) => name.clone(),
            _ => return None,
        };
        value = match value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            other => other.get(&name)?,
        };
        names.push(name);
    }
    Some(names)
}

#[test]
fn expressions_find_the_fields_that_gojq_finds() {
    let manifest = manifest();
    for line in include_str!("answers.txt").lines().filter(|line| !line.starts_with('#')) {
        let (expression, answer) = line.split_once('\t').unwrap();
        let ours = found(expression);
        if answer == "fails" {
            let error = ours.unwrap_err();
            assert!(!error.contains("is not supported") && !error.contains("is no jq"), "{error}");
            continue;
        }
        let answer: Vec<Vec<Value>> = serde_json::from_str(answer).unwrap();
        let theirs: BTreeSet<_> = answer.iter().filter_map(|path| existing(path, &manifest)).collect();
        let ours = ours.unwrap_or_else(|error| panic!("{expression}: {error}"));
        // A path to a missing value removes nothing.
        let is_there = |path: &&Vec<String>| manifest.pointer(&pointer(path)).is_some();
        let ours: BTreeSet<_> = ours.iter().filter(is_there).cloned().collect();
        assert_eq!(ours, theirs, "{expression}");
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

#[test]
fn unsupported_expressions_are_refused_by_name() {
    let check = |expression: &str, reason: &str| {
        let error = found(expression).unwrap_err();
        assert_eq!(error, format!("the jq path expression {expression:?}: {reason}"));
    };
    check("def f: f; f", "def is not supported");
    check("[.[] as $x | $x]", "a value other than a literal in this place is not supported");
    check(".spec as $x | .a", "as is not supported");
    check("reduce .[] as $x (0; .)", "reduce is not supported");
    check("foreach .[] as $x (0; .)", "foreach is not supported");
    check("label $x | .a", "label is not supported");
    check("repeat(.)", "repeat/1 is not supported");
    check("range(1e12)", "range/1 is not supported");
    check("recurse(.)", "recurse/1 is not supported");
    check("until(false; .)", "until/2 is not supported");
    check("while(true; .)", "while/2 is not supported");
    check("limit(3; repeat(1))", "limit/2 is not supported");
    check("input", "input is not supported");
    check("inputs", "inputs is not supported");
    check("env.HOME", "env is not supported");
    check("$ENV.HOME", "$ENV is not supported");
    check("now", "now is not supported");
    check("debug", "debug is not supported");
    check("input_filename", "input_filename is not supported");
    check("\"a\" * 1000000000", "* is not supported");
    check(".a + .b", "+ is not supported");
    check("-.a", "- is not supported");
    check(".a = 1", "an assignment is not supported");
    check(".a |= 1", "an assignment is not supported");
    check("{a: .}", "the construction of objects is not supported");
    check("\"a\\(.)\"", "a string with an expression in it is not supported");
    check("@base64 \"x\"", "@base64 is not supported");
    check("@base64", "@base64 is not supported");
    check(".[1:2]", "a slice is not supported");
    check("try .a catch .", "catch is not supported");
    check(".[1e999]", "the number 1e999 is not supported");
    check("del(.a)", "del/1 is not supported");
    check(".a | test(.b)", "a value other than a literal in this place is not supported");
    check(".a | test(1)", "test without a string is not supported");
    check("getpath(1)", "getpath without a list is not supported");
    check(".a)", "invalid jq at \")\"");
    check(".a | (", "invalid jq at \"\"");
    check("§", "invalid jq at \"§\"");
    check(".a |", "it ends too early");
    check("", "it ends too early");
    check("if .a", "it ends too early");
    check(". . .", "invalid jq at \".\"");
    let pattern = found(".kind | test(\"\\\\w{100}\")").unwrap_err();
    assert!(pattern.contains("is invalid or too large"), "{pattern}");
}

/// Cases that gojq's answers do not cover.
#[test]
fn values_are_compared_contained_and_of_a_type_as_in_jq() {
    let object = json!({"text": "ab", "list": [null, true, false], "n": 9_007_199_254_740_993_u64,
        "a": {"x": "text", "l": [1, 2], "part": {"x": "ex", "l": [1]}, "wrong": {"x": "no"},
            "other": {"x": 1}, "missing": {"y": "t"}}});
    let is_found = |expression: &str| {
        let found = paths(expression, &object, &mut StepsLeft(MAX_STEPS));
        !found.unwrap_or_else(|error| panic!("{expression}: {error}")).is_empty()
    };
    for (expression, expected) in [
        ("select(.n > 9007199254740992).n", true),
        ("select(.n == 9007199254740992).n", false),
        (".a | select(contains(.part)).x", true),
        (".a | select(contains(.wrong)).x", false),
        (".a | select(contains(.other)).x", false),
        (".a | select(contains(.missing)).x", false),
        ("select(.list == [null, true, false]).list", true),
        ("select(.list == [true, true, false]).list", false),
        (".text | strings", true),
        (".n | strings", false),
        ("select(any(.list[]; . == 1)).list", false),
        ("select(all(.list[]; . != 1)).list", true),
        ("select(.list | has(2)).list", true),
        ("select(.list | has(3)).list", false),
    ] {
        assert_eq!(is_found(expression), expected, "{expression}");
    }
    assert!(paths("select(. == [null(1)]).n", &object, &mut StepsLeft(MAX_STEPS)).is_err());
}

#[test]
fn the_longest_expression_is_evaluated_and_a_short_pattern_costs_little() {
    let longest = format!("{}.n", " ".repeat(MAX_LENGTH - 2));
    assert!(paths(&longest, &json!({}), &mut StepsLeft(MAX_STEPS)).is_ok());
    let mut steps = StepsLeft(MAX_STEPS);
    assert!(paths("select(.n | test(\"a\")?).n", &json!({"n": "a"}), &mut steps).is_ok());
    assert!(steps.0 > MAX_STEPS - 100, "{steps:?}");
}

#[test]
fn failures_say_which_type_has_no_fields() {
    let check = |expression: &str, reason: &str| {
        assert_eq!(
            found(expression).unwrap_err(),
            format!("the jq path expression {expression:?}: {reason}")
        );
    };
    check(".spec.replicas.x", "a value of type number has nothing at a string");
    check(".webhooks[]", "a value of type null cannot be iterated over");
    check(".", "it names the whole object");
    check(".spec | length", "it names a value, not a field");
    check(".spec | select(.paused | length)", "a value of type boolean has no length");
    check(".spec | select(.paused | test(\"a\"))", "a value of type boolean cannot be matched");
    check(
        ".spec | select(.paused | startswith(\"a\"))",
        "startswith does not take a value of type boolean and one of type string",
    );
    check(".spec | select(contains(1))", "a value of type object cannot contain one of type number");
}

#[test]
fn a_hostile_expression_ends_within_its_steps() {
    let check = |expression: &str, object: &Value| {
        let mut steps = StepsLeft(MAX_STEPS);
        let error = paths(expression, object, &mut steps).unwrap_err();
        assert!(error.contains("too many steps"), "{error}");
    };
    // Each stage multiplies the results of the previous one.
    check(&["(.,.)"; 100].join("|"), &manifest());
    check(&["..?"; 100].join("|"), &manifest());
    check(&format!("{} | select(false)", ["(., .)"; 60].join("|")), &manifest());
    check(&format!("select({} | false)", ["(., .)"; 60].join("|")), &manifest());
    check(&format!("any({}; false) | .", ["(., .)"; 60].join("|")), &manifest());
    check(&format!("({}) // .", ["(., .) | null"; 60].join("|")), &manifest());
    let mut nested = ".".to_owned();
    for _ in 0..90 {
        nested = format!("({nested}|.,.)");
    }
    check(&nested, &manifest());
    // A caught failure does not refund steps.
    check(&format!("({})?", ["(., .)"; 60].join("|")), &manifest());
    // Comparing, searching, matching and selecting large values cost steps by their size.
    let text = "a".repeat(1 << 20);
    let large = json!({"a": [text, text, text, text], "b": {text.clone(): {"c": 1}}});
    check(".a[] == .a[]", &large);
    check(".a[] | select(contains(\"b\"))", &large);
    check(".a[] | test(\"b\")", &large);
    check(".a[] | length", &large);
    check(".b[].c, .b[].c", &large);
    let many: Vec<usize> = (0..1000).collect();
    check("contains(.)", &json!(many));
    check(
        ". == ., . == ., . == ., . == .,. == ., . == ., . == ., . == .,. == .",
        &json!({"a": vec![many; 30]}),
    );
    check(&["..?"; 4].join(","), &json!({"a": vec![1; 30_000]}));
}

#[test]
fn a_search_is_charged_for_each_item_that_it_reads() {
    let check = |expression: &str, object: &Value| {
        let error = paths(expression, object, &mut StepsLeft(MAX_STEPS)).unwrap_err();
        assert!(error.contains("too many steps"), "{error}");
    };
    let mixed: Vec<Value> = (0..1000).map(|_| json!("a")).chain((0..1000).map(|_| json!(1))).collect();
    check("contains(.)", &json!(mixed));
    check("contains(.)", &json!(vec![1; 40_000]));
}

#[test]
fn texts_keys_and_regular_expressions_are_charged_by_their_size() {
    let long = "ab".repeat(1 << 19);
    let object = json!({"t": long, "k": long, long.clone(): 3});
    let check = |expression: &str| {
        let error = paths(expression, &object, &mut StepsLeft(MAX_STEPS)).unwrap_err();
        assert!(error.contains("too many steps"), "{expression}: {error}");
    };
    check(".t | (., .) | startswith(.)");
    check(".t | (., .) | endswith(.)");
    check("(., .) | has(.k)");
    check(".[.k] == (1, 2)");
    check(".t | test(\"[ab]{500}x\")");
    // Parsing an expression and compiling its regular expressions cost steps, too.
    for expression in [format!("select(false{})", " ".repeat(900)), "select(test(\"a{500}\")?).x".into()] {
        let mut steps = StepsLeft(MAX_STEPS);
        assert!(paths(&expression, &json!({}), &mut steps).is_ok(), "{expression}");
        assert!(steps.0 < MAX_STEPS - 50, "{expression}: {steps:?}");
    }
}

#[test]
fn deeply_nested_and_long_expressions_overflow_no_stack() {
    for (open, middle, close) in [
        ("(", ".", ")"),
        ("[", "", "]"),
        (".[", "0", "]"),
        ("{a:", "1", "}"),
        ("-", "1", ""),
        ("try ", ".a", ""),
        (".|", ".", ""),
        (".//", ".", ""),
        ("if . then ", ".", " end"),
        ("select(", ".", ")"),
        ("\"\\(", "1", ")\""),
        ("def f:", ".", ";."),
        (". as [", "$x", "]|."),
        ("reduce ", ".", " as $x (.)"),
        ("", ".", "?"),
        ("", ".", ".a"),
        ("", ".", "[]"),
        ("((", ".", ")"),
        ("(", ".", ""),
        ("[", "", ""),
        ("\"\\(", "", ""),
    ] {
        let count = (MAX_LENGTH - middle.len()) / (open.len() + close.len());
        let expression = format!("{}{middle}{}", open.repeat(count), close.repeat(count));
        drop(found(&expression));
    }
    let long = format!(".{}", "a".repeat(MAX_LENGTH));
    assert_eq!(found(&long).unwrap_err(), "a jq path expression has 1025 bytes, at most 1024 are allowed");
}

#[test]
fn the_expressions_of_a_manifest_share_their_steps() {
    let mut steps = StepsLeft(40);
    assert_eq!(paths(".spec.replicas", &manifest(), &mut steps).unwrap(), [["spec", "replicas"]]);
    assert!(steps.0 < 40);
    while paths(".spec.replicas", &manifest(), &mut steps).is_ok() {}
    assert!(steps.0 < 10, "{steps:?}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_evaluated_or_refused(text in "[.a|,\\[\\]()?\"\\\\0-9$@:;/=<>{}# \\-un§]{0,60}") {
        drop(found(&text));
    }
}
