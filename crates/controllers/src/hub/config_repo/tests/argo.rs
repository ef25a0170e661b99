//! Tests a ConfigRepo alongside Argo CD: shared objects, and objects that change owners without being deleted.

use std::collections::BTreeMap;

use super::*;
use object::builtin_lists::BUILTIN;
use object::fields::{Manager, Operation, Owners, first_difference, without};
use object::merge_diff;
use store::{Patch, WriteOptions};

const ID: &str = "argocd.argoproj.io/tracking-id";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGER: &str = "argocd-controller";

/// Returns the manifest of the application `shop` for a ConfigMap.
fn manifest(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {
        "namespace": "config", "name": name, "annotations": {ID: format!("shop:/ConfigMap:config/{name}")},
    }})
}

impl Hub {
    fn config_map(&self, name: &str) -> ConfigMap {
        self.world.get(&Key::namespaced("config", name)).unwrap()
    }

    fn all_data(&self, name: &str) -> BTreeMap<String, String> {
        self.config_map(name).data.unwrap_or_default()
    }

    fn annotation(&self, name: &str, annotation: &str) -> Option<String> {
        self.config_map(name).metadata.annotations.unwrap_or_default().get(annotation).cloned()
    }

    fn write_as_argo(&mut self, name: &str, patch: Patch) {
        let reference = object::ObjectRef::of::<ConfigMap>(Key::namespaced("config", name));
        let target = self.world.hub.target(&reference).unwrap();
        let options = WriteOptions::manager(MANAGER);
        let options = if matches!(patch, Patch::Apply(_)) { options.forced() } else { options };
        self.world.hub.patch(&target, &patch, &options, self.world.now).unwrap();
    }

    /// Applies with forced server-side apply, as with the sync option ServerSideApply.
    fn argo_applies(&mut self, name: &str, data: Value) {
        self.write_as_argo(name, Patch::Apply(manifest(name, data)));
    }

    /// Applies on the client side, as a three-way merge of the last applied manifest, the new manifest and the
    /// live object.
    fn argo_merges(&mut self, name: &str, data: Value) {
        let last = self
            .annotation(name, LAST_APPLIED)
            .map_or(json!({}), |text| serde_json::from_str(&text).unwrap());
        let new = manifest(name, data);
        let mut patch = merge_diff(&last, &new).unwrap_or_else(|| json!({}));
        // Corrects the fields that it applied and another client changed.
        patch["data"] = merge_diff(&last["data"], &json!({})).unwrap_or_else(|| json!({}));
        for (field, value) in new["data"].as_object().unwrap() {
            patch["data"][field] = value.clone();
        }
        patch["metadata"]["annotations"][LAST_APPLIED] = new.to_string().into();
        self.write_as_argo(name, Patch::Merge(patch));
    }

    /// Runs `act` and returns the names of the ConfigMaps that were deleted in the meantime.
    fn deleted(&mut self, act: impl FnOnce(&mut Self)) -> Vec<String> {
        self.world.keep_history();
        act(self);
        self.world.run_for(SignedDuration::from_secs(5)).unwrap();
        let deleted = self.world.take_history().into_iter().filter(|write| write.after.is_none());
        deleted.filter(|write| write.id.kind == "ConfigMap").map(|write| write.id.key.name).collect()
    }
}

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn two(k: &str) -> String {
    format!("{}  l: \"1\"\n", map("a", k))
}

#[test]
fn a_client_side_apply_of_argo_cd_and_our_apply_keep_each_others_fields() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &two("1"))]);
    hub.argo_merges("a", json!({"theirs": "1", "gone": "1"}));
    assert!(hub.run().starts_with("Ready"));
    assert_eq!(hub.all_data("a"), data(&[("gone", "1"), ("k", "1"), ("l", "1"), ("theirs", "1")]));
    assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"));
    assert_eq!(hub.all_data("a"), data(&[("gone", "1"), ("k", "2"), ("theirs", "1")]), "our field l went");
    hub.argo_merges("a", json!({"theirs": "2"}));
    assert!(hub.run().starts_with("Ready"));
    assert_eq!(hub.all_data("a"), data(&[("k", "2"), ("theirs", "2")]), "their field gone went");
    assert!(hub.annotation("a", LAST_APPLIED).is_some());
}

