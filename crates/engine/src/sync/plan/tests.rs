use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sync::{Rendered, desired, digest};
use reconcile::Unread;

fn repo() -> Key {
    Key::namespaced("ns", "repo")
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn config_map(name: &str, data: &str) -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"k": data}}),
    )
}

fn commit(objects: &[Object]) -> Vec<Desired> {
    let rendered =
        objects.iter().map(|object| Rendered { object: object.clone(), origin: "a.yaml:1".into() });
    desired(&repo(), rendered.collect(), false).unwrap()
}

/// A hub that does as it is told.
#[derive(Default)]
struct Hub {
    objects: BTreeMap<Id, Arc<Object>>,
    inventory: Inventory,
    policy: Policy,
    unread: Vec<&'static str>,
    missing: BTreeSet<String>,
    writes: usize,
    deleted: Vec<Id>,
}

impl Hub {
    fn new() -> Self {
        Self {
            policy: Policy { prune: true, budget: Some(Budget::default()), ..Policy::default() },
            ..Self::default()
        }
    }

    fn read(&self, what: &ObjectRef) -> Read<Option<Arc<Object>>> {
        if self.unread.contains(&what.gvk.kind.as_str()) {
            return Err(Unread {
                what: what.gvk.to_string(),
                why: "its first list has not been read yet".into(),
            });
        }
        Ok(self.objects.get(&Id::of(what)).cloned())
    }

    fn plan(&self, desired: &[Desired]) -> Sync {
        let (claimed, missing) = (BTreeMap::new(), self.missing.clone());
        let input = Input {
            repo: &repo(),
            desired,
            inventory: &self.inventory,
            claimed: &claimed,
            missing: &missing,
            policy: &self.policy,
        };
        plan(&input, |what| self.read(what))
    }

    /// Executes a plan, dying after some writes.
    fn execute(&mut self, sync: &Sync, crash_after: usize) {
        if crash_after == 0 {
            return;
        }
        self.inventory = sync.inventory.clone();
        let steps = sync.apply.iter().chain([&sync.correct]).chain(&sync.delete);
        for action in steps.flatten().take(crash_after - 1) {
            self.act(action);
            self.check();
        }
    }

    fn act(&mut self, action: &Action) {
        self.writes += 1;
        match action {
            Action::Apply { object, .. } => {
                self.objects.insert(Id::of(&object.reference()), Arc::new(object.clone()));
            }
            Action::Delete { target, .. } => {
                self.objects.remove(&Id::of(target));
                self.deleted.push(Id::of(target));
            }
            other => panic!("{other:?}"),
        }
    }

    /// I6: what is marked as ours, and not kept on purpose, is in the inventory.
    fn check(&self) {
        for (id, object) in &self.objects {
            let kept = object.annotations().contains_key(names::PRUNE_ANNOTATION);
            assert!(
                kept || !is_marked(object, &repo()) || self.inventory.contains_key(id),
                "{id} is not in the inventory"
            );
        }
    }

    fn settle(&mut self, desired: &[Desired]) -> Sync {
        for _ in 0..4 {
            let sync = self.plan(desired);
            self.execute(&sync, usize::MAX);
        }
        self.plan(desired)
    }

    fn names(&self) -> Vec<&str> {
        self.objects.keys().map(|id| id.key.name.as_str()).collect()
    }
}

#[test]
fn a_second_plan_writes_nothing() {
    let (mut hub, wanted) = (Hub::new(), commit(&[config_map("a", "1"), config_map("b", "1")]));
    assert!(hub.settle(&wanted).is_settled());
    assert_eq!(hub.writes, 2);
    assert_eq!(hub.plan(&wanted).inventory, hub.inventory);
}

#[test]
fn a_field_that_left_the_manifest_is_applied_away() {
    let mut hub = Hub::new();
    let mut first = config_map("a", "1");
    first.0.insert("immutable".into(), true.into());
    hub.settle(&commit(&[first]));
    let sync = hub.plan(&commit(&[config_map("a", "1")]));
    assert_eq!(sync.apply.len(), 1, "the live object covers the manifest, and is applied all the same");
}

