//! Resource bombs fail with the name of the budget that they exhaust.

use super::template;

#[test]
fn bombs_are_refused_by_name() {
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(600), ")".repeat(600));
    let mut wrong = Vec::new();
    for (budget, text) in [
        ("text", r#"{{ repeat 1000000000 "a" }}"#),
        ("text", r#"{{ indent 2000000000 "a" }}"#),
        ("text", r#"{{ randAlphaNum 1000000000 }}"#),
        ("text", r#"{{ $s := repeat 20000 "a" }}{{ replace "a" $s (replace "a" $s "aaaaaaaa") }}"#),
        ("text", r#"{{ regexReplaceAllLiteral "a" (repeat 10000000 "a") "bbbbbbbbb" }}"#),
        ("bytes", r#"{{ $s := repeat 30000000 "a" }}{{ range until 100 }}{{ $_ := upper $s }}{{ end }}"#),
        ("bytes", r#"{{ $s := repeat 3000000 "a" }}{{ range until 1000 }}{{ $s }}{{ end }}"#),
        ("list", "{{ until 2000000000 }}"),
        ("list", "{{ untilStep 0 1000000000 1 }}"),
        ("list", "{{ range 2000000000 }}{{ end }}"),
        ("steps", "{{ range until 10000 }}{{ range until 10000 }}{{ add 1 2 }}{{ end }}{{ end }}"),
        (
            "steps",
            r#"{{ define "a" }}{{ range until 9 }}{{ include "b" . }}{{ end }}{{ end }}{{ define "b" }}{{ range until 9999 }}{{ include "c" . }}{{ end }}{{ end }}{{ define "c" }}{{ range until 99 }}{{ . }}{{ end }}{{ end }}{{ range until 999 }}{{ include "a" . }}{{ end }}"#,
        ),
        ("depth", r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#),
        ("depth", r#"{{ $t := "{{ tpl .t . }}" }}{{ tpl $t (dict "t" $t) }}"#),
        (
            "regex",
            r#"{{ regexMatch "((a{1,900}){1,900}){1,900}" "a" }}{{ mustRegexMatch "((a{1,900}){1,900}){1,900}" "a" }}"#,
        ),
    ] {
        match template(text) {
            Err(error) if error.budget == Some(budget) => {}
            other => wrong.push(format!("{budget}: {text}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(template(&nested).unwrap_err().message.contains("nested more than"));
    let inclusion =
        template(r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#).unwrap_err();
    assert!(inclusion.message.contains("include") && inclusion.message.len() < 3_000, "{inclusion}");
}

#[test]
fn a_map_that_contains_itself_ends() {
    let text =
        r#"x: {{ $d := dict "a" 1 }}{{ $_ := set $d "self" $d }}{{ printf "%v" $d | len }}{{ toYaml $d }}"#;
    assert!(template(text).is_ok());
    assert!(template(r#"{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ deepCopy $d }}"#).is_err());
}