#[test]
fn objects_come_from_argo_cd_without_being_deleted() {
    let mut hub = Hub::new(json!({}));
    hub.argo_applies("a", json!({"k": "1"}));
    let uid = hub.config_map("a").metadata.uid;
    let message = hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert!(message.starts_with("Stalled OwnedByArgo: "), "{message}");
    assert!(message.contains("is managed by the Argo CD application shop"), "{message}");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    let deleted = hub.deleted(|hub| hub.repo(json!({"takeover": "Always"}), json!({})));
    assert_eq!((hub.message().split(':').next(), deleted.len()), (Some("Ready"), 0));
    assert_eq!((hub.data("a").as_deref(), hub.config_map("a").metadata.uid), (Some("2"), uid));
    assert_eq!(hub.annotation("a", ID), None, "an application of that name would prune it later");
    assert_eq!(hub.owned(), ["a"]);
}

#[test]
fn an_object_whose_new_content_is_refused_stays_that_of_argo_cd() {
    let mut hub = Hub::new(json!({"takeover": "Always"}));
    hub.argo_applies("a", json!({"k": "1"}));
    let refused = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  \"no key\": x\n";
    let message = hub.commit(&[("a.yaml", refused)]);
    assert!(message.starts_with("Stalled InvalidObject"), "{message}");
    assert!(hub.annotation("a", ID).is_some(), "an application goes on tracking it");
}

#[test]
fn an_application_that_tracks_by_label_is_recognized_and_its_label_goes_with_the_takeover() {
    let mut hub = Hub::new(json!({}));
    let labels = json!({"app.kubernetes.io/instance": "shop"});
    let labeled = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}, "metadata": {"namespace": "config", "name": "a", "labels": labels}});
    let made = json!({"namespace": "config", "name": "a"});
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": made, "data": {"k": "1"}}));
    hub.write_as_argo("a", Patch::Merge(labeled));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert!(message.contains("managed by the Argo CD application shop"), "{message}");
    assert!(message.contains("remove its label app.kubernetes.io/instance"), "{message}");
    hub.repo(json!({"takeover": "Always"}), json!({}));
    assert!(hub.run().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.config_map("a").metadata.labels, None);
    assert!(hub.commit(&[("b.yaml", &map("b", "1"))]).starts_with("Ready"));
    assert_eq!(hub.names(), ["b"], "it was ours and was pruned");
}

#[test]
fn a_takeover_from_an_application_that_tracks_by_annotation_and_label_removes_both() {
    for (label, left) in [("shop", None), ("chart", Some("chart"))] {
        let mut hub = Hub::new(json!({"takeover": "Always"}));
        let mut tracked = manifest("a", json!({"k": "1"}));
        tracked["metadata"]["labels"] = json!({"app.kubernetes.io/instance": label});
        hub.write_as_argo("a", Patch::Apply(tracked));
        assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"), "{}", hub.message());
        let labels = hub.config_map("a").metadata.labels.unwrap_or_default();
        let instance = labels.get("app.kubernetes.io/instance").map(String::as_str);
        assert_eq!((hub.annotation("a", ID), instance), (None, left), "a label of its own stays");
    }
}

#[test]
fn a_repository_goes_to_argo_cd_without_a_deletion() {
    for policy in ["Orphan", "Delete"] {
        let mut hub = Hub::new(json!({"deletionPolicy": policy}));
        let files = [("a.yaml", &*map("a", "1")), ("b.yaml", &*map("b", "1"))];
        hub.commit(&files);
        let deleted = hub.deleted(|hub| {
            hub.repo(json!({"deletionPolicy": policy, "mode": "Observe"}), json!({}));
            hub.run();
            hub.argo_applies("a", json!({"k": "2"}));
            hub.argo_applies("b", json!({"k": "1"}));
            assert_eq!(hub.run().split(':').next(), Some("Reconciling NotApplied"), "a has another value");
            hub.argo_applies("a", json!({"k": "1"}));
            assert!(hub.run().starts_with("Ready: the hub matches"), "{}", hub.message());
            let target = hub.world.hub.target(&object::ObjectRef::of::<ConfigRepo>(key())).unwrap();
            hub.world.hub.delete(&target, &store::DeleteOptions::default(), hub.world.now).unwrap();
        });
        assert_eq!((deleted.len(), hub.names()), (0, vec!["a".to_owned(), "b".to_owned()]), "{policy}");
        assert!(hub.world.get::<ConfigRepo>(&key()).is_none(), "{policy}");
    }
}

const MARKS: [&str; 2] = [names::CONFIG_REPO_ANNOTATION, names::APPLIED_DIGEST_ANNOTATION];