#[test]
fn stages_are_barriers_in_order_and_deletions_go_the_other_way() {
    let namespace = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}));
    let addon = object(
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "m"}}),
    );
    let wanted = commit(&[addon, config_map("a", "1"), namespace, config_map("b", "1")]);
    let mut hub = Hub::new();
    let kinds = |steps: &[Vec<Action>]| -> Vec<Vec<String>> {
        let kind = |action: &Action| match action {
            Action::Apply { object, .. } => object.kind().to_owned(),
            Action::Delete { target, .. } => target.gvk.kind.clone(),
            other => panic!("{other:?}"),
        };
        steps.iter().map(|step| step.iter().map(kind).collect()).collect()
    };
    assert_eq!(
        kinds(&hub.plan(&wanted).apply),
        [vec!["Namespace"], vec!["ConfigMap", "ConfigMap"], vec!["ClusterManagementAddOn"]]
    );
    hub.settle(&wanted);
    let gone = commit(&[object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}))]);
    assert_eq!(
        kinds(&hub.plan(&gone).delete),
        [vec!["ClusterManagementAddOn"], vec!["ConfigMap", "ConfigMap"]]
    );
}

#[test]
fn a_kind_that_cannot_be_read_freezes_its_deletions_and_writes() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1")]));
    hub.unread = vec!["ConfigMap"];
    let secret =
        object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}}));
    let sync = hub.plan(&commit(&[secret]));
    assert!(sync.delete.is_empty() && sync.held.is_none() && sync.apply.len() == 1);
    assert_eq!(sync.inventory.len(), 3, "what could not be read stays in the inventory");
    let sync = hub.plan(&commit(&[config_map("a", "2")]));
    assert!(sync.apply.is_empty() && sync.inventory == hub.inventory);
    assert_eq!(
        sync.waiting,
        [
            "cannot read ConfigMap: its first list has not been read yet; if this stays, is the definition of ConfigMap installed?"
        ]
    );
}

#[test]
fn a_kind_defined_in_the_same_commit_does_not_wait() {
    let definition = object(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"kind": "Foo"}}}),
    );
    let foo = object(json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}));
    let mut hub = Hub::new();
    hub.unread = vec!["Foo"];
    let wanted = commit(&[foo, definition]);
    assert_eq!(
        wanted[1].reference.key,
        Key::namespaced("ns", "f"),
        "the definition says that the kind lives in namespaces"
    );
    let sync = hub.plan(&wanted);
    assert_eq!((sync.apply.len(), sync.waiting.len()), (2, 0));
    assert!(matches!(&sync.apply[1][0], Action::Apply { force: false, .. }));
}

#[test]
fn deletions_over_the_budget_wait_for_exactly_their_approval() {
    let all: Vec<_> = (0..8).map(|i| config_map(&format!("c{i}"), "1")).collect();
    let mut hub = Hub::new();
    hub.settle(&commit(&all));
    let left = commit(&all[..1]);
    let sync = hub.settle(&left);
    let held = sync.held.clone().unwrap();
    assert_eq!((held.objects.len(), hub.names().len(), hub.inventory.len()), (7, 8, 8));
    assert_eq!(held.why, "7 deletions are over the budget of 5");
    hub.policy.approved = "something else".into();
    assert!(hub.settle(&left).held.is_some());
    hub.policy.approved = held.approval;
    assert!(hub.settle(&left).is_settled());
    assert_eq!((hub.names(), hub.inventory.len()), (vec!["c0"], 1));
}

#[test]
fn what_is_not_ours_any_more_is_let_go() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[
        config_map("stays", "1"),
        config_map("kept", "1"),
        config_map("theirs", "1"),
        config_map("x", "1"),
    ]));
    let edit = |hub: &mut Hub, name: &str, annotation: &str, value: &str| {
        let id = hub.objects.keys().find(|id| id.key.name == name).unwrap().clone();
        let mut live = (**hub.objects.get(&id).unwrap()).clone();
        live.metadata_mut()["annotations"][annotation] = value.into();
        hub.objects.insert(id, Arc::new(live));
    };
    edit(&mut hub, "kept", names::PRUNE_ANNOTATION, "disabled");
    edit(&mut hub, "theirs", names::CONFIG_REPO_ANNOTATION, "ns/other");
    assert!(hub.settle(&commit(&[config_map("stays", "1")])).is_settled());
    assert_eq!(hub.names(), ["kept", "stays", "theirs"]);
    assert_eq!(hub.inventory.len(), 1);
}

