//! `wheelwright plan` against a hub with a running operator, and against a file of its objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use api::cluster::v1::ManagedCluster;
use api::crds;
use api::gitops::v1alpha1::ConfigRepo;
use git2::Oid;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use object::tree::FileTree;
use object::{Key, Object};
use preview::HubSnapshot;
use serde_json::{Value, json};
use sim::World;
use sim::workload::Environment;
use store::{Patch, ResourcePath, Store, WriteOptions};
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use crate::fleet_commit::{commit, commit_with};
use crate::kube::Kubectl;
use crate::running::Running;
use crate::trace::accept;
use crate::wait::eventually;

fn plan(dir: &Path, head: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    let repo = dir.join("fleet.git");
    command.args(["plan", "--head", head, "--repo"]).arg(repo).args(args).env("HOME", dir).output().unwrap()
}

/// Returns the exit code and the plan.
fn json_of(output: &Output) -> (i32, Value) {
    let printed = serde_json::from_slice(&output.stdout);
    let printed = printed.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), printed)
}

/// Runs the script of a workflow in `examples-repo/` as a runner does: in a checkout that has only remote
/// branches. Returns the job summary.
fn workflow(dir: &Path, name: &str, further: &[(&str, &str)]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo/.github/workflows");
    let workflow = std::fs::read_to_string(root.join(name)).unwrap();
    let workflow: Value = serde_saphyr::from_str(&workflow).unwrap();
    let steps = workflow["jobs"]["plan"]["steps"].as_array().unwrap();
    let script = steps.iter().find(|step| step["name"] == "Plan").unwrap()["run"].as_str().unwrap();
    let git =
        |args: &[&str]| assert!(Command::new("git").current_dir(dir).args(args).status().unwrap().success());
    git(&["clone", "--quiet", "--branch", "main", "fleet.git", "clone"]);
    git(&["-C", "clone", "checkout", "--quiet", "--detach"]);
    git(&["-C", "clone", "branch", "--quiet", "--delete", "--force", "main"]);
    let program = Path::new(env!("CARGO_BIN_EXE_wheelwright")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", script]).current_dir(dir.join("clone")).env("PATH", path);
    bash.env("RUNNER_TEMP", dir).env("GITHUB_STEP_SUMMARY", dir.join("summary.md"));
    let ran = bash.envs(further.iter().copied()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::read_to_string(dir.join("summary.md")).unwrap()
}

fn objects_of(store: &Store) -> Vec<Object> {
    HubSnapshot::new(store).objects.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// Adds an available cluster that has joined.
fn join(store: &mut Store, name: &str) {
    let options = WriteOptions::manager("test").forced();
    let target = ResourcePath::of::<ManagedCluster>(&Key::cluster(name));
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
    store.patch(&target, &Patch::Apply(cluster), &options, now()).unwrap();
    let available = json!({"status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True",
        "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    store.patch(&target.sub("status"), &Patch::Merge(available), &options, now()).unwrap();
}

/// Checks the plan of an unsigned commit on a hub whose ConfigRepo requires signatures.
fn refuses_commits_without_signatures(dir: &Path, objects: &[Object]) {
    let mut items = serde_json::to_value(objects).unwrap();
    let repo = items.as_array_mut().unwrap().iter_mut().find(|item| item["kind"] == "ConfigRepo").unwrap();
    repo["spec"]["verify"] = json!({"secretRef": {"name": "signers"}});
    let file = dir.join("signed.json");
    let ask = |items: &Value| {
        std::fs::write(&file, json!({"kind": "List", "items": items}).to_string()).unwrap();
        plan(dir, "main", &["--snapshot", file.to_str().unwrap(), "--output", "json"])
    };
    let unverified = ask(&items);
    let said = String::from_utf8_lossy(&unverified.stderr).into_owned();
    assert!(
        said.contains("not verified, because the Secret wheelwright-system/signers cannot be read"),
        "{said}"
    );
    assert_eq!(json_of(&unverified).0, 10);

    // A key that signed nothing: `a@example.com ssh-ed25519 AAAA...`.
    let signers = "YUBleGFtcGxlLmNvbSBzc2gtZWQyNTUxOSBBQUFBQzNOemFDMWxaREkxTlRFNUFBQUFJR0kvNGR5SzdHU0ZZMFRMaTR3ZmxYTzFPWU05N3dHcDE4NEpYSDhkbUorZgo=";
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "wheelwright-system", "name": "signers"},
        "data": {"allowed_signers": signers}});
    items.as_array_mut().unwrap().push(secret);
    let (code, answer) = json_of(&ask(&items));
    assert_eq!(
        (code, &answer["verdict"], &answer["objects"]),
        (12, &json!("refused"), &json!([])),
        "{answer:#}"
    );
    let reason = answer["refused"].as_str().unwrap();
    assert!(reason.starts_with("commit ") && reason.contains("is refused"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_reads_a_hub_or_a_file_and_its_exit_code_is_the_verdict() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let objects = crds::hub().iter().map(Object::from_typed).collect();
    let server = Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (kubeconfig, repository) = (dir.join("kubeconfig"), dir.join("fleet.git"));
    std::fs::write(&kubeconfig, server.admin_kubeconfig_yaml().unwrap()).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    server.with_store(|store, _| ["c1", "c2"].iter().for_each(|name| join(store, name)));
    commit(&repository, "one");

    let operator = [
        "operator",
        "--kubeconfig",
        kubeconfig,
        "--local-repositories",
        "--repo",
        repository.to_str().unwrap(),
    ];
    let operator = Running::start("operator", dir, &operator);
    let repos: Api<ConfigRepo> = Api::namespaced(server.client(), "wheelwright-system");
    let is_ready = async || {
        let repo = repos.get_opt("fleet").await.unwrap().and_then(|repo| repo.status);
        repo.is_some_and(|status| status.conditions.iter().any(|it| it.type_ == "Ready" && it.is_true()))
    };
    eventually("the first commit is applied", is_ready).await;
    let has_works = async || {
        let works = |store: &mut Store, _| {
            HubSnapshot::new(store).objects.iter().filter(|it| it.kind() == "ManifestWork").count()
        };
        server.with_store(works) == 2
    };
    eventually("both clusters have their work", has_works).await;
    operator.terminate(std::time::Duration::from_secs(20));

    let same = plan(dir, "main", &["--hub", kubeconfig, "--output", "json"]);
    let (code, printed) = json_of(&same);
    assert_eq!((code, &printed["verdict"]), (0, &json!("noChange")), "{printed:#}");

    commit(&repository, "two");
    let (code, printed) = json_of(&plan(dir, "main", &["--hub", kubeconfig, "--output", "json"]));
    assert_eq!((code, &printed["verdict"]), (10, &json!("change")), "{printed:#}");
    let objects: Vec<_> = printed["objects"].as_array().unwrap().iter().map(|it| &it["object"]).collect();
    assert_eq!(objects, [&json!("AddOnTemplate.addon.open-cluster-management.io bench")], "{printed:#}");
    assert_eq!(printed["addOns"][0]["waves"][0]["clusters"], json!(["c1", "c2"]), "{printed:#}");
    let hash = printed["hash"].as_str().unwrap();
    let code = |hash: &str| plan(dir, "main", &["--hub", kubeconfig, "--expect", hash]).status.code();
    assert_eq!((code(hash), code("0123456789abcdef")), (Some(10), Some(13)));
    let fields = &printed["works"][0]["objects"][0]["fields"];
    assert_eq!(*fields, json!([{"path": "data.word", "before": "one", "after": "two"}]), "{printed:#}");

    let snapshot = dir.join("hub.json");
    let objects = server.with_store(|store, _| objects_of(store));
    // A file above the size limit is read item by item.
    for space in [64 << 20, 0] {
        let list = json!({"items": objects, "kind": "List"}).to_string() + &" ".repeat(space);
        std::fs::write(&snapshot, list).unwrap();
        let (code, of_file) =
            json_of(&plan(dir, "main", &["--snapshot", snapshot.to_str().unwrap(), "--output", "json"]));
        assert_eq!((code, &of_file), (10, &printed));
    }

    let page = plan(dir, "main", &["--snapshot", snapshot.to_str().unwrap(), "--output", "markdown"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.starts_with("### Plan of ConfigRepo wheelwright-system/fleet"), "{page}");

    let hub = std::fs::read_to_string(kubeconfig).unwrap();
    let summary = workflow(dir, "plan.yaml", &[("HUB_KUBECONFIG", &hub)]);
    assert!(summary.contains("**Change: 0 objects created, 1 changed, 0 deleted."), "{summary}");

    refuses_commits_without_signatures(dir, &server.with_store(|store, _| objects_of(store)));

    let refused = plan(dir, "nowhere", &["--snapshot", snapshot.to_str().unwrap()]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && message.contains("hint: a revision is"), "{message}");
}

/// Returns the newest commit of main and its files.
fn tip(repository: &Path) -> (String, FileTree) {
    let git = git2::Repository::open(repository).unwrap();
    let commit = git.find_reference("refs/heads/main").unwrap().peel_to_commit().unwrap();
    let mut files = FileTree::default();
    for entry in &commit.tree().unwrap() {
        let blob = git.find_blob(entry.id()).unwrap();
        files.insert(entry.name().unwrap(), blob.content().to_vec());
    }
    (commit.id().to_string(), files)
}

/// Creates the first commit on the report branch, with the files in each of the directories; returns its id.
fn commit_report(repository: &Path, directories: &[&str], files: &BTreeMap<String, String>) -> Oid {
    let git = git2::Repository::open(repository).unwrap();
    if let Ok(mut branch) = git.find_reference("refs/heads/wheelwright/status") {
        branch.delete().unwrap();
    }
    add_report(repository, directories, files)
}

/// Adds a commit to the report branch, with the files in each of the directories; returns its id.
fn add_report(repository: &Path, directories: &[&str], files: &BTreeMap<String, String>) -> Oid {
    let git = git2::Repository::open(repository).unwrap();
    let mut index = git2::Index::new().unwrap();
    for (directory, (name, content)) in
        directories.iter().flat_map(|it| files.iter().map(move |file| (it, file)))
    {
        let blob = git.blob(content.as_bytes()).unwrap();
        index.add(&wheelwright::git::entry(format!("{directory}/{name}"), blob)).unwrap();
    }
    let tree = git.find_tree(index.write_tree_to(&git).unwrap()).unwrap();
    let author = git2::Signature::now("Test", "test@example.com").unwrap();
    let branch = "refs/heads/wheelwright/status";
    let parent = git.find_reference(branch).ok().map(|reference| reference.peel_to_commit().unwrap());
    let parents: Vec<_> = parent.iter().collect();
    git.commit(Some(branch), &author, &author, "report", &tree, &parents).unwrap()
}

#[test]
fn the_history_of_a_rollout_is_read_from_the_reports() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "one");
    let (one, _) = tip(&repository);
    let mut world = applied(&repository);
    commit(&repository, "two");
    let (two, files) = tip(&repository);
    world.commit(&Key::namespaced("config", "fleet"), &two, files);
    world.run_for(SignedDuration::from_mins(4)).unwrap();
    let reports = &world.branches["wheelwright/status"];
    let history = |name: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(["rollout", "history", name, "--repo"]).arg(&repository).args(args);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, none) = history("bench", &[]);
    assert!(code == Some(1) && none.contains("revision wheelwright/status does not exist"), "{none}");
    let ids: Vec<Oid> =
        reports.iter().map(|report| add_report(&repository, &["hub"], &report.files)).collect();
    // A report in which the rollout does not change.
    let mut files = reports.last().unwrap().files.clone();
    files.insert("summary.json".into(), files["summary.json"].clone() + "\n");
    add_report(&repository, &["hub"], &files);

    let (code, json) = history("bench", &["-o", "json"]);
    let states: Vec<Value> = serde_json::from_str(&json).unwrap();
    let (newest, oldest) = (states.first().unwrap(), states.last().unwrap());
    assert_eq!((code, &newest["commit"], &oldest["commit"]), (Some(0), &json!(two), &json!(one)), "{json}");
    assert_eq!(newest["clusters"]["done"], 2, "{json}");
    assert_eq!(
        newest["report"],
        ids.last().unwrap().to_string(),
        "the report in which the state began: {json}"
    );
    let (_, text) = history("bench", &["--limit", "1"]);
    let words: Vec<&str> = text.lines().last().unwrap().split_whitespace().skip(2).collect();
    assert_eq!((text.lines().count(), words.join(" ")), (2, format!("{} Completed 2 of 2 done", &two[..12])));

    let (code, unknown) = history("other", &[]);
    assert!(
        code == Some(1) && unknown.contains("no report on wheelwright/status has a rollout other"),
        "{unknown}"
    );
    commit_report(&repository, &["asia", "europe"], &files);
    let (code, several) = history("bench", &[]);
    assert!(
        code == Some(1) && several.contains("has 2 reports\nhint: name one, such as --report-path asia"),
        "{several}"
    );
    assert!(history("bench", &["--report-path", "europe"]).1.contains("2 of 2 done"));
    let small = files.insert("summary.json".into(), " ".repeat(5 << 20)).unwrap();
    commit_report(&repository, &["hub"], &files);
    files.insert("summary.json".into(), small);
    add_report(&repository, &["hub"], &files);
    let (code, large) = history("bench", &[]);
    assert!(
        code == Some(1) && large.contains("hub/summary.json has 5242880 bytes, at most 4194304"),
        "{large}"
    );
}

#[test]
fn the_history_of_a_cluster_is_read_from_its_file_in_the_reports() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("fleet.git");
    commit(&repository, "one");
    let history = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.args(["rollout", "history", "--cluster", "c1", "--repo"]).arg(&repository).args(args);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), text)
    };
    let report = |commit: &str, problems: Option<Value>| {
        let summary = json!({"commit": {"applied": commit}}).to_string();
        let file = problems.map(|problems| (engine::report::cluster_file("c1"), problems.to_string()));
        let files = std::iter::once(("summary.json".to_owned(), summary)).chain(file).collect();
        add_report(&repository, &["hub"], &files).to_string()
    };
    report("a", None);
    report("b", None);
    let (code, none) = history(&[]);
    assert_eq!((code, none.as_str()), (Some(0), "No report on wheelwright/status lists a problem of c1.\n"));
    assert_eq!(history(&["-o", "json"]), (Some(0), "[]\n".into()));

    let failed = |message: &str| json!({"state": "Failed", "available": false, "message": message});
    let add_on = json!({"addOns": {"bench": failed("no pods")}});
    let began = report("c", Some(add_on.clone()));
    report("c", Some(add_on));
    let both =
        json!({"addOns": {"bench": failed("no pods")}, "replicaSets": {"team/web": failed("no image")}});
    let grew = report("d", Some(both));
    let ended = report("e", None);
    report("f", None);
    let (code, json) = history(&["-o", "json"]);
    let states: Vec<Value> = serde_json::from_str(&json).unwrap();
    let seen: Vec<_> =
        states.iter().map(|state| (state["report"].as_str().unwrap(), &state["commit"])).collect();
    let expected = [(ended.as_str(), &json!("e")), (&grew, &json!("d")), (&began, &json!("c"))];
    assert_eq!((code, seen.as_slice()), (Some(0), expected.as_slice()), "{json}");
    assert_eq!(states[1]["replicaSets"]["team/web"]["message"], "no image");
    let (_, text) = history(&[]);
    let rows: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
        .collect();
    let expected =
        ["e - no problem", "d bench Failed no pods", "d team/web Failed no image", "c bench Failed no pods"];
    assert_eq!(rows, expected, "{text}");
    assert_eq!(history(&["--limit", "1"]).1.lines().count(), 2);
    let (code, refused) = history(&["bench"]);
    assert!(code == Some(2) && refused.contains("cannot be used with"), "{refused}");
}

