//! Single templates and their output in helm v4.3.2. Each line of `micro.jsonl` has a template, and its output,
//! its error, or `random` if its output varies.

use crate::budget::Work;
use crate::engine::{Release, render};
use crate::load::{Tree, load};
use crate::random::{Fresh, Purpose};
use crate::value::Map;
use crate::values::coalesce_values;

const CASES: &str = include_str!("micro.jsonl");
const VALUES: &str = include_str!("micro-values.yaml");
const CHART: &str = "name: micro\nversion: 0.1.0\nappVersion: \"9.8\"\napiVersion: v2\n";

fn rendered(template: &str) -> Result<String, String> {
    let mut tree = Tree::new();
    for (path, text) in [
        ("Chart.yaml", CHART),
        ("values.yaml", VALUES),
        ("templates/t.yaml", template),
        ("conf/a.txt", "one\ntwo\n"),
        ("conf/b.ini", "k=v"),
    ] {
        tree.insert(path.to_owned(), text.as_bytes().into());
    }
    let (chart, _) = load(&tree, false).unwrap();
    let values = coalesce_values(&chart, &Map::new(Default::default())).unwrap();
    let fresh = Fresh { seed: [7; 32], now: jiff::Timestamp::from_second(1_800_000_000).unwrap() };
    let release = Release {
        release: crate::render::release("rel", "ns"),
        capabilities: crate::capabilities::capabilities("1.36.0", &[]).unwrap(),
        values,
        fresh: (fresh, Purpose::Documents),
        limits: Work::MAX,
    };
    match render(&chart, &release) {
        Ok(output) => Ok(output.files["micro/templates/t.yaml"].clone()),
        Err(error) => Err(error.message),
    }
}

/// Returns the cause of an error: the words after the last template location.
fn cause(error: &str) -> String {
    let words = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let tail = words.rsplit(">: ").next().unwrap_or(&words).to_owned();
    tail.trim_start_matches("template: ").to_owned()
}

/// Templates whose errors differ in more than layout, or that need features that a pure renderer lacks.
const DIFFERENT: &[&str] = &[
    // A nil map prints as `map[]` in Go, but is null in YAML. Ours is empty in both.
    "{{ toYaml .Chart }}",
    // Our error names the argument.
    "{{ call .Values.s }}",
    // The YAML parsers have different messages.
    "{{ fromYaml \"a: b: c\" }}",
    "{{ fromYaml \"{\" }}",
    "{{ fromYaml \"1: a\\ntrue: b\\nnull: c\\n1.5: d\" | toJson }}",
    "{{ fromYaml \"a:\\n\\t- b\" }}",
    // Not supported yet.
    "{{ fromToml \"a = 1\\n[b]\\nc = \\\"x\\\"\" }}",
];

#[test]
fn single_templates_render_as_in_helm() {
    let (mut same, mut different, mut random) = (0, Vec::new(), 0);
    for line in CASES.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let template = case["template"].as_str().unwrap();
        if DIFFERENT.contains(&template) {
            continue;
        }
        let ours = rendered(template);
        let agrees = match (&ours, case["output"].as_str(), case["error"].as_str()) {
            (Ok(ours), Some(output), _) => ours == output,
            (Err(ours), _, Some(error)) => cause(ours) == cause(error),
            (_, None, None) => {
                random += 1;
                ours.is_ok()
            }
            _ => false,
        };
        if agrees {
            same += 1;
        } else {
            different.push(format!("{template:?}\n  ours {ours:?}\n  helm {case}"));
        }
    }
    println!("{same} templates as in helm, {random} of them random");
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
