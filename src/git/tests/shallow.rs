//! Histories that are only partly fetched.

use git2::Oid;

use super::author::{Author, now};
use super::forge::Forge;
use super::push::{QUICK, files};
use super::web::{Behavior, Web};
use crate::git::{Commit, Credentials, Error, History, LastPush, Mirror, RefSpec, Verification, rewind};

/// The number of commits in a history. Each has an incompressible file.
const COMMITS: u32 = 60;
/// The size of such a file in bytes.
const FILE: u32 = 50_000;

fn noise(seed: u32) -> String {
    let word = |i: u32| format!("{:08x}", (i ^ seed << 20).wrapping_mul(2_654_435_761).rotate_left(seed));
    (0..FILE / 8).map(word).collect()
}

/// Returns a repository with a history of about 1.5 MB, and its commits.
fn long_history(branch: &str) -> (Forge, Vec<String>) {
    let forge = Forge::new();
    let commits = (1..=COMMITS).map(|i| forge.commit(branch, &[("a", &noise(i)), ("b", &i.to_string())]));
    let commits = commits.collect();
    (forge, commits)
}

/// Returns a mirror whose byte limit is too small for the whole history.
fn limited(forge: &Forge, cache: &str, url: &str, credentials: Credentials) -> Mirror {
    let mut mirror = forge.mirror(cache, url);
    mirror.set_credentials(credentials).unwrap();
    mirror.transport.bytes = 700_000;
    mirror
}

fn main() -> RefSpec {
    RefSpec::branch("main").unwrap()
}

fn fetch(mirror: &mut Mirror, accepted: Option<&str>) -> Result<String, Error> {
    mirror.fetch(&main(), History { accepted, allowed: None }).map(|checkout| checkout.revision.clone())
}

fn has(mirror: &Mirror, commit: &str) -> bool {
    mirror.repository().unwrap().find_commit(Oid::from_str(commit).unwrap()).is_ok()
}

#[test]
fn a_long_history_stays_on_the_server() {
    let (forge, mut commits) = long_history("main");
    let (web, git) = (Web::start(&forge, Behavior::default()), forge.serve());
    for (cache, url, credentials) in
        [("web", &web.url, web.credentials(&[])), ("git", &git.url, Credentials::default())]
    {
        let mut mirror = limited(&forge, cache, url, credentials);
        assert_eq!(fetch(&mut mirror, None).as_ref(), Ok(commits.last().unwrap()));
        assert!(!has(&mirror, &commits[commits.len() - 2]));
        for i in 0..3 {
            let accepted = commits.last().unwrap().clone();
            commits.push(forge.commit("main", &[("b", &format!("{cache}{i}"))]));
            let next = commits.last().unwrap();
            assert_eq!(fetch(&mut mirror, Some(&accepted)).as_ref(), Ok(next), "the next commit");
        }
        assert!(!has(&mirror, &commits[COMMITS as usize - 2]), "no older commit has arrived");
        let accepted = commits.last().unwrap().clone();
        commits.extend((0..40).map(|i| forge.commit("main", &[("b", &format!("more {cache}{i}"))])));
        let next = commits.last().unwrap();
        mirror.transport.bytes = 2 << 30;
        assert_eq!(fetch(&mut mirror, Some(&accepted)).as_ref(), Ok(next), "40 commits later");
    }
}

#[test]
fn a_rewind_is_refused_by_a_mirror_without_the_history() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    let last = commits.last().unwrap();
    let mut mirror = forge.mirror("rewinds", &git.url);
    fetch(&mut mirror, None).unwrap();
    let older = &commits[commits.len() - 3];
    let sibling = forge.commit_on(Some(Oid::from_str(older).unwrap()), "main", &[("b", "sibling")]);
    let unrelated = forge.commit_on(None, "main", &[("b", "unrelated")]);
    for to in [older, &sibling, &unrelated] {
        forge.repo().reference("refs/heads/main", Oid::from_str(to).unwrap(), true, "").unwrap();
        for cache in ["rewinds", "empty"] {
            let mut mirror = forge.mirror(cache, &git.url);
            assert_eq!(fetch(&mut mirror, Some(last)).unwrap_err().reason(), "SourceRewound");
            let step = rewind(last, to);
            let allowed = History { accepted: Some(last), allowed: Some(&step) };
            assert_eq!(mirror.fetch(&main(), allowed).unwrap().revision, *to, "a person allowed it");
        }
    }
}

#[test]
fn an_empty_mirror_fetches_down_to_the_accepted_commit_and_not_the_rest() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    let mut mirror = forge.mirror("cache", &git.url);
    let accepted = &commits[commits.len() - 10];
    assert_eq!(fetch(&mut mirror, Some(accepted)).as_ref(), Ok(commits.last().unwrap()));
    assert!(has(&mirror, accepted) && !has(&mirror, &commits[0]));
}

#[test]
fn an_interrupted_download_resumes_from_the_received_objects() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    let mut mirror = limited(&forge, "cache", &git.url, Credentials::default());
    let accepted = &commits[0];
    assert_eq!(fetch(&mut mirror, Some(accepted)).unwrap_err().reason(), "SourceRefused");
    let arrived = crate::git::object_bytes(&mirror.dir);
    assert!(arrived > 20_000, "the newest commit is kept: {arrived} bytes");
    mirror.transport.bytes = 2 << 30;
    assert_eq!(fetch(&mut mirror, Some(accepted)).as_ref(), Ok(commits.last().unwrap()));
}

