use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn work(text: &str) -> ManifestWork {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_work_is_stored_again_if_a_plan_would_see_a_difference() {
    let with = |version: &str, generation: u32, states: [&str; 3], value: &str| {
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "",
            "message": value, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let [applied, complete, available] = states;
        let conditions = [
            condition("Applied", applied),
            condition("Complete", complete),
            condition("Available", available),
        ];
        let values = json!([{"name": "a", "fieldValue": {"type": "String", "string": value}}]);
        let manifest = json!({"resourceMeta": {"ordinal": 0}, "statusFeedback": {"values": values}, "conditions": conditions});
        let metadata =
            json!({"namespace": "c1", "name": "w", "resourceVersion": version, "generation": generation});
        let status = json!({"conditions": [], "resourceStatus": {"manifests": [manifest]}});
        let spec = json!({"workload": {"manifests": []}});
        work(&json!({"metadata": metadata, "spec": spec, "status": status}).to_string())
    };
    let digest = WorkDigest::new(&with("1", 1, ["True", "False", "False"], "x"));
    let other = with("2", 1, ["True", "False", "True"], "y");
    assert_eq!(WorkDigest::new(&other), digest, "versions, values, texts and other conditions do not count");
    assert_ne!(WorkDigest::new(&with("2", 2, ["True", "False", "False"], "x")), digest);
    assert_ne!(WorkDigest::new(&with("2", 1, ["False", "False", "False"], "x")), digest);
    assert_ne!(WorkDigest::new(&with("2", 1, ["True", "True", "False"], "x")), digest);
}

#[test]
fn a_stored_work_survives_a_round_trip_unless_it_expands_too_far() {
    let stored = work(
        r#"{"metadata": {"namespace": "c1", "name": "w"}, "spec": {"workload": {"manifests": [{"a": "é"}]}}}"#,
    );
    let secret = |packed: Vec<u8>| Secret {
        data: Some([("work".to_owned(), ByteString(packed))].into()),
        ..Secret::default()
    };
    assert_eq!(unpacked(&secret(packed(&stored))), Some(stored.clone()));
    let mut large = stored;
    large.metadata.labels = Some([("a".to_owned(), "b".repeat(4 << 20))].into());
    assert_eq!(unpacked(&secret(packed(&large))), None);
    assert_eq!(unpacked(&secret(b"no gzip".to_vec())), None);
}

/// An agent deletes the secrets in its digests that match no work.
#[test]
fn an_agent_ignores_works_that_another_clusters_agent_stores_next_to_it() {
    let secret = |name: &str, hub: &str, data: Vec<u8>| Secret {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(KEPT_WORK_LABEL.to_owned(), hub.to_owned())].into()),
            ..Default::default()
        },
        data: Some([("work".to_owned(), ByteString(data))].into()),
        ..Secret::default()
    };
    let of = |cluster: &str| {
        let metadata = json!({"namespace": cluster, "name": "w"});
        work(&json!({"metadata": metadata, "spec": {"workload": {"manifests": []}}}).to_string())
    };
    let secrets = vec![
        secret("ours", "h1", packed(&of("c1"))),
        secret("of-the-hub-before", "h2", packed(&of("c1"))),
        secret("of-the-neighbor", "h1", packed(&of("c2"))),
        secret("broken", "h1", b"no gzip".to_vec()),
    ];
    let expected =
        [("broken", None), ("of-the-hub-before", None), ("ours", Some(WorkDigest::new(&of("c1"))))];
    let expected = expected.map(|(name, digest)| (name.to_owned(), digest));
    let (digests, ours) = of_cluster(secrets, "c1", "h1");
    assert_eq!(digests, Digests::from(expected));
    assert_eq!(ours.iter().filter_map(unpacked).collect::<Vec<_>>(), [of("c1")]);
}

