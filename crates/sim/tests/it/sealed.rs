//! Secrets that are encrypted for their clusters: from a repository to the clusters, with the agents' keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, cluster, config_repo, is_completed, join, put, repo, seconds, select, select_all, world,
};
use crate::preview_looks::{compare, look};
use crate::previews::{commit, previewed};
use crate::replica_sets::{condition, get};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{
    HOSTED_MANIFEST_LOCATION, HOSTING_CLUSTER_ANNOTATION, SEALED_KEYS_ANNOTATION, SECRET_ANNOTATION,
};
use api::work::v1::ManifestWork;
use object::tree::FileTree;
use object::{Key, Metadata as _};
use preview::{HubSnapshot, ProposedCommit, Verdict};
use seal::Identity;
use sim::{Invariant, World};
use store::{Patch, ResourcePath, WriteOptions};

const CANARY: &str = "canary-5f2c";

fn secret(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "data": {"password": STANDARD.encode(value)}, "stringData": {"user": format!("{value}-user")}})
}

/// Returns a commit of a set with manifests.
fn set(number: u64, manifests: &Value) -> ProposedCommit {
    let set = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "settings", "namespace": "default"},
        "spec": {"placementRefs": [{"name": "fleet", "rolloutStrategy": {"type": "All"}}],
            "manifestWorkTemplate": {"workload": {"manifests": manifests}}},
    });
    commit(number, FileTree::from_iter([("set.yaml", set.to_string().as_bytes())]))
}

/// Returns a commit of an add-on with these manifests for the namespace `agents`.
fn addon(number: u64, manifests: &[Value]) -> ProposedCommit {
    let group = "addon.open-cluster-management.io";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let manifests: Vec<&Value> = [&namespace].into_iter().chain(manifests).collect();
    let template = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "template"},
        "spec": {"addonName": ADDON, "agentSpec": {"workload": {"manifests": manifests}}},
    });
    let config = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "settings", "namespace": "default"}, "spec": {"agentInstallNamespace": "agents"},
    });
    let addon = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON},
        "spec": {
            "supportedConfigs": [
                {"group": group, "resource": "addontemplates", "defaultConfig": {"name": "template"}},
                {"group": group, "resource": "addondeploymentconfigs",
                    "defaultConfig": {"namespace": "default", "name": "settings"}},
            ],
            "installStrategy": {"type": "Placements", "placements": [
                {"namespace": "default", "name": "fleet", "rolloutStrategy": {"type": "All"}},
            ]},
        },
    });
    let files = [("a.yaml", template), ("b.yaml", config), ("c.yaml", addon)];
    let files = files.map(|(path, object)| (path, object.to_string()));
    commit(number, files.iter().map(|(path, text)| (*path, text.as_bytes())).collect())
}

fn apply(world: &mut World, commit: &ProposedCommit) {
    world.commit(&commit.repo, &commit.head.revision, commit.head.tree.clone());
    world.run_for(seconds(60)).unwrap();
}

/// Restarts the agent of a cluster with other keys.
fn give(world: &mut World, i: usize, keys: &[u8]) {
    let settings = &mut world.spokes.get_mut(&cluster(i)).unwrap().settings;
    settings.sealing = keys.iter().map(|key| Identity::new([*key; 32])).collect();
    world.restart_agent(&cluster(i));
    world.run_for(seconds(30)).unwrap();
}

fn sealed(clusters: usize) -> World {
    let mut world = world(clusters);
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet", "secrets": "Sealed"}));
    select_all(&mut world);
    for (i, key) in (0..clusters).zip(1..) {
        give(&mut world, i, &[key]);
    }
    world
}

fn value(world: &World, i: usize, name: &str, key: &str) -> Option<String> {
    value_in("default", world, i, (name, key))
}

/// Returns the value of a Secret of the add-on.
fn value_of_addon(world: &World, i: usize, key: &str) -> Option<String> {
    value_in("agents", world, i, ("db", key))
}

