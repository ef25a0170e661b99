//! Reports on followed branches, without a rule that prevents it.

use super::forge::{Forge, raw_tree};
use super::push::{QUICK, files, on_both};
use crate::git::{Commit, History, Mirror, RefSpec};

/// Returns the next commit that a hub gets from a branch after the accepted one.
fn follow(mirror: &mut Mirror, branch: &str, accepted: Option<&str>) -> String {
    mirror.leaves_out_reports = true;
    let history = History { accepted, allowed: None };
    mirror.fetch(&RefSpec::Branch(branch.into()), history).unwrap().revision.clone()
}

/// Returns a report that names the commit that a hub has seen.
fn report(branch: &str, directory: &str, seen: &str) -> Commit {
    let owner = format!("ConfigRepo {directory}");
    Commit { branch: branch.into(), owner, ..files(directory, &[("summary.json", seen), ("a/b.md", seen)]) }
}

fn commits(forge: &Forge) -> Vec<usize> {
    ["main", "status"].map(|branch| forge.history(branch).len()).to_vec()
}

#[test]
fn a_report_to_the_branch_that_is_followed_causes_no_report() {
    on_both(|forge, open| {
        forge.commit("main", &[("app.yaml", "1")]);
        let (mut reads, writes) = (open("reads"), open("writes"));
        let mut accepted = None;
        for _ in 0..4 {
            let seen = follow(&mut reads, "main", accepted.as_deref());
            writes.push(&report("main", "hubs/1", &seen), &QUICK).unwrap();
            accepted = Some(seen);
        }
        assert_eq!(commits(forge), [2, 0]);
        let config = accepted.unwrap();
        assert_eq!(follow(&mut open("after-restart"), "main", None), config);
        let next = forge.commit("main", &[("app.yaml", "2")]);
        assert_eq!(follow(&mut reads, "main", Some(&config)), next, "commits of people are followed");
    });
}

#[test]
fn hubs_that_follow_the_reports_of_each_other_report_once() {
    on_both(|forge, open| {
        forge.commit("main", &[("app.yaml", "1")]);
        let (mut first, mut second, writes) = (open("first"), open("second"), open("writes"));
        let (mut of_first, mut of_second) = (None, None);
        for _ in 0..4 {
            let seen = follow(&mut first, "main", of_first.as_deref());
            writes.push(&report("status", "hubs/1", &seen), &QUICK).unwrap();
            of_first = Some(seen);
            let seen = follow(&mut second, "status", of_second.as_deref());
            writes.push(&report("main", "hubs/2", &seen), &QUICK).unwrap();
            of_second = Some(seen);
        }
        assert_eq!(commits(forge), [2, 1]);
    });
}

#[test]
fn a_report_that_was_accepted_before_stays_and_one_with_other_changes_is_followed() {
    on_both(|forge, open| {
        let config = forge.commit("main", &[("app.yaml", "1")]);
        let (mut reads, writes) = (open("reads"), open("writes"));
        let first = writes.push(&report("main", "hubs/1", "1"), &QUICK).unwrap().unwrap();
        let second = writes.push(&report("main", "hubs/1", "2"), &QUICK).unwrap().unwrap();
        assert_eq!(follow(&mut reads, "main", Some(&first)), first);
        assert_eq!(follow(&mut reads, "main", Some(&second)), second);
        assert_eq!(follow(&mut reads, "main", Some(&config)), config);

        // A person squashes a report and a change into one commit, whose message quotes the report's message.
        let repo = forge.repo();
        let (person, report) = (forge.commit("main", &[("app.yaml", "2")]), second.parse().unwrap());
        let (person, report) =
            (repo.find_commit(person.parse().unwrap()).unwrap(), repo.find_commit(report).unwrap());
        let (me, tree, parent) = (person.author(), person.tree().unwrap(), report.parent(0).unwrap());
        let message = report.message().unwrap();
        let squashed = repo.commit(None, &me, &me, message, &tree, &[&parent]).unwrap();
        repo.reference("refs/heads/main", squashed, true, "").unwrap();
        assert_eq!(follow(&mut reads, "main", Some(&first)), squashed.to_string());
    });
}

#[test]
fn a_tree_bomb_in_the_message_of_a_report_is_refused_before_it_is_walked() {
    let forge = Forge::new();
    forge.commit("main", &[("app.yaml", "1")]);
    let writes = forge.mirror("writes", &forge.url());
    let report = writes.push(&report("main", "hubs/1", "1"), &QUICK).unwrap().unwrap();
    let repo = forge.repo();
    let mut tree = raw_tree(&repo, &[]);
    for _ in 0..12 {
        let names: Vec<String> = (10..90).map(|name| name.to_string()).collect();
        let entries: Vec<_> = names.iter().map(|name| ("40000", name.as_bytes(), tree)).collect();
        tree = raw_tree(&repo, &entries);
    }
    let report = repo.find_commit(report.parse().unwrap()).unwrap();
    let (me, message, tree) = (report.author(), report.message().unwrap(), repo.find_tree(tree).unwrap());
    let bomb = repo.commit(None, &me, &me, message, &tree, &[&report]).unwrap();
    repo.reference("refs/heads/main", bomb, true, "").unwrap();
    let mut reads = forge.mirror("reads", &forge.url());
    reads.leaves_out_reports = true;
    let error = reads.fetch(&RefSpec::Branch("main".into()), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceRefused", "{error}");
}

#[test]
fn a_report_with_a_file_next_to_a_directory_of_its_name_causes_no_report() {
    on_both(|forge, open| {
        let config = forge.commit("main", &[("a/app.yaml", "1"), ("z", "1")]);
        let report = Commit { branch: "main".into(), ..files("", &[("a.md", "1")]) };
        open("writes").push(&report, &QUICK).unwrap();
        assert_eq!(follow(&mut open("reads"), "main", None), config);
    });
}

#[test]
fn a_report_in_directories_of_very_many_entries_is_followed_and_not_compared() {
    let forge = Forge::new();
    forge.commit("main", &[("app.yaml", "1")]);
    let report = forge.mirror("writes", &forge.url()).push(&report("main", "hubs/1", "1"), &QUICK).unwrap();
    let repo = forge.repo();
    let report = repo.find_commit(report.unwrap().parse().unwrap()).unwrap();
    let blob = repo.blob(b"x").unwrap();
    let names: Vec<String> = (0..30_000).map(|name| format!("z{name:05}")).collect();
    let directory = |first: (&'static str, &'static [u8], git2::Oid)| {
        let others = names.iter().map(|name| ("100644", name.as_bytes(), blob));
        raw_tree(&repo, &std::iter::once(first).chain(others).collect::<Vec<_>>())
    };
    let nested = |leaf: git2::Oid| {
        (0..8).fold(directory(("100644", b"a", leaf)), |tree, _| directory(("40000", b"a", tree)))
    };
    let (me, message) = (report.author(), report.message().unwrap());
    let [before, after] =
        [nested(blob), nested(repo.blob(b"y").unwrap())].map(|tree| repo.find_tree(tree).unwrap());
    let parent = repo.commit(None, &me, &me, message, &before, &[&report]).unwrap();
    let parent = repo.find_commit(parent).unwrap();
    let tip = repo.commit(None, &me, &me, message, &after, &[&parent]).unwrap();
    let found = crate::git::report_commits::below_reports(&repo, tip, None, &Default::default());
    assert_eq!(found.unwrap(), tip);
}
