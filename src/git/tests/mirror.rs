use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use git2::Oid;

use super::forge::{Forge, Server, commit_tree, raw_tree};
use super::web::{Behavior, Web};
use crate::git::{Credentials, History, RefSpec, TreeLimits, rewind};
use object::tree::{Checkout, TreeEntry};

fn main() -> RefSpec {
    RefSpec::branch("main").unwrap()
}

fn after(revision: &str) -> History<'_> {
    History { accepted: Some(revision), allowed: None }
}

fn paths(checkout: &Checkout) -> Vec<&str> {
    checkout.tree.below("").map(|(path, _)| path).collect()
}

#[test]
fn a_branch_is_followed() {
    let forge = Forge::new();
    let first = forge.commit("main", &[("a/x.yaml", "1"), ("b", "2")]);
    let mut mirror = forge.local();
    let checkout = mirror.fetch(&main(), History::default()).unwrap();
    assert_eq!((checkout.revision.as_str(), paths(&checkout)), (first.as_str(), vec!["a/x.yaml", "b"]));
    assert!(Arc::ptr_eq(&checkout, &mirror.fetch(&main(), after(&first)).unwrap()));

    let second = forge.commit("main", &[("b", "3")]);
    let newer = mirror.fetch(&main(), after(&first)).unwrap();
    assert_eq!(
        (newer.revision.as_str(), &**newer.tree.file("b").unwrap()),
        (second.as_str(), b"3".as_slice())
    );
    assert!(
        Arc::ptr_eq(checkout.tree.file("a/x.yaml").unwrap(), newer.tree.file("a/x.yaml").unwrap()),
        "unchanged files are shared"
    );
}

#[test]
fn a_lookup_returns_the_target_of_a_reference_without_a_download() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let server = forge.serve();
    let mirror = forge.mirror("cache", &server.url);
    assert_eq!(mirror.look_up(&main()), Ok(Some(commit.clone())));
    assert!(mirror.repository().unwrap().find_commit(Oid::from_str(&commit).unwrap()).is_err());
    assert_eq!(mirror.look_up(&RefSpec::commit(&commit).unwrap()), Ok(None), "no server lists commits");
    let missing = mirror.look_up(&RefSpec::branch("prod").unwrap()).unwrap_err();
    assert_eq!(missing.reason(), "RefNotFound");
    let refusing = Server::unauthorized();
    let refused = forge.mirror("refused", &refusing.url).look_up(&main()).unwrap_err();
    assert_eq!(refused.reason(), "SourceUnauthorized");
}

#[test]
fn tags_versions_and_commits_are_followed() {
    let forge = Forge::new();
    let old = forge.commit("main", &[("a", "1")]);
    let new = forge.commit("main", &[("a", "2")]);
    let (repo, me) = (forge.repo(), git2::Signature::new("u", "u@x", &git2::Time::new(0, 0)).unwrap());
    let object = |id: &str| repo.find_object(Oid::from_str(id).unwrap(), None).unwrap();
    let tag = repo.tag("v1.0.0", &object(&old), &me, "annotated", false).unwrap();
    repo.tag("stable", &repo.find_object(tag, None).unwrap(), &me, "a tag of a tag", false).unwrap();
    repo.reference("refs/tags/v1.2.0", Oid::from_str(&new).unwrap(), false, "").unwrap();

    let mut mirror = forge.local();
    let mut revision =
        |want: RefSpec| mirror.fetch(&want, History::default()).map(|checkout| checkout.revision.clone());
    assert_eq!(revision(RefSpec::tag("stable").unwrap()).unwrap(), old);
    assert_eq!(revision(RefSpec::semver("^1").unwrap()).unwrap(), new);
    assert_eq!(revision(RefSpec::semver("~1.0").unwrap()).unwrap(), old);
    assert_eq!(revision(RefSpec::commit(&old).unwrap()).unwrap(), old);
    assert_eq!(revision(RefSpec::semver("^2").unwrap()).unwrap_err().reason(), "RefNotFound");
    assert_eq!(revision(RefSpec::commit(&"1".repeat(40)).unwrap()).unwrap_err().reason(), "RefNotFound");
}