/// Returns the store of an agent that has stored nothing yet.
fn keeper(spoke: kube::Client) -> StoredWorks {
    StoredWorks {
        secrets: Api::namespaced(spoke, "ns"),
        cluster: "c1".into(),
        hub: "h1".into(),
        stored: Digests::new(),
        handled: BTreeMap::new(),
        waiting: BTreeMap::new(),
    }
}

/// Runs the checks one after the other, and returns how many secrets each writes.
async fn written(checks: &[(&[ManifestWork], bool)]) -> Vec<usize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        assert_eq!(request.method(), http::Method::PATCH);
        counted.fetch_add(1, Ordering::Relaxed);
        async { http::Response::builder().body(kube::client::Body::from(b"{}".to_vec())) }
    });
    let mut store = keeper(kube::Client::new(service, "default"));
    let mut written = Vec::new();
    for (works, is_last) in checks {
        let works: Vec<_> = works.iter().cloned().map(Arc::new).collect();
        store.keep(&works, *is_last).await;
        written.push(count.swap(0, Ordering::Relaxed));
    }
    written
}

/// Returns a work of a generation, with a status about the generation `reported`.
fn reported(version: &str, generation: u32, reported: Option<u32>) -> [ManifestWork; 1] {
    let metadata =
        json!({"namespace": "c1", "name": "w", "resourceVersion": version, "generation": generation});
    let applied = reported.map(|generation| {
        json!({"type": "Applied", "status": "True", "reason": "", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let status = json!({"conditions": Vec::from_iter(applied), "resourceStatus": {"manifests": []}});
    let spec = json!({"workload": {"manifests": []}});
    [work(&json!({"metadata": metadata, "spec": spec, "status": status}).to_string())]
}

#[tokio::test]
async fn a_new_work_is_stored_once_with_its_status_and_a_change_at_once() {
    let (new, done) = (reported("1", 1, None), reported("2", 1, Some(1)));
    let (changed, applied) = (reported("3", 2, Some(1)), reported("4", 2, Some(2)));
    let checks = [&new, &done, &done, &changed, &applied, &applied].map(|works| (&works[..], false));
    assert_eq!(written(&checks).await, [0, 1, 0, 1, 1, 0], "older content is not left");
    assert_eq!(written(&[(&new, true)]).await, [1], "there is no later check");
}

#[tokio::test]
async fn a_work_without_a_status_is_stored_after_half_a_minute() {
    let new = reported("1", 1, None);
    assert_eq!(written(&[(&new[..], false); 8]).await, [0, 0, 0, 0, 0, 0, 1, 0]);
    let metadata =
        json!({"namespace": "c1", "name": "w", "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 2});
    let deleted = [work(&json!({"metadata": metadata, "spec": {}}).to_string())];
    assert_eq!(written(&[(&deleted, false)]).await, [1], "that of a deleted one does not come");
}

/// Otherwise, an agent that starts while the hub is unreachable would return to the older content.
#[tokio::test]
async fn the_old_content_is_deleted_if_no_secret_takes_the_new_one() {
    let deleted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deleted);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_deletion = request.method() == http::Method::DELETE;
        counted.fetch_add(usize::from(is_deletion), Ordering::Relaxed);
        let (code, status) = if is_deletion { (200_u16, "Success") } else { (413, "Failure") };
        let answer = json!({"kind": "Status", "status": status, "code": code, "reason": "", "message": ""});
        let answer = kube::client::Body::from(answer.to_string().into_bytes());
        async move { http::Response::builder().status(code).body(answer) }
    });
    let mut store = keeper(kube::Client::new(service, "default"));
    let ([before], [large]) = (reported("1", 1, Some(1)), reported("2", 2, Some(1)));
    let name = store.name_of(&before);
    store.stored.insert(name.clone(), Some(WorkDigest::new(&before)));
    let works = [Arc::new(large)];
    for _ in 0..2 {
        store.keep(&works, false).await;
    }
    assert_eq!((deleted.load(Ordering::Relaxed), &store.stored[&name]), (1, &None));
}
