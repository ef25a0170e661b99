//! An object moves between two ConfigRepos while the processes crash.

use super::*;

fn second() -> Key {
    Key::namespaced("config", "second")
}

fn maps(names: &[&str]) -> FileTree {
    let map = |name: &&str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
    };
    names.iter().map(|name| (format!("{name}.yaml"), map(name).into_bytes())).collect()
}

fn commit_both(world: &mut World, number: u32, first: &[&str], other: &[&str]) {
    commit(world, number, maps(first));
    world.commit(&second(), &format!("{number:040x}"), maps(other));
}

/// Creates two ConfigRepos that follow one repository.
fn two(world: &mut World) {
    let url = "https://git.example/fleet";
    follow(world, url);
    config_repo(world, &second(), json!({"url": url}));
    commit_both(world, 1, &["a", "moves", "moves-too"], &["b"]);
}

#[test]
fn a_move_between_repositories_survives_a_crash_at_every_write_without_a_deletion() {
    let act = |world: &mut World| commit_both(world, 2, &["a"], &["b", "moves", "moves-too"]);
    // The contents of an object include its deletion, and every run has the same contents as the run without a
    // crash.
    let calm = run(&Scenario { prepare: two, act }, None);
    assert!(calm.contents.values().flatten().all(|content| !content.is_null()), "{:?}", calm.contents);
    check(&Scenario { prepare: two, act });
}

/// Creates two ConfigRepos that follow one repository; the first depends on the second.
fn dependent(world: &mut World) {
    let url = "https://git.example/fleet";
    config_repo(world, &second(), json!({"url": url}));
    config_repo(world, &repo(), json!({"url": url, "dependsOn": [{"name": "second"}]}));
    commit_both(world, 1, &["a", "moves", "moves-too"], &["b", "returns"]);
}

#[test]
fn moves_between_a_repository_and_its_base_survive_a_crash_at_every_write_without_a_deletion() {
    let ways: [fn(&mut World); 3] = [
        |world| commit_both(world, 2, &["a"], &["b", "moves", "moves-too", "returns"]),
        |world| commit_both(world, 2, &["a", "moves", "moves-too", "returns"], &["b"]),
        |world| commit_both(world, 2, &["a", "returns"], &["b", "moves", "moves-too"]),
    ];
    for act in ways {
        let calm = run(&Scenario { prepare: dependent, act }, None);
        assert!(calm.contents.values().flatten().all(|content| !content.is_null()), "{:?}", calm.contents);
        check(&Scenario { prepare: dependent, act });
    }
}
