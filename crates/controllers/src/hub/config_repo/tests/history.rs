//! Tests the last results of commits in the status.

use super::*;

/// Returns the numbers of the commits with their results.
fn told(hub: &Hub) -> Vec<String> {
    let results = hub.status().history.into_iter();
    results.map(|one| format!("{} {}", one.commit.trim_start_matches('0'), one.reason)).collect()
}

#[test]
fn the_status_has_the_last_five_results_of_commits_the_newest_first() {
    let mut hub = Hub::new(json!({}));
    let bad = format!("{SET}spec:\n  clusterSelector:\n    selectorType: Nonsense\n");
    hub.commit(&[("set.yaml", SET)]);
    hub.commit(&[("set.yaml", &bad)]);
    assert_eq!(told(&hub), ["2 InvalidObject", "1 Applied"], "a refusal of the API server is a result");
    let seen = hub.status().seen.unwrap();
    assert_eq!((seen.commit, seen.digest), (format!("{:040x}", 2), String::new()));

    hub.commit(&[("set.yaml", "{")]);
    hub.commit(&[("set.yaml", SET)]);
    assert_eq!(told(&hub)[..2], ["4 Applied", "3 RenderFailed"]);
    hub.commit(&[("set.yaml", SET), ("a.yaml", &map("a", "1"))]);
    hub.commit(&[("set.yaml", SET), ("a.yaml", &map("a", "2"))]);
    let last = ["6 Applied", "5 Applied", "4 Applied", "3 RenderFailed", "2 InvalidObject"];
    assert_eq!(told(&hub), last);

    hub.world.run_for(SignedDuration::from_hours(1)).unwrap();
    hub.world.restart_operator();
    hub.world.fail_fetching(&key(), SourceFailure { reason: "SourceRewound", message: "it moved".into() });
    assert!(hub.run().starts_with("Stalled SourceRewound"), "{}", hub.message());
    assert_eq!(told(&hub), last, "neither time nor a failed fetch is a result");
}

#[test]
fn a_repeated_result_moves_to_the_front() {
    let mut hub = Hub::new(json!({}));
    let since = |hub: &Hub| hub.status().history[0].since.clone().unwrap().0;
    hub.commit(&[("set.yaml", SET)]);
    let first = since(&hub);
    hub.repo(json!({"path": "prod"}), json!({}));
    hub.run();
    assert_eq!(told(&hub), ["1 RenderFailed", "1 Applied"]);
    hub.repo(json!({}), json!({}));
    hub.run();
    assert_eq!(told(&hub), ["1 Applied", "1 RenderFailed"]);
    assert!(since(&hub) > first);
}
