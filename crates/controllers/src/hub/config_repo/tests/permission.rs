//! Tests kinds that the operator may not list.

use std::cell::Cell;

use super::*;
use reconcile::{Dispatcher, EventType, WatchedKind, WatcherEvent};

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: \
                          {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: \
                          [{name: web, image: web}]}\n";
const REFUSAL: &str = "deployments.apps is forbidden: User \"operator\" cannot list resource \"deployments\" in API group \
                       \"apps\" at the cluster scope";

thread_local! {
    static MAY_LIST: Cell<bool> = const { Cell::new(false) };
}

/// Refuses to list Deployments until it is allowed.
fn refusing(dispatcher: &mut Dispatcher, kind: &WatchedKind, event: WatcherEvent, now: Timestamp) {
    let is_refused = kind.gvk.kind == "Deployment" && !MAY_LIST.get();
    dispatcher.watched(kind, if is_refused { WatcherEvent::Refused(REFUSAL.into()) } else { event }, now);
}

#[test]
fn a_commit_with_a_kind_that_may_not_be_listed_is_refused_with_kind_verb_and_identity() {
    for mode in ["Apply", "Observe"] {
        MAY_LIST.set(false);
        let setup = sim::Setup { hear: refusing, ..sim::Setup::default() };
        let mut hub = Hub::with(setup, json!({"mode": mode, "healthTimeout": "0s"}));
        hub.world.take_events();
        let message = hub.commit(&[("a.yaml", &map("a", "1")), ("web.yaml", DEPLOYMENT)]);
        let start =
            format!("Stalled Forbidden: cannot apply 000000000000: cannot read Deployment.apps: {REFUSAL}; ");
        assert!(message.starts_with(&start), "{message}");
        assert!(message.contains("docs/permissions.md"), "{message}");
        assert!(message.ends_with("(web.yaml:1); nothing has been applied yet"), "{message}");
        let ready = hub.status().conditions.into_iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!((ready.is_false(), ready.reason.as_str()), (true, "Forbidden"));
        assert_eq!(hub.names(), [""; 0]);
        let warnings =
            hub.world.take_events().into_iter().filter(|event| event.event_type == EventType::Warning);
        assert_eq!(warnings.map(|event| event.reason).collect::<Vec<_>>(), ["Forbidden"]);

        MAY_LIST.set(true);
        hub.world.restart_operator();
        let message = hub.run();
        let now =
            if mode == "Apply" { "Reconciling NamespaceNotFound: " } else { "Reconciling NotApplied: " };
        assert!(message.starts_with(now), "{message}");
    }
}

#[test]
fn a_commit_waits_for_its_dependencies_before_its_kinds_are_judged() {
    MAY_LIST.set(false);
    let setup = sim::Setup { hear: refusing, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({"dependsOn": [{"name": "platform"}]}));
    let message = hub.commit(&[("web.yaml", DEPLOYMENT)]);
    assert!(message.starts_with("Reconciling DependencyNotReady: "), "{message}");
}

#[test]
fn a_hook_of_argo_cd_needs_no_permission() {
    for (mode, start) in [("Observe", "Reconciling NotApplied: "), ("Apply", "Stalled ArgoHook: ")] {
        MAY_LIST.set(false);
        let setup = sim::Setup { hear: refusing, ..sim::Setup::default() };
        let mut hub = Hub::with(setup, json!({"mode": mode}));
        let hook = "namespace: shop, annotations: {argocd.argoproj.io/hook: PreSync}}";
        let hook = DEPLOYMENT.replace("namespace: shop}", hook);
        let message = hub.commit(&[("a.yaml", &map("a", "1")), ("hook.yaml", &hook)]);
        assert!(message.starts_with(start), "{mode}: {message}");
    }
}
