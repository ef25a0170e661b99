//! Values that differ in each rendering, for callers that provide none.

use super::{CHART, request};
use crate::error::Error;
use crate::load::Tree;
use crate::render::{Hooks, Rendered, Request, release_name, render};

fn rendered(hooks: Hooks, template: &str) -> Result<Rendered, Error> {
    let helpers = "{{ define \"secret\" }}\n{{ randAlphaNum 5 }}{{ end }}";
    let tree: Tree = [("Chart.yaml", CHART), ("templates/_h.tpl", helpers), ("templates/t.yaml", template)]
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.as_bytes().into()))
        .collect();
    render(&Request { fresh: None, hooks, ..request(&tree) })
}

#[track_caller]
fn refused(template: &str, function: &str, file: &str, line: u32) {
    let error = rendered(Hooks::All, template).unwrap_err();
    assert!(error.is_fresh && error.hint.is_some(), "{error:?}");
    assert_eq!(
        error.message,
        format!("{function} returns a different value in each rendering, and c/templates/t.yaml holds it")
    );
    assert_eq!((error.file.as_deref(), error.line), (Some(file), Some(line)));
}

#[test]
fn a_fresh_value_in_a_document_is_refused_by_function_file_and_line() {
    refused("a: 1\nb: {{ randAlphaNum 5 }}", "randAlphaNum", "c/templates/t.yaml", 2);
    refused("a: {{ uuidv4 | sha256sum }}", "uuidv4", "c/templates/t.yaml", 1);
    refused("a: {{ now | date \"2006\" }}", "now", "c/templates/t.yaml", 1);
    refused("a: {{ include \"secret\" . | b64enc }}", "randAlphaNum", "c/templates/_h.tpl", 2);
}

#[test]
fn a_fresh_value_that_reaches_no_document_is_ignored() {
    for template in
        ["a: {{ default (randAlphaNum 20) \"given\" }}", "{{ $unused := now }}a: 1", "a: {{ now | kindOf }}"]
    {
        rendered(Hooks::All, template).unwrap();
    }
    let test = "kind: Pod\nmetadata: {name: 'a-{{ randAlphaNum 5 }}', annotations: {helm.sh/hook: test}}";
    rendered(Hooks::All, test).unwrap_err();
    assert!(rendered(Hooks::WithoutTests, test).unwrap().hooks.is_empty());
}

#[test]
fn the_template_of_a_release_name_makes_the_same_name_each_time() {
    assert_eq!(release_name("{{ upper \"a\" | lower }}-b").unwrap(), "a-b");
    assert!(release_name("{{ randAlpha 6 }}").unwrap_err().is_fresh);
}
