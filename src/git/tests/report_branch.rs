//! Changes by people to a report branch.

use std::path::PathBuf;

use super::forge::Forge;
use super::push::{BRANCH, QUICK, files, on_both};
use crate::git::{Commit, Error, LastPush};

/// Returns a report that follows a commit, and stops if the branch does not contain it.
fn after(last: &str, content: &str) -> Commit {
    let last = LastPush { commit: last.to_owned(), previous: String::new(), recreates: false, adopts: false };
    Commit { last, ..files("", &[("x", content)]) }
}

#[test]
fn a_deleted_branch_stops_reports_until_it_is_back_or_may_be_created() {
    on_both(|forge, open| {
        let mirror = open("cache");
        let first = mirror.push(&after("", "1"), &QUICK).unwrap().unwrap();
        forge.forget(BRANCH);
        let error = open("after-restart").push(&after(&first, "2"), &QUICK).unwrap_err();
        assert!(matches!(error, Error::BranchDeleted { .. }), "{error}");
        assert_eq!(forge.tip(BRANCH), None);
        assert!(error.to_string().contains(&format!("push {first} to it again")), "{error}");
        assert!(mirror.push(&after(&first, "2"), &QUICK).is_err());

        let id = first.parse().unwrap();
        forge.repo().reference(&format!("refs/heads/{BRANCH}"), id, false, "").unwrap();
        let second = mirror.push(&after(&first, "2"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [second.clone(), first]);

        forge.forget(BRANCH);
        let last = LastPush { commit: second, previous: String::new(), recreates: true, adopts: false };
        let again = Commit { last, ..files("", &[("x", "3")]) };
        assert_eq!(forge.history(BRANCH), Vec::<String>::new());
        let created = mirror.push(&again, &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [created]);
    });
}

#[test]
fn a_rewritten_branch_stops_reports_and_one_that_grew_does_not() {
    on_both(|forge, open| {
        let mirror = open("cache");
        let first = mirror.push(&after("", "1"), &QUICK).unwrap().unwrap();
        let human = forge.commit(BRANCH, &[("notes.md", "mine")]);
        let second = mirror.push(&after(&first, "2"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [second.clone(), human, first.clone()]);

        let rewound = Some(first.parse().unwrap());
        for parent in [None, rewound] {
            let tip = forge.commit_on(parent, BRANCH, &[("theirs", "1")]);
            for cache in ["cache", &format!("new-{}", parent.is_some())] {
                let error = open(cache).push(&after(&second, "3"), &QUICK).unwrap_err();
                assert!(matches!(error, Error::BranchRewritten { .. }), "{error}");
                assert!(error.to_string().contains(&format!("no longer contains {second}")), "{error}");
            }
            assert_eq!(forge.tip(BRANCH).unwrap().to_string(), tip, "nothing is pushed");
        }
        let last = LastPush { commit: second, previous: String::new(), recreates: false, adopts: true };
        let adopts = Commit { last, ..files("", &[("x", "3")]) };
        let third = mirror.push(&adopts, &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH).first(), Some(&third));
        assert_eq!(forge.file(BRANCH, "theirs").as_deref(), Some("1"), "it follows theirs");
    });
}

#[test]
fn a_branch_that_is_deleted_during_a_push_stops_reports_too() {
    let forge = Forge::new();
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    let first = mirror.push(&after("", "1"), &QUICK).unwrap().unwrap();
    let delete = format!(
        "unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; \
         git update-ref -d refs/heads/{BRANCH}"
    );
    forge.hook("pre-receive", &delete);
    let error = mirror.push(&after(&first, "2"), &QUICK).unwrap_err();
    assert!(matches!(error, Error::BranchDeleted { .. }), "{error}");
    assert_eq!(forge.tip(BRANCH), None);
}

/// Returns a report on a branch with a limit of three commits.
fn short(directory: &str, content: &str) -> Commit {
    Commit { history_limit: 3, ..files(directory, &[("x", content)]) }
}

/// Returns the commits of a branch and its archives, newest first, following the trailers.
fn whole_history(forge: &Forge) -> Vec<Vec<String>> {
    let mut histories = vec![forge.history(BRANCH)];
    loop {
        let repo = forge.repo();
        let first = histories.last().unwrap().last().unwrap().parse().unwrap();
        let first = repo.find_commit(first).unwrap();
        let message = first.message().unwrap();
        let Some((_, archive)) = message.split_once("Wheelwright-Archive: ") else { return histories };
        let tip = repo.refname_to_id(archive.trim_end()).unwrap();
        assert_eq!(archive.trim_end(), format!("refs/wheelwright/archive/{BRANCH}/{tip}"));
        let mut walk = repo.revwalk().unwrap();
        walk.push(tip).unwrap();
        histories.push(walk.map(|id| id.unwrap().to_string()).collect());
    }
}

#[test]
fn a_full_branch_begins_again_and_its_commits_are_archived() {
    on_both(|forge, open| {
        let mirror = open("cache");
        mirror.push(&short("", "0"), &QUICK).unwrap();
        mirror.push(&short("other", "1"), &QUICK).unwrap();
        mirror.push(&short("", "2"), &QUICK).unwrap();
        assert_eq!(mirror.push(&short("", "2"), &QUICK), Ok(None), "nothing new begins nothing");
        assert_eq!(forge.history(BRANCH).len(), 3);
        let fourth = mirror.push(&short("", "3"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [fourth]);
        assert_eq!(forge.file(BRANCH, "other/x").as_deref(), Some("1"), "files of others stay");
        mirror.push(&short("", "4"), &QUICK).unwrap();
        mirror.push(&short("", "5"), &QUICK).unwrap();
        let last = mirror.push(&short("", "6"), &QUICK).unwrap().unwrap();
        let lengths: Vec<_> = whole_history(forge).iter().map(Vec::len).collect();
        assert_eq!(lengths, [1, 3, 3]);
        assert_eq!(open("after-restart").push(&short("", "6"), &QUICK), Ok(None));
        assert_eq!(forge.history(BRANCH), [last]);
    });
}

#[test]
fn a_branch_with_a_persons_commit_never_restarts() {
    on_both(|forge, open| {
        let mirror = open("cache");
        forge.commit(BRANCH, &[("notes.md", "mine")]);
        for update in 0..7 {
            mirror.push(&short("", &update.to_string()), &QUICK).unwrap().unwrap();
        }
        assert_eq!(forge.history(BRANCH).len(), 8);
    });
}

/// Deletes a loose object.
fn lose(git_dir: PathBuf, id: &str) {
    std::fs::remove_file(git_dir.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
}

#[test]
fn a_push_reads_no_commit_that_the_push_before_it_read() {
    on_both(|forge, open| {
        let mirror = open("cache");
        let push = |update: usize| {
            let report = Commit { history_limit: 12, ..files("", &[("x", &update.to_string())]) };
            mirror.push(&report, &QUICK).unwrap().unwrap()
        };
        let first = push(0);
        (1..10).for_each(|update| drop(push(update)));
        lose(if mirror.remote().is_local() { forge.path() } else { mirror.dir.clone() }, &first);
        (10..12).for_each(|update| drop(push(update)));
        let next = push(12);
        assert_eq!(forge.history(BRANCH), [next], "the branch begins again");
    });
}

#[test]
fn a_restarted_branch_is_not_a_rewritten_one() {
    on_both(|forge, open| {
        let stops = |last: &str, content: &str| Commit { history_limit: 3, ..after(last, content) };
        let (ours, other) = (open("ours"), open("other"));
        let first = ours.push(&stops("", "1"), &QUICK).unwrap().unwrap();
        for update in 0..8 {
            other.push(&short("other", &update.to_string()), &QUICK).unwrap().unwrap();
        }
        assert_eq!(whole_history(forge).len(), 3, "it began again twice");
        let second = open("new").push(&stops(&first, "2"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH).first(), Some(&second));
        forge.commit_on(None, BRANCH, &[("theirs", "1")]);
        let error = open("new").push(&stops(&second, "3"), &QUICK).unwrap_err();
        assert!(matches!(error, Error::BranchRewritten { .. }), "{error}");
    });
}

#[test]
fn writers_of_a_branch_that_begins_again_lose_no_update() {
    on_both(|forge, open| {
        const WRITERS: usize = 4;
        const UPDATES: usize = 8;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mirror = open(&format!("cache-{writer}"));
                scope.spawn(move || {
                    for update in 0..UPDATES {
                        let report = short(&format!("hub-{writer}"), &update.to_string());
                        mirror.push(&report, &QUICK).unwrap().unwrap();
                    }
                });
            }
        });
        let lengths: Vec<_> = whole_history(forge).iter().map(Vec::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), WRITERS * UPDATES, "one commit each: {lengths:?}");
        for writer in 0..WRITERS {
            assert_eq!(forge.file(BRANCH, &format!("hub-{writer}/x")), Some((UPDATES - 1).to_string()));
        }
    });
}

#[test]
fn a_server_that_forbids_an_archive_or_a_beginning_gets_one_more_commit() {
    let forbids_archives = "while read _ _ ref; do case $ref in refs/heads/*) ;; *) exit 1;; esac; done";
    let forbids_beginnings = "while read old new ref; do case $ref in refs/heads/*) \
         test $old = 0000000000000000000000000000000000000000 || \
         test $(git rev-list --count $new..$old) = 0 || exit 1;; esac; done";
    for hook in [forbids_archives, forbids_beginnings] {
        let forge = Forge::new();
        forge.hook("pre-receive", hook);
        let server = forge.serve();
        let mirror = forge.mirror("cache", &server.url);
        for update in 0..6 {
            mirror.push(&short("", &update.to_string()), &QUICK).unwrap().unwrap();
        }
        assert_eq!(forge.history(BRANCH).len(), 6, "{hook}");
        let archives = forge.repo().references_glob("refs/wheelwright/archive/*").unwrap().count();
        assert!(archives <= 1, "it is not asked with each report: {archives}");
        forge.hook("pre-receive", "exit 0");
        mirror.push(&short("", "6"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH).len(), 1, "{hook}");
    }
}
