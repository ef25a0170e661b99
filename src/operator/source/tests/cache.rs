use std::collections::BTreeSet;

use super::*;
use crate::git::{Credentials, Remote};
use crate::operator::source::mirrors::Mirrors;
use crate::operator::source::mirrors::tests::{key, mirrors, repo, repository};
use reconcile::Source;

fn dirs(cache: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeMap::new();
    find(cache, &mut found);
    found.into_keys().collect()
}

/// Returns the URLs of three repositories, and their mirror directories.
fn repositories(dir: &Path) -> [(String, PathBuf); 3] {
    ["a", "b", "c"].map(|name| {
        std::fs::create_dir(dir.join(name)).unwrap();
        let (url, _) = repository(&dir.join(name));
        let mirror = Mirror::directory(&dir.join("cache/read/team"), &Remote::parse(&url).unwrap());
        (url, mirror)
    })
}

async fn fetch(mirrors: &Mirrors, url: &str) {
    assert!(mirrors.fetch(&repo("team", url), &Source::default()).await.is_ok());
}

#[tokio::test]
async fn the_least_recently_used_mirror_is_deleted_when_all_take_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let [a, b, c] = repositories(dir.path());
    fetch(&mirrors(&cache, true), &a.0).await;
    let one = object_bytes(&a.1);
    assert!(one > 0);

    let mut mirrors = mirrors(&cache, true);
    Arc::get_mut(&mut mirrors.cache).unwrap().limit = one * 5 / 2;
    fetch(&mirrors, &b.0).await;
    assert_eq!(dirs(&cache), [&a, &b].map(|one| one.1.clone()).into());
    fetch(&mirrors, &c.0).await;
    assert_eq!(dirs(&cache), [&b, &c].map(|one| one.1.clone()).into(), "a is of an earlier process");
    fetch(&mirrors, &b.0).await;
    fetch(&mirrors, &a.0).await;
    assert_eq!(dirs(&cache), [&a, &b].map(|one| one.1.clone()).into(), "c was used before b");
    fetch(&mirrors, &c.0).await;
    assert_eq!(dirs(&cache), [&a, &c].map(|one| one.1.clone()).into(), "c is fetched again");
}

#[tokio::test]
async fn a_mirror_in_use_stays_regardless_of_the_size_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, _] = repositories(dir.path());
    let mut mirrors = mirrors(&dir.path().join("cache"), true);
    Arc::get_mut(&mut mirrors.cache).unwrap().limit = 0;
    let mirrors = Arc::new(mirrors);
    let (others, url, both) = (Arc::clone(&mirrors), b.0.clone(), [a.1.clone(), b.1.clone()]);
    let work = move |_: &mut Mirror| {
        tokio::runtime::Handle::current().block_on(fetch(&others, &url));
        both.map(|dir| dir.exists())
    };
    let remote = Remote::parse(&a.0).unwrap();
    let exist = mirrors.with_mirror(key("team", &remote.identity()), remote, Credentials::default(), work);
    assert_eq!(exist.await, Ok([true, true]));
    assert!(!b.1.exists(), "it goes when the other operation ends");
}