fn value_in(namespace: &str, world: &World, i: usize, (name, key): (&str, &str)) -> Option<String> {
    let path = ResourcePath::of::<Secret>(&Key::namespaced(namespace, name));
    let secret = world.spokes[&cluster(i)].store.get(&path).ok()?.to_typed::<Secret>().ok()?;
    assert_ne!(secret.annotation(SECRET_ANNOTATION), Some("sealed"));
    String::from_utf8(secret.data?.get(key)?.0.clone()).ok()
}

fn works(world: &World) -> Vec<ManifestWork> {
    world.list::<ManifestWork>()
}

fn keys(work: &ManifestWork) -> &str {
    work.annotation(SEALED_KEYS_ANNOTATION).unwrap_or_default()
}

/// Fails if an object of the hub contains a value.
#[track_caller]
fn assert_hidden(world: &World) {
    let objects = HubSnapshot::new(&world.hub).objects;
    let text: String = objects.iter().map(|object| serde_json::to_string(&object.0).unwrap()).collect();
    assert!(text.contains("sealed-keys") && text.contains("ControllerRevision"));
    for plain in [CANARY.to_owned(), STANDARD.encode(CANARY), STANDARD.encode(format!("{CANARY}-user"))] {
        assert!(!text.contains(plain.trim_end_matches('=')), "{plain}");
    }
}

#[test]
fn a_secret_of_a_commit_is_ciphertext_on_the_hub_and_reaches_its_clusters() {
    let mut world = sealed(2);
    apply(&mut world, &set(1, &json!([secret("db", CANARY)])));
    assert_eq!(condition(&world, "PlacementRolledOut"), "True Complete", "{:#?}", get(&world).status);
    for i in 0..2 {
        assert_eq!(value(&world, i, "db", "password").as_deref(), Some(CANARY));
        assert_eq!(value(&world, i, "db", "user"), Some(format!("{CANARY}-user")));
    }
    assert_hidden(&world);
    assert_ne!(keys(&works(&world)[0]), keys(&works(&world)[1]));

    world.restart_operator();
    world.run_for(seconds(30)).unwrap();
    world.keep_history();
    apply(&mut world, &set(2, &json!([secret("db", CANARY)])));
    let writes = world.take_history();
    let written: Vec<_> =
        writes.iter().filter(|write| format!("{write:?}").contains("ManifestWork")).collect();
    assert!(written.is_empty(), "a commit with the same content writes nothing: {written:?}");

    apply(&mut world, &set(3, &json!([secret("db", "canary-5f2c-2")])));
    assert_eq!(value(&world, 1, "db", "password").as_deref(), Some("canary-5f2c-2"));
    assert_hidden(&world);
}

#[test]
fn another_key_of_an_agent_changes_the_keys_in_its_works_and_rolls_nothing_out() {
    let mut world = sealed(2);
    apply(&mut world, &set(1, &json!([secret("db", CANARY)])));
    let before = works(&world);
    give(&mut world, 0, &[9, 1]);
    let after = works(&world);
    assert_ne!(keys(&before[0]), keys(&after[0]));
    assert_eq!(
        (before[0].metadata.generation, keys(&before[1])),
        (after[0].metadata.generation, keys(&after[1]))
    );
    assert_eq!(condition(&world, "PlacementRolledOut"), "True Complete");
    give(&mut world, 0, &[9]);
    assert!(works(&world)[0].holds("Applied"), "the new key is enough");

    // Without the old key, the agent waits for the hub.
    give(&mut world, 0, &[8]);
    assert!(works(&world)[0].holds("Applied"), "{:#?}", works(&world)[0].status);
    assert_eq!(value(&world, 0, "db", "password").as_deref(), Some(CANARY));
}

