//! Tests that the inventory is stored in separate objects.

use super::*;
use api::names::CONFIG_REPO_FINALIZER;
use sim::Write;

fn parts(hub: &Hub) -> Vec<ConfigRepoInventory> {
    hub.world.list::<ConfigRepoInventory>()
}

fn maps(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| (format!("{name}.yaml"), map(name, "1"))).collect()
}

impl Hub {
    fn commit_maps(&mut self, names: &[&str]) -> String {
        let files = maps(names);
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        self.commit(&files)
    }
}

#[test]
fn the_status_stays_small_whatever_the_repository_holds() {
    let mut hub = Hub::new(json!({}));
    let all: String = (0..1_100).map(|i| format!("---\n{}", map(&format!("m{i}"), "1"))).collect();
    assert_eq!(hub.commit(&[("all.yaml", &all)]), "Ready: 1100 objects of 000000000000");
    let repo = hub.world.get::<ConfigRepo>(&key()).unwrap();
    let bytes = serde_json::to_vec(&repo).unwrap().len();
    assert!(bytes < 8 * 1024, "{bytes}");
    assert_eq!(repo.status.unwrap().objects, Some(1_100));
    let sizes: Vec<_> = parts(&hub).iter().map(|part| part.spec.objects.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 1_100);
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 1_000), "{sizes:?}");
    assert_eq!(parts(&hub)[0].spec.objects.first_key_value().unwrap().1, "v1");
}

#[test]
fn room_in_an_inventory_is_used_again() {
    let mut hub = Hub::new(json!({}));
    hub.commit_maps(&["a", "b"]);
    let first = parts(&hub);
    hub.commit_maps(&["b", "c"]);
    assert_eq!(hub.owned(), ["b", "c"]);
    let then = parts(&hub);
    assert_eq!((first.len(), then.len()), (1, 1));
    assert_eq!(first[0].metadata.name, then[0].metadata.name);
}

#[test]
fn an_inventory_in_the_status_moves_into_separate_objects_and_still_prunes() {
    let mut hub = Hub::new(json!({}));
    hub.commit_maps(&["a", "b"]);
    let name = parts(&hub)[0].metadata.name.clone().unwrap();
    let entry =
        |name: &str| json!({"kind": "ConfigMap", "version": "v1", "namespace": "config", "name": name});
    let inline = json!({"status": {"inventory": [entry("a"), entry("b")]}});
    hub.world.kill_operator_after(0);
    hub.world.patch_status::<ConfigRepo>(&key(), inline).unwrap();
    hub.world.delete::<ConfigRepoInventory>(&Key::namespaced("config", name)).unwrap();
    hub.world.restart_operator();
    assert_eq!(hub.commit_maps(&["a"]), "Ready: 1 object of 000000000000");
    assert_eq!((hub.names(), hub.owned()), (vec!["a".to_owned()], vec!["a".to_owned()]));
    assert_eq!(hub.status().inventory, []);
    assert_eq!(parts(&hub).len(), 1);
}

#[test]
fn an_inventory_is_written_before_its_objects_and_an_object_leaves_it_after_its_deletion() {
    let mut hub = Hub::new(json!({}));
    hub.world.keep_history();
    hub.commit_maps(&["a"]);
    hub.commit_maps(&["b"]);
    let writes = hub.world.take_history();
    let position = |what: &dyn Fn(&Write) -> bool| writes.iter().position(what).unwrap();
    let lists = |write: &Write, name: &str| {
        let listed =
            write.after.as_ref().and_then(|after| after.at(&["spec", "objects"])?.as_object().cloned());
        listed.is_some_and(|listed| listed.contains_key(&format!("/ConfigMap/config/{name}")))
    };
    let is_part = |write: &Write| write.id.kind == "ConfigRepoInventory";
    let listed = position(&|write| is_part(write) && lists(write, "b"));
    let created = position(&|write| write.id.key.name == "b" && write.before.is_none());
    let deleted = position(&|write| write.id.key.name == "a" && write.after.is_none());
    let released = position(&|write| is_part(write) && lists(write, "b") && !lists(write, "a"));
    assert!(listed < created && deleted < released, "{listed} {created} {deleted} {released}");
}

#[test]
fn an_inventory_that_somebody_deletes_is_written_again_before_it_goes() {
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.commit_maps(&["a", "b"]);
    let name = parts(&hub)[0].metadata.name.clone().unwrap();
    hub.world.delete::<ConfigRepoInventory>(&Key::namespaced("config", name.clone())).unwrap();
    assert_eq!(hub.run(), "Ready: 2 objects of 000000000000");
    assert_eq!(hub.owned(), ["a", "b"]);
    let now: Vec<_> = parts(&hub).into_iter().map(|part| part.metadata.name.unwrap()).collect();
    assert!(now.len() == 1 && now[0] != name, "{now:?}");
}

#[test]
fn a_repository_that_takes_its_objects_finds_them_although_its_inventory_is_deleted_first() {
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.commit_maps(&["a", "b"]);
    let name = parts(&hub)[0].metadata.name.clone().unwrap();
    hub.world.delete::<ConfigRepo>(&key()).unwrap();
    hub.world.delete::<ConfigRepoInventory>(&Key::namespaced("config", name)).unwrap();
    hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
    assert!(hub.world.get::<ConfigRepo>(&key()).is_none() && hub.names().is_empty(), "{:?}", hub.names());
    assert_eq!(parts(&hub), []);
}

#[test]
fn the_inventory_of_an_earlier_repository_of_the_same_name_does_not_count() {
    let mut hub = Hub::new(json!({}));
    hub.commit_maps(&["a", "b"]);
    hub.world.delete::<ConfigRepo>(&key()).unwrap();
    hub.repo(json!({}), json!({}));
    assert!(hub.commit_maps(&["a"]).starts_with("Ready"));
    assert_eq!((hub.names(), hub.owned()), (vec!["a".into(), "b".into()], vec!["a".to_owned()]));
}

#[test]
fn a_change_of_the_deletion_policy_keeps_the_finalizers_of_others() {
    let mut hub = Hub::new(json!({}));
    hub.commit_maps(&["a"]);
    let metadata = json!({
        "namespace": "config", "name": parts(&hub)[0].metadata.name, "finalizers": ["example.com/backup"],
    });
    hub.apply(json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepoInventory", "metadata": metadata,
    }));
    let mut finalizers = |policy: &str| {
        hub.repo(json!({"deletionPolicy": policy}), json!({}));
        hub.run();
        parts(&hub)[0].metadata.finalizers.clone().unwrap_or_default()
    };
    assert_eq!(finalizers("Delete"), ["example.com/backup", CONFIG_REPO_FINALIZER]);
    assert_eq!(finalizers("Orphan"), ["example.com/backup"]);
}
