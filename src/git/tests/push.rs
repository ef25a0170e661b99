use std::time::Duration;

use git2::{Oid, Repository};

use super::forge::{Forge, Server};
use crate::git::commit::{Written, write_commit};
use crate::git::push::{Attempt, swap};
use crate::git::{Commit, Error, LastPush, Mirror, Replaces, Retry};

/// Retries quickly, so that tests hardly wait. Without any wait, writers would use up their attempts while
/// another one holds the lock.
pub(super) const QUICK: Retry =
    Retry { attempts: 200, first: Duration::from_millis(1), longest: Duration::from_millis(20) };

pub(super) fn files(directory: &str, files: &[(&str, &str)]) -> Commit {
    Commit {
        branch: "wheelwright/status/hub".into(),
        directory: directory.into(),
        owner: "ConfigRepo fleet/a of hub 1".into(),
        writer: "process-1".into(),
        replaces: Replaces::Nothing,
        last: LastPush { commit: String::new(), previous: String::new(), recreates: true, adopts: true },
        files: files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect(),
        history_limit: 1_000,
        message: "report\n".into(),
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
        author: None,
        signer: None,
    }
}

pub(super) const BRANCH: &str = "wheelwright/status/hub";

/// Runs a test against a local path and against git's own server.
pub(super) fn on_both(test: impl Fn(&Forge, &dyn Fn(&str) -> Mirror)) {
    let forge = Forge::new();
    test(&forge, &|cache| forge.mirror(cache, &forge.url()));
    let forge = Forge::new();
    let server = forge.serve();
    test(&forge, &|cache| forge.mirror(cache, &server.url));
}

#[test]
fn a_commit_is_not_dated_before_its_parent() {
    on_both(|forge, open| {
        let mirror = open("cache");
        let ahead = files("", &[("README.md", "hi")]);
        mirror.push(&ahead, &QUICK).unwrap().unwrap();
        let behind =
            Commit { time: "2026-01-01T00:00:00Z".parse().unwrap(), ..files("", &[("README.md", "ho")]) };
        let second = mirror.push(&behind, &QUICK).unwrap().unwrap();
        let repo = Repository::open(forge.root().join("config.git")).unwrap();
        let second = repo.find_commit(Oid::from_str(&second).unwrap()).unwrap();
        assert_eq!(second.time().seconds(), ahead.time.as_second());
    });
}

#[test]
fn the_branch_is_created_without_parents_and_grows() {
    on_both(|forge, open| {
        forge.commit("main", &[("a", "1")]);
        let mirror = open("cache");
        let first = mirror
            .push(&files("", &[("README.md", "hi"), ("addons/x.json", "{}")]), &QUICK)
            .unwrap()
            .unwrap();
        assert_eq!(forge.history(BRANCH), vec![first.clone()]);
        assert_eq!(forge.file(BRANCH, "addons/x.json").as_deref(), Some("{}"));
        let second = mirror.push(&files("", &[("README.md", "ho")]), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [second, first]);
        assert_eq!(forge.file(BRANCH, "addons/x.json"), None, "what the report no longer holds is gone");
    });
}

#[test]
fn a_commit_has_the_author_of_the_report_and_no_further_line() {
    on_both(|forge, open| {
        let author = |number: usize| {
            let (name, email) = [("Fleet", "fleet@example.com"), ("A\ntree 1 <b>", "x>\ny")][number];
            Some((name.to_owned(), email.to_owned()))
        };
        let mirror = open("cache");
        for (number, expected) in ["Fleet <fleet@example.com>", "Atree 1 b <xy>"].into_iter().enumerate() {
            let report = files("", &[("x", &number.to_string())]);
            let report = Commit { author: author(number), ..report };
            let pushed = mirror.push(&report, &QUICK).unwrap().unwrap();
            let repo = forge.repo();
            let commit = repo.find_commit(pushed.parse().unwrap()).unwrap();
            for person in [commit.author(), commit.committer()] {
                assert_eq!(person.to_string(), expected);
            }
        }
    });
}

#[test]
fn equal_files_make_no_commit() {
    on_both(|forge, open| {
        let mirror = open("cache");
        mirror.push(&files("hub-a", &[("x", "1")]), &QUICK).unwrap().unwrap();
        assert_eq!(mirror.push(&files("hub-a", &[("x", "1")]), &QUICK), Ok(None));
        assert_eq!(
            open("after-restart").push(&files("hub-a", &[("x", "1")]), &QUICK),
            Ok(None),
            "w12: a restart repeats nothing"
        );
        assert_eq!(forge.history(BRANCH).len(), 1);
    });
}

