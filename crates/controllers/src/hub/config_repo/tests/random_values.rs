use k8s_openapi::api::core::v1::Secret;

use super::*;

const CHART: (&str, &str) = ("Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}");
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: config}\ndata:\n  k: {{ randAlphaNum 20 }}\n  at: {{ now | date \"2006-01-02\" | quote }}\n";
const DRAWN: &str = "Reconciling Waiting: random values are being drawn for default/web";

fn secret(hub: &Hub) -> Option<Secret> {
    hub.world.get(&Key::namespaced("config", "fleet-random-values"))
}

/// Makes the source controller fetch again.
fn fetch(hub: &mut Hub) -> String {
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "any"}}));
    hub.run()
}

#[test]
fn random_values_are_drawn_once_before_the_chart_is_applied() {
    let mut hub = Hub::new(json!({}));
    assert_eq!(hub.commit(&[CHART, ("templates/a.yaml", TEMPLATE)]), DRAWN);
    assert!(hub.data("a").is_none());
    let uid = hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.uid;
    let made = secret(&hub).unwrap();
    let owners = made.metadata.owner_references.unwrap();
    assert_eq!((owners.len(), Some(&owners[0].uid)), (1, uid.as_ref()));
    let recorded = hub.status().random_values;
    assert_eq!(recorded[0].release, "default/web");

    assert_eq!(fetch(&mut hub), "Ready: 1 object of 000000000000");
    let value = hub.data("a").unwrap();
    assert_eq!(value.len(), 20);
    let moved = format!("# A line above.\n---\n{TEMPLATE}");
    let more = TEMPLATE.replace("name: a", "name: b");
    hub.world.run_for(SignedDuration::from_hours(48)).unwrap();
    assert_eq!(
        hub.commit(&[CHART, ("templates/a.yaml", &moved), ("templates/b.yaml", &more)]),
        "Ready: 2 objects of 000000000000"
    );
    assert_eq!(hub.data("a"), Some(value));
    let other = hub.data("b").unwrap();
    assert_ne!(hub.data("a"), Some(other));
    let map = hub.world.get::<ConfigMap>(&Key::namespaced("config", "a")).unwrap();
    assert_eq!(map.data.unwrap()["at"], "2026-01-02");
    assert_eq!(hub.status().random_values, recorded);
}

#[test]
fn another_release_draws_its_own_values() {
    let mut hub = Hub::new(json!({}));
    let kustomization = |names: &[&str]| {
        let charts =
            names.iter().map(|name| format!("- {{name: web, releaseName: {name}, namespace: config}}\n"));
        format!("helmCharts:\n{}", charts.collect::<String>())
    };
    let template = TEMPLATE.replace("name: a", "name: '{{ .Release.Name }}'");
    let commit = |hub: &mut Hub, names: &[&str]| {
        hub.commit(&[
            ("kustomization.yaml", &kustomization(names)),
            ("charts/web/Chart.yaml", CHART.1),
            ("charts/web/templates/a.yaml", &template),
        ]);
        fetch(hub)
    };
    assert_eq!(commit(&mut hub, &["a"]), "Ready: 1 object of 000000000000");
    let first = hub.data("a").unwrap();
    assert_eq!(commit(&mut hub, &["b", "a"]), "Ready: 2 objects of 000000000000");
    assert_eq!(hub.data("a"), Some(first.clone()));
    assert_ne!(hub.data("b"), Some(first));
    let recorded: Vec<_> = hub.status().random_values.into_iter().map(|one| one.release).collect();
    assert_eq!(recorded, ["config/a", "config/b"]);
}

#[test]
fn a_secret_without_a_seed_is_named() {
    let mut hub = Hub::new(json!({}));
    let name = json!({"namespace": "config", "name": "fleet-random-values"});
    hub.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": name}));
    assert_eq!(
        hub.commit(&[CHART, ("templates/a.yaml", TEMPLATE)]),
        "Stalled RandomValuesUnknown: the random values of default/web are unknown: the Secret config/fleet-random-values has \
         no seed of 32 bytes; nothing has been applied yet"
    );
}

#[test]
fn mode_observe_draws_no_random_values() {
    let mut hub = Hub::new(json!({"mode": "Observe"}));
    assert_eq!(
        hub.commit(&[CHART, ("templates/a.yaml", TEMPLATE)]),
        "Stalled RandomValuesUnknown: mode Observe writes nothing, so it draws no random values for default/web; nothing has \
         been applied yet"
    );
    assert!(secret(&hub).is_none());
}

#[test]
fn the_identity_of_the_config_repo_creates_the_secret() {
    let repo: ConfigRepo = serde_json::from_value(json!({
        "metadata": {"namespace": "config", "name": "fleet", "uid": "1", "generation": 1, "resourceVersion": "1"},
        "spec": {"url": "https://git.example/fleet", "deletionPolicy": "Orphan", "serviceAccountName": "deployer"},
    }))
    .unwrap();
    let tree: FileTree = [CHART, ("templates/a.yaml", TEMPLATE)]
        .into_iter()
        .map(|(path, text)| (path, text.as_bytes()))
        .collect();
    let checkout = object::tree::Checkout { revision: "1".into(), tree };
    let seed = object::Seed { bytes: [1; 32], time: Timestamp::UNIX_EPOCH };
    let source = reconcile::Source {
        entropy: Some(seed),
        ..reconcile::Source::of(&repo, Some(Arc::new(checkout)), None)
    };
    let mut caches = Caches::default();
    caches.replace::<ConfigRepo>(reconcile::Site::Hub, vec![repo.clone()], "1");
    caches.replace::<ConfigRepoInventory>(reconcile::Site::Hub, vec![], "1");
    caches.set_source(key(), source);
    let plan = ConfigRepoController::plan(&key(), &caches, Timestamp::UNIX_EPOCH).unwrap();
    let [Action::Create { object, impersonate, .. }] = &plan.steps[0][..] else { panic!("{plan:?}") };
    assert_eq!(impersonate.as_deref(), Some("system:serviceaccount:config:deployer"));
    let made = object.to_typed::<Secret>().unwrap();
    assert_eq!(crate::random_values::seed(&repo, &made), Ok(seed));
    let later = ConfigRepo { metadata: Default::default(), ..repo };
    assert!(crate::random_values::seed(&later, &made).unwrap_err().contains("belongs to another fleet"));
}
