use super::*;

const ACCOUNT: &str = "system:serviceaccount:config:deployer";

/// Simulates an API server on which only the service account may write ConfigMaps.
fn allow_the_account(
    sites: &mut sim::Servers<'_>,
    manager: &str,
    action: &Action,
    now: Timestamp,
) -> reconcile::Outcome {
    let user = match action {
        Action::Apply { object, impersonate, .. } if object.kind() == "ConfigMap" => Some(impersonate),
        Action::Delete { target, impersonate, .. } if target.gvk.kind == "ConfigMap" => Some(impersonate),
        Action::Apply { .. }
        | Action::Delete { .. }
        | Action::Create { .. }
        | Action::Patch { .. }
        | Action::Replace { .. }
        | Action::Push(_)
        | Action::SetCommitStatus(_)
        | Action::Notify(_) => None,
    };
    if user.is_some_and(|user| user.as_deref() != Some(ACCOUNT)) {
        let message = "configmaps is forbidden".into();
        return Err(Failure { kind: FailureKind::Forbidden, message });
    }
    sim::execute(sites, manager, action, now)
}

#[test]
fn a_repository_with_a_service_account_applies_and_deletes_as_the_account() {
    let setup = sim::Setup { execute: allow_the_account, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({"serviceAccountName": "deployer"}));
    let (a, b) = (map("a", "1"), map("b", "1"));
    assert!(hub.commit(&[("a.yaml", &a), ("b.yaml", &b)]).starts_with("Ready"));
    assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"));
    assert_eq!((hub.names(), hub.data("a").as_deref()), (vec!["a".to_owned()], Some("2")));
    hub.repo(json!({"serviceAccountName": "other"}), json!({}));
    assert!(hub.commit(&[("a.yaml", &map("a", "3"))]).starts_with("Stalled Forbidden"));
}

/// An inventory is written before its objects.
#[test]
fn a_repository_keeps_no_objects_from_others_that_it_may_not_write() {
    let setup = sim::Setup { execute: allow_the_account, ..sim::Setup::default() };
    let mut hub = Hub::with(setup, json!({"serviceAccountName": "deployer"}));
    let metadata = json!({"namespace": "config", "name": "squatter"});
    let spec = json!({"url": "https://git.example/squatter", "serviceAccountName": "other"});
    hub.apply(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}));
    let wanted: FileTree = [("a.yaml".to_owned(), map("a", "1").as_bytes())].into_iter().collect();
    hub.world.commit(&Key::namespaced("config", "squatter"), &format!("{:040x}", 1), wanted);
    hub.run();
    assert!(hub.commit(&[("a.yaml", &map("a", "2"))]).starts_with("Ready"));
    assert_eq!(hub.data("a").as_deref(), Some("2"));
}

#[test]
fn a_repository_acts_as_the_operator_only_where_an_administrator_allows_it() {
    let mut hub = Hub::new(json!({}));
    let label = |value: &str| {
        let labels = json!({names::OPERATOR_IDENTITY_LABEL: value});
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": labels}})
    };
    hub.apply(label("denied"));
    let message = hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert!(
        message
            .starts_with("Stalled NotAllowed: a ConfigRepo in namespace config may not act as the operator"),
        "{message}"
    );
    assert_eq!(hub.data("a"), None);
    hub.apply(label("allowed"));
    assert!(hub.run().starts_with("Ready"), "the label wakes the ConfigRepo");
    assert_eq!(hub.data("a").as_deref(), Some("1"));
}

#[test]
fn a_confined_repository_observes_no_secret() {
    let mut hub = Hub::new(json!({"mode": "Observe", "serviceAccountName": "deployer"}));
    let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\nstringData:\n  password: guess\n";
    let message = hub.commit(&[("a.yaml", secret)]);
    assert!(message.starts_with("Stalled NotAllowed: Secret config/a cannot be observed"), "{message}");
}

#[test]
fn a_refused_object_keeps_its_whole_commit_from_being_written() {
    let mut hub = Hub::new(json!({}));
    let good = [("a.yaml", map("a", "1")), ("b.yaml", map("b", "1"))];
    let files: Vec<_> = good.iter().map(|(path, text)| (*path, text.as_str())).collect();
    assert!(hub.commit(&files).starts_with("Ready"));
    let refused = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  \"no key\": x\n";
    let message = hub.commit(&[("a.yaml", &map("a", "2")), ("b.yaml", refused)]);
    assert!(
        message
            .starts_with("Stalled InvalidObject: cannot apply 000000000000: cannot write ConfigMap config/b"),
        "{message}"
    );
    assert!(message.ends_with("000000000000 stays applied"), "{message}");
    assert_eq!((hub.data("a").as_deref(), hub.status().partial), (Some("1"), None));
}
