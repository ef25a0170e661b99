use super::*;
use api::names::{OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL};
use jiff::SignedDuration;
use serde_json::json;
use sim::World;

/// Returns a commit with a ConfigMap for each of two ConfigRepos.
fn commit(number: usize, [infra, apps]: [&str; 2]) -> Arc<Checkout> {
    let map = |value: &str| {
        let metadata = json!({"name": format!("of-{value}"), "namespace": "config"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string().into_bytes()
    };
    let tree = [("infra/a.yaml", map(infra)), ("apps/b.yaml", map(apps))].into_iter().collect();
    Arc::new(Checkout { revision: number.to_string().repeat(40), tree })
}

#[test]
fn the_planned_commit_replaces_a_lost_base_only_if_the_objects_are_equal() {
    let [infra, apps] = ["infra", "apps"].map(|name| Key::namespaced("config", name));
    let repo = |key: &Key| {
        let metadata = json!({"namespace": key.namespace, "name": key.name});
        let spec = json!({"url": "https://git.example/fleet", "path": key.name});
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": metadata, "spec": spec})
    };
    let labels = json!({OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED});
    let metadata = json!({"name": "config", "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let mut world = World::new(1, "2026-01-02T03:04:05Z".parse().unwrap());
    for object in [namespace, repo(&infra), repo(&apps)] {
        world.apply(Object::from_value(object).unwrap()).unwrap();
    }
    let first = commit(1, ["i", "a"]);
    world.commit(&apps, &first.revision, first.tree.clone());
    world.run_for(SignedDuration::from_mins(1)).unwrap();
    let (snapshot, now) = (HubSnapshot::new(&world.hub), world.now);

    let lost = |repo: &Key| BTreeMap::from([(repo.clone(), "1".repeat(40))]);
    let base = |own: Arc<Checkout>| {
        let applied = AppliedCommits { found: BTreeMap::from([(infra.clone(), own)]), lost: lost(&apps) };
        applied.base(&infra, &snapshot, now)
    };
    let lacks = "the repository does not have 111111111111, which ConfigRepo config/apps had applied: ";
    let (commits, warnings) = base(commit(2, ["j", "a"])).unwrap();
    let own = [&apps, &infra].map(|repo| (repo.clone(), commit(2, ["j", "a"])));
    assert_eq!(commits, BTreeMap::from(own));
    let explanation = "the plan uses 222222222222 as its base instead, which has the same objects";
    assert_eq!(warnings, [format!("{lacks}{explanation}")]);

    let unknown = base(commit(2, ["j", "b"])).unwrap_err();
    let reason = "it follows the same commits as config/infra, and objects may move between the two, so a plan would be wrong without it";
    assert_eq!(unknown.error.to_string(), format!("{lacks}{reason}"));
    assert!(unknown.hint.unwrap().contains("--base"));

    let own = AppliedCommits { found: BTreeMap::new(), lost: lost(&infra) };
    let own = own.base(&infra, &snapshot, now).unwrap_err().error.to_string();
    assert!(own.ends_with("ConfigRepo config/infra had applied, so there is nothing to compare with"));
}