#[test]
fn files_and_commits_of_others_stay() {
    on_both(|forge, open| {
        let mirror = open("cache");
        mirror.push(&files("hub-a", &[("x", "1")]), &QUICK).unwrap();
        let human =
            forge.commit(BRANCH, &[("notes.md", "mine"), ("hub-a/x", "edited"), ("hub-a-not/x", "theirs")]);
        mirror.push(&files("hub-a", &[("x", "2")]), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH).get(1), Some(&human));
        assert_eq!(forge.file(BRANCH, "notes.md").as_deref(), Some("mine"));
        assert_eq!(forge.file(BRANCH, "hub-a-not/x").as_deref(), Some("theirs"));
        assert_eq!(forge.file(BRANCH, "hub-a/x").as_deref(), Some("2"), "ours is put right");
    });
}

#[test]
fn reports_continue_on_a_deleted_or_replaced_branch() {
    on_both(|forge, open| {
        let mirror = open("cache");
        mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap();
        forge.repo().find_reference(&format!("refs/heads/{BRANCH}")).unwrap().delete().unwrap();
        mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap().unwrap();
        let other = forge.commit_on(None, BRANCH, &[("unrelated", "root")]);
        let ours = mirror.push(&files("hub", &[("x", "1")]), &QUICK).unwrap().unwrap();
        assert_eq!(forge.history(BRANCH), [ours, other], "never forced");
    });
}

/// Lets five writers push updates to one branch at the same time, and checks that the last update of each is
/// there.
fn race(forge: &Forge, open: &dyn Fn(&str) -> Mirror, updates: usize, retry: &Retry) {
    const WRITERS: usize = 5;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let mirror = open(&format!("cache-{writer}"));
            scope.spawn(move || {
                for update in 0..updates {
                    let report = files(&format!("hub-{writer}"), &[("state", &update.to_string())]);
                    mirror.push(&report, retry).unwrap().unwrap();
                }
            });
        }
    });
    assert_eq!(forge.history(BRANCH).len(), WRITERS * updates, "linear, one commit each");
    for writer in 0..WRITERS {
        assert_eq!(forge.file(BRANCH, &format!("hub-{writer}/state")), Some((updates - 1).to_string()));
    }
}

#[test]
fn no_writer_loses_an_update() {
    on_both(|forge, open| race(forge, open, 8, &QUICK));
}

#[test]
fn no_writer_loses_one_of_two_hundred_updates_with_the_waits_of_the_operator() {
    let forge = Forge::new();
    let open = |cache: &str| forge.mirror(cache, &forge.url());
    race(&forge, &open, 200, &Retry::default());
}

#[test]
fn one_of_two_writers_creates_a_branch_of_a_local_repository() {
    let forge = Forge::new();
    let commits = ["1", "2"].map(|number| forge.commit_on(None, "main", &[("x", number)]).parse().unwrap());
    let start = std::sync::Barrier::new(commits.len());
    let create = |commit: Oid| {
        let (repo, start) = (forge.repo(), &start);
        move || {
            let names = (0..5_000).map(|number| format!("refs/heads/{number}"));
            let swapped = names.map(|name| {
                start.wait();
                matches!(swap(&repo, &name, None, commit), Ok(Attempt::Pushed(_)))
            });
            swapped.collect::<Vec<_>>()
        }
    };
    let [one, other] = std::thread::scope(|scope| {
        commits.map(|commit| scope.spawn(create(commit))).map(|thread| thread.join().unwrap())
    });
    let both: Vec<_> = (0..one.len()).filter(|at| one[*at] && other[*at]).collect();
    assert_eq!(both, Vec::<usize>::new(), "branches that two writers created");
}

#[test]
fn five_writers_land_within_ten_seconds_with_the_waits_of_the_operator() {
    on_both(|forge, open| {
        const WRITERS: usize = 5;
        let (sent, done) = std::sync::mpsc::channel();
        for writer in 0..WRITERS {
            let (mirror, sent) = (open(&format!("cache-{writer}")), sent.clone());
            std::thread::spawn(move || {
                let report = files(&format!("hub-{writer}"), &[("state", "1")]);
                sent.send(mirror.push(&report, &Retry::default()).map(|_| ())).unwrap();
            });
        }
        for _ in 0..WRITERS {
            assert_eq!(done.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(()));
        }
        assert_eq!(forge.history(BRANCH).len(), WRITERS, "linear, one commit each");
        for writer in 0..WRITERS {
            assert_eq!(forge.file(BRANCH, &format!("hub-{writer}/state")).as_deref(), Some("1"));
        }
    });
}

