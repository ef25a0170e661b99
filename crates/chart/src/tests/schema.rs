//! Values and `values.schema.json`. The expected messages are the output of helm v4.3.2.

use super::chart;

const CHART: &str = "{name: c, version: 0.1.0, apiVersion: v2}";
const INTRO: &str = "values don't meet the specifications of the schema(s) in the following chart(s):\n";

fn check(schema: &str, values: &str) -> Result<(), String> {
    let files = [("Chart.yaml", CHART), ("values.schema.json", schema), ("templates/t.yaml", "a: 1")];
    chart(&files, values).map(|_| ()).map_err(|error| error.message)
}

#[test]
fn violations_have_the_words_of_helm() {
    let draft7 = |rest: &str| format!(r#"{{"$schema": "http://json-schema.org/draft-07/schema#", {rest}}}"#);
    let property = |schema: &str| draft7(&format!(r#""properties": {{"a": {schema}}}"#));
    let mut wrong = Vec::new();
    for (schema, values, expected) in [
        (draft7(r#""required": ["a", "b"]"#), "a: 1", "- at '': missing property 'b'"),
        (draft7(r#""required": ["a", "b"]"#), "{}", "- at '': missing properties 'a', 'b'"),
        (property(r#"{"type": ["string", "null"]}"#), "a: 1", "- at '/a': got number, want null or string"),
        (property(r#"{"type": "integer"}"#), "a: 1.5", "- at '/a': got number, want integer"),
        (property(r#"{"enum": ["x", 2]}"#), "a: y", "- at '/a': value must be one of 'x', 2"),
        (property(r#"{"const": "x"}"#), "a: y", "- at '/a': value must be 'x'"),
        (property(r#"{"minimum": 1000}"#), "a: 5", "- at '/a': minimum: got 5, want 1,000"),
        (property(r#"{"exclusiveMaximum": 5}"#), "a: 5", "- at '/a': exclusiveMaximum: got 5, want 5"),
        (property(r#"{"minLength": 3}"#), "a: ab", "- at '/a': minLength: got 2, want 3"),
        (
            property(r#"{"pattern": "^[a-z]+$"}"#),
            "a: A1",
            "- at '/a': 'A1' does not match pattern '^[a-z]+$'",
        ),
        (property(r#"{"uniqueItems": true}"#), "a: [1, 2, 1]", "- at '/a': items at 0 and 2 are equal"),
        (property(r#"{"items": {"type": "string"}}"#), "a: [x, 1]", "- at '/a/1': got number, want string"),
        (
            property(r#"{"additionalProperties": false}"#),
            "a: {x: 1, z: 2}",
            "- at '/a': additional properties 'x', 'z' not allowed",
        ),
        (
            property(r#"{"anyOf": [{"type": "string"}, {"minimum": 9}]}"#),
            "a: 1",
            "- at '/a': 'anyOf' failed\n  - at '/a': got number, want string\n  - at '/a': minimum: got 1, want 9",
        ),
        (
            property(r#"{"oneOf": [{"type": "number"}, {"minimum": 1}]}"#),
            "a: 1",
            "- at '/a': 'oneOf' failed, subschemas 0, 1 matched",
        ),
        (property(r#"{"not": {"type": "number"}}"#), "a: 1", "- at '/a': 'not' failed"),
        (
            draft7(
                r##""properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"type": "string"}}"##,
            ),
            "a: 1",
            "- at '/a': got number, want string",
        ),
        (
            draft7(r#""if": {"required": ["a"]}, "then": {"required": ["b"]}"#),
            "a: 1",
            "- at '': missing property 'b'",
        ),
        (
            r#"{"properties": {"a": {}}, "unevaluatedProperties": false}"#.to_owned(),
            "{a: 1, b: 2}",
            "- at '/b': false schema",
        ),
    ] {
        let expected = format!("{INTRO}c:\n{expected}\n");
        let found = check(&schema, values);
        if found != Err(expected.clone()) {
            wrong.push(format!("{schema}\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn violations_are_those_that_helm_reports() {
    let mut wrong = Vec::new();
    for line in include_str!("schema.jsonl").lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let found = check(&case["schema"].to_string(), case["values"].as_str().unwrap());
        let expected = format!("{INTRO}c:\n{}", case["error"].as_str().unwrap());
        if found != Err(expected) {
            wrong.push(format!("{case}\n  found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn valid_values_pass() {
    for (schema, values) in [
        (r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#, "a: 3.0"),
        (
            r#"{"properties": {"a": {"format": "ipv4"}}}"#,
            "a: no address, but drafts since 2019 do not assert it",
        ),
        (r##"{"properties": {"a": {"$ref": "#"}}, "required": []}"##, "a: {a: {a: {}}}"),
        (r#"{"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}"#, "a: 1"),
    ] {
        assert_eq!(check(schema, values), Ok(()), "{schema}");
    }
}

#[test]
fn subcharts_are_checked_with_their_own_values() {
    let files = [
        ("Chart.yaml", CHART),
        ("values.yaml", "sub: {port: eighty}"),
        ("charts/sub/Chart.yaml", "{name: sub, version: 0.1.0, apiVersion: v2}"),
        ("charts/sub/values.yaml", "port: 80"),
        ("charts/sub/values.schema.json", r#"{"properties": {"port": {"type": "integer"}}}"#),
    ];
    let error = chart(&files, "").unwrap_err();
    assert_eq!(error.message, format!("{INTRO}sub:\n- at '/port': got string, want integer\n"));
    assert!(chart(&files, "sub: {port: 81}").is_ok());
}

#[test]
fn references_that_leave_the_schema_or_never_end_are_refused() {
    let remote = check(r#"{"$ref": "https://example.com/s.json"}"#, "{}").unwrap_err();
    assert!(
        remote.contains("https://example.com/s.json") && remote.contains("nothing is downloaded"),
        "{remote}"
    );
    let files = [
        ("Chart.yaml", CHART),
        ("values.schema.json", r##"{"allOf": [{"$ref": "#"}]}"##),
        ("templates/t.yaml", ""),
    ];
    assert_eq!(chart(&files, "").unwrap_err().budget, Some("depth"));
    let doubling: String = (0..40)
        .map(|at| {
            format!(
                r##""d{at}": {{"allOf": [{{"$ref": "#/$defs/d{0}"}}, {{"$ref": "#/$defs/d{0}"}}]}},"##,
                at + 1
            )
        })
        .collect();
    let bomb = format!(r##"{{"$defs": {{{doubling} "d40": {{}}}}, "$ref": "#/$defs/d0"}}"##);
    let files = [("Chart.yaml", CHART), ("values.schema.json", bomb.as_str())];
    assert_eq!(chart(&files, "").unwrap_err().budget, Some("steps"));
}