#[test]
fn what_an_application_tracks_is_left_to_it_and_does_not_come_back_with_the_mode() {
    let mut hub = Hub::new(json!({}));
    let files = [("a.yaml", &*map("a", "1")), ("b.yaml", &*map("b", "1"))];
    hub.commit(&files);
    hub.repo(json!({"mode": "Observe"}), json!({}));
    hub.run();
    assert_eq!(hub.owned(), ["a", "b"], "no application tracks them");
    hub.argo_applies("a", json!({"k": "1"}));
    assert!(hub.run().starts_with("Ready: the hub matches"), "{}", hub.message());
    for mark in MARKS {
        assert_eq!((hub.annotation("a", mark), hub.annotation("b", mark).is_some()), (None, true));
    }
    assert_eq!((hub.owned(), hub.status().objects), (vec!["b".to_owned()], Some(1)));
    assert!(hub.annotation("a", ID).is_some());
    hub.repo(json!({}), json!({}));
    assert!(hub.run().starts_with("Stalled OwnedByArgo: ConfigMap config/a"), "{}", hub.message());
    hub.repo(json!({"mode": "Apply"}), json!({}));
    hub.commit(&[("b.yaml", &map("b", "2"))]);
    assert_eq!((hub.data("b").as_deref(), hub.names().len()), (Some("2"), 2));
}

#[test]
fn a_config_repo_of_the_same_name_takes_nothing_back_from_an_application() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let target = hub.world.hub.target(&object::ObjectRef::of::<ConfigRepo>(key())).unwrap();
    hub.world.hub.delete(&target, &store::DeleteOptions::default(), hub.world.now).unwrap();
    hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
    hub.argo_merges("a", json!({"k": "1"}));
    assert!(hub.annotation("a", MARKS[0]).is_some(), "it was deleted before the application applied");
    hub.repo(json!({}), json!({}));
    let message = hub.commit(&[("a.yaml", &map("a", "2"))]);
    assert!(message.starts_with("Stalled OwnedByArgo: ConfigMap config/a"), "{message}");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn one_object_goes_to_argo_cd_without_a_deletion() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    hub.argo_merges("a", json!({"k": "1"}));
    let deleted = hub.deleted(|hub| {
        hub.commit(&[("b.yaml", &map("b", "1"))]);
    });
    assert_eq!((hub.message().split(':').next(), deleted.len()), (Some("Ready"), 0));
    assert_eq!((hub.names(), hub.owned()), (vec!["a".to_owned(), "b".into()], vec!["b".to_owned()]));
    for ours in MARKS {
        assert_eq!(hub.annotation("a", ours), None);
    }
    let message = hub.commit(&[("a.yaml", &map("a", "2")), ("b.yaml", &map("b", "1"))]);
    assert!(message.starts_with("Stalled OwnedByArgo: "), "{message}");
}

/// Returns what Argo CD compares with `managedFieldsManagers: [wheelwright-gitops]`: both sides without our
/// fields.
fn without_ours(value: &Value, live: &Object) -> Object {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let fields_of = |name: &str| {
        let (operation, api_version) = (Operation::Apply, "v1".into());
        owners.fields_of(&Manager { operation, name: name.into(), api_version, subresource: String::new() })
    };
    let (ours, theirs) = (fields_of(names::CONFIG_REPO_MANAGER), fields_of(MANAGER));
    assert!(ours.paths().iter().any(|path| path == ".data.k"), "{:?}", ours.paths());
    object(without(value, &ours, &theirs, BUILTIN.root("v1", "ConfigMap")))
}

#[test]
fn argo_cd_sees_no_difference_where_it_ignores_our_manager() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.argo_applies("a", json!({"theirs": "1"}));
    hub.commit(&[("a.yaml", &map("a", "2"))]);
    let live = Object::from_typed(&hub.config_map("a"));
    // The application also has our field, with an older value.
    let desired = manifest("a", json!({"theirs": "1", "k": "1"}));
    assert!(first_difference(&live, &object(desired.clone())).is_some());
    let (seen, wanted) = (without_ours(&live.clone().into_value(), &live), without_ours(&desired, &live));
    assert_eq!(first_difference(&seen, &wanted), None);
    let differs = without_ours(&manifest("a", json!({"theirs": "2"})), &live);
    assert_eq!(first_difference(&seen, &differs).as_deref(), Some("data.theirs"));
}

/// The delays of Argo CD's self-heal in seconds, between its defaults of two seconds and five minutes.
const SELF_HEAL: [i64; 12] = [2, 6, 18, 54, 162, 300, 300, 300, 300, 300, 300, 300];