/// Returns a hub that has applied the newest commit of main and reported.
fn applied(repository: &Path) -> World {
    let mut world = World::new(7, "2026-01-02T03:04:05Z".parse().unwrap());
    for name in ["c1", "c2"] {
        world.join(name, &[], Environment::default()).unwrap();
    }
    let repo = Key::namespaced("config", "fleet");
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config",
            "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}),
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"namespace": "config", "name": "fleet"},
            "spec": {"url": "https://git.example/fleet", "report": {"snapshot": true, "interval": "1s"}}}),
    ];
    for object in objects {
        world.apply(Object::from_value(object).unwrap()).unwrap();
    }
    let (revision, files) = tip(repository);
    world.commit(&repo, &revision, files);
    world.run_for(SignedDuration::from_mins(4)).unwrap();
    world
}

#[test]
fn a_plan_from_a_report_needs_the_checkout_of_a_pull_request_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, repository) = (dir.path(), dir.path().join("fleet.git"));
    commit(&repository, "one");
    let world = applied(&repository);
    commit_report(&repository, &["hub"], &world.branches["wheelwright/status"].last().unwrap().files);
    commit(&repository, "two");
    let summary = workflow(dir, "plan-from-report.yaml", &[]);
    assert!(summary.contains("**Change: 0 objects created, 1 changed, 0 deleted."), "{summary}");
}