#[test]
fn an_object_that_waits_for_its_namespace_holds_nothing_up() {
    let mut hub = Hub::new();
    let mut elsewhere = config_map("b", "1");
    elsewhere.metadata_mut().insert("namespace".into(), "cluster-1".into());
    let wanted = commit(&[config_map("a", "1"), elsewhere]);
    assert_eq!(super::homes(&wanted), ["cluster-1".to_owned(), "ns".to_owned()].into());
    hub.missing = ["cluster-1".to_owned()].into();
    let sync = hub.settle(&wanted);
    assert_eq!((hub.names(), sync.homeless.len(), sync.is_settled()), (vec!["a"], 1, false));
    hub.missing.clear();
    assert!(hub.settle(&wanted).is_settled());
}

#[test]
fn without_prune_nothing_is_deleted() {
    let mut hub = Hub::new();
    hub.policy.prune = false;
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1")]));
    assert!(hub.settle(&commit(&[config_map("a", "1")])).is_settled());
    assert_eq!(hub.names(), ["a", "b"]);
}

#[test]
fn a_repository_never_deletes_itself_or_its_namespace() {
    let own = object(
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": "repo", "namespace": "ns"}}),
    );
    let home = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    let mut hub = Hub::new();
    hub.settle(&commit(&[own, home, config_map("a", "1")]));
    assert!(hub.settle(&commit(&[config_map("a", "1")])).is_settled());
    assert_eq!(hub.deleted, []);
}

#[test]
fn drift_is_put_right_apart_from_changes() {
    let (mut hub, wanted) = (Hub::new(), commit(&[config_map("a", "1"), config_map("b", "1")]));
    hub.settle(&wanted);
    let id = hub.objects.keys().next().unwrap().clone();
    let mut live = (**hub.objects.get(&id).unwrap()).clone();
    live.0["data"]["k"] = "edited".into();
    live.0["data"]["more"] = "ours to ignore".into();
    hub.objects.insert(id, Arc::new(live));
    let sync = hub.plan(&wanted);
    assert_eq!((sync.apply.len(), sync.correct.len()), (0, 1));
}

#[test]
fn one_refused_object_refuses_the_commit() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("old", "1")]));
    hub.act(&Action::apply(config_map("theirs", "2")));
    let sync = hub.plan(&commit(&[config_map("new", "1"), config_map("theirs", "1")]));
    assert!(sync.apply.is_empty() && sync.delete.is_empty() && sync.inventory == hub.inventory);
    assert_eq!(sync.problems[0].reason, "TakeoverRefused");
    assert!(sync.problems[0].to_string().ends_with("(a.yaml:1)"));
}

#[test]
fn objects_are_checked_and_freed_of_what_a_repository_has_no_say_in() {
    let rendered = |value: Value| Rendered { object: object(value), origin: "x.yaml:3".into() };
    let hostile = json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {"x": 1}, "metadata": {"name": "a", "uid": "u", "resourceVersion": "1",
        "managedFields": [], "ownerReferences": [], "deletionTimestamp": "x", "annotations": {names::CONFIG_REPO_ANNOTATION: "evil/repo", "mine": "1"}}});
    let desired_ = desired(&repo(), vec![rendered(hostile)], false).unwrap();
    assert_eq!(
        serde_json::to_value(&desired_[0].object).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "annotations":
            {names::CONFIG_REPO_ANNOTATION: "ns/repo", names::APPLIED_DIGEST_ANNOTATION: desired_[0].digest, "mine": "1"}}})
    );
    let big = "x".repeat(1_500_000);
    let cases = [
        (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "no apiVersion or no kind"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
            "generateName cannot be applied",
        ),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}), "no metadata.name"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": []}}),
            "is not a map",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": big}}),
            "takes 1400000 at most",
        ),
    ];
    for (value, part) in cases {
        let problems = desired(&repo(), vec![rendered(value)], false).unwrap_err();
        assert!(
            problems[0].to_string().contains(part) && problems[0].to_string().ends_with("(x.yaml:3)"),
            "{}",
            problems[0]
        );
    }
}