#[test]
fn a_cluster_whose_agent_has_no_key_gets_no_encrypted_secret() {
    let mut world = sealed(1);
    join(&mut world, 1, false, seconds(3));
    // Its slot stays empty.
    world.ignore(Invariant::RolloutPromise);
    world.run_for(seconds(30)).unwrap();
    apply(&mut world, &set(1, &json!([secret("db", CANARY)])));
    assert_eq!(works(&world).len(), 1);
    let set_ = get(&world);
    let message = &set_.condition("PlacementRolledOut").unwrap().message;
    let reason = "1 cluster reports an error: cluster2: its agent publishes no key (the claim recipient.wheelwright.dev)";
    let shown = set_.conditions().iter().any(|one| one.message.contains(reason));
    assert!(shown, "{message}\n{:#?}", set_.conditions());

    let mut plain = secret("db", CANARY);
    plain["metadata"]["annotations"] = json!({ SECRET_ANNOTATION: "plain" });
    apply(&mut world, &set(2, &json!([plain])));
    let data =
        works(&world).iter().map(|work| work.spec.workload.manifests[0]["data"].clone()).collect::<Vec<_>>();
    assert_eq!(data, vec![json!({"password": STANDARD.encode(CANARY)}); 2], "it says that it is plain");
    assert!(works(&world).iter().all(|work| keys(work).is_empty()), "the keys go with the ciphertext");

    apply(&mut world, &set(3, &json!([secret("db", CANARY)])));
    give(&mut world, 1, &[7]);
    assert_eq!(value(&world, 1, "db", "user"), Some(format!("{CANARY}-user")));
}

#[test]
fn ciphertext_that_was_moved_to_another_work_is_refused_with_its_name() {
    let mut world = sealed(2);
    apply(&mut world, &set(1, &json!([secret("db", CANARY)])));
    let work = works(&world).remove(0);
    put(
        &mut world,
        json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "stolen", "namespace": cluster(1), "annotations": {SEALED_KEYS_ANNOTATION: keys(&work)}},
            "spec": work.spec}),
    );
    // A set of another tenant gets keys for it, but not those of the value.
    let thief = json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "thief", "namespace": "default"},
        "spec": {"placementRefs": [{"name": "fleet"}], "manifestWorkTemplate": {"workload": work.spec.workload}},
    });
    put(&mut world, thief);
    world.run_for(seconds(60)).unwrap();
    let all = works(&world);
    let message = |name: &str| {
        let work =
            all.iter().find(|work| work.name().starts_with(name) && work.namespace() == cluster(1)).unwrap();
        let manifest = &work.status.as_ref().unwrap().resource_status.manifests[0];
        manifest.conditions.iter().find(|one| one.type_ == "Applied").unwrap().message.clone()
    };
    let why = "Failed to apply manifest: cannot decrypt the Secret default/db: ";
    assert_eq!(message("stolen"), format!("{why}the keys of the work are encrypted for another recipient"));
    let changed = "the value \"password\" was changed or belongs to another object";
    assert_eq!(message("thief"), format!("{why}{changed}"));
    assert_eq!(value(&world, 1, "db", "password").as_deref(), Some(CANARY), "the object is left as it was");
}

#[test]
fn a_secret_of_an_add_on_is_ciphertext_on_the_hub_and_reaches_its_clusters() {
    let mut world = sealed(2);
    apply(&mut world, &addon(1, &[secret("db", CANARY)]));
    assert!(is_completed(&world));
    for i in 0..2 {
        assert_eq!(value_of_addon(&world, i, "password").as_deref(), Some(CANARY));
        assert_eq!(value_of_addon(&world, i, "user"), Some(format!("{CANARY}-user")));
    }
    assert_hidden(&world);
    assert_ne!(keys(&works(&world)[0]), keys(&works(&world)[1]));

    world.restart_operator();
    world.run_for(seconds(30)).unwrap();
    world.keep_history();
    apply(&mut world, &addon(2, &[secret("db", CANARY)]));
    let writes = world.take_history();
    let is_written = |kind: &str| writes.iter().any(|write| write.id.kind == kind);
    assert!(!is_written("ManifestWork") && !is_written("AddOnTemplate"), "the content is the same");

    apply(&mut world, &addon(3, &[secret("db", "canary-5f2c-2")]));
    assert_eq!(value_of_addon(&world, 1, "password").as_deref(), Some("canary-5f2c-2"));
    assert!(is_completed(&world));
    assert_hidden(&world);
}