#[test]
fn a_plan_takes_the_fleet_from_a_report_and_compares_with_a_base() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, repository) = (dir.path(), dir.path().join("fleet.git"));
    commit(&repository, "one");
    let world = applied(&repository);
    let files = &world.branches["wheelwright/status"].last().unwrap().files;
    commit_report(&repository, &["hub"], files);
    let (one, _) = tip(&repository);
    commit(&repository, "two");
    let (two, _) = tip(&repository);
    commit(&repository, "three");

    let now = world.now.to_string();
    let of =
        |head: &str, args: &[&str]| plan(dir, head, &[args, &["--now", &now, "--output", "json"]].concat());
    let changed = |printed: &Value| {
        let objects = printed["objects"].as_array().unwrap();
        let template = "AddOnTemplate.addon.open-cluster-management.io bench";
        assert!(objects.len() == 1 && objects[0]["object"] == template, "{printed:#}");
        let field = &printed["works"][0]["objects"][0]["fields"][0];
        (field["before"].clone(), field["after"].clone())
    };
    let report = ["--report", "wheelwright/status", "--report-path", "/hub/"];
    let (code, of_report) = json_of(&of("main", &report));
    assert_eq!((code, changed(&of_report)), (10, (json!("one"), json!("three"))));
    let (code, same) = json_of(&of(&one, &report));
    assert_eq!((code, &same["verdict"]), (0, &json!("noChange")), "{same:#}");
    assert_eq!(json_of(&of("main", &report[..2])).1["hash"], of_report["hash"], "the only report is found");
    let refused = |args: &[&str], reason: &str| {
        let refused = of("main", args);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && message.contains(reason), "{message}");
    };
    refused(
        &["--report", "wheelwright/status", "--report-path", "/"],
        "the branch wheelwright/status has no directory snapshot",
    );
    commit_report(&repository, &[], files);
    refused(&report[..2], "the branch wheelwright/status has no directory snapshot");
    let lost = |(path, text): (&String, &String)| (path.clone(), text.replace(&one, &"f".repeat(40)));
    let lost: BTreeMap<_, _> = files.iter().map(lost).collect();
    commit_report(&repository, &["hub"], &lost);
    refused(&report, "does not have ffffffffffff, which ConfigRepo config/fleet had applied, so there");
    refused(&report, "hint: fetch the whole history");
    commit_report(&repository, &["hub", "other"], files);
    refused(&report[..2], "several reports, such as hub and other");
    refused(&report[..2], "--report-path hub");
    let reports = dir.join("reports.git");
    git2::Repository::init_bare(&reports).unwrap();
    commit_report(&reports, &["hub"], files);
    let named = [&report[..2], &["--report-repo", reports.to_str().unwrap()]].concat();
    assert_eq!(json_of(&of("main", &named)).1["hash"], of_report["hash"], "that of another repository");

    let file = dir.join("hub.json");
    let snapshot = |objects: &Value| {
        std::fs::write(&file, json!({"kind": "List", "items": objects}).to_string()).unwrap();
        ["--snapshot", file.to_str().unwrap()]
    };
    let mut objects = serde_json::to_value(objects_of(&world.hub)).unwrap();
    let hub = snapshot(&objects);
    assert_eq!(json_of(&of("main", &hub)).1["hash"], of_report["hash"]);
    for source in [&hub[..], &report[..]] {
        let with_base = |base: &str| json_of(&of("main", &[source, &["--base", base]].concat()));
        let (code, printed) = with_base(&two);
        assert_eq!((code, changed(&printed)), (10, (json!("two"), json!("three"))), "{source:?}");
        let (code, printed) = with_base("main");
        assert_eq!((code, &printed["verdict"]), (0, &json!("noChange")), "{source:?}: {printed:#}");
    }

    let repo = objects.as_array_mut().unwrap().iter_mut().find(|item| item["kind"] == "ConfigRepo").unwrap();
    repo["spec"]["planApproval"] = json!("Required");
    let (code, printed) = json_of(&of("main", &snapshot(&objects)));
    assert_eq!((code, &printed["verdict"]), (11, &json!("needsApproval")), "{printed:#}");
}

