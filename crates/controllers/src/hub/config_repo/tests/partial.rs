//! Tests the conditions of a partly applied commit.

use super::health::{ADDON, WORKLOAD};
use super::*;

/// A file with which no commit can be rendered.
const BROKEN: &[(&str, &str)] = &[("broken.yaml", "{")];

const IN_PART: &str = "000000000000 stays applied in part, and 000000000000 was applied before";

impl Hub {
    /// Returns the numbers of the last fully and the last partly applied commit.
    fn applied(&self) -> [Option<usize>; 2] {
        let status = self.status();
        let number =
            |revision: gitops::Revision| revision.commit.trim_start_matches('0').parse::<usize>().unwrap();
        [status.applied, status.partial].map(|revision| revision.map(number))
    }
}

#[test]
fn a_commit_whose_later_stages_wait_is_named_until_another_is_applied() {
    let mut hub = Hub::new(json!({}));
    assert!(hub.commit(&[("a.yaml", &map("a", "1"))]).starts_with("Ready"));
    assert_eq!(hub.applied(), [Some(1), None]);
    let files = [("a.yaml", map("a", "2")), ("web.yaml", WORKLOAD.into()), ("addon.yaml", ADDON.into())];
    let files: Vec<_> = files.iter().map(|(path, text): &(_, String)| (*path, text.as_str())).collect();
    let message = hub.commit(&files);
    let waits = "later stages of the commit are not applied, and 000000000000 was applied before";
    assert!(message.starts_with("Reconciling WaitingForHealth") && message.ends_with(waits), "{message}");
    assert_eq!((hub.data("a").as_deref(), hub.applied()), (Some("2"), [Some(1), Some(2)]));

    let message = hub.commit(BROKEN);
    assert!(message.starts_with("Stalled RenderFailed") && message.ends_with(IN_PART), "{message}");
    assert_eq!(hub.applied(), [Some(1), Some(2)]);
    assert!(hub.commit(&[("a.yaml", &map("a", "3"))]).starts_with("Ready"));
    assert_eq!(hub.applied(), [Some(4), None]);
    let message = hub.commit(BROKEN);
    assert!(message.ends_with("; 000000000000 stays applied"), "{message}");
}

#[test]
fn a_commit_whose_write_failed_in_a_later_stage_is_named_until_another_is_applied() {
    let mut hub = Hub::new(json!({}));
    assert!(hub.commit(&[("a.yaml", &map("a", "1"))]).starts_with("Ready"));
    let refused =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n  namespace: new\ndata:\n  \"no key\": x\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: new\n";
    let message = hub.commit(&[("a.yaml", &map("a", "2")), ("b.yaml", refused), ("ns.yaml", namespace)]);
    assert!(message.starts_with("Stalled InvalidObject"), "{message}");
    let said = "1 of the 3 objects of 000000000000 were applied, and 000000000000 was applied before";
    assert!(message.ends_with(said), "{message}");
    assert_eq!((hub.applied(), hub.data("a").as_deref()), ([Some(1), Some(2)], Some("1")));
    let message = hub.commit(BROKEN);
    assert!(message.ends_with(IN_PART), "{message}");
    hub.world.restart_operator();
    assert_eq!((hub.run(), hub.applied()), (message, [Some(1), Some(2)]));
}

#[test]
fn a_commit_with_an_object_that_waits_for_its_namespace_is_applied_in_part() {
    let mut hub = Hub::new(json!({}));
    let elsewhere = map("b", "1").replace("  name: b", "  name: b\n  namespace: cluster-1");
    let files = [("a.yaml", map("a", "1")), ("b.yaml", elsewhere)];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    hub.commit(&files);
    assert_eq!(hub.applied(), [Some(1), Some(1)]);
    let message = hub.commit(BROKEN);
    assert!(message.ends_with("; 000000000000 stays applied in part"), "{message}");
    hub.commit(&files);
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-1"}}));
    assert!(hub.run().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.applied(), [Some(3), None]);
}

#[test]
fn a_commit_whose_objects_all_wait_for_a_namespace_is_not_applied() {
    let elsewhere = |name: &str| map(name, "1").replace("metadata:", "metadata:\n  namespace: cluster-1");
    let (b, c) = (elsewhere("b"), elsewhere("c"));
    let files = [("b.yaml", b.as_str()), ("c.yaml", c.as_str())];
    let mut hub = Hub::new(json!({}));
    let message = hub.commit(&files);
    let waits = "Reconciling NamespaceNotFound: no object of 000000000000 is applied, ConfigMap cluster-1/b and 1 more wait: \
                 namespace cluster-1 does not exist. They are applied when it does";
    assert!(message.starts_with(waits), "{message}");
    assert_eq!(hub.applied(), [None, None]);
    hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster-1"}}));
    assert_eq!((hub.run().as_str(), hub.applied()), ("Ready: 2 objects of 000000000000", [Some(1), None]));

    let mut hub = Hub::new(json!({}));
    assert!(hub.commit(&[("a.yaml", &map("a", "1"))]).starts_with("Ready"));
    assert!(hub.commit(&files).starts_with(waits), "{}", hub.message());
    assert_eq!(
        (hub.names(), hub.applied()),
        (Vec::new(), [Some(1), Some(2)]),
        "the deletion is a part of the commit"
    );
}