#[test]
fn another_key_of_an_agent_changes_the_keys_in_the_works_of_an_add_on_and_rolls_nothing_out() {
    let mut world = sealed(2);
    apply(&mut world, &addon(1, &[secret("db", CANARY)]));
    let before = works(&world);
    world.keep_history();
    give(&mut world, 0, &[9, 1]);
    let after = works(&world);
    assert_ne!(keys(&before[0]), keys(&after[0]));
    assert_eq!(
        (before[0].metadata.generation, keys(&before[1])),
        (after[0].metadata.generation, keys(&after[1]))
    );
    let writes = world.take_history();
    let writes: Vec<_> = writes.iter().filter(|write| write.id.kind == "ClusterManagementAddOn").collect();
    assert!(is_completed(&world) && writes.is_empty(), "{writes:?}");
    give(&mut world, 0, &[9]);
    assert!(works(&world)[0].holds("Applied"), "the new key is enough");
}

#[test]
fn a_work_with_old_ciphertext_keeps_its_keys_after_the_hub_has_a_new_key() {
    let mut world = sealed(1);
    apply(&mut world, &addon(1, &[secret("db", CANARY)]));
    let before = works(&world);
    let now = world.now;
    let suspended = Patch::Merge(json!({"spec": {"suspend": true}}));
    let path = ResourcePath::of::<ConfigRepo>(&repo());
    world.hub.patch(&path, &suspended, &WriteOptions::manager("user"), now).unwrap();
    world.set_sealing_key([8; 32]);
    let seen = Patch::Merge(json!({"metadata": {"annotations": {"seen": "yes"}}}));
    let path = ResourcePath::of::<ManagedClusterAddOn>(&Key::namespaced(cluster(0), ADDON));
    world.hub.patch(&path, &seen, &WriteOptions::manager("user"), now).unwrap();
    world.run_for(seconds(60)).unwrap();
    let after = works(&world);
    assert_eq!(keys(&before[0]), keys(&after[0]));
    assert!(!keys(&after[0]).is_empty() && after[0].holds("Applied"));
}

#[test]
fn a_cluster_whose_agent_has_no_key_gets_no_add_on_with_encrypted_secrets() {
    let mut world = sealed(1);
    join(&mut world, 1, false, seconds(3));
    world.run_for(seconds(30)).unwrap();
    let mut plain = secret("db", CANARY);
    plain["metadata"]["annotations"] = json!({ SECRET_ANNOTATION: "plain" });
    apply(&mut world, &addon(1, &[plain]));
    let before = works(&world);
    assert_eq!(before.len(), 2);
    apply(&mut world, &addon(2, &[secret("db", "other")]));
    assert_eq!(works(&world)[1].spec, before[1].spec, "the cluster keeps what it has");
    assert_eq!(value_of_addon(&world, 0, "password").as_deref(), Some("other"));
    assert_eq!(value_of_addon(&world, 1, "password").as_deref(), Some(CANARY));
    let key = Key::namespaced(cluster(1), ADDON);
    let condition = |world: &World, type_: &str| {
        let condition = world.get::<ManagedClusterAddOn>(&key).unwrap().condition(type_).unwrap().clone();
        format!("{} {}: {}", condition.status, condition.reason, condition.message)
    };
    let why = "cluster2: its agent publishes no key (the claim recipient.wheelwright.dev)";
    let progressing = condition(&world, "Progressing");
    assert!(progressing.starts_with(&format!("True Progressing: progressing... {why}")), "{progressing}");
    let degraded = condition(&world, "Degraded");
    assert!(degraded.starts_with(&format!("True SecretsNotEncrypted: {why}")), "{degraded}");
    assert!(!is_completed(&world));

    give(&mut world, 1, &[7]);
    assert_eq!(value_of_addon(&world, 1, "password").as_deref(), Some("other"));
    assert!(is_completed(&world));
    assert_eq!(condition(&world, "Degraded"), "False AsExpected: ");
}

#[test]
fn a_hosted_secret_is_encrypted_for_the_hosting_cluster() {
    let mut world = sealed(2);
    give(&mut world, 0, &[]);
    let now = world.now;
    let annotations = json!({"metadata": {"annotations": {HOSTING_CLUSTER_ANNOTATION: cluster(1)}}});
    let path = ResourcePath::of::<ManagedCluster>(&Key::cluster(cluster(0)));
    world.hub.patch(&path, &Patch::Merge(annotations), &WriteOptions::manager("user"), now).unwrap();
    select(&mut world, json!({"canary": "true"}));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}});
    let mut hosted = [namespace, secret("db", CANARY)];
    for manifest in &mut hosted {
        manifest["metadata"]["annotations"] = json!({ HOSTED_MANIFEST_LOCATION: "hosting" });
    }
    apply(&mut world, &addon(1, &hosted));
    assert_eq!(
        (value_of_addon(&world, 0, "user"), value_of_addon(&world, 1, "user")),
        (None, Some(format!("{CANARY}-user")))
    );
}