#[test]
fn a_server_that_declines_three_times_gets_one_commit_at_the_fourth() {
    let forge = Forge::new();
    forge.hook("pre-receive", "echo . >> tries; test $(wc -l < tries) -gt 3");
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    for number in 0..3 {
        let error = mirror.push(&files("", &[("x", &number.to_string())]), &QUICK).unwrap_err();
        assert!(matches!(error, Error::PushRejected { .. }), "{error}");
    }
    let pushed = mirror.push(&files("", &[("x", "3")]), &QUICK).unwrap().unwrap();
    assert_eq!((forge.history(BRANCH), forge.file(BRANCH, "x")), (vec![pushed], Some("3".into())));
}

#[test]
fn a_commit_that_a_killed_process_did_not_push_is_not_made_twice() {
    let forge = Forge::new();
    let report = files("", &[("x", "1")]);
    let repository = Repository::open(forge.path()).unwrap();
    assert!(matches!(write_commit(&repository, None, &report, None), Ok(Written::Commit(_))));
    let mirror = forge.mirror("cache", &forge.url());
    let pushed = mirror.push(&report, &QUICK).unwrap().unwrap();
    assert_eq!(mirror.push(&report, &QUICK).unwrap(), None);
    assert_eq!(forge.history(BRANCH), [pushed]);
}

#[test]
fn a_server_that_is_killed_during_a_push_stores_nothing() {
    let forge = Forge::new();
    forge.hook("pre-receive", "kill -9 $PPID");
    let server = forge.serve();
    let dies = forge.mirror("cache", &server.url);
    dies.push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    drop(dies);
    forge.hook("pre-receive", "exit 0");
    let pushed = forge.mirror("cache", &server.url).push(&files("", &[("x", "2")]), &QUICK).unwrap().unwrap();
    assert_eq!((forge.history(BRANCH), forge.file(BRANCH, "x")), (vec![pushed], Some("2".into())));
}

#[test]
fn a_hook_that_declines_is_a_rejection_with_its_message() {
    let forge = Forge::new();
    forge.hook("pre-receive", "echo 'branch is protected, password=hunter22' >&2; exit 1");
    let server = forge.serve();
    let error = forge.mirror("cache", &server.url).push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    assert!(matches!(error, Error::PushRejected { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("branch is protected, password=[redacted]") && !message.contains("hunter22"),
        "{message}"
    );
    assert_eq!(forge.tip(BRANCH), None);
    assert!(server.connections.load(std::sync::atomic::Ordering::Relaxed) <= 3, "a rejection is not retried");

    forge.hook("pre-receive", "exit 0");
    assert!(forge.mirror("cache", &server.url).push(&files("", &[("x", "1")]), &QUICK).unwrap().is_some());
}

#[test]
fn a_declining_update_hook_is_not_success() {
    let forge = Forge::new();
    forge.hook("update", "exit 1");
    let server = forge.serve();
    let error = forge.mirror("cache", &server.url).push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    assert!(matches!(error, Error::PushRejected { .. }), "libgit2 says Ok here; {error}");
}

#[test]
fn a_push_whose_connection_was_lost_before_the_branch_moved_is_retried_later() {
    let forge = Forge::new();
    forge.hook("pre-receive", "kill -9 $PPID");
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    let error = mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. } | Error::PushRejected { .. }), "{error}");
    forge.hook("pre-receive", "exit 0");
    mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap().unwrap();
    assert_eq!(forge.history(BRANCH).len(), 1);
}

#[test]
fn a_connection_lost_after_the_branch_moved_is_success() {
    let forge = Forge::new();
    forge.hook("post-receive", "kill -9 $PPID");
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    let pushed = mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap().unwrap();
    assert_eq!(forge.history(BRANCH), [pushed]);
    assert_eq!(mirror.push(&files("", &[("x", "1")]), &QUICK), Ok(None));
}

#[test]
fn the_push_to_a_branch_that_always_moves_is_abandoned() {
    let forge = Forge::new();
    forge.commit(BRANCH, &[("a", "1")]);
    // During each push, the hook moves the branch like another client, and the server's own check rejects the
    // push.
    let script = "c=$(git commit-tree -p refs/heads/B -m other 'refs/heads/B^{tree}') && unset GIT_QUARANTINE_PATH && \
                  env -u GIT_QUARANTINE_PATH git update-ref refs/heads/B $c; exit 0";
    forge.hook("pre-receive", &format!("export GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@x GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@x\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n{}", script.replace('B', BRANCH)));
    let server = forge.serve();
    let retry = Retry { attempts: 3, ..QUICK };
    let error = forge.mirror("cache", &server.url).push(&files("hub", &[("x", "1")]), &retry).unwrap_err();
    assert!(matches!(error, Error::PushContended { .. }), "{error}");
    assert_eq!(forge.history(BRANCH).len(), 4, "the others' commits all stay");
}

