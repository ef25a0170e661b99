//! Repositories that expand to many times their size, rendered by `wheelwright render` within the operator's
//! memory limit from the chart.

use std::path::Path;
use std::process::{Command, Output};

use tokio::net::TcpStream;

use crate::kube::free_port;
use crate::running::Running;
use crate::wait::eventually;

/// The chart's `resources.limits.memory`, in bytes.
const MEMORY: usize = 512 << 20;
const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
const RESOURCES: &str = "resources: [a.yaml]\n";

fn render(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={MEMORY}")).args([env!("CARGO_BIN_EXE_wheelwright"), "render"]).args(args);
    command.current_dir(dir).output().expect("prlimit of util-linux is installed")
}

/// Renders a directory of files. Returns the first line of the error.
fn refusal(files: &[(impl AsRef<Path>, String)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let output = render(dir.path(), &["."]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty());
    error.lines().next().unwrap().to_owned()
}

/// Returns the error for a file that one kustomization references.
fn refusal_of(object: String, kustomization: &str) -> String {
    refusal(&[("a.yaml", object), ("kustomization.yaml", format!("{RESOURCES}{kustomization}"))])
}

fn config_map(data: &str) -> String {
    format!("{CONFIG_MAP}data: {data}\n")
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

#[test]
fn a_file_that_multiplies_itself_is_refused_by_name_and_line() {
    let copies = lines(10_000, |n| format!("  k{n}: *a\n"));
    let scalar = format!("{CONFIG_MAP}data:\n  k: &a {}\n{copies}", "x".repeat(1 << 20));
    assert_eq!(
        refusal_of(scalar, ""),
        "error: a.yaml:21: anchors and aliases copy more than 16777216 bytes in one file"
    );
    let merged = lines(9_999, |n| format!("  a{}: &a{} {{<<: *a{n}, k{n}: v}}\n", n + 1, n + 1));
    let merges = format!("{CONFIG_MAP}data:\n  a0: &a0 {{k: v}}\n{merged}");
    assert_eq!(
        refusal_of(merges, ""),
        "error: a.yaml:320: anchors and aliases expand to more than 100000 values in one file"
    );
    let itself = config_map("&a {k: *a}");
    assert_eq!(refusal_of(itself, ""), "error: a.yaml:4: the alias refers to a value that contains it");
    let nested = config_map(&"[".repeat(100_000));
    assert_eq!(refusal_of(nested, ""), "error: a.yaml:4: recursion limit exceeded");
    let line = config_map(&"x".repeat(50 << 20));
    assert_eq!(
        refusal_of(line, ""),
        "error: kustomization.yaml:1: resources[0]: \"a.yaml\" has more than 16777216 bytes"
    );
}

#[test]
fn a_kustomization_that_multiplies_objects_is_refused_by_field() {
    let operations = lines(40, |n| format!("- {{op: copy, from: /data, path: /data/c{n}}}\n"));
    let kustomization = format!("{RESOURCES}patches: [{{path: p.yaml, target: {{kind: ConfigMap}}}}]\n");
    let files =
        [("a.yaml", config_map("{k: v}")), ("p.yaml", operations), ("kustomization.yaml", kustomization)];
    assert_eq!(
        refusal(&files),
        "error: kustomization.yaml:2: patches[0]: rendering the overlay exceeds the memory limit of 128 MiB"
    );
    let doubled = "- source: {kind: ConfigMap, fieldPath: data.k}\n  targets:\n  - select: {kind: ConfigMap}\n    fieldPaths: [data.k]\n    options: {delimiter: \"|\", index: 9}\n";
    let text = format!("{{k: {}}}", "x".repeat(1000));
    assert_eq!(
        refusal_of(config_map(&text), &format!("replacements:\n{}", doubled.repeat(40))),
        "error: kustomization.yaml:86: replacements[16].targets[0].fieldPaths[0]: rendering the overlay exceeds the memory limit of 128 MiB"
    );
    let variables = lines(20, |n| format!("{{name: e{n}, value: v}},"));
    let containers = lines(20, |n| format!("{{name: c{n}, env: [{variables}]}},"));
    let deployments = lines(50, |n| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{n}}}\nspec: {{template: {{spec: {{containers: [{containers}]}}}}}}\n"
        )
    });
    let objects = config_map(&format!("{{k: {}}}", "x".repeat(200 << 10))) + &deployments;
    let wildcards = "replacements:\n- source: {kind: ConfigMap, fieldPath: data.k}\n  targets:\n  - select: {kind: Deployment}\n    fieldPaths: [spec.template.spec.containers.*.env.*.value]\n";
    assert_eq!(
        refusal_of(objects, wildcards),
        "error: kustomization.yaml:6: replacements[0].targets[0].fieldPaths[0]: rendering the overlay exceeds the memory limit of 128 MiB"
    );
}