#[test]
fn a_fight_with_the_self_heal_of_argo_cd_is_named_from_the_third_correction_on() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    let mut corrections = 0;
    for wait in SELF_HEAL {
        hub.world.run_for(SignedDuration::from_secs(wait)).unwrap();
        if corrections >= 3 {
            assert!(hub.message().contains("config/a was changed on the hub"), "{}", hub.message());
        }
        hub.argo_applies("a", json!({"k": "2"}));
        let message = hub.run();
        let Some(drift) = hub.status().drift else { continue };
        corrections = drift.corrected[0].corrections;
        let named = format!(
            "ConfigMap config/a was changed on the hub and corrected {corrections} times; argocd-controller \
             sets .data.k; the Argo CD application shop tracks it"
        );
        let is_named = message.contains(&named);
        assert_eq!(is_named, corrections >= 3, "{corrections}: {message}");
        if message.starts_with("Stalled Fight: ") {
            break;
        }
    }
    assert!(hub.message().starts_with("Stalled Fight: "), "{}", hub.message());
}

#[test]
fn a_fight_that_ends_is_no_longer_named_after_ten_minutes() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    for wait in &SELF_HEAL[..4] {
        hub.world.run_for(SignedDuration::from_secs(*wait)).unwrap();
        hub.argo_applies("a", json!({"k": "2"}));
        hub.run();
    }
    hub.world.run_for(SignedDuration::from_mins(9)).unwrap();
    let message = hub.message();
    assert!(message.starts_with("Reconciling Drifted: ConfigMap config/a was changed"), "{message}");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
    hub.world.run_for(SignedDuration::from_mins(2)).unwrap();
    assert_eq!(hub.message(), "Ready: 1 object of 000000000000");
}

const HOOK: &str = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: migrate-\n  annotations: {argocd.argoproj.io/hook: PreSync}\n";

#[test]
fn a_hook_is_not_expected_in_mode_observe_and_refused_by_its_name_in_mode_apply() {
    let skipped =
        map("b", "1").replace("  name: b", "  name: b\n  annotations: {argocd.argoproj.io/hook: Skip}");
    let files = [("a.yaml", &*map("a", "1")), ("b.yaml", &skipped), ("hook.yaml", HOOK)];
    let mut hub = Hub::new(json!({}));
    let message = hub.commit(&files);
    let refused =
        "Stalled ArgoHook: ConfigMap config/b is a Skip hook of Argo CD, and a ConfigRepo runs no hooks";
    assert!(message.starts_with(refused), "{message}");
    assert!(
        message.contains("Job.batch config/migrate- is a PreSync hook") && message.contains("(hook.yaml:1)"),
        "{message}"
    );
    assert_eq!(hub.names(), [""; 0]);
    hub.repo(json!({"mode": "Observe"}), json!({}));
    hub.argo_applies("a", json!({"k": "1"}));
    assert_eq!(hub.run(), "Ready: the hub matches 000000000000 (1 object)");
    let ignored = |text: &str| text.replace("{argocd", "{gitops.wheelwright.dev/apply: Ignore, argocd");
    hub.repo(json!({"takeover": "Always"}), json!({}));
    let files = [files[0], ("b.yaml", &*ignored(&skipped)), ("hook.yaml", &ignored(HOOK))];
    assert_eq!(hub.commit(&files), "Ready: 1 object of 000000000000");
    assert_eq!(hub.names(), ["a"]);
}

#[test]
fn the_sync_options_of_argo_cd_keep_an_object() {
    let option = |name: &str, option: &str| {
        let annotation =
            format!("  name: {name}\n  annotations: {{argocd.argoproj.io/sync-options: \"{option}\"}}");
        map(name, "1").replace(&format!("  name: {name}"), &annotation)
    };
    let (prune, delete) =
        (option("prune", "ServerSideApply=true, Prune=false"), option("delete", "Delete=false"));
    let (asks, last) = (option("asks", "Prune=confirm"), map("last", "1"));
    let files =
        [("prune.yaml", &*prune), ("delete.yaml", &delete), ("asks.yaml", &asks), ("last.yaml", &last)];
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.commit(&files);
    let message = hub.commit(&files[3..]);
    assert!(message.starts_with("Stalled DeletionsHeld"), "{message}");
    hub.commit(&files[2..]);
    assert_eq!(hub.names(), ["asks", "last", "prune"], "Delete=false is about the deletion of the whole");

    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.commit(&files);
    let target = hub.world.hub.target(&object::ObjectRef::of::<ConfigRepo>(key())).unwrap();
    hub.world.hub.delete(&target, &store::DeleteOptions::default(), hub.world.now).unwrap();
    hub.world.run_for(SignedDuration::from_secs(10)).unwrap();
    assert_eq!(hub.names(), ["delete"], "Prune=false is about what leaves the repository");
}