#[test]
fn a_branch_that_is_checked_out_is_not_pulled_from_under_its_work_tree() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = git2::RepositoryInitOptions::new();
    Repository::init_opts(dir.path(), options.initial_head(BRANCH)).unwrap();
    let forge = Forge::new();
    let mirror = forge.mirror("cache", dir.path().to_str().unwrap());
    let error = mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    assert!(matches!(error, Error::PushRejected { .. }), "{error}");
}

#[test]
fn a_silent_server_does_not_hold_a_push() {
    let (forge, server) = (Forge::new(), Server::silent());
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.transport.idle = Duration::from_secs(1);
    let error = mirror.push(&files("", &[("x", "1")]), &QUICK).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "{error}");
}

#[test]
fn names_that_are_not_branches_or_paths_are_refused() {
    let mirror = Forge::new().local();
    let branch = Commit { branch: "-x".into(), ..files("", &[]) };
    assert_eq!(mirror.push(&branch, &QUICK).unwrap_err().reason(), "InvalidRef");
    for path in ["../x", ".git/config", "a//b", "/x"] {
        assert!(mirror.push(&files("", &[(path, "1")]), &QUICK).is_err(), "{path}");
    }
}

#[test]
fn waits_grow_up_to_a_limit() {
    let retry = Retry::default();
    let waits: Vec<_> = (0..retry.attempts).map(|attempt| retry.wait(attempt, Oid::ZERO_SHA1)).collect();
    assert!(waits.is_sorted() && waits.iter().all(|wait| *wait <= retry.longest));
    assert!(waits.iter().sum::<Duration>() < Duration::from_secs(60));
}

#[test]
fn the_report_of_another_hub_and_the_files_of_a_person_stay() {
    on_both(|forge, open| {
        forge.commit(BRANCH, &[("README.md", "by hand"), ("docs/a.md", "by hand")]);
        let mirror = open("cache");
        let error = mirror.push(&files("", &[("README.md", "report")]), &QUICK).unwrap_err();
        assert!(matches!(error, Error::NotOurs { .. }), "{error}");
        assert!(error.to_string().contains("has a file README.md that no report wrote"), "{error}");

        mirror.push(&files("hub", &[("README.md", "1"), ("addons/x.md", "1")]), &QUICK).unwrap().unwrap();
        let other =
            Commit { owner: "ConfigRepo fleet/a of hub 2".into(), ..files("hub", &[("README.md", "2")]) };
        let error = open("other").push(&other, &QUICK).unwrap_err();
        assert!(error.to_string().contains("the report of ConfigRepo fleet/a of hub 1"), "{error}");
        assert_eq!(forge.file(BRANCH, "hub/README.md").as_deref(), Some("1"));
        assert_eq!(forge.file(BRANCH, "README.md").as_deref(), Some("by hand"));
    });
}

#[test]
fn a_record_of_missing_files_or_a_broken_record_removes_nothing_else() {
    on_both(|forge, open| {
        let mirror = open("cache");
        mirror.push(&files("", &[("x", "1"), ("y", "1")]), &QUICK).unwrap().unwrap();
        let record = forge.file(BRANCH, ".wheelwright.json").unwrap();
        forge.commit(BRANCH, &[("x", "1"), ("keep", "1"), (".wheelwright.json", &record)]);
        mirror.push(&files("", &[("x", "2")]), &QUICK).unwrap().unwrap();
        assert_eq!(forge.file(BRANCH, "keep").as_deref(), Some("1"));
        forge.commit(BRANCH, &[("keep", "1"), (".wheelwright.json", "[")]);
        let error = mirror.push(&files("", &[("x", "3")]), &QUICK).unwrap_err();
        assert!(matches!(error, Error::NotOurs { .. }), "{error}");
    });
}

#[test]
fn a_report_of_thousands_of_files_with_long_names_has_a_successor() {
    let forge = Forge::new();
    let mirror = forge.local();
    let report = |content: &str| {
        let names = (0..6_000).map(|number| format!("{number:0>200}"));
        Commit { files: names.map(|name| (name, content.to_owned())).collect(), ..files("", &[]) }
    };
    mirror.push(&report("1"), &QUICK).unwrap().unwrap();
    mirror.push(&report("2"), &QUICK).unwrap().unwrap();
}