#[test]
fn every_commit_since_the_accepted_one_is_verified_by_an_empty_mirror() {
    let author = Author::new();
    let public = author.ssh_key("key", &["-t", "ed25519"]);
    let verification = super::signature::keys(&[("allowed_signers", &format!("u {public}"))]);
    let old: Vec<_> = (0..20).map(|_| author.ssh_commit("key")).collect();
    let git = author.forge.serve();
    let fetch = |cache: &str, accepted: &str| {
        let mut mirror = author.forge.mirror(cache, &git.url);
        let accepted = Some(accepted.to_owned());
        mirror.verification = Some(Verification { accepted, now: now(), ..verification.clone() });
        let fetched = mirror.fetch(&main(), History::default());
        (fetched.map(|checkout| checkout.revision.clone()), mirror)
    };
    let (fetched, mirror) = fetch("signed", &old[16]);
    assert_eq!(fetched.as_ref(), Ok(&old[19]));
    assert!(!has(&mirror, &old[0]), "older commits were verified before");
    let unsigned = author.commit(&[], &[]);
    for _ in 0..3 {
        author.ssh_commit("key");
    }
    for cache in ["signed", "another"] {
        let error = fetch(cache, &old[19]).0.unwrap_err();
        assert!(error.to_string().starts_with(&format!("commit {unsigned} is refused")), "{cache}: {error}");
    }
}

#[test]
fn a_version_of_another_branch_is_verified_from_where_the_branches_meet() {
    let author = Author::new();
    let public = author.ssh_key("key", &["-t", "ed25519"]);
    let verification = super::signature::keys(&[("allowed_signers", &format!("u {public}"))]);
    author.commit(&[], &[]);
    let base = (0..20).fold(String::new(), |_, _| author.ssh_commit("key"));
    let git = author.forge.serve();
    let mut mirror = author.forge.mirror("cache", &git.url);
    let mut fetch = |accepted: Option<&str>| {
        let accepted = accepted.map(str::to_owned);
        mirror.verification = Some(Verification { accepted, now: now(), ..verification.clone() });
        let fetched = mirror.fetch(&RefSpec::semver("^1").unwrap(), History::default());
        fetched.map(|checkout| checkout.revision.clone()).map_err(|error| error.to_string())
    };
    let first = author.ssh_commit("key");
    author.work(&["tag", "v1.0.0"]);
    assert_eq!(fetch(None).as_ref(), Ok(&first));
    author.work(&["checkout", "-q", "-b", "next", &base]);
    author.ssh_commit("key");
    let second = author.ssh_commit("key");
    author.work(&["tag", "v1.1.0"]);
    assert_eq!(fetch(Some(&first)).as_ref(), Ok(&second), "the oldest commit has no signature");
    author.work(&["checkout", "-q", "-b", "third", &base]);
    let unsigned = author.commit(&[], &[]);
    author.ssh_commit("key");
    author.work(&["tag", "v1.2.0"]);
    let error = fetch(Some(&second)).unwrap_err();
    assert!(error.contains(&unsigned), "{error}");
}

#[test]
fn reports_at_the_tip_are_left_out_by_a_mirror_without_the_history() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    for i in 0..10 {
        let report = Commit { branch: "main".into(), ..files("hubs/1", &[("x.json", &i.to_string())]) };
        forge.local().push(&report, &QUICK).unwrap();
    }
    let mut mirror = forge.mirror("reads", &git.url);
    mirror.leaves_out_reports = true;
    assert_eq!(fetch(&mut mirror, None).as_ref(), Ok(commits.last().unwrap()));
    assert!(!has(&mirror, &commits[0]), "the commits before are not fetched");
}

#[test]
fn a_report_is_pushed_to_a_branch_with_a_long_history() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    let report =
        |content: &str| Commit { branch: "main".into(), ..files("hubs/1", &[("summary.json", content)]) };
    let mirror = limited(&forge, "writes", &git.url, Credentials::default());
    let first = mirror.push(&report("1"), &QUICK).unwrap().unwrap();
    assert!(!has(&mirror, &commits[commits.len() - 2]));
    let person = forge.commit("main", &[("b", "of a person")]);
    let last = LastPush { commit: first.clone(), adopts: false, ..report("2").last };
    let stops = Commit { last, ..report("2") };
    let second = limited(&forge, "other", &git.url, Credentials::default()).push(&stops, &QUICK);
    let history = forge.history("main");
    assert_eq!(history[..3], [second.unwrap().unwrap(), person, first]);
    assert_eq!(history.len(), commits.len() + 3);
    let rewritten =
        forge.commit_on(Some(Oid::from_str(&commits[50]).unwrap()), "main", &[("b", "rewritten")]);
    let error = forge.mirror("third", &git.url).push(&stops, &QUICK).unwrap_err();
    assert!(matches!(error, Error::BranchRewritten { .. }), "{rewritten}: {error}");
}

#[test]
fn a_commit_is_fetched_by_its_name_where_the_server_allows_that() {
    let (forge, commits) = long_history("main");
    let git = forge.serve();
    let commit = &commits[30];
    let want = RefSpec::commit(commit).unwrap();
    let by_name = |cache: &str| {
        let mut mirror = forge.mirror(cache, &git.url);
        assert_eq!(mirror.fetch(&want, History::default()).unwrap().revision, *commit);
        has(&mirror, &commits[29])
    };
    assert!(by_name("forbidden"), "the whole history, from the branches");
    let mut config = forge.repo().config().unwrap();
    config.set_bool("uploadpack.allowReachableSHA1InWant", true).unwrap();
    assert!(!by_name("allowed"));
}