#[test]
fn a_plan_refuses_a_rewind_that_nobody_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, repository) = (dir.path(), dir.path().join("fleet.git"));
    commit(&repository, "one");
    let world = applied(&repository);
    let (one, _) = tip(&repository);
    // This branch has an unrelated history.
    commit_report(&repository, &["hub"], &world.branches["wheelwright/status"].last().unwrap().files);
    commit(&repository, "two");
    let (two, _) = tip(&repository);
    let (file, now) = (dir.join("hub.json"), world.now.to_string());
    let hub = ["--snapshot", file.to_str().unwrap(), "--now", &now, "--output", "json"];
    let write = |objects: &Value| {
        std::fs::write(&file, json!({"kind": "List", "items": objects}).to_string()).unwrap();
    };
    let mut objects = serde_json::to_value(objects_of(&world.hub)).unwrap();
    write(&objects);
    let back = [&hub[..], &["--base", "main"]].concat();
    for (head, args, from) in [("wheelwright/status", &hub[..], &one), (&*one, &back[..], &two)] {
        let (code, answer) = json_of(&plan(dir, head, args));
        assert_eq!((code, &answer["verdict"]), (12, &json!("refused")), "{answer:#}");
        let step = format!("accept-revision={from}..{}", answer["commit"].as_str().unwrap());
        assert!(answer["refused"].as_str().unwrap().contains(&step), "{answer:#}");
    }
    // Another ConfigRepo of the branch had accepted a commit that is no longer on the branch.
    let mut left = objects.clone();
    let items = left.as_array_mut().unwrap();
    let mut other = items.iter().find(|item| item["kind"] == "ConfigRepo").unwrap().clone();
    (other["metadata"]["name"], other["metadata"]["uid"]) = (json!("other"), json!("other"));
    for revision in ["seen", "applied"] {
        other["status"][revision]["commit"] = json!("f".repeat(40));
    }
    items.push(other);
    write(&left);
    let (code, answer) =
        json_of(&plan(dir, "main", &[&hub[..], &["--config-repo", "config/fleet"]].concat()));
    let reason = answer["others"][0]["refused"].as_str().unwrap_or_default();
    assert!(code == 12 && reason.contains("accept-revision=ffff"), "{answer:#}");
    assert_eq!(answer["objects"].as_array().map(Vec::len), Some(1), "{answer:#}");

    let repo = objects.as_array_mut().unwrap().iter_mut().find(|item| item["kind"] == "ConfigRepo").unwrap();
    repo["metadata"]["annotations"]["gitops.wheelwright.dev/accept-revision"] =
        json!(format!("{two}..{one}"));
    write(&objects);
    let (code, answer) = json_of(&plan(dir, &one, &back));
    assert_eq!((code, &answer["verdict"]), (10, &json!("change")), "{answer:#}");

    let url = format!("file://{}", repository.display());
    let mut git = Command::new("git");
    git.current_dir(dir).args(["clone", "--quiet", "--depth", "1", "--branch", "main", &url, "shallow.git"]);
    assert!(git.status().unwrap().success());
    std::fs::rename(&repository, dir.join("full.git")).unwrap();
    std::fs::rename(dir.join("shallow.git"), &repository).unwrap();
    let (code, answer) = json_of(&plan(dir, "HEAD", &hub));
    assert_eq!((code, &answer["verdict"]), (10, &json!("change")), "a clone without history refuses nothing");
}