#[test]
fn a_branch_may_have_the_name_of_a_deleted_branchs_directory() {
    let forge = Forge::new();
    let first = forge.commit("x", &[("a", "1")]);
    let server = forge.serve();
    let mut mirror = forge.mirror("names", &server.url);
    let fetch = |mirror: &mut crate::git::Mirror, branch: &str| {
        mirror.fetch(&RefSpec::Branch(branch.into()), History::default()).unwrap().revision.clone()
    };
    assert_eq!(fetch(&mut mirror, "x"), first);
    let by_id = |mirror: &mut crate::git::Mirror, id: &str| {
        mirror.fetch(&RefSpec::commit(id).unwrap(), History::default())
    };
    assert_eq!(by_id(&mut forge.mirror("ids", &server.url), &first).unwrap().revision, first);
    let mut ids = forge.mirror("ids", &server.url);
    forge.forget("x");
    let second = forge.commit("x/y", &[("a", "2")]);
    assert_eq!(fetch(&mut mirror, "x/y"), second);
    assert_eq!(by_id(&mut ids, &second).unwrap().revision, second);
}

#[test]
fn an_empty_repository_and_a_missing_branch_are_named() {
    let forge = Forge::new();
    let mut mirror = forge.local();
    assert_eq!(mirror.fetch(&main(), History::default()).unwrap_err().reason(), "SourceEmpty");
    forge.commit("trunk", &[("a", "1")]);
    let error = mirror.fetch(&main(), History::default()).unwrap_err();
    assert!(error.to_string().starts_with("branch main does not exist in file://"), "{error}");
    assert!(error.to_string().ends_with("it has trunk"), "{error}");
}

