//! Repositories of attackers are rejected by name, within limits of time and memory.

use std::sync::mpsc::channel;
use std::time::Duration;

use git2::{ObjectType, Oid, Repository};

use super::forge::{Forge, commit_tree, raw_tree};
use super::web::{Behavior, Web};
use crate::git::{Error, History, RefSpec};
use object::tree::{Checkout, TreeEntry};

/// Much longer than any of these tests takes, but much shorter than an attack would.
const SOON: Duration = Duration::from_secs(20);

/// Fetches the main branch in a separate thread, so that an endless fetch fails the test.
fn fetch(forge: &Forge, url: &str) -> Result<std::sync::Arc<Checkout>, Error> {
    let (send, receive) = channel();
    let mut mirror = forge.mirror("hostile", url);
    std::thread::spawn(move || {
        let _ = send.send(mirror.fetch(&RefSpec::branch("main").unwrap(), History::default()));
    });
    receive.recv_timeout(SOON).expect("the fetch ends")
}

fn refusal(forge: &Forge, url: &str) -> String {
    let error = fetch(forge, url).unwrap_err();
    assert_eq!(error.reason(), "SourceRefused", "{error}");
    error.to_string()
}

#[test]
fn a_tree_bomb_is_refused_before_it_is_walked() {
    let forge = Forge::new();
    let repo = forge.repo();
    // Each tree contains the one below twice: 2^40 directories and no file.
    let mut tree = raw_tree(&repo, &[]);
    for _ in 0..40 {
        tree = raw_tree(&repo, &[("40000", b"a", tree), ("40000", b"b", tree)]);
    }
    commit_tree(&repo, tree);
    let message = refusal(&forge, &forge.url());
    assert!(message.contains("directories, files and links"), "{message}");
}

#[test]
fn a_tree_with_a_name_twice_or_in_the_wrong_order_is_refused() {
    let forge = Forge::new();
    let repo = forge.repo();
    let (x, y, below) = (repo.blob(b"x").unwrap(), repo.blob(b"y").unwrap(), raw_tree(&repo, &[]));
    let below = raw_tree(&repo, &[("100644", b"file", x), ("40000", b"z", below)]);
    let cases: [&[(&str, &[u8], Oid)]; 4] = [
        &[("100644", b"a", x), ("100644", b"a", y)],
        &[("100644", b"b", x), ("100644", b"a", y)],
        &[("100644", b"a", x), ("40000", b"a", below)],
        &[("100644", b"a", x), ("100644", b"a.b", x), ("40000", b"a", below)],
    ];
    for entries in cases {
        let tree = raw_tree(&repo, entries);
        forge.forget("main");
        commit_tree(&repo, tree);
        let message = refusal(&forge, &forge.url());
        assert!(message.contains("twice or in the wrong order"), "{message}");
    }
    let sorted = raw_tree(&repo, &[("100644", b"a.b", x), ("40000", b"a", below), ("100644", b"a0", y)]);
    forge.forget("main");
    commit_tree(&repo, sorted);
    assert_eq!(
        fetch(&forge, &forge.url()).unwrap().tree.below("").count(),
        3,
        "git sorts a directory as `a/`"
    );
}

#[test]
fn submodules_are_distinguished_by_name() {
    let forge = Forge::new();
    let repo = forge.repo();
    let mut tree = repo.treebuilder(None).unwrap();
    tree.insert("module", Oid::from_str(&"1".repeat(40)).unwrap(), 0o160_000).unwrap();
    commit_tree(&repo, tree.write().unwrap());
    let checkout = fetch(&forge, &forge.url()).unwrap();
    assert_eq!(checkout.tree.entry("module"), Some(&TreeEntry::Submodule));
}

#[test]
fn a_sha256_repository_is_refused_by_name() {
    let forge = Forge::new();
    let path = forge.path();
    std::fs::remove_dir_all(&path).unwrap();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.env("GIT_DIR", &path).envs([("GIT_AUTHOR_NAME", "u"), ("GIT_AUTHOR_EMAIL", "u@x")]);
        let output =
            git.envs([("GIT_COMMITTER_NAME", "u"), ("GIT_COMMITTER_EMAIL", "u@x")]).args(args).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--bare", "--object-format=sha256"]);
    let tree = git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = git(&["commit-tree", "-m", "first", &tree]);
    git(&["update-ref", "refs/heads/main", &commit]);
    let server = forge.serve();
    for url in [&forge.url(), &server.url] {
        let message = refusal(&forge, url);
        assert!(message.contains("SHA-256"), "{url}: {message}");
    }
    let error = RefSpec::commit(&"a".repeat(64)).unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

/// Returns a zlib stream without compression.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(60_000).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap();
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend(((b << 16) | a).to_be_bytes());
    out
}