#[test]
fn a_chain_of_diamonds_is_refused() {
    let mut files = vec![("base0/a.yaml".to_owned(), config_map("{k: v}"))];
    let mut kustomization =
        |dir: String, text: String| files.push((format!("{dir}kustomization.yaml"), text));
    kustomization("base0/".into(), RESOURCES.into());
    for level in 1..=20 {
        for side in ["l", "r"] {
            kustomization(
                format!("{side}{level}/"),
                format!("resources: [../base{}]\nnamePrefix: {side}-\n", level - 1),
            );
        }
        kustomization(format!("base{level}/"), format!("resources: [../l{level}, ../r{level}]\n"));
    }
    kustomization(String::new(), "resources: [base20]\n".into());
    let refusal = refusal(&files);
    assert!(refusal.ends_with(": more than 10000 directories are read for one overlay"), "{refusal}");
}

#[test]
fn a_chart_that_never_ends_or_multiplies_texts_is_refused_by_its_entry() {
    let releases = |count: usize| {
        let entries = lines(count, |n| format!("- {{name: web, releaseName: r{n}}}\n"));
        format!("helmCharts:\n{entries}")
    };
    let refusal_of = |template: &str, count: usize| {
        refusal(&[
            ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}".to_owned()),
            ("charts/web/templates/a.yaml", template.to_owned()),
            ("kustomization.yaml", releases(count)),
        ])
    };
    assert_eq!(
        refusal_of("{{ range until 100000 }}{{ range until 100000 }}x{{ end }}{{ end }}", 1),
        "error: kustomization.yaml:2: helmCharts[0]: rendering the chart exceeds the limit of 4000000 steps"
    );
    let doubled = r#"{{ $s := repeat 30000000 "a" }}{{ range until 100 }}{{ $_ := upper $s }}{{ end }}"#;
    let refused = refusal_of(doubled, 1);
    assert!(refused.starts_with("error: charts/web/templates/a.yaml:1: "), "{refused}");
    assert!(refused.contains(": the templates' output exceeds 1342"), "{refused}");
    // Each chart stays within its limits, but all together exceed them.
    let slow = "{{ range until 3000 }}{{ range until 500 }}{{ $x := . }}{{ end }}{{ end }}";
    let refused = refusal_of(slow, 40);
    assert!(refused.starts_with("error: kustomization.yaml:"), "{refused}");
    assert!(refused.contains(": rendering the overlay exceeds the memory limit of 128 MiB"), "{refused}");
}

/// Runs git in a repository with some input. Returns its output.
fn git(repo: &Path, args: &[&str], input: &str) -> String {
    let file = repo.join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = Command::new("git");
    let identity = ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
    command.envs(identity.map(|name| (name, "u"))).env("GIT_DIR", repo).args(args);
    let output = command.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Points the main branch at a commit whose tree has these entries.
fn commit(repo: &Path, entries: &str) -> String {
    let tree = git(repo, &["mktree"], entries);
    let commit = git(repo, &["commit-tree", "-m", "m", &tree], "");
    git(repo, &["update-ref", "refs/heads/main", &commit], "");
    commit
}

#[tokio::test]
async fn a_repository_of_a_million_entries_or_references_is_refused_and_one_of_fewer_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("a.git");
    std::fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "--quiet", "--bare"], "");
    let blob = git(&repo, &["hash-object", "-w", "--stdin"], CONFIG_MAP);
    let port = free_port();
    let _daemon = Running::git_daemon(dir.path(), port);
    let connects = async || TcpStream::connect(("127.0.0.1", port)).await.is_ok();
    eventually("the daemon listens", connects).await;
    let url = format!("git://127.0.0.1:{port}/a.git");
    let error = || {
        let output = render(dir.path(), &["--repo", &url, "--revision", "main", "."]);
        String::from_utf8(output.stderr).unwrap()
    };

    let files = |count: usize| lines(count, |n| format!("100644 blob {blob}\tf{n:06}\n"));
    commit(&repo, &files(1_000_000));
    let flat = error();
    assert!(flat.contains("an object of more than 32 MiB"), "{flat}");
    let below = git(&repo, &["mktree"], &files(50_000));
    commit(&repo, &lines(20, |n| format!("040000 tree {below}\td{n:02}\n")));
    let deep = error();
    assert!(deep.contains("the commit has more than 50000 files"), "{deep}");

    let one = commit(&repo, &format!("100644 blob {blob}\ta.yaml\n"));
    let references = |count: usize| lines(count, |n| format!("{one} refs/heads/branch-{n:07}\n"));
    std::fs::write(repo.join("packed-refs"), references(1_000_000)).unwrap();
    let many = error();
    assert!(many.contains("sends a list of references of more than 16 MiB"), "{many}");
    std::fs::write(repo.join("packed-refs"), references(100_000)).unwrap();
    assert_eq!(error(), "");
}