#[test]
fn an_object_that_is_there_twice_is_refused_by_both_places() {
    let rendered = |version: &str, origin: &str| Rendered {
        object: object(
            json!({"apiVersion": version, "kind": "Deployment", "metadata": {"name": "a", "namespace": "ns"}}),
        ),
        origin: origin.into(),
    };
    let problems =
        desired(&repo(), vec![rendered("apps/v1", "a.yaml:1"), rendered("apps/v1beta1", "b.yaml:9")], false)
            .unwrap_err();
    assert_eq!(problems[0].reason, "DuplicateObject");
    assert!(problems[0].to_string().ends_with("(the other: a.yaml:1) (b.yaml:9)"), "{}", problems[0]);
}

#[test]
fn a_confined_repository_stays_in_its_namespace() {
    let check = |value: Value| {
        desired(&repo(), vec![Rendered { object: object(value), origin: String::new() }], true)
            .map_err(|p| p[0].reason)
    };
    let meta = |namespace: &str| json!({"name": "a", "namespace": namespace});
    assert!(check(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("ns")})).is_ok());
    assert!(check(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).is_ok());
    let refused = [
        ("v1", "ConfigMap", "other"),
        ("v1", "Namespace", ""),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ""),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "ns"),
        ("gitops.wheelwright.dev/v1alpha1", "ConfigRepo", "ns"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", ""),
        ("addon.open-cluster-management.io/v1alpha1", "ClusterManagementAddOn", ""),
        ("x.io/v1", "Unknown", ""),
    ];
    for (version, kind, namespace) in refused {
        let value = json!({"apiVersion": version, "kind": kind, "metadata": meta(namespace)});
        assert_eq!(check(value).unwrap_err(), "NotAllowed", "{kind}");
    }
}

/// Commits of up to eight objects in two versions, each followed by a crash after some writes.
fn histories() -> impl Strategy<Value = Vec<(Vec<Option<u8>>, usize)>> {
    let commit = proptest::collection::vec(proptest::option::of(0u8..2), 8);
    proptest::collection::vec((commit, 0usize..12), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_over_random_commits_and_crashes(history in histories()) {
        let mut hub = Hub::new();
        let foreign = config_map("foreign", "theirs");
        hub.act(&Action::apply(foreign.clone()));
        for (objects, crash_after) in &history {
            let present = objects.iter().enumerate().filter_map(|(i, data)| Some(config_map(&format!("c{i}"), &(*data)?.to_string())));
            let wanted = commit(&present.collect::<Vec<_>>());
            let sync = hub.plan(&wanted);
            prop_assert_eq!(&sync, &hub.plan(&wanted), "I8: the same plan from the same input");
            let deletions = sync.delete.iter().flatten().count();
            prop_assert!(deletions <= 5 && (!wanted.is_empty() || deletions == 0), "I5");
            hub.execute(&sync, *crash_after);
            hub.check();
        }
        // The last commit converges, deletions that are held apart.
        let objects = &history.last().unwrap().0;
        let present = objects.iter().enumerate().filter_map(|(i, data)| Some(config_map(&format!("c{i}"), &(*data)?.to_string())));
        let wanted = commit(&present.collect::<Vec<_>>());
        let sync = hub.settle(&wanted);
        prop_assert!(sync.apply.is_empty() && sync.correct.is_empty() && sync.delete.is_empty(), "I7");
        let approved = sync.held.map(|held| held.approval);
        hub.policy.approved = approved.unwrap_or_default();
        prop_assert!(hub.settle(&wanted).is_settled());
        let left: Vec<_> = hub.names().into_iter().filter(|name| *name != "foreign").map(str::to_owned).collect();
        let want: Vec<_> = wanted.iter().map(|d| d.reference.key.name.clone()).collect();
        prop_assert_eq!(left, want, "no orphan is left and none is missing");
        prop_assert_eq!(hub.objects.values().find(|o| o.name() == "foreign").map(|o| (**o).clone()), Some(foreign));
        prop_assert_eq!(digest(&wanted), digest(&wanted.iter().rev().cloned().collect::<Vec<_>>()));
    }
}