#[test]
fn a_rollout_is_simulated_from_a_report_as_it_was_at_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, repository) = (dir.path(), dir.path().join("fleet.git"));
    commit(&repository, "one");
    let world = applied(&repository);
    let files = &world.branches["wheelwright/status"].last().unwrap().files;
    let earlier = commit_report(&repository, &["hub"], files).to_string();
    commit_report(&repository, &["hub"], &BTreeMap::from([("README.md".into(), String::new())]));
    let strategy = dir.join("strategy.yaml");
    std::fs::write(&strategy, "type: Progressive\nprogressive: {maxConcurrency: 1}\n").unwrap();
    let now = world.now.to_string();
    let simulate = |further: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        let line = "simulate rollout --report wheelwright/status --rollout bench --revision v9 --until-done";
        command.args(line.split(' ')).args(["--now", &now, "--repo"]).arg(&repository);
        command.arg("--strategy").arg(&strategy);
        command.args(further).env("HOME", dir).output().unwrap()
    };
    let played = simulate(&["--at", &earlier]);
    let (table, message) = (String::from_utf8_lossy(&played.stdout), String::from_utf8_lossy(&played.stderr));
    let starts: Vec<_> = table.lines().filter(|line| line.contains("start ")).collect();
    assert!(
        starts.len() == 2 && starts[0].contains("start c1") && starts[1].contains("start c2"),
        "{table}{message}"
    );
    let message = String::from_utf8_lossy(&simulate(&[]).stderr).into_owned();
    assert!(message.contains("wheelwright/status has no directory"), "{message}");
}

