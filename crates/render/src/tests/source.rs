use super::*;

fn tree() -> FileTree {
    let mut tree: FileTree = [("app/a.yaml", "a"), ("app/sub/b.yaml", "b"), ("base/c.yaml", "c")]
        .into_iter()
        .map(|(p, b)| (p, b.as_bytes()))
        .collect();
    tree.insert_link("app/link", "../base");
    tree.insert_link("app/out", "../../secret");
    tree.insert_link("app/abs", "/etc/passwd");
    tree.insert_link("loop", "loop");
    tree
}

fn source_of(tree: &FileTree) -> Source<'_> {
    Source::new(tree, Decryption::new(None), MemoryBudget::new(&|| false))
}

#[test]
fn paths_stay_in_the_repository() {
    assert_eq!(join("a/b", "../c/./d").unwrap(), "a/c/d");
    assert_eq!(join("a", "..").unwrap(), "");
    for path in ["../..", "/etc/passwd", "a/../../../b"] {
        assert_eq!(join("a", path).unwrap_err().reason, Reason::OutsideRepository, "{path}");
    }
    // These paths do not exist on Linux. Decoding or normalizing them would lead to `base/c.yaml`.
    let tree = tree();
    let source = source_of(&tree);
    for path in [
        r"..\base\c.yaml",
        "..%2fbase%2fc.yaml",
        "%2e%2e/base/c.yaml",
        "../base/c.yaml ",
        " ../base/c.yaml",
        "\u{ff0e}\u{ff0e}/base/c.yaml",
    ] {
        assert_eq!(source.read("app", path).unwrap_err().reason, Reason::NotFound, "{path:?}");
    }
    assert_eq!(source.read("app", "../base/c.yaml\0").unwrap_err().reason, Reason::InvalidValue);
    assert_eq!(source.read("app", "").unwrap_err().message, "\"\" is a directory, not a file");
}

#[test]
fn links_are_followed_within_and_refused_beyond() {
    let tree = tree();
    let source = source_of(&tree);
    assert_eq!(source.read("app", "link/c.yaml").unwrap().0, "base/c.yaml");
    for (path, reason) in
        [("out", Reason::OutsideRepository), ("abs", Reason::OutsideRepository), ("../loop", Reason::Cycle)]
    {
        assert_eq!(source.read("app", path).unwrap_err().reason, reason, "{path}");
    }
}

#[test]
fn chains_circles_and_odd_targets_of_links_are_refused() {
    let mut tree = tree();
    for link in 0..=MAX_LINKS {
        tree.insert_link(format!("chain/{link}"), format!("{}", link + 1));
    }
    tree.insert(format!("chain/{}", MAX_LINKS + 1), *b"end");
    for (link, target) in [
        ("a", "b"),
        ("b", "a"),
        ("git", ".git/config"),
        ("nul", "app/a.yaml\0"),
        ("long", &"x".repeat(MAX_LINK_BYTES + 1)),
        ("dir", "../../etc"),
    ] {
        tree.insert_link(link, target);
    }
    let source = source_of(&tree);
    assert_eq!(source.read("", "chain/1").unwrap().0, format!("chain/{}", MAX_LINKS + 1));
    for (path, reason) in [
        ("chain/0", Reason::Cycle),
        ("a", Reason::Cycle),
        ("git", Reason::NotFound),
        ("nul", Reason::InvalidValue),
        ("long", Reason::InvalidValue),
        ("dir/passwd", Reason::OutsideRepository),
    ] {
        assert_eq!(source.read("", path).unwrap_err().reason, reason, "{path}");
    }
}

#[test]
fn a_file_that_was_not_read_is_refused_where_it_is_used_and_never_absent() {
    for large in ["Kustomization", "kustomization.yaml", "Chart.yaml", "a.yaml", "config.txt"] {
        let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        let generator = "configMapGenerator: [{name: c, files: [config.txt]}]";
        let mut tree: FileTree = [("app/a.yaml", map)].into_iter().map(|(p, b)| (p, b.as_bytes())).collect();
        if large == "config.txt" {
            tree.insert("app/kustomization.yaml", generator.as_bytes());
        }
        tree.insert_large(format!("app/{large}"), 10);
        let error = crate::render(&tree, "app").unwrap_err().to_string();
        assert!(error.contains(&format!("\"app/{large}\" has more than 10 bytes")), "{error}");
        tree.insert_link("linked/Kustomization", format!("../app/{large}"));
        tree.insert("linked/a.yaml", map.as_bytes());
        let error = crate::render(&tree, "linked").unwrap_err().to_string();
        assert!(error.contains("has more than 10 bytes"), "{error}");
    }
    let mut tree: FileTree =
        [("app/a.yaml", &b"{apiVersion: v1, kind: Secret, metadata: {name: a}}"[..])].into_iter().collect();
    tree.insert_large("app/movie.mp4", 10);
    assert!(crate::render(&tree, "app").is_ok(), "nothing uses it");
}

#[test]
fn a_submodule_is_refused_where_it_is_used() {
    let mut tree = tree();
    tree.insert_submodule("app/module");
    let source = source_of(&tree);
    for path in ["module", "module/x.yaml", "../app/module"] {
        let error = source.read("app", path).unwrap_err();
        assert!(error.to_string().contains("\"app/module\" is a submodule"), "{path}: {error}");
    }
    assert!(source.read("app", "a.yaml").is_ok());
}

#[test]
fn a_missing_file_suggests_an_existing_one() {
    let tree = tree();
    let error = source_of(&tree).read("app", "a.yml").unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("did you mean \"a.yaml\"?"));
}

#[test]
fn a_closure_holds_until_something_it_saw_changes() {
    let mut tree = tree();
    let source = source_of(&tree);
    source.read("app", "link/c.yaml").unwrap();
    assert!(source.file_at("app/absent").unwrap().is_none());
    source.names("app");
    let closure = source.into_closure();
    let digest = closure.digest();
    tree.insert("base/d.yaml", *b"d");
    tree.insert("app/sub/new.yaml", *b"d");
    assert!(closure.holds_in(&tree));
    for (path, bytes) in [("base/c.yaml", b"x"), ("app/absent", b"x"), ("app/new.yaml", b"x")] {
        let mut changed = tree.clone();
        changed.insert(path, *bytes);
        assert!(!closure.holds_in(&changed), "{path}");
    }
    assert_eq!(closure.digest(), digest);
}
