//! Files that are too large to read.

use super::forge::Forge;
use super::push::{QUICK, files};
use super::web::{Behavior, Web};
use crate::git::{Commit, Error, History, Mirror, RefSpec, rewind};
use object::tree::TreeEntry;

/// More than the largest object of a pack.
const LARGE: usize = 40 << 20;
/// More than the largest file to read, but less than the largest object in a pack.
const MEDIUM: usize = 9 << 20;
const LEFT_OUT: TreeEntry = TreeEntry::Large { limit: 8 << 20 };

fn forge(leaves_out: bool) -> Forge {
    let forge = Forge::new();
    forge.repo().config().unwrap().set_bool("uploadpack.allowFilter", leaves_out).unwrap();
    forge
}

fn main() -> RefSpec {
    RefSpec::branch("main").unwrap()
}

fn fetch(mirror: &mut Mirror, accepted: Option<&str>) -> Result<String, Error> {
    mirror.fetch(&main(), History { accepted, allowed: None }).map(|checkout| checkout.revision.clone())
}

#[test]
fn a_large_file_is_named_and_the_others_are_read() {
    let forge = forge(true);
    let zeros = "0".repeat(LARGE);
    forge.commit("main", &[("a", "1"), ("large", &zeros), ("medium", &zeros[..MEDIUM])]);
    let (git, web) = (forge.serve(), Web::start(&forge, Behavior::default()));
    let mut mirrors = [forge.mirror("git", &git.url), forge.mirror("web", &web.url), forge.local()];
    mirrors[1].set_credentials(web.credentials(&[])).unwrap();
    for content in ["0", "1"] {
        for mirror in &mut mirrors {
            let checkout = mirror.fetch(&main(), History::default()).unwrap();
            let entry = |path| checkout.tree.entry(path);
            assert_eq!((entry("large"), entry("medium")), (Some(&LEFT_OUT), Some(&LEFT_OUT)));
            assert!(checkout.tree.file("a").is_some());
        }
        forge.commit("main", &[("large", &content.repeat(LARGE + 1))]);
    }
    // The server could send this as a delta to the omitted file.
    forge.commit("main", &[("large", &zeros[..MEDIUM / 2])]);
    for mirror in &mut mirrors {
        let checkout = mirror.fetch(&main(), History::default()).unwrap();
        assert_eq!(checkout.tree.file("large").map(|bytes| bytes.len()), Some(MEDIUM / 2));
    }
}

#[test]
fn a_reverted_large_file_does_not_block_later_commits() {
    let forge = forge(true);
    let (git, web) = (forge.serve(), Web::start(&forge, Behavior::default()));
    let accepted = forge.commit("main", &[("a", "1")]);
    let mut mirrors = [forge.mirror("git", &git.url), forge.mirror("web", &web.url)];
    mirrors[1].set_credentials(web.credentials(&[])).unwrap();
    for mirror in &mut mirrors {
        fetch(mirror, None).unwrap();
    }
    forge.commit("main", &[("large", &"0".repeat(LARGE))]);
    let reverted = forge.commit("main", &[("large", "")]);
    for mirror in &mut mirrors {
        assert_eq!(fetch(mirror, Some(&accepted)).as_ref(), Ok(&reverted));
    }
    let next = forge.commit("main", &[("a", "2")]);
    for mirror in &mut mirrors {
        assert_eq!(fetch(mirror, Some(&reverted)).as_ref(), Ok(&next));
    }
    let empty = fetch(&mut forge.mirror("empty", &git.url), Some(&accepted));
    assert_eq!(empty.as_ref(), Ok(&next), "a mirror that was lost");
}

#[test]
fn a_server_without_filters_needs_one_approval_after_a_large_file() {
    let forge = forge(false);
    let git = forge.serve();
    let accepted = forge.commit("main", &[("a", "1")]);
    let mut mirror = forge.mirror("cache", &git.url);
    fetch(&mut mirror, None).unwrap();
    forge.commit("main", &[("large", &"0".repeat(LARGE))]);
    let error = fetch(&mut mirror, Some(&accepted)).unwrap_err().to_string();
    assert!(
        error.contains(
            "an object of more than 32 MiB; take the file out of the repository, or let the server"
        )
    );
    let reverted = forge.commit("main", &[("large", "")]);
    let error = fetch(&mut mirror, Some(&accepted)).unwrap_err();
    assert!(
        matches!(&error, Error::HistoryRefused { from, to, .. } if (from, to) == (&accepted, &reverted)),
        "{error}"
    );
    assert_eq!(error.reason(), "SourceRefused");
    let step = rewind(&accepted, &reverted);
    let allowed = History { accepted: Some(&accepted), allowed: Some(&step) };
    assert_eq!(mirror.fetch(&main(), allowed).unwrap().revision, reverted);
    let next = forge.commit("main", &[("a", "2")]);
    assert_eq!(fetch(&mut mirror, Some(&reverted)).as_ref(), Ok(&next), "later commits need no approval");
}

#[test]
fn a_report_is_pushed_next_to_a_large_file() {
    let forge = forge(true);
    let large = forge.commit("main", &[("large", &"0".repeat(LARGE))]);
    let git = forge.serve();
    for content in ["1", "2"] {
        let report = Commit { branch: "main".into(), ..files("hubs/1", &[("summary.json", content)]) };
        let pushed = forge.mirror("writes", &git.url).push(&report, &QUICK).unwrap().unwrap();
        assert_eq!(forge.history("main")[0], pushed);
    }
    assert_eq!(forge.history("main")[2], large);
    assert_eq!(forge.file("main", "large").map(|text| text.len()), Some(LARGE));
}
