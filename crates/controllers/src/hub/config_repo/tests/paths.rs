//! Tests ConfigRepos that render each directory that matches a pattern.

use super::*;
use sim::Write;

/// Returns the rows of the status, as `path objects`.
fn rows(hub: &Hub) -> Vec<String> {
    hub.status().paths.iter().map(|row| format!("{} {}", row.path, row.objects)).collect()
}

fn deletions(writes: &[Write]) -> usize {
    writes.iter().filter(|write| write.id.kind == "ConfigMap" && write.after.is_none()).count()
}

#[test]
fn directories_come_and_go_without_an_edit_of_the_spec() {
    let mut hub = Hub::new(
        json!({"paths": ["clusters/*", "addons"], "deletionBudget": {"objects": 1, "window": "0s"}}),
    );
    let (a, b, c, addon) = (map("a", "1"), map("b", "1"), map("c", "1"), map("addon", "1"));
    let base = ("addons/addon.yaml", addon.as_str());
    let kustomization = ("clusters/eu/kustomization.yaml", "resources: [a.yaml]\nnamePrefix: eu-\n");
    let first = [base, ("clusters/eu/a.yaml", &a), kustomization, ("clusters/README.md", "")];
    assert_eq!(hub.commit(&first), "Ready: 2 objects of 000000000000");
    assert_eq!(
        (hub.names(), rows(&hub)),
        (vec!["addon".into(), "eu-a".into()], vec!["addons 1".into(), "clusters/eu 1".into()])
    );

    let added = [&first[..], &[("clusters/us/b.yaml", b.as_str()), ("clusters/us/c.yaml", &c)]].concat();
    assert_eq!(hub.commit(&added), "Ready: 4 objects of 000000000000");
    assert_eq!(rows(&hub), ["addons 1", "clusters/eu 1", "clusters/us 2"]);

    hub.world.take_history();
    let renamed =
        [&first[..], &[("clusters/asia/b.yaml", b.as_str()), ("clusters/asia/c.yaml", &c)]].concat();
    assert_eq!(hub.commit(&renamed), "Ready: 4 objects of 000000000000");
    assert_eq!(rows(&hub), ["addons 1", "clusters/asia 2", "clusters/eu 1"]);
    assert_eq!(deletions(&hub.world.take_history()), 0, "a rename keeps the objects");

    let removed = hub.commit(&first);
    assert!(removed.starts_with("Stalled DeletionsHeld"), "the budget covers a removed directory: {removed}");
    assert_eq!(hub.names(), ["addon", "b", "c", "eu-a"]);
}

#[test]
fn a_pattern_that_matches_nothing_is_named_and_deletes_nothing() {
    let mut hub = Hub::new(json!({"paths": ["addons", "clusters/*"]}));
    let files = [("addons/a.yaml", &*map("a", "1")), ("clusters/eu/b.yaml", &map("b", "1"))];
    assert!(hub.commit(&files).starts_with("Ready"));
    let refused = "Stalled RenderFailed: spec.paths: no directory in the repository matches \"clusters/*\"; commit one, or \
                   correct spec.paths; 000000000000 stays applied";
    let changed = [("addons/a.yaml", &*map("a", "2"))];
    assert_eq!(hub.commit(&changed), refused);
    assert_eq!(
        hub.commit(&[changed[0], ("clusters/b.yaml", &map("b", "1"))]),
        refused,
        "a file does not count"
    );
    assert_eq!((hub.names(), hub.data("a").as_deref()), (vec!["a".into(), "b".into()], Some("1")));
    assert_eq!(rows(&hub), ["addons 1", "clusters/eu 1"], "the rows are those of the applied commit");

    hub.repo(json!({"paths": ["addons"]}), json!({}));
    assert_eq!(hub.run(), "Ready: 1 object of 000000000000");
    assert_eq!((hub.names(), rows(&hub)), (vec!["a".into()], vec!["addons 1".into()]));
    hub.repo(json!({"path": "addons"}), json!({}));
    assert!(hub.run().starts_with("Ready"));
    assert_eq!(rows(&hub), [""; 0]);
}

#[test]
fn a_mistake_in_one_directory_rejects_the_commit_as_a_whole() {
    let mut hub = Hub::new(json!({"paths": ["clusters/*"]}));
    hub.commit(&[("clusters/eu/a.yaml", &map("a", "1"))]);
    let twice = hub.commit(&[("clusters/eu/a.yaml", &map("a", "2")), ("clusters/us/x.yaml", &map("a", "3"))]);
    let expected = "Stalled RenderFailed: clusters/us/x.yaml:1: the directories \"clusters/eu\" and \"clusters/us\" both contain \
                    ConfigMap a; see clusters/eu/a.yaml:1; hint: only one directory may contain an object; 000000000000 stays applied";
    assert_eq!(twice, expected);
    let empty = hub.commit(&[("clusters/eu/a.yaml", &map("a", "2")), ("clusters/us/README.md", "")]);
    assert!(
        empty.contains("clusters/us: the directory has neither a kustomization nor a manifest"),
        "{empty}"
    );
    assert_eq!((hub.data("a").as_deref(), hub.names()), (Some("1"), vec!["a".to_owned()]));
}

#[test]
fn a_rejected_field_is_found_in_the_patch_of_any_directory() {
    let mut hub = Hub::new(json!({"paths": ["sets", "other"]}));
    let message = hub.commit(&[
        ("base/set.yaml", SET),
        ("other/a.yaml", &map("a", "1")),
        ("base/kustomization.yaml", "resources: [set.yaml]\n"),
        ("sets/kustomization.yaml", "resources: [../base]\npatches: [{path: patch.yaml}]\n"),
        ("sets/patch.yaml", &format!("{SET}spec:\n  clusterSelector:\n    selectorType: Nonsense\n")),
    ]);
    assert!(
        message.starts_with("Stalled InvalidObject") && message.contains("(sets/patch.yaml:"),
        "{message}"
    );
}

#[test]
fn a_spec_with_a_path_and_paths_is_invalid() {
    let mut hub = Hub::new(json!({"path": "", "paths": ["a"]}));
    let metadata = json!({"namespace": "config", "name": "fleet"});
    let spec = json!({"url": "https://git.example/fleet", "path": "b", "paths": ["a"]});
    let both = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec});
    let refused = hub.world.apply(object(both)).unwrap_err().to_string();
    assert!(refused.contains("set path or paths, not both"), "{refused}");
}