#[test]
fn a_tag_that_is_not_a_commit_is_refused() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let repo = forge.repo();
    repo.reference("refs/tags/blob", repo.blob(b"x").unwrap(), false, "").unwrap();
    let error = forge.local().fetch(&RefSpec::tag("blob").unwrap(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceRefused");
}

#[test]
fn a_force_push_is_refused_until_a_person_allows_it() {
    let forge = Forge::new();
    let base = forge.commit("main", &[("a", "1")]);
    let good = forge.commit("main", &[("a", "2")]);
    let mut mirror = forge.local();
    mirror.fetch(&main(), History::default()).unwrap();

    let cases = [
        ("an older commit", forge.commit_on(None, "main", &[("a", "0")])),
        ("an unrelated root", forge.commit_on(None, "main", &[("z", "9")])),
        ("a sibling", forge.commit_on(Some(Oid::from_str(&base).unwrap()), "main", &[("a", "3")])),
    ];
    for (what, to) in cases {
        forge.repo().reference("refs/heads/main", Oid::from_str(&to).unwrap(), true, "").unwrap();
        let error = mirror.fetch(&main(), after(&good)).unwrap_err();
        assert_eq!(error.reason(), "SourceRewound", "{what}");
        assert!(error.to_string().contains(&format!("moved from {good} to {to}")), "{error}");
        let step = rewind(&good, &to);
        let allowed = History { accepted: Some(&good), allowed: Some(&step) };
        assert_eq!(mirror.fetch(&main(), allowed).unwrap().revision, to, "{what}");
        for other in [to.clone(), rewind(&good, &base), rewind(&base, &to)] {
            let other = History { accepted: Some(&good), allowed: Some(&other) };
            assert!(mirror.fetch(&main(), other).is_err(), "an approval is for one step");
        }
    }
    assert_eq!(
        mirror.checkout(&good).unwrap().unwrap().revision,
        good,
        "the last good commit stays readable"
    );
}

#[test]
fn allowing_a_rewind_does_not_allow_a_later_one_to_the_same_commit() {
    let forge = Forge::new();
    let old = forge.commit("main", &[("a", "1")]);
    let bad = forge.commit("main", &[("a", "2")]);
    let rewind_main = || {
        forge.repo().reference("refs/heads/main", Oid::from_str(&old).unwrap(), true, "").unwrap();
    };
    rewind_main();
    let mut mirror = forge.local();
    let step = rewind(&bad, &old);
    let allowing = |accepted| History { accepted: Some(accepted), allowed: Some(&step) };
    assert!(mirror.fetch(&main(), allowing(&bad)).is_ok());
    let good = forge.commit("main", &[("a", "3")]);
    assert!(mirror.fetch(&main(), allowing(&old)).is_ok(), "the branch goes on from there");
    rewind_main();
    assert_eq!(mirror.fetch(&main(), allowing(&good)).unwrap_err().reason(), "SourceRewound");
}

#[test]
fn a_rewind_while_we_were_away_is_noticed_with_an_empty_cache() {
    let forge = Forge::new();
    let good = forge.commit("main", &[("a", "2")]);
    forge.commit_on(None, "main", &[("a", "0")]);
    let mut mirror = forge.mirror("fresh", &forge.url());
    assert_eq!(mirror.fetch(&main(), after(&good)).unwrap_err().reason(), "SourceRewound");
    assert_eq!(mirror.checkout(&"1".repeat(40)).unwrap(), None);
}

#[test]
fn a_moved_tag_is_a_rewind_even_forwards() {
    let forge = Forge::new();
    let old = forge.commit("main", &[("a", "1")]);
    let new = forge.commit("main", &[("a", "2")]);
    let mut mirror = forge.local();
    let tag = RefSpec::tag("v1").unwrap();
    forge.repo().reference("refs/tags/v1", Oid::from_str(&new).unwrap(), true, "").unwrap();
    assert_eq!(mirror.fetch(&tag, after(&old)).unwrap_err().reason(), "SourceRewound");
    assert!(mirror.fetch(&tag, after(&new)).is_ok());
}

#[test]
fn a_moved_or_deleted_version_is_a_rewind_and_a_higher_one_is_not() {
    let forge = Forge::new();
    let commits = ["1", "2", "3"].map(|content| forge.commit("main", &[("a", content)]));
    let [one, two, three] = commits.each_ref().map(String::as_str);
    let (repo, me) = (forge.repo(), git2::Signature::new("u", "u@x", &git2::Time::new(0, 0)).unwrap());
    let tag = |name: &str, commit: &str| {
        let object = repo.find_object(Oid::from_str(commit).unwrap(), None).unwrap();
        repo.tag(name, &object, &me, "annotated", true).unwrap();
    };
    let range = RefSpec::semver("^1").unwrap();
    let mut mirror = forge.local();
    let mut fetch = |last: &str| {
        let fetched = mirror.fetch(&range, after(last)).map(|checkout| checkout.revision.clone());
        fetched.map_err(|error| error.reason())
    };
    tag("v1.0.0", one);
    tag("v1.1.0", two);
    assert_eq!(fetch(two), Ok(two.to_owned()));
    assert_eq!(fetch(one), Ok(two.to_owned()), "a higher version");
    tag("v1.1.0", three);
    assert_eq!(fetch(two), Err("SourceRewound"), "it moved, also forwards");
    assert_eq!(fetch(three), Ok(three.to_owned()));
    repo.tag_delete("v1.1.0").unwrap();
    assert_eq!(fetch(three), Err("SourceRewound"), "a lower version");
    let step = rewind(three, one);
    let history = History { accepted: Some(three), allowed: Some(&step) };
    assert_eq!(mirror.fetch(&range, history).unwrap().revision, one, "a person allowed it");
}

#[test]
fn links_and_submodules_are_distinguished() {
    let forge = Forge::new();
    let repo = forge.repo();
    let mut tree = repo.treebuilder(None).unwrap();
    tree.insert("link", repo.blob(b"../../etc/passwd").unwrap(), 0o120_000).unwrap();
    tree.insert("module", Oid::from_str(&"1".repeat(40)).unwrap(), 0o160_000).unwrap();
    tree.insert("-rf", repo.blob(b"inert").unwrap(), 0o100_755).unwrap();
    for device in ["CON", "NUL", "aux.yaml", "lpt1"] {
        tree.insert(device, repo.blob(b"a file").unwrap(), 0o100_644).unwrap();
    }
    commit_tree(&repo, tree.write().unwrap());
    let checkout = forge.local().fetch(&main(), History::default()).unwrap();
    assert_eq!(paths(&checkout), ["-rf", "CON", "NUL", "aux.yaml", "link", "lpt1", "module"]);
    assert!(checkout.tree.file("CON").is_some(), "a device of another system is a file");
    assert_eq!(checkout.tree.entry("link"), Some(&TreeEntry::Link("../../etc/passwd".into())));
}

#[test]
fn names_that_no_checkout_could_hold_are_refused() {
    let names: &[&[u8]] =
        &[b".git", b".GIT", b"git~1", ".g\u{200c}it".as_bytes(), b"..", b"a/b", b"\xff\xfe", &[b'n'; 5000]];
    for name in names {
        let forge = Forge::new();
        let repo = forge.repo();
        let tree = raw_tree(&repo, &[("100644", name, repo.blob(b"x").unwrap())]);
        commit_tree(&repo, tree);
        let error = forge.local().fetch(&main(), History::default()).unwrap_err();
        assert_eq!(error.reason(), "SourceRefused", "{name:?}: {error}");
    }
}

#[test]
fn names_are_distinct_by_their_bytes() {
    let forge = Forge::new();
    forge.commit("main", &[("A.yaml", "1"), ("a.yaml", "2"), ("\u{e9}", "3"), ("e\u{301}", "4")]);
    let checkout = forge.local().fetch(&main(), History::default()).unwrap();
    assert_eq!(paths(&checkout).len(), 4);
}

#[test]
fn names_that_only_some_file_systems_distinguish_are_noted() {
    let forge = Forge::new();
    let names = ["A.yaml", "a.yaml", "B/c", "b/c", "\u{c9}", "e\u{301}", "d/A", "d/b", "ab", "a-b"];
    forge.commit("main", &names.map(|name| (name, "1")));
    let checkout = forge.local().fetch(&main(), History::default()).unwrap();
    let mut found: Vec<_> = checkout.tree.collisions().iter().map(|it| [&*it.first, &*it.second]).collect();
    found.sort_unstable();
    assert_eq!(found, [["A.yaml", "a.yaml"], ["B", "b"], ["e\u{301}", "\u{c9}"]]);
    let message = checkout.tree.collisions()[0].to_string();
    assert!(message.starts_with("A.yaml and a.yaml differ only in case"), "{message}");
}

#[test]
fn files_that_are_too_large_are_refused_by_name() {
    let forge = Forge::new();
    forge.commit("main", &[("deep/er/file", "12345"), ("link-like", "1")]);
    let cases = [
        (TreeLimits { files: 1, ..TreeLimits::default() }, "more than 1 files"),
        (TreeLimits { total_bytes: 5, ..TreeLimits::default() }, "larger than 0 MiB in total"),
        (
            TreeLimits { depth: 1, ..TreeLimits::default() },
            "cannot read deep/er: more than 1 levels of directories",
        ),
        (TreeLimits { path_bytes: 5, ..TreeLimits::default() }, "its path is longer than 5 bytes"),
    ];
    for (limits, part) in cases {
        let mut mirror = forge.local();
        mirror.limits = limits;
        let error = mirror.fetch(&main(), History::default()).unwrap_err();
        assert_eq!(error.reason(), "SourceRefused");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn the_connection_to_a_silent_server_is_abandoned() {
    let (forge, server) = (Forge::new(), Server::silent());
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.transport.idle = std::time::Duration::from_secs(1);
    let error = mirror.fetch(&main(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "{error}");
}

#[test]
fn a_server_that_refuses_us_is_not_asked_forever() {
    let (forge, server) = (Forge::new(), Server::unauthorized());
    let data = [("token".to_owned(), k8s_openapi::ByteString(b"hunter22".to_vec()))].into();
    let credentials = Credentials::from_secret(&data).unwrap();
    let mut mirror = forge.mirror("cache", &server.url);
    assert_eq!(mirror.fetch(&main(), History::default()).unwrap_err().reason(), "SourceUnauthorized");
    mirror.set_credentials(credentials).unwrap();
    let error = mirror.fetch(&main(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnauthorized", "{error}");
    assert!(!error.to_string().contains("hunter22"));
    assert!(server.connections.load(Ordering::Relaxed) <= 8);
}

#[test]
fn an_invalid_token_is_refused_until_the_secret_has_another() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let basic = |password: &str| Some(format!("Basic {}", STANDARD.encode(format!("git:{password}"))));
    let web = Web::start(&forge, Behavior { authorization: basic("second22"), ..Behavior::default() });
    let mut mirror = forge.mirror("cache", &web.url);
    mirror.set_credentials(web.credentials(&[("token", "first222")])).unwrap();
    let error = mirror.fetch(&main(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnauthorized", "{error}");
    assert!(!error.to_string().contains("first222"), "{error}");
    mirror.set_credentials(web.credentials(&[("token", "second22")])).unwrap();
    assert_eq!(mirror.fetch(&main(), History::default()).unwrap().revision, commit);
}

#[test]
fn an_unreachable_remote_says_where_and_what_to_do() {
    let forge = Forge::new();
    let error =
        forge.mirror("cache", "http://127.0.0.1:1/x.git").fetch(&main(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable");
    assert!(error.to_string().starts_with("cannot reach http://127.0.0.1:1/x.git: "), "{error}");
    let error = forge.mirror("cache", "/nonexistent/x.git").fetch(&main(), History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "{error}");
    assert!(error.to_string().contains("this path has no git repository"), "{error}");
}

#[test]
fn a_cancelled_fetch_ends() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let server = forge.serve();
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.cancel.cancel();
    assert_eq!(mirror.fetch(&main(), History::default()).unwrap_err().reason(), "SourceTimeout");
}

#[test]
fn a_broken_cache_is_created_again() {
    let forge = Forge::new();
    forge.commit("main", &[("a", "1")]);
    let mirror = forge.local();
    std::fs::remove_file(mirror.dir.join("HEAD")).unwrap();
    assert!(forge.local().fetch(&main(), History::default()).is_ok());
}
