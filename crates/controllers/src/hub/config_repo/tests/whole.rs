//! Tests that a commit is applied or refused as a whole.

use std::cell::{Cell, RefCell};

use super::*;
use api::cluster::v1beta2::ManagedClusterSet;
use k8s_openapi::api::core::v1::Namespace;
use reconcile::EventType;

/// A Placement with a misspelled field, which no API server accepts.
const MISSPELT: &str = "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata:\n  name: p\nspec:\n  clusterSet: [blue]\n";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: new\n";
const ROLE: &str =
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: writer\nrules: []\n";
const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: writer\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}\n";

thread_local! {
    /// The names of the objects in dry runs.
    static DRY_RUNS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The number of applied bindings.
    static BINDINGS: Cell<usize> = const { Cell::new(0) };
}

/// Records the dry runs.
fn recording(
    sites: &mut sim::Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
) -> reconcile::Outcome {
    if let Action::Apply { object, dry_run: true, .. } = action {
        DRY_RUNS.with_borrow_mut(|names| names.push(object.name().to_owned()));
    }
    sim::execute(sites, manager, action, now)
}

/// Rejects ConfigMaps until a RoleBinding is applied, and RoleBindings in a dry run, because the role does not
/// exist then.
fn granting(
    sites: &mut sim::Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
) -> reconcile::Outcome {
    let Action::Apply { object, dry_run, .. } = action else {
        return sim::execute(sites, manager, action, now);
    };
    let refused = |kind, message: &str| Err(Failure { kind, message: message.into() });
    match (object.kind(), dry_run) {
        ("ConfigMap", _) if BINDINGS.get() == 0 => refused(FailureKind::Forbidden, "configmaps is forbidden"),
        ("RoleBinding", true) => refused(FailureKind::NotFound, "roles \"writer\" not found"),
        ("RoleBinding", false) => {
            BINDINGS.set(BINDINGS.get() + 1);
            sim::execute(sites, manager, action, now)
        }
        _ => sim::execute(sites, manager, action, now),
    }
}

/// Returns the definition of a kind whose objects have these fields, and an object with one of them.
fn definition(fields: &[&str]) -> String {
    let fields: Vec<_> = fields.iter().map(|field| format!("{field}: {{type: string}}")).collect();
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: foos.x.io\nspec:\n  group: x.io\n  \
         scope: Namespaced\n  names: {{kind: Foo, plural: foos, singular: foo, listKind: FooList}}\n  versions:\n  - name: v1\n    \
         served: true\n    storage: true\n    schema:\n      openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, \
         properties: {{{}}}}}}}}}\n",
        fields.join(", ")
    )
}

fn foo(field: &str) -> String {
    format!("apiVersion: x.io/v1\nkind: Foo\nmetadata:\n  name: f\nspec:\n  {field}: x\n")
}

impl Hub {
    fn warnings(&mut self) -> Vec<String> {
        let events = self.world.take_events().into_iter();
        let warnings = events.filter(|event| event.event_type == EventType::Warning);
        warnings.map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }

    fn has_set(&self) -> bool {
        self.world.get::<ManagedClusterSet>(&Key::cluster("blue")).is_some()
    }
}

#[test]
fn nothing_of_a_commit_with_a_misspelled_field_is_written() {
    let mut hub = Hub::new(json!({}));
    assert!(hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]).starts_with("Ready"));
    let (owned, before) = (hub.owned(), hub.versions());
    hub.world.take_events();

    let files =
        [("a.yaml", map("a", "2")), ("placement.yaml", MISSPELT.into()), ("set.yaml", SET.to_owned())];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let message = hub.commit(&files);
    assert!(message.starts_with("Stalled InvalidObject: cannot apply 000000000000: "), "{message}");
    assert!(message.contains(".spec.clusterSet: field not declared in schema"), "{message}");
    assert!(message.contains("(placement.yaml:"), "{message}");
    assert!(message.ends_with("; 000000000000 stays applied"), "{message}");
    assert_eq!((hub.owned(), hub.versions(), hub.has_set()), (owned, before, false));
    assert_eq!(hub.status().partial, None);
    let warnings = hub.warnings();
    assert!(
        matches!(&warnings[..], [one] if one.starts_with("InvalidObject: ") && one.contains(".spec.clusterSet")),
        "{warnings:?}"
    );

    hub.world.run_for(SignedDuration::from_mins(30)).unwrap();
    assert_eq!((hub.message(), hub.has_set(), hub.warnings()), (message, false, Vec::new()));
    let corrected = MISSPELT.replace("clusterSet:", "clusterSets:");
    let files = [files[0], ("placement.yaml", &corrected), files[2]];
    assert!(hub.commit(&files).starts_with("Ready"), "{}", hub.message());
    assert_eq!((hub.data("a").as_deref(), hub.data("b"), hub.has_set()), (Some("2"), None, true));
}

