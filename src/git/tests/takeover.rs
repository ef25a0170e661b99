use super::push::{BRANCH, QUICK, files, on_both};
use crate::git::Replaces::{self, Any, Last, Nothing};
use crate::git::{Commit, Error, LastPush};

/// Returns a report with the last two pushed commits of its hub.
fn by(writer: &str, replaces: Replaces, [previous, last]: [&str; 2], content: &str) -> Commit {
    let report = files("hub", &[("README.md", content)]);
    let last = LastPush { commit: last.into(), previous: previous.into(), ..report.last };
    Commit { writer: writer.into(), replaces, last, ..report }
}

#[test]
fn a_copy_of_the_hub_is_fenced_until_a_person_makes_it_the_writer() {
    on_both(|forge, open| {
        let (hub, copy) = (open("hub"), open("copy"));
        let first = hub.push(&by("1", Last, ["", ""], "a"), &QUICK).unwrap().unwrap();
        let second = hub.push(&by("1", Nothing, ["", &first], "b"), &QUICK).unwrap().unwrap();
        let third = hub.push(&by("1", Nothing, [&first, &second], "c"), &QUICK).unwrap().unwrap();
        let error = copy.push(&by("2", Last, ["", &first], "d"), &QUICK).unwrap_err();
        assert!(matches!(error, Error::Fenced { .. }), "{error}");
        assert!(error.to_string().contains("(writer 1)"), "{error}");
        let fourth =
            hub.push(&by("1", Nothing, [&second, &third], "e"), &QUICK).unwrap().expect("the hub goes on");
        copy.push(&by("2", Any, ["", &first], "f"), &QUICK).unwrap().unwrap();
        let error = hub.push(&by("1", Nothing, [&third, &fourth], "g"), &QUICK).unwrap_err();
        assert!(error.to_string().contains("(writer 2)"), "{error}");
        assert_eq!(forge.file(BRANCH, "hub/README.md").as_deref(), Some("f"));
    });
}

#[test]
fn the_next_process_of_a_hub_continues_its_report() {
    on_both(|forge, open| {
        let first = open("1").push(&by("1", Last, ["", ""], "a"), &QUICK).unwrap().unwrap();
        let again = open("2").push(&by("2", Last, ["", &first], "a"), &QUICK);
        assert_eq!(again, Ok(None), "a restart commits nothing");
        forge.commit(BRANCH, &[("note", "of a person")]);
        let second = open("2").push(&by("2", Last, ["", &first], "b"), &QUICK).unwrap().unwrap();
        open("3").push(&by("3", Last, [&first, &second], "c"), &QUICK).unwrap().unwrap();
        // The third process ended before it recorded its push.
        open("4").push(&by("4", Last, [&first, &second], "d"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.file(BRANCH, "hub/README.md").as_deref(), Some("d"));
    });
}

#[test]
fn the_next_process_of_a_hub_continues_on_a_restarted_branch() {
    on_both(|forge, open| {
        let hub = open("hub");
        let first = hub.push(&by("1", Last, ["", ""], "a"), &QUICK).unwrap().unwrap();
        let second = hub.push(&by("1", Nothing, ["", &first], "b"), &QUICK).unwrap().unwrap();
        let report = files("other", &[("README.md", "other")]);
        let other = Commit { owner: "other".into(), history_limit: 1, ..report };
        open("other").push(&other, &QUICK).unwrap().unwrap();
        open("next").push(&by("2", Last, [&first, &second], "c"), &QUICK).unwrap().unwrap();
        assert_eq!(forge.file(BRANCH, "hub/README.md").as_deref(), Some("c"));
    });
}
