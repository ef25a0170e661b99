//! Tests for objects that Argo CD tracks by annotation, label or both.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::hub::{Hub, commit, config_map, object};
use crate::sync::argo::{EndTracking, Tracking, application, argo_application};
use crate::sync::{SyncPolicy, Takeover};
use object::Object;

const ID: &str = "argocd.argoproj.io/tracking-id";
const LABEL: &str = "app.kubernetes.io/instance";

fn live(mut metadata: Value) -> Object {
    metadata["namespace"] = "ns".into();
    metadata["name"] = "web".into();
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}))
}

fn by(manager: &str) -> Value {
    json!([{"manager": manager, "operation": "Update"}])
}

#[test]
fn an_application_is_recognized_in_all_three_tracking_modes() {
    let tracked = |metadata: Value| application(&live(metadata)).map(|(app, by)| (app.to_owned(), by));
    let annotation = json!({ID: "shop:apps/Deployment:ns/web"});
    let shop = |by| Some(("shop".to_owned(), by));
    assert_eq!(tracked(json!({"annotations": annotation})), shop(Tracking::Annotation));
    assert_eq!(argo_application(&live(json!({"annotations": annotation}))), Some("shop".into()));
    let of_a_team = json!({ID: "team-a_shop:apps/Deployment:ns/web"});
    assert_eq!(argo_application(&live(json!({"annotations": of_a_team}))), Some("team-a/shop".into()));
    assert_eq!(argo_application(&live(json!({}))), None);
    let both = json!({"annotations": annotation, "labels": {LABEL: "cut-at-63"}});
    assert_eq!(tracked(both), shop(Tracking::Annotation), "the label beside it is for people");
    let label = json!({"labels": {LABEL: "shop"}, "managedFields": by("argocd-controller")});
    assert_eq!(tracked(label), shop(Tracking::Label(LABEL)));
    let other_key = "argocd.argoproj.io/instance";
    let label =
        json!({"labels": {other_key: "shop", LABEL: "chart"}, "managedFields": by("argocd-controller")});
    assert_eq!(tracked(label), shop(Tracking::Label(other_key)));
}

#[test]
fn a_label_that_argo_cd_did_not_write_tracks_nothing() {
    let is_tracked = |metadata: Value| application(&live(metadata)).is_some();
    let label = json!({LABEL: "shop"});
    assert!(!is_tracked(json!({"labels": label, "managedFields": by("helm")})), "charts write it too");
    assert!(!is_tracked(json!({"labels": label})));
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]);
    let owned = json!({"labels": label, "managedFields": by("argocd-controller"), "ownerReferences": owners});
    assert!(!is_tracked(owned), "a child of an object inherits its labels");
    let ours = json!({"manager": "wheelwright-gitops", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{LABEL}"): {}}}}});
    let both = json!([{"manager": "argocd-controller", "operation": "Update"}, ours]);
    assert!(
        !is_tracked(json!({"labels": label, "managedFields": both})),
        "the repository has the label itself"
    );
}

proptest! {
    #[test]
    fn a_tracking_id_counts_on_the_object_that_it_names_and_on_no_copy(
        id in prop::array::uniform4("[a-z]{1,3}"), of in prop::array::uniform4("[a-z]{1,3}"), copied in any::<bool>(),
    ) {
        let of = if copied { of } else { id.clone() };
        let [group, kind, namespace, name] = &of;
        let value = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {
            "namespace": namespace, "name": name, "labels": {LABEL: "shop"},
            "annotations": {ID: format!("shop:{}/{}:{}/{}", id[0], id[1], id[2], id[3])},
            "managedFields": by("argocd-controller"),
        }});
        let expected = (of == id).then_some(("shop", Tracking::Annotation));
        let live = object(value);
        prop_assert_eq!(application(&live), expected);
    }
}

#[test]
fn a_tracking_id_counts_only_with_kind_name_and_namespace() {
    let tracked = |id: &str| application(&live(json!({"annotations": {ID: id}}))).is_some();
    assert!(tracked("shop:apps/Deployment:ns/web"));
    for other in [
        "shop:apps/Deployment:ns/other",
        "shop:apps/Deployment:other/web",
        "shop:apps/StatefulSet:ns/web",
        "shop:x/Deployment:ns/web",
        "shop:apps/Deployment:web",
        "shop",
    ] {
        assert!(!tracked(other), "{other}");
    }
    let namespace = |id: &str| {
        let metadata = json!({"name": "web", "annotations": {ID: id}});
        application(&object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))).is_some()
    };
    assert!(namespace("shop:/Namespace:argocd/web") && namespace("shop:/Namespace:/web"));
    assert!(!namespace("shop:/Namespace:argocd/other"));
}

/// Returns a hub with the ConfigMaps a and b, which belong to an application.
fn hub(takeover: Takeover) -> Hub {
    let mut hub = Hub::new();
    hub.policy = SyncPolicy { takeover, ..hub.policy };
    for name in ["a", "b"] {
        let mut map = config_map(name, "1");
        map.metadata_mut().insert("annotations".into(), json!({ID: format!("shop:/ConfigMap:ns/{name}")}));
        hub.insert(map);
    }
    hub
}