#[test]
fn a_permission_refusal_is_an_event_too() {
    let setup = sim::Setup { execute: granting, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({}));
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("set.yaml", SET)]);
    assert!(message.starts_with("Stalled Forbidden: "), "{message}");
    assert!(!hub.has_set());
    let warnings = hub.warnings();
    assert!(matches!(&warnings[..], [one] if one.starts_with("Forbidden: ")), "{warnings:?}");
}

#[test]
fn objects_of_a_stage_that_waits_for_health_are_judged_before_the_first_write() {
    let mut hub = Hub::new(json!({}));
    let set = "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata:\n  name: s\nspec: {placementRef: []}\n";
    let message =
        hub.commit(&[("a.yaml", &map("a", "1")), ("web.yaml", super::health::WORKLOAD), ("s.yaml", set)]);
    assert!(message.starts_with("Stalled InvalidObject: "), "{message}");
    assert!(message.contains(".spec.placementRef: field not declared"), "{message}");
    assert_eq!((hub.names(), hub.owned()), (Vec::new(), Vec::new()));
}

#[test]
fn a_refusal_in_a_namespace_of_the_same_commit_leaves_the_namespace_alone() {
    let mut hub = Hub::new(json!({}));
    let inside =
        map("b", "1").replace("  name: b", "  name: b\n  namespace: new").replace("\ndata:", "\ndat:");
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &inside), ("ns.yaml", NAMESPACE)]);
    assert!(message.starts_with("Stalled InvalidObject: "), "{message}");
    assert!(message.ends_with("; 1 of the 3 objects of 000000000000 were applied"), "{message}");
    assert!(hub.world.get::<Namespace>(&Key::cluster("new")).is_some());
    assert_eq!(hub.names(), Vec::<String>::new());
    assert_eq!(hub.status().partial.unwrap().commit, format!("{:040x}", 1));
}

#[test]
fn an_object_is_judged_by_the_definition_of_its_own_commit() {
    for timeout in ["5m", "0s"] {
        let mut hub = Hub::new(json!({"healthTimeout": timeout}));
        hub.world.take_events();
        let files = |fields: &[&str], field: &str| [definition(fields), foo(field), map("a", field)];
        let mut commit = |fields: &[&str], field: &str| {
            let [definition, foo, map] = files(fields, field);
            hub.commit(&[("crd.yaml", &definition), ("foo.yaml", &foo), ("a.yaml", &map)]);
            hub.world.run_for(SignedDuration::from_secs(30)).unwrap();
            (hub.message(), hub.data("a"), hub.warnings().len())
        };
        let (message, data, warnings) = commit(&["one"], "one");
        assert_eq!(
            (&message[..5], data.as_deref(), warnings),
            ("Ready", Some("one"), 0),
            "{timeout} {message}"
        );
        let (message, data, warnings) = commit(&["one", "two"], "two");
        assert_eq!(
            (&message[..5], data.as_deref(), warnings),
            ("Ready", Some("two"), 0),
            "{timeout} {message}"
        );
        let (message, data, warnings) = commit(&["one", "two", "three"], "thre");
        assert!(message.starts_with("Stalled InvalidObject: "), "{timeout} {message}");
        assert_eq!((data.as_deref(), warnings), (Some("two"), 1), "only the definition is written");
    }
}

