//! Notes on commits, as shown by git.

use std::process::Command;

use super::forge::Forge;
use super::push::{QUICK, on_both};
use crate::git::{Error, Note};

fn note(commit: &str, context: &str, text: &str) -> Note {
    let time = "2026-01-02T03:04:05Z".parse().unwrap();
    Note { commit: commit.into(), context: context.into(), text: text.into(), time }
}

/// Runs `git notes --ref=wheelwright` in the repository.
fn git_notes(forge: &Forge, args: &[&str]) -> String {
    let who = ["-c", "user.name=A User", "-c", "user.email=user@example.org"];
    let notes = ["notes", "--ref=wheelwright"];
    let mut git = Command::new("git");
    git.args(who).args(notes).args(args).current_dir(forge.path()).env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.env("HOME", forge.root()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of commits in the notes.
fn versions(forge: &Forge) -> usize {
    let repo = forge.repo();
    let mut walk = repo.revwalk().unwrap();
    walk.push_ref("refs/notes/wheelwright").unwrap();
    walk.count()
}

#[test]
fn git_shows_the_state_of_a_commit_as_its_note() {
    on_both(|forge, open| {
        let (first, second) = (forge.commit("main", &[("a", "1")]), forge.commit("main", &[("a", "2")]));
        let mirror = open("cache");
        for text in ["pending: x is done on 1 of 2 clusters", "success: every cluster\nis up to date"] {
            mirror.push_note(&note(&first, "hub/1", text), &QUICK).unwrap();
        }
        mirror.push_note(&note(&second, "hub/1", "pending: not ready"), &QUICK).unwrap();
        assert_eq!(git_notes(forge, &["show", &first]), "hub/1: success: every cluster is up to date\n");
        assert_eq!(git_notes(forge, &["show", &second]), "hub/1: pending: not ready\n");
        assert_eq!(versions(forge), 3);
        mirror.push_note(&note(&second, "hub/1", "pending: not ready"), &QUICK).unwrap();
        open("after-restart").push_note(&note(&second, "hub/1", "pending: not ready"), &QUICK).unwrap();
        assert_eq!(versions(forge), 3, "the same state is one commit");
    });
}

#[test]
fn lines_of_people_and_of_other_hubs_stay_in_a_note() {
    on_both(|forge, open| {
        let commit = forge.commit("main", &[("a", "1")]);
        git_notes(forge, &["add", "-m", "seen by a person", &commit]);
        let other = open("other");
        open("cache").push_note(&note(&commit, "hub/1", "pending: a"), &QUICK).unwrap();
        other.push_note(&note(&commit, "hub/10", "failure: b"), &QUICK).unwrap();
        open("cache").push_note(&note(&commit, "hub/1", "success: c"), &QUICK).unwrap();
        let shown = git_notes(forge, &["show", &commit]);
        assert_eq!(shown, "seen by a person\nhub/10: failure: b\nhub/1: success: c\n");
        git_notes(forge, &["add", "-f", "-m", &"x".repeat(64 << 10), &commit]);
        let error = other.push_note(&note(&commit, "hub/1", "pending: d"), &QUICK).unwrap_err();
        assert!(
            error.to_string().contains(&format!("the note of {commit} is longer than 64 KiB")),
            "{error}"
        );
    });
}

#[test]
fn no_writer_of_notes_loses_a_line() {
    on_both(|forge, open| {
        let commit = forge.commit("main", &[("a", "1")]);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (mirror, commit) = (open(&format!("cache-{writer}")), &commit);
                scope.spawn(move || {
                    for update in 0..4 {
                        let line = note(commit, &format!("hub/{writer}"), &format!("pending: {update}"));
                        mirror.push_note(&line, &QUICK).unwrap();
                    }
                });
            }
        });
        let shown = git_notes(forge, &["show", &commit]);
        let mut lines: Vec<_> = shown.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [0, 1, 2, 3].map(|writer| format!("hub/{writer}: pending: 3")));
        assert_eq!(versions(forge), 16, "one commit each");
    });
}

#[test]
fn a_note_that_the_server_refuses_names_its_reference() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    forge.hook("pre-receive", "echo 'no notes here' >&2; exit 1");
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    let error = mirror.push_note(&note(&commit, "hub/1", "pending: a"), &QUICK).unwrap_err();
    assert!(matches!(error, Error::PushRejected { .. }), "{error}");
    assert!(error.to_string().contains("refuses the push to refs/notes/wheelwright"), "{error}");
}

#[test]
fn a_note_is_not_dated_before_the_one_of_a_hub_whose_clock_is_ahead() {
    on_both(|forge, open| {
        let commit = forge.commit("main", &[("a", "1")]);
        let ahead = note(&commit, "hub/1", "pending: a");
        let behind = Note { time: "2026-01-01T00:00:00Z".parse().unwrap(), ..note(&commit, "hub/2", "b") };
        open("cache").push_note(&ahead, &QUICK).unwrap();
        open("other").push_note(&behind, &QUICK).unwrap();
        let tip = forge.repo().refname_to_id("refs/notes/wheelwright").unwrap();
        assert_eq!(forge.repo().find_commit(tip).unwrap().time().seconds(), ahead.time.as_second());
    });
}