/// Runs the command in a directory, with the hub given by the environment.
fn plan_in(dir: &Path, kubeconfig: Option<&Path>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    command.arg("plan").args(args).current_dir(dir).env("HOME", dir).env_remove("KUBECONFIG");
    command.envs(kubeconfig.map(|file| ("KUBECONFIG", file))).output().unwrap()
}

/// Returns the text of all files in the newest report.
fn reported(repository: &Path) -> Option<String> {
    let git = git2::Repository::open(repository).unwrap();
    let tip = git.find_reference("refs/heads/wheelwright/status").ok()?.peel_to_tree().ok()?;
    let mut text = String::new();
    let read = |_: &str, entry: &git2::TreeEntry<'_>| {
        let blob = git.find_blob(entry.id()).ok();
        text += &blob.map(|blob| String::from_utf8_lossy(blob.content()).into_owned()).unwrap_or_default();
        git2::TreeWalkResult::Ok
    };
    tip.walk(git2::TreeWalkMode::PreOrder, read).ok()?;
    Some(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_from_the_report_of_a_running_operator_is_that_with_the_hub() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let start = async |objects: Vec<Object>| {
        Server::start(ServerOptions { objects, ..ServerOptions::new(now) }).await.unwrap()
    };
    let hub = start(crds::hub().iter().map(Object::from_typed).collect()).await;
    let spoke = start(crds::spoke().iter().map(Object::from_typed).collect()).await;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let write = |name: &str, text: String| {
        std::fs::write(dir.join(name), text).unwrap();
        dir.join(name)
    };
    let admin = write("hub", hub.admin_kubeconfig_yaml().unwrap());
    let group = "system:bootstrappers:managedcluster";
    let bootstrap = write("bootstrap", hub.kubeconfig_yaml("bootstrap", &[group]).unwrap());
    let on_spoke = write("spoke", spoke.admin_kubeconfig_yaml().unwrap());
    let path = |file: &Path| file.to_str().unwrap().to_owned();
    let kubectl = Kubectl::new(&admin, dir.join("kubectl"));
    let repository = dir.join("fleet.git");
    let policy = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": "bench"}, "spec": {"addOns": ["bench"]}});
    commit_with(&repository, "one", std::slice::from_ref(&policy));

    let (kubeconfig, repo) = (path(&admin), path(&repository));
    let operator = ["operator", "--kubeconfig", &kubeconfig, "--local-repositories", "--repo", &repo];
    let operator = [&operator[..], &["--report-branch", "wheelwright/status"]].concat();
    let operator = Running::start("operator", dir, &operator);
    let (bootstrap, on_spoke) = (path(&bootstrap), path(&on_spoke));
    let agent = ["agent", "--bootstrap-kubeconfig", &bootstrap, "--spoke-kubeconfig", &on_spoke];
    let _agent = Running::start("agent", dir, &[&agent[..], &["--spoke-cluster-name", "c1"]].concat());
    accept(&hub.client(), "c1").await;
    let report = json!({"spec": {"report": {"snapshot": true, "interval": "1s"}}}).to_string();
    kubectl.run(&["patch", "configrepo", "fleet", "-n", "wheelwright-system", "--type=merge", "-p", &report]);
    let maps: Api<ConfigMap> = Api::namespaced(spoke.client(), "default");
    eventually("the cluster has the add-on", async || maps.get_opt("bench").await.unwrap().is_some()).await;
    kubectl.run(&["annotate", "clustermanagementaddon", "bench", "note=by-hand"]);
    kubectl.run(&["label", "placement", "all", "-n", "fleet", "note=by-hand"]);
    let expected = [
        "kubectl-annotate",
        "kubectl-label",
        "gitops.wheelwright.dev/rollout-policy",
        "completed with no errors",
    ];
    eventually("the report has all of it", async || {
        reported(&repository).is_some_and(|text| expected.iter().all(|part| text.contains(part)))
    })
    .await;
    assert!(operator.terminate(std::time::Duration::from_secs(20)));

    commit_with(&repository, "two", &[policy]);
    let git =
        |args: &[&str]| assert!(Command::new("git").current_dir(dir).args(args).status().unwrap().success());
    git(&["clone", "--quiet", "--branch", "main", "fleet.git", "clone"]);
    let clone = dir.join("clone");
    let (code, of_hub) = json_of(&plan_in(&clone, Some(&admin), &["--output", "json"]));
    let report = ["--report", "wheelwright/status"];
    let (again, of_report) = json_of(&plan_in(&clone, None, &[&report[..], &["--output", "json"]].concat()));
    assert_eq!((code, again), (10, 10), "{of_hub:#}\n{of_report:#}");
    assert_eq!(of_hub["objects"], of_report["objects"]);
    let (hash, other) = (of_hub["hash"].as_str().unwrap(), of_report["hash"].as_str().unwrap());
    assert_eq!(hash, other, "{of_hub:#}\n{of_report:#}");
    let changed: Vec<_> = of_hub["objects"].as_array().unwrap().iter().map(|it| &it["object"]).collect();
    assert_eq!(changed, [&json!("AddOnTemplate.addon.open-cluster-management.io bench")]);
    let age = of_report["report"]["ageSeconds"].as_i64();
    assert!(age.is_some_and(|age| age < 600) && of_hub["report"].is_null(), "{age:?}");

    let text = plan_in(&clone, None, &[&report[..], &["--expect", hash]].concat());
    let page = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.status.code() == Some(10) && page.contains("\nReport: commit "), "{page}");
    assert!(!page.contains("is removed") && !page.contains("config-address"), "{page}");
    let refused = plan_in(&clone, None, &[&report[..], &["--expect", "0123"]].concat());
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(13) && reason.contains(hash) && reason.contains("not 0123"),
        "{reason}"
    );
}
