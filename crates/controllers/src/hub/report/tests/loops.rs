//! Reports on branches that are followed, where only the objects of commits prevent a loop.

use std::collections::BTreeMap;

use super::*;

/// Makes a ConfigRepo of the directory `app` that reports to a branch, with or without a snapshot.
fn follow(world: &mut World, repo: &Key, branch: &str, snapshot: bool) {
    let report = json!({"branch": branch, "snapshot": snapshot});
    let spec = json!({"url": "https://git.example/fleet", "path": "app", "report": report});
    let metadata = json!({"namespace": repo.namespace, "name": repo.name});
    world
        .apply(object(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec})))
        .unwrap();
}

/// Commits a file of the directory `app`, and beside it the newest report on a branch.
fn commit_with_report(world: &mut World, repo: &Key, (revision, file): (usize, &str), branch: &str) {
    let newest = world.branches.get(branch).and_then(|pushes| pushes.last());
    let report: BTreeMap<String, String> = newest.map(|push| push.files.clone()).unwrap_or_default();
    let report = report.into_iter().map(|(path, text)| (format!("reports/{path}"), text));
    let files: Vec<_> = report.chain([("app/addon.json".to_owned(), file.to_owned())]).collect();
    let tree: FileTree = files.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
    world.commit(repo, &format!("{revision:x}").repeat(40), tree);
}

fn seen(world: &World, repo: &Key) -> String {
    world.get::<ConfigRepo>(repo).unwrap().status.unwrap().seen.unwrap().commit
}

#[test]
fn a_commit_with_the_objects_of_the_last_one_causes_no_report() {
    for (snapshot, file) in
        [(false, add_on_file("msa", '1')), (true, add_on_file("msa", '1')), (false, "{".into())]
    {
        let mut world = world(json!({}));
        follow(&mut world, &key(), BRANCH, snapshot);
        commit_with_report(&mut world, &key(), (1, &file), BRANCH);
        run(&mut world, 120);
        let reports = world.branches[BRANCH].len();
        for revision in 2..6 {
            commit_with_report(&mut world, &key(), (revision, &file), BRANCH);
            run(&mut world, 120);
        }
        for pair in world.branches[BRANCH].windows(2) {
            for (path, text) in &pair[1].files {
                if pair[0].files.get(path) != Some(text) {
                    eprintln!(
                        "DIFF {path}\n{}\n{text}",
                        pair[0].files.get(path).cloned().unwrap_or_default()
                    );
                }
            }
        }
        assert_eq!(world.branches[BRANCH].len(), reports, "snapshot {snapshot}, {file}");
        assert_eq!(seen(&world, &key()), "5".repeat(40));

        commit_with_report(&mut world, &key(), (6, &add_on_file("msa", '2')), BRANCH);
        run(&mut world, 120);
        let newest = &world.branches[BRANCH][reports..];
        assert!(!newest.is_empty(), "other objects are reported");
        assert!(newest.iter().any(|push| push.files["summary.json"].contains(&"6".repeat(40))));
    }
}

#[test]
fn config_repos_that_follow_the_reports_of_each_other_report_once() {
    let mut world = world(json!({}));
    let (first, second) = (key(), Key::namespaced("config", "second"));
    let repos = [(&first, "of-first", "msa"), (&second, "of-second", "proxy")];
    for (repo, branch, _) in repos {
        follow(&mut world, repo, branch, true);
    }
    let mut reports = Vec::new();
    for revision in 1..6 {
        for ((repo, _, add_on), (_, others, _)) in repos.into_iter().zip(repos.into_iter().rev()) {
            commit_with_report(&mut world, repo, (revision, &add_on_file(add_on, '1')), others);
        }
        run(&mut world, 120);
        reports.push(["of-first", "of-second"].map(|branch| world.branches[branch].len()));
    }
    assert!(reports.iter().all(|count| *count == reports[0]), "{reports:?}");
    assert_eq!([&first, &second].map(|repo| seen(&world, repo)), ["5", "5"].map(|digit| digit.repeat(40)));
}
