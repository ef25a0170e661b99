use serde_json::{Value, json};

use super::{MAX_LENGTH, PathError, find, locate};
use crate::steps::{MAX_STEPS, StepsLeft};

fn values<'a>(value: &'a Value, path: &str) -> Result<Vec<&'a Value>, PathError> {
    find(value, path, &mut StepsLeft(MAX_STEPS))
}

#[test]
fn kubernetes_paths_find_what_they_name() {
    let object = json!({
        "metadata": {"annotations": {"a.b/c": "x"}},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Complete", "status": "False"}]},
        "items": [{"n": 1}, {"n": 2}],
    });
    let cases = [
        (".status.phase", json!(["Running"])),
        ("{.status.phase}", json!(["Running"])),
        ("status.phase", json!(["Running"])),
        ("$.status.phase", json!(["Running"])),
        (r".metadata.annotations.a\.b/c", json!(["x"])),
        (".metadata.annotations['a.b/c']", json!(["x"])),
        (r#".status.conditions[?(@.type=="Complete")].status"#, json!(["False"])),
        (".items[*].n", json!([1, 2])),
        (".items[1].n", json!([2])),
        ("..n", json!([1, 2])),
        (".no.such", json!([])),
    ];
    for (path, want) in cases {
        assert_eq!(json!(values(&object, path).unwrap()), want, "{path}");
    }
    assert!(values(&object, ".a[").is_err());
    let places = |path: &str| {
        locate(&object, path, &mut StepsLeft(MAX_STEPS))
            .unwrap()
            .iter()
            .map(|steps| steps.join("|"))
            .collect::<Vec<_>>()
    };
    assert_eq!(places(".items[*].n"), ["items|0|n", "items|1|n"]);
    assert_eq!(places(r".metadata.annotations.a\.b/c"), ["metadata|annotations|a.b/c"]);
    assert_eq!(places(".no.such"), [""; 0]);
}

#[test]
fn paths_of_rfc_9535_find_what_jsonpath_rust_finds() {
    let object = json!({
        "a": [{"n": 1, "s": "x"}, {"n": 2.0, "s": "y", "t": [1, 2]}, {"n": 3, "t": null}, [4, [5]], "six"],
        "b": {"c": {"c": {"c": 1}}, "d": [], "it's": true, "two": 2},
    });
    for path in [
        "$",
        "$.a",
        "$.*",
        "$.a[*]",
        "$..*",
        "$..c",
        "$..['c','d']",
        "$..[0]",
        "$..c..c",
        "$.a[-1]",
        "$.a[-9]",
        "$.a[9]",
        "$.a[0,0,-1]",
        "$['a','b'][0,'c']",
        "$.a[1:3]",
        "$.a[:2]",
        "$.a[-2:]",
        "$.a[::2]",
        "$.a[::-1]",
        "$.a[3:0:-2]",
        "$.a[::0]",
        "$.a[5:1]",
        "$.a[-9:9]",
        "$.a[9:-9:-1]",
        "$.b[0]",
        "$.b[1:2]",
        "$.b['it\\'s']",
        "$.b.c[*].c",
        "$.a[?(@.n == 2)]",
        "$.a[?(@.n != 2)]",
        "$.a[?(@.n < 3)].n",
        "$.a[?(@.n >= 2)].n",
        "$.a[?(@.n > 2)]",
        "$.a[?(@.n <= $.b.two)]",
        "$.a[?(@.s == 'x')]",
        "$.a[?(@.s > \"x\")]",
        "$.a[?(@.t)]",
        "$.a[?(!@.t)]",
        "$.a[?(!(@.t && @.s))]",
        "$.a[?@.t[1] == 2]",
        "$.a[?(@.s == 'x' || @.n == 3)]",
        "$.a[?(@.t == null)]",
        "$.a[?(@.x == @.y)]",
        "$.a[?($.b.two)]",
        "$.a[?($.x)]",
        "$.a[?(@[1][0] == 5)]",
        "$.a[?(@.t == $.a[1].t)]",
        "$.b[?(@ == true)]",
        "$.b[?(@.c)]",
        "$.a[?(@.*)]",
        "$.a[?@..n]",
    ] {
        let theirs = jsonpath_rust::JsonPath::query(&object, path).unwrap();
        assert_eq!(values(&object, path).unwrap(), theirs, "{path}");
    }
}

fn refusal(value: &Value, path: &str) -> String {
    values(value, path).unwrap_err().to_string()
}

#[test]
fn a_hostile_path_ends_within_its_steps() {
    let check = |value: &Value, path: &str| {
        assert_eq!(
            refusal(value, path),
            format!("the path {path}: it takes too many steps, together with the other expressions")
        );
    };
    let chain = (0..100).fold(json!(1), |below, _| json!({"a": below}));
    let many = json!({"a": (0..3000).collect::<Vec<_>>(), "t": "x".repeat(1 << 20)});
    check(&chain, "..*..*..*..*");
    check(&json!([[[[[[[[[[[[1]]]]]]]]]]]]), &"[0,0,0]".repeat(12));
    check(&many, "[?@ == @,?@ == @]");
    check(&many, ".a[?$.a[?$.a[?@ == 0]]]");
    check(&many, ".a[?$..*]");
    check(&many, ".a[?$.t == $.t]");
    check(&many, ".a[?$.a == $.a]");
    let long = json!({"x".repeat(250_000): (0..200).collect::<Vec<_>>()});
    let error = locate(&long, "..*", &mut StepsLeft(MAX_STEPS)).unwrap_err().to_string();
    assert!(error.contains("too many steps"), "{error}");
    assert_eq!(values(&long, "..*").unwrap().len(), 201);
}

#[test]
fn long_paths_and_functions_are_refused_before_they_are_read() {
    let length = MAX_LENGTH + 1;
    let error = format!("a path has {length} bytes; the maximum is 1024");
    assert_eq!(refusal(&json!({}), &format!(".{}", "a".repeat(MAX_LENGTH))), error);
    let nested = format!("[?{}", "length(".repeat(100));
    for (path, function) in [
        (nested.as_str(), "length"),
        ("[?match(@.a, 'b')]", "match"),
        ("[?(@.a && any_of (@.a, @.b))]", "any_of"),
        (r"['a\'b', ?count(@.*) > 1]", "count"),
    ] {
        assert_eq!(refusal(&json!({}), path), format!("the path {path}: {function}() is not supported"));
    }
    // Text that only looks like a function is a name or a string.
    let object = json!({"a(b)": 1, "c": [{"d": "e(f)"}], "g'h(i)": 2});
    assert_eq!(values(&object, ".a(b)").unwrap(), [&json!(1)]);
    assert_eq!(values(&object, ".c[?(@.d == 'e(f)')].d").unwrap(), [&json!("e(f)")]);
    assert_eq!(values(&object, r"['g\'h(i)']").unwrap(), [&json!(2)]);
}

#[test]
fn paths_share_the_steps_that_are_left() {
    let mut steps = StepsLeft(40);
    assert!(find(&json!({"a": 1}), ".a", &mut steps).is_ok() && steps.0 < 40);
    while find(&json!({"a": 1}), ".a", &mut steps).is_ok() {}
    assert!(steps.0 < 10, "{steps:?}");
}