#[test]
fn a_plan_of_encrypted_secrets_equals_what_happens() {
    let check = |commits: [ProposedCommit; 2]| {
        let mut world = sealed(2);
        // The second cluster gets nothing.
        give(&mut world, 1, &[]);
        world.ignore(Invariant::RolloutPromise);
        for commit in commits {
            let (preview, before) = (previewed(&world, &commit), look(&world));
            apply(&mut world, &commit);
            compare(&preview, &before, &look(&world)).unwrap();
            assert_eq!(preview.works.iter().flat_map(|work| &work.clusters).count(), 1, "{preview:#?}");
        }
    };
    let [first, second] = [vec![secret("db", CANARY)], vec![secret("db", CANARY), secret("api", "other")]];
    check([set(1, &json!(first)), set(2, &json!(second))]);
    check([addon(1, &first), addon(2, &second)]);
}

#[test]
fn a_preview_without_the_key_shows_new_values_only() {
    let mut world = sealed(2);
    apply(&mut world, &set(1, &json!([secret("db", CANARY)])));
    let verdict = |manifests: Value| {
        let preview = previewed(&world, &set(2, &manifests));
        assert!(!serde_json::to_string(&preview).unwrap().contains(CANARY));
        preview.verdict
    };
    assert_eq!(verdict(json!([secret("db", CANARY)])), Verdict::NoChange);
    assert_eq!(verdict(json!([secret("db", "other")])), Verdict::NoChange);
    assert_eq!(verdict(json!([secret("db", CANARY), secret("api", CANARY)])), Verdict::Change);

    let mut world = sealed(2);
    apply(&mut world, &addon(1, &[secret("db", CANARY)]));
    assert_eq!(previewed(&world, &addon(2, &[secret("db", "other")])).verdict, Verdict::NoChange);
    assert_eq!(previewed(&world, &addon(2, &[secret("api", "other")])).verdict, Verdict::Change);
}

#[test]
fn secrets_that_cannot_be_encrypted_refuse_the_commit() {
    let mut world = sealed(1);
    let message = |world: &World| {
        let repo = world.get::<ConfigRepo>(&repo()).unwrap();
        repo.status.unwrap().conditions.iter().map(|one| one.message.clone()).collect::<String>()
    };
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": cluster(0)},
        "spec": {"workload": {"manifests": [secret("db", CANARY)]}},
    });
    let of = |number, object: &Value| {
        commit(number, FileTree::from_iter([("a.yaml", object.to_string().as_bytes())]))
    };
    apply(&mut world, &of(1, &work));
    let why = "a ManifestWork cannot contain Secrets; move the Secret default/db to";
    assert!(message(&world).contains(why), "{}", message(&world));
    let mut variable = secret("db", CANARY);
    variable["stringData"]["user"] = json!("{{CLUSTER_NAME}}");
    apply(&mut world, &addon(4, &[variable]));
    let why = "the Secret default/db has a variable in stringData.user, which cannot be replaced";
    assert!(message(&world).contains(why), "{}", message(&world));
    let mut broken = secret("db", CANARY);
    broken["data"]["password"] = json!(CANARY);
    apply(&mut world, &set(2, &json!([broken])));
    assert!(message(&world).contains("has no base64 in data.password"), "{}", message(&world));
    assert!(!message(&world).contains(CANARY), "{}", message(&world));
    config_repo(
        &mut world,
        &repo(),
        json!({"url": "https://git.example/fleet", "secrets": "Sealed", "mode": "Observe"}),
    );
    apply(&mut world, &set(3, &json!([secret("db", CANARY)])));
    assert!(message(&world).contains("spec.secrets: Sealed needs spec.mode: Apply"), "{}", message(&world));
}