#[test]
fn objects_that_need_the_permissions_of_their_commit_are_judged_after_these() {
    BINDINGS.set(0);
    let setup = sim::Setup { execute: granting, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({"serviceAccountName": "deployer"}));
    let files = [("a.yaml", map("a", "1")), ("b.yaml", BINDING.into()), ("r.yaml", ROLE.into())];
    let files: Vec<_> = files.iter().map(|(path, text): &(_, String)| (*path, text.as_str())).collect();
    let message = hub.commit(&files);
    assert!(message.starts_with("Ready"), "{message}");
    assert_eq!((hub.data("a").as_deref(), hub.warnings()), (Some("1"), Vec::new()));
}

#[test]
fn a_commit_with_a_binding_to_a_missing_role_is_refused_as_a_whole() {
    BINDINGS.set(0);
    let setup = sim::Setup { execute: granting, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({"serviceAccountName": "deployer"}));
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", BINDING)]);
    assert!(message.starts_with("Stalled Forbidden: "), "{message}");
    hub.world.run_for(SignedDuration::from_mins(30)).unwrap();
    assert_eq!((hub.owned(), BINDINGS.get(), hub.warnings().len()), (Vec::new(), 0, 1), "{}", hub.message());
}

#[test]
fn dry_runs_are_made_for_what_changes_and_only_once() {
    let setup = sim::Setup { execute: recording, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({}));
    let dry_runs = |hub: &mut Hub, files: &[(&str, &str)]| {
        DRY_RUNS.with_borrow_mut(Vec::clear);
        let message = hub.commit(files);
        assert!(message.starts_with("Ready"), "{message}");
        let mut names = DRY_RUNS.with_borrow(Clone::clone);
        names.sort();
        names
    };
    let (a, b, set) = (map("a", "1"), map("b", "1"), ("set.yaml", SET));
    let all = [("a.yaml", a.as_str()), ("b.yaml", b.as_str()), set];
    assert_eq!(dry_runs(&mut hub, &all), ["a", "b", "blue"]);
    assert_eq!(
        dry_runs(&mut hub, &[all[0], all[1], all[2], ("README", "x")]),
        [""; 0],
        "nothing has changed"
    );
    let changed = map("a", "2");
    assert_eq!(dry_runs(&mut hub, &[("a.yaml", &changed), all[1], all[2]]), [""; 0], "a single write");
    let new = map("c", "1");
    let files = [("a.yaml", changed.as_str()), all[1], all[2], ("c.yaml", new.as_str())];
    assert_eq!(dry_runs(&mut hub, &files), ["c"], "the inventory would be written before it");
    assert_eq!(dry_runs(&mut hub, &files[..3]), [""; 0], "a deletion");
}

#[test]
fn a_refusal_names_the_line_of_the_field_in_the_file_that_has_it() {
    let deployment = "# The web server.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  selector: {matchLabels: {app: web}}\n  \
                      template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: side\n        image: side\n      \
                      - name: web\n        image: web\n        IMAGE\n";
    let kustomization = "resources: [../base]\npatches:\n- path: replicas.yaml\n";
    let base = "resources: [web.yaml]\n";
    let patch = |replicas: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: {replicas}\n"
        )
    };
    let list = format!("{}---\n{}", map("a", "1"), map("b", "1").replace("k:", "\"no key\":"));
    for (web, replicas, place) in [
        (deployment.replace("IMAGE", "imagePullpolicy: Always"), "2", "(base/web.yaml:16)"),
        (deployment.replace("IMAGE", "ports: [{containerPort: many}]"), "2", "(base/web.yaml:16)"),
        (deployment.replace("IMAGE", "stdin: true"), "many", "(prod/replicas.yaml:6)"),
    ] {
        let mut hub = Hub::new(json!({"path": "prod", "healthTimeout": "0s"}));
        let files = [
            ("base/kustomization.yaml", base),
            ("base/web.yaml", &web),
            ("prod/kustomization.yaml", kustomization),
            ("prod/replicas.yaml", &patch(replicas)),
        ];
        let message = hub.commit(&files);
        assert!(message.starts_with("Stalled InvalidObject") && message.contains(place), "{message}");
    }
    let mut hub = Hub::new(json!({}));
    let message = hub.commit(&[("list.yaml", &list)]);
    assert!(message.contains("(list.yaml:13)"), "{message}");
    let message = hub.commit(&[("placement.yaml", MISSPELT)]);
    assert!(message.contains("; did you mean \"clusterSets\"? (placement.yaml:6); "), "{message}");
}
