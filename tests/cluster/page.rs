//! Writes `docs/journeys.md` from the sources of the journeys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::ROOT;
use crate::golden;

const HEAD: &str = "\
# Journeys

Each row is a test that uses nothing but what a user has: git, `wheelwright`, kubectl, helm, curl. `make test` runs those that name no other command. They run on three clusters, a hub and
two spokes. Each has etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and a node with kubelet, containerd, runc and kube-proxy. The
operator, the agents and the dashboard run as pods from our own images, and repositories are on a git server over HTTPS (`git http-backend`). Nothing is
simulated. The network plug-in enforces no NetworkPolicies. `make cluster` starts the same clusters and keeps them running.

The column *clusters* says what a journey starts with: *new* clusters, or a *fleet* in which `wheelwright install` and `wheelwright join` have run,
shared with other journeys or for itself *alone*. `make bless` writes this page from `tests/`.

| journey | test | clusters | commands |
|---|---|---|---|
";
const PROGRAMS: [&str; 5] = ["wheelwright", "kubectl", "helm", "git", "curl"];
/// Flags that take a value and precede the name of a command.
const FLAGS: [&str; 7] = ["--context", "--kube-context", "--kubeconfig", "--namespace", "-n", "-C", "-c"];
/// Commands whose name includes the next word.
const GROUPS: [&str; 9] =
    ["get", "rollout", "work", "explain", "addon", "clusterset", "create", "policies", "repo"];

/// A function of a test: its doc comment and its body.
struct Function {
    documentation: String,
    body: String,
}

/// Returns the functions of a file by name. A function ends at its start's indentation, because rustfmt formats
/// the file.
fn functions(text: &str) -> BTreeMap<String, Function> {
    let mut functions = BTreeMap::new();
    let mut documentation = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if let Some(comment) = code.strip_prefix("/// ") {
            documentation = format!("{documentation} {comment}").trim().to_owned();
            continue;
        }
        if let Some((_, command)) = code.rsplit_once(": make ").filter(|_| code.starts_with("#[ignore")) {
            documentation += &format!(" Run by `make {}`.", command.trim_end_matches("\"]"));
        }
        if let Some((_, rest)) = code.split_once("fn ").filter(|(before, _)| !before.contains(['/', '"']))
            && code.ends_with(['{', '('])
        {
            let end = format!("{}}}", &line[..line.len() - code.len()]);
            let body = lines.by_ref().take_while(|line| *line != end).collect::<Vec<_>>().join("\n");
            let name = rest.split(['(', '<']).next().unwrap().to_owned();
            functions.insert(name, Function { documentation: std::mem::take(&mut documentation), body });
        } else if !code.starts_with("#[") {
            documentation.clear();
        }
    }
    functions
}

/// Returns the commands in the strings of a text: programs with their subcommands.
fn commands(text: &str) -> Vec<String> {
    let strings = text.split('"').skip(1).step_by(2).collect::<Vec<_>>().join("\n");
    let mut commands = Vec::new();
    for command in strings.replace("\\\n", " ").split([';', '|', '(', '\n', '&']) {
        let mut words = command.split_whitespace().skip_while(|word| !PROGRAMS.contains(word));
        let Some(program) = words.next() else { continue };
        let mut name = vec![program];
        while let Some(word) = words.next() {
            if FLAGS.contains(&word) {
                words.next();
            } else if word.starts_with(|c: char| c.is_ascii_lowercase()) && program != "curl" {
                name.push(word);
                if !(program != "git" && name.len() == 2 && GROUPS.contains(&word)) {
                    break;
                }
            } else if !word.starts_with('-') || name.len() > 1 {
                break;
            }
        }
        commands.push(name.join(" "));
    }
    commands
}

/// Adds the commands of a function and of the user's functions that it calls, in order of first use.
fn collect<'f>(
    of: &'f Function,
    steps: &'f BTreeMap<String, Function>,
    seen: &mut BTreeSet<&'f str>,
    found: &mut Vec<String>,
) {
    for line in of.body.split_inclusive(";\n") {
        for command in commands(line) {
            if !found.contains(&command) {
                found.push(command);
            }
        }
        for (name, step) in steps {
            let is_called = [".", "::"].iter().any(|before| line.contains(&format!("{before}{name}(")));
            if is_called && seen.insert(name) {
                collect(step, steps, seen, found);
            }
        }
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_page_of_journeys_has_a_row_for_each() {
    let mut files = Vec::new();
    sources(&Path::new(ROOT).join("tests"), &mut files);
    files.retain(|file| !file.ends_with("tests/cluster/page.rs"));
    files.sort();
    let mut steps = BTreeMap::new();
    for file in files.iter().filter(|file| file.starts_with(Path::new(ROOT).join("tests/cluster"))) {
        steps.extend(functions(&fs::read_to_string(file).unwrap()));
    }
    steps.retain(|name, _| {
        !name.ends_with("_on_real_nodes")
            && !["run", "fails", "eventually", "with", "bash", "drop"].contains(&name.as_str())
    });
    let mut rows = String::new();
    for file in files {
        for (name, function) in functions(&fs::read_to_string(&file).unwrap()) {
            let Some(claim) = name.strip_suffix("_on_real_nodes") else { continue };
            let clusters = [
                ("User::of_new_clusters", "new"),
                ("User::alone", "fleet, alone"),
                ("User::of_a_fleet", "fleet"),
            ];
            let clusters = clusters.iter().find(|(start, _)| function.body.contains(start));
            let (_, clusters) =
                clusters.unwrap_or_else(|| panic!("{name} does not start with a user of clusters"));
            assert!(!function.documentation.is_empty(), "{name} does not say what it shows");
            let mut found = Vec::new();
            collect(&function, &steps, &mut BTreeSet::new(), &mut found);
            let commands: Vec<_> = found.iter().map(|command| format!("`{command}`")).collect();
            rows += &format!(
                "| {} | `{claim}` | {clusters} | {} |\n",
                function.documentation,
                commands.join(", ")
            );
        }
    }
    golden::check([(Path::new(ROOT).join("docs/journeys.md"), format!("{HEAD}{rows}"))]);
}