#[test]
fn an_object_of_an_application_is_refused_until_it_may_be_taken_over() {
    let desired = commit(&[config_map("a", "2")]);
    for takeover in [Takeover::IfNoDiff, Takeover::Never] {
        let hub = hub(takeover);
        let plan = hub.plan(&desired);
        let [problem] = plan.problems.as_slice() else { panic!("{plan:?}") };
        assert_eq!(problem.reason, "OwnedByArgo");
        let start = "ConfigMap ns/a is managed by the Argo CD application shop; take it out of that Application \
                     without deleting it and remove its annotation argocd.argoproj.io/tracking-id, or set";
        assert!(problem.message.starts_with(start), "{}", problem.message);
    }
    let hub = hub(Takeover::Always);
    let plan = hub.plan(&desired);
    let apply = &plan.apply[0][0];
    assert!(apply.force && apply.end_tracking.is_some(), "{apply:?}");
}

#[test]
fn the_end_of_tracking_takes_nothing_that_the_repository_has_itself() {
    let installation = "argocd.argoproj.io/installation-id";
    let by_annotation = |labels: Value| {
        live(json!({"annotations": {ID: "shop:apps/Deployment:ns/web", installation: "i"}, "labels": labels}))
    };
    let by_label =
        |app: &str| live(json!({"labels": {LABEL: app}, "managedFields": by("argocd-controller")}));
    let plain = live(json!({}));
    let end = |tracked: &Object, desired: &Object| {
        EndTracking::of(tracked, desired).map(|end| end.patch["metadata"].clone())
    };
    let annotations = json!({ID: null, installation: null});
    let both = json!({"annotations": annotations, "labels": {LABEL: null}});
    assert_eq!(end(&by_annotation(json!({LABEL: "shop"})), &plain), Some(both));
    let annotations = json!({"annotations": annotations});
    assert_eq!(end(&by_annotation(json!({LABEL: "chart"})), &plain).as_ref(), Some(&annotations));
    let has_label = live(json!({"labels": {LABEL: "shop"}}));
    assert_eq!(end(&by_annotation(json!({LABEL: "shop"})), &has_label).as_ref(), Some(&annotations));
    let has_id = live(json!({"annotations": {ID: "x"}}));
    let rest = json!({"annotations": {installation: null}});
    assert_eq!(end(&by_annotation(json!({})), &has_id), Some(rest));
    assert_eq!(end(&by_label("shop"), &plain), Some(json!({"labels": {LABEL: null}})));
    assert_eq!(end(&by_label("shop"), &has_label), None, "nothing is left to write");
    assert_eq!(end(&plain, &plain), None);
    let long = "a".repeat(80);
    let metadata = json!({"annotations": {ID: format!("{long}:apps/Deployment:ns/web")}, "labels": {LABEL: &long[..63]}});
    let cut = json!({"annotations": {ID: null}, "labels": {LABEL: null}});
    assert_eq!(end(&live(metadata), &plain), Some(cut), "Argo CD cuts the value of the label");
}

#[test]
fn an_object_that_moved_to_an_application_is_handed_over_and_not_deleted() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1"), config_map("c", "1")]));
    hub.edit("a", |a| {
        let annotations = a.metadata_mut().get_mut("annotations").unwrap();
        annotations[ID] = "shop:/ConfigMap:ns/a".into();
    });
    let desired = commit(&[config_map("c", "1")]);
    let plan = hub.plan(&desired);
    let deleted: Vec<_> = plan.delete.iter().flatten().map(|it| it.target.key.name.as_str()).collect();
    assert_eq!(deleted, ["b"]);
    let [hand_over] = plan.hand_over.as_slice() else { panic!("{plan:?}") };
    assert_eq!((hand_over.target.key.name.as_str(), &hand_over.to), ("a", &None));
}

/// Returns a hub with the ConfigMap a, which a ConfigRepo of this name has marked and an application tracks.
fn marked_and_tracked() -> Hub {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("a", "1")]));
    hub.edit("a", |a| {
        let annotations = a.metadata_mut().get_mut("annotations").unwrap();
        annotations[ID] = "shop:/ConfigMap:ns/a".into();
    });
    hub
}

#[test]
fn the_mark_of_an_earlier_config_repo_takes_nothing_from_an_application() {
    let mut hub = marked_and_tracked();
    let desired = commit(&[config_map("a", "2")]);
    assert_eq!(hub.plan(&desired).problems, [], "its inventory lists the object");
    hub.inventory.clear();
    let [problem] = &hub.plan(&desired).problems[..] else { panic!("{:?}", hub.plan(&desired)) };
    assert_eq!(problem.reason, "OwnedByArgo");
    hub.policy.takeover = Takeover::Always;
    let plan = hub.plan(&desired);
    assert!(plan.apply[0][0].end_tracking.is_some(), "{plan:?}");
}

#[test]
fn a_repository_that_observes_gives_up_what_an_application_tracks_and_keeps_the_rest() {
    let mut hub = marked_and_tracked();
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1"), config_map("c", "1")]));
    hub.edit("a", |a| {
        let annotations = a.metadata_mut().get_mut("annotations").unwrap();
        annotations[ID] = "shop:/ConfigMap:ns/a".into();
    });
    hub.edit("c", |c| {
        c.metadata_mut().remove("annotations");
    });
    let release = hub.release();
    let handed_over: Vec<_> = release.hand_over.iter().map(|it| (&*it.target.key.name, &it.to)).collect();
    assert_eq!(handed_over, [("a", &None)]);
    let listed: Vec<_> = release.inventory.keys().map(|id| &*id.key.name).collect();
    assert_eq!(listed, ["a", "b"], "a stays listed until its marks are gone, and c has none");
    hub.unread.push("ConfigMap");
    let release = hub.release();
    assert_eq!((release.hand_over.len(), release.inventory.len()), (0, 3), "nothing is known of them");
}
