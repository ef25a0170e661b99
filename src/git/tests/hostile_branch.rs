//! Attacks on report branches that others push to.

use super::forge::{Forge, raw_tree};
use super::push::{BRANCH, QUICK, files, on_both};

#[test]
fn a_tree_bomb_next_to_the_report_is_not_walked() {
    on_both(|forge, open| {
        let repo = forge.repo();
        let leaf = repo.blob(b"x").unwrap();
        let mut tree = raw_tree(&repo, &[("100644", b"file", leaf)]);
        for _ in 0..40 {
            tree = raw_tree(&repo, &[("40000", b"a", tree), ("40000", b"b", tree)]);
        }
        let (me, tree) = (git2::Signature::now("x", "x@example.com").unwrap(), repo.find_tree(tree).unwrap());
        let tip = repo.commit(Some(&format!("refs/heads/{BRANCH}")), &me, &me, "bomb", &tree, &[]).unwrap();
        let report = files("hubs/1", &[("README.md", "1")]);
        let pushed = open("bomb").push(&report, &QUICK).unwrap().unwrap();
        let commit = repo.find_commit(pushed.parse().unwrap()).unwrap();
        assert_eq!(commit.parent_id(0).unwrap(), tip);
        assert_eq!(
            commit.tree().unwrap().get_path("a/a".as_ref()).unwrap().id(),
            tree.get_path("a/a".as_ref()).unwrap().id()
        );
        assert_eq!(forge.file(BRANCH, "hubs/1/README.md").as_deref(), Some("1"));
    });
}

#[test]
fn directories_that_are_nested_too_deeply_are_refused_before_a_push_walks_them() {
    let forge = Forge::new();
    let repo = forge.repo();
    let mut tree = raw_tree(&repo, &[("100644", b"file", repo.blob(b"x").unwrap())]);
    for _ in 0..1_000 {
        tree = raw_tree(&repo, &[("40000", b"a", tree)]);
    }
    let (me, tree) = (git2::Signature::now("x", "x@example.com").unwrap(), repo.find_tree(tree).unwrap());
    repo.commit(Some(&format!("refs/heads/{BRANCH}")), &me, &me, "deep", &tree, &[]).unwrap();
    let server = forge.serve();
    let report = files("hubs/1", &[("README.md", "1")]);
    let refused = forge.mirror("deep", &server.url).push(&report, &QUICK).unwrap_err();
    assert!(refused.to_string().contains("more than 64 levels of directories"), "{refused}");
}

#[test]
fn a_file_where_the_report_has_a_directory_stays() {
    on_both(|forge, open| {
        forge.commit(BRANCH, &[("hubs", "a file of a person")]);
        let refused = open("file").push(&files("hubs/1", &[("README.md", "1")]), &QUICK).unwrap_err();
        assert!(refused.to_string().contains("a file hubs where the report has a directory"), "{refused}");
        assert_eq!(forge.file(BRANCH, "hubs").as_deref(), Some("a file of a person"));
    });
}