/// Returns the header of an object in a pack.
fn object_header(kind: u8, mut size: usize) -> Vec<u8> {
    let mut byte = (kind << 4) | u8::try_from(size & 15).unwrap();
    size >>= 4;
    let mut out = Vec::new();
    while size > 0 {
        out.push(byte | 0x80);
        byte = u8::try_from(size & 127).unwrap();
        size >>= 7;
    }
    out.push(byte);
    out
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 127 {
        out.push(u8::try_from(value & 127).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

/// Adds a pack to a repository: a blob of 60 kB, and a delta that expands it to many times its size.
fn plant_delta_bomb(forge: &Forge, repo: &Repository, times: usize) -> Oid {
    let base = vec![b'x'; 60_000];
    let base_id = Oid::hash_object(ObjectType::Blob, &base).unwrap();
    let mut delta = [varint(base.len()), varint(base.len() * times)].concat();
    for _ in 0..times {
        // Copy 60,000 bytes from the start of the base.
        delta.extend([0xb0, 0x60, 0xea]);
    }
    let mut pack = [&b"PACK"[..], &2_u32.to_be_bytes(), &2_u32.to_be_bytes()].concat();
    pack.extend([object_header(3, base.len()), stored(&base)].concat());
    pack.extend([object_header(7, delta.len()), base_id.as_bytes().to_vec(), stored(&delta)].concat());
    let sum = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &pack);
    pack.extend(sum.as_ref());
    let file = forge.path().join("objects/pack/pack-bomb.pack");
    std::fs::write(&file, pack).unwrap();
    let indexed = std::process::Command::new("git").arg("index-pack").arg(&file).output().unwrap();
    assert!(indexed.status.success(), "{}", String::from_utf8_lossy(&indexed.stderr));
    let bomb = Oid::hash_object(ObjectType::Blob, &base.repeat(times)).unwrap();
    raw_tree(repo, &[("100644", b"base", base_id), ("100644", b"bomb", bomb)])
}

#[test]
fn a_delta_bomb_is_refused_before_it_is_allocated() {
    let forge = Forge::new();
    let tree = plant_delta_bomb(&forge, &forge.repo(), 1_000);
    commit_tree(&forge.repo(), tree);
    let server = forge.serve();
    let message = refusal(&forge, &server.url);
    assert!(message.contains("objects of at most 32 MiB"), "{message}");
}

#[test]
fn a_large_object_is_refused_while_the_pack_arrives() {
    let forge = Forge::new();
    forge.commit("main", &[("large", &"0".repeat(40 << 20))]);
    let (server, web) = (forge.serve(), Web::start(&forge, Behavior::default()));
    let mut over_https = forge.mirror("https", &web.url);
    over_https.set_credentials(web.credentials(&[])).unwrap();
    let main = RefSpec::branch("main").unwrap();
    let error = over_https.fetch(&main, History::default()).unwrap_err();
    for message in [refusal(&forge, &server.url), error.to_string()] {
        assert!(message.contains("sends a pack that is refused: an object of more than 32 MiB"), "{message}");
    }
    forge.commit_on(None, "main", &[("small", "1")]);
    assert!(fetch(&forge, &server.url).is_ok() && over_https.fetch(&main, History::default()).is_ok());
}

#[test]
fn a_commit_is_served_only_after_the_remote_was_contacted() {
    let forge = Forge::new();
    let commit = forge.commit("main", &[("a", "1")]);
    let server = forge.serve();
    let want = RefSpec::commit(&commit).unwrap();
    let mut mirror = forge.mirror("cache", &server.url);
    mirror.fetch(&want, History::default()).unwrap();
    drop(server);
    let error = mirror.fetch(&want, History::default()).unwrap_err();
    assert_eq!(error.reason(), "SourceUnreachable", "a mirror is no permission to read");
}
