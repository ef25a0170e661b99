//! Compares renderings of public charts with the output of helm v4.3.2.
//!
//! `HELM_CORPUS` is the folder that contains `corpus/REPOSITORY/CHART/CASE`. The default is `../shared/helm` next
//! to the repository. Its README describes how it was made.

#![expect(clippy::unwrap_used, reason = "a test stops at a folder that it cannot read")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chart::{Fresh, Hooks, Request, Tree, Values, Work, render};

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/helm");
    let folder = std::env::var_os("HELM_CORPUS").map_or(beside, PathBuf::from);
    folder.join("corpus").is_dir().then(|| folder.join("corpus"))
}

fn read(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(root, &path, tree);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            tree.insert(name, std::fs::read(&path).unwrap().into());
        }
    }
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// Returns the words of an error, without the template stack.
fn cause(error: &str) -> String {
    let error = error.split("\nUse --debug flag").next().unwrap_or(error);
    let words = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let tail = words.rsplit(">: ").next().unwrap_or(&words);
    tail.trim_start_matches("Error: ").trim_start_matches("template: ").to_owned()
}

/// Compares texts line by line. A line `~RANDOM~` matches any line.
fn same_text(ours: &str, expected: &str) -> Result<(), String> {
    let (mut ours, mut expected) = (ours.lines(), expected.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (ours.next(), expected.next()) {
            (None, None) => return Ok(()),
            (Some(_), Some("~RANDOM~")) => {}
            (Some(ours), Some(expected)) if ours == expected => {}
            (ours, expected) => return Err(format!("line {line}\n    ours {ours:?}\n    helm {expected:?}")),
        }
    }
}

fn compare(case: &Path, tree: &Tree) -> Result<(), String> {
    let text = std::fs::read_to_string(case.join("values.yaml")).unwrap_or_default();
    let values = [Values { file: "values.yaml".to_owned(), text }];
    let rendered = render(&Request {
        files: tree,
        is_packed: false,
        values: &values,
        set: &[],
        release: "rel",
        namespace: "ns",
        kube_version: "1.36.0",
        api_versions: &[],
        include_crds: true,
        hooks: Hooks::All,
        fresh: Some(Fresh { seed: [7; 32], now: "2026-11-01T00:00:00Z".parse().unwrap() }),
        limits: Work::MAX,
    });
    let file = |name: &str| std::fs::read_to_string(case.join(name)).ok();
    match (rendered, file("expected.yaml"), file("expected.masked.yaml"), file("error.txt")) {
        (Ok(ours), Some(expected), _, _) if ours.text() == expected => Ok(()),
        (Ok(ours), Some(expected), _, _) => {
            Err(same_text(&ours.text(), &expected).err().unwrap_or_else(|| "white space at the end".into()))
        }
        (Ok(ours), _, Some(expected), _) => same_text(&ours.text(), &expected),
        (Err(ours), _, _, Some(error)) if cause(&ours.message) == cause(&error) => Ok(()),
        (Err(ours), _, _, Some(error)) => {
            Err(format!("error\n    ours {}\n    helm {}", ours.message, error.trim()))
        }
        (Err(ours), _, _, None) => Err(format!("an error only here: {}", ours.message)),
        (Ok(_), _, _, error) => Err(format!("no error here; helm says {error:?}")),
    }
}

/// Cases that differ, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("grafana+helm-charts/loki-distributed/ci-persistence-values", "the salt of its htpasswd is not masked"),
    ("rancher+fleet/no-fleet-yaml/", "the error of the YAML parser does not print the key"),
    ("rancher+fleet/with-fleet-yaml/", "the error of the YAML parser does not print the key"),
];

#[test]
fn public_charts_render_as_in_helm() {
    let Some(corpus) = corpus() else {
        println!("charts: not compared, HELM_CORPUS names no folder");
        return;
    };
    let only = std::env::var("HELM_CORPUS_ONLY").unwrap_or_default();
    let (mut same, mut unsupported, mut known, mut different) = (0, 0, 0, BTreeMap::new());
    for repository in folders(&corpus) {
        for folder in folders(&repository) {
            let root = folder.join("chart");
            let mut tree = Tree::new();
            read(&root, &root, &mut tree);
            for case in folders(&folder) {
                let name = case.strip_prefix(&corpus).unwrap().display().to_string();
                if case == root || !name.contains(&only) {
                    continue;
                }
                match compare(&case, &tree) {
                    Ok(()) => same += 1,
                    Err(reason) if reason.contains("is not supported yet") => unsupported += 1,
                    Err(_) if DIFFERENT.iter().any(|(case, _)| name.starts_with(case)) => known += 1,
                    Err(reason) => {
                        different.insert(name, reason);
                    }
                }
            }
        }
    }
    let differ = known + different.len();
    println!(
        "charts: {same} cases as in helm, {unsupported} need a function that is not supported, {differ} differ"
    );
    let report: String = different.iter().map(|(name, reason)| format!("{name}: {reason}\n")).collect();
    assert!(different.is_empty(), "{} differ:\n{report}", different.len());
}
