//! An agent that loses its claim on the cluster, or whose hub has lost the cluster.

use super::*;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};

#[tokio::test(start_paused = true)]
async fn an_agent_whose_claim_is_missing_or_foreign_stops() {
    let lives = async |claim_value: Option<&'static str>| {
        let answer =
            move |request: &Request<Body>| match (request.uri().path().rsplit('/').next(), claim_value) {
                (Some("clusterclaims"), claim_value) => {
                    let name = claim_name(&Key::namespaced(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET));
                    let claim = |value| json!({"metadata": {"name": name}, "spec": {"value": value}});
                    (200, json!({"metadata": {}, "items": Vec::from_iter(claim_value.map(claim))}))
                }
                _ => pending(request),
            };
        let (hub, client) = (hub(KUBECONFIG), client(answer));
        let (credentials, options) = (due(&hub), options(client.clone()));
        let life = IdentityUse {
            claim: Some("c1/agent1/hash".into()),
            ..unclaimed(&options, &hub, &client, &credentials)
        };
        timeout(Duration::from_hours(1), life.end(&CancellationToken::new())).await.is_err()
    };
    assert!(lives(Some("c1/agent1/hash")).await);
    assert!(!lives(Some("c1/agent1/other")).await);
    assert!(!lives(None).await, "a second agent of the hub would evict its works");
}

#[test]
fn a_hub_that_repeatedly_lacks_the_cluster_was_restored_unless_it_was_deleted() {
    let cluster = |deleted: Option<&str>| -> ManagedCluster {
        let metadata = json!({"name": "c1", "deletionTimestamp": deleted});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap()
    };
    let is_restored = |seen: Option<&str>, codes: &[u16]| {
        let mut answers = Answers::default();
        answers.look(Some(&cluster(seen)));
        answers.look(None);
        for code in codes {
            let status = kube::core::Status::failure("no", "No").with_code(*code).boxed();
            answers.add(&match code {
                200 => Ok(Some(())),
                404 => Ok(None),
                _ => Err(kube::Error::Api(status)),
            });
        }
        answers.are_of_a_restored_hub()
    };
    assert!(is_restored(None, &[403, 404, 403]));
    assert!(!is_restored(None, &[403, 403]));
    assert!(!is_restored(None, &[403, 403, 200, 403]));
    assert!(!is_restored(None, &[503, 503, 503, 401]));
    assert!(!is_restored(Some("2026-01-01T00:00:00Z"), &[403, 403, 403]), "it was deleted on purpose");
}

#[tokio::test]
async fn only_a_hub_that_says_so_has_lost_the_cluster() {
    for (code, expected) in [(404, true), (403, false), (503, false), (200, false)] {
        let cluster = json!({"metadata": {"name": "c1"}, "spec": {}});
        let bootstrap = client(move |_| if code == 200 { (200, cluster.clone()) } else { refusal(code) });
        assert_eq!(is_absent(&bootstrap, "c1").await, expected, "{code}");
    }
}
