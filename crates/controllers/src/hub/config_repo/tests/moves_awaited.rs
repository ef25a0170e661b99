//! Tests which ConfigRepos deletions wait for, because they may request the objects.

use super::*;
use crate::hub::config_repo::moves::{Moves, waits};
use crate::hub::config_repo::report::awaiting;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use reconcile::Site;

fn config_repo(name: &str, mode: &str, account: &str, status: &Value) -> ConfigRepo {
    let spec = json!({"url": "https://git.example/fleet", "mode": mode, "serviceAccountName": account});
    let metadata = json!({"namespace": "config", "name": name, "generation": 1, "resourceVersion": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn time(time: &str) -> Timestamp {
    time.parse().unwrap()
}

#[test]
fn deletions_wait_for_the_next_fetch_and_a_minute_for_another_config_repo_that_may_own_the_objects() {
    let seen = |commit: &str, digest: &str| {
        let seen = json!({"commit": commit, "digest": digest, "since": "2026-01-01T00:00:00Z"});
        json!({"observedGeneration": 1, "seen": seen})
    };
    let fleet = config_repo("fleet", "Apply", "sa", &seen("1", "d"));
    let status: ConfigRepoStatus = serde_json::from_value(seen("2", "")).unwrap();
    let (soon, end) = (time("2026-01-01T00:01:59Z"), time("2026-01-01T00:02:00Z"));
    let second = |mode: &str, account: &str| config_repo("second", mode, account, &seen("1", "d"));
    let with = |status: Value| config_repo("second", "Apply", "sa", &status);
    let mut terminating = second("Apply", "sa");
    terminating.metadata.deletion_timestamp = Some(Time(soon));
    let cases = [
        ("it has the commit before", second("Apply", "sa"), soon, true),
        ("it has not compared the commit", with(seen("2", "")), soon, true),
        ("it has judged the commit", with(seen("2", "d")), soon, false),
        ("the wait is over", second("Apply", "sa"), end, false),
        ("the clock was ahead", second("Apply", "sa"), time("2025-12-31T23:59:59Z"), false),
        ("it observes", second("Observe", "sa"), soon, false),
        ("it is being deleted", terminating, soon, false),
        ("its identity is another", second("Apply", "other"), soon, false),
    ];
    for (name, second, now, is_awaited) in cases {
        let mut view = Caches::default();
        view.replace::<ConfigRepoInventory>(Site::Hub, Vec::new(), "1");
        view.replace(Site::Hub, vec![fleet.clone(), second], "1");
        let moves = Moves::of(&fleet, status.seen.as_ref(), &view, now).unwrap();
        let awaited = is_awaited.then(|| (Key::namespaced("config", "second"), end));
        assert_eq!((moves.awaited, moves.unjudged), (awaited, None), "{name}");
    }
}

#[test]
fn a_commit_without_deletions_waits_for_no_other_config_repo() {
    let awaited = (Key::namespaced("config", "second"), time("2026-01-01T00:02:00Z"));
    for (deletions, reason) in [(0, None), (1, Some("WaitingForMoves"))] {
        let readiness = awaiting("2 is applied", Some(&awaited), deletions);
        let told = readiness.as_ref().map(|readiness| readiness.reason.as_str());
        assert_eq!(told, reason, "{deletions}");
    }
}

#[test]
fn other_config_repos_wake_only_one_that_waits_for_them() {
    for (reason, is_woken) in
        [("WaitingForMoves", true), ("DeletionsHeld", true), ("PolicyHeld", true), ("Applied", false)]
    {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let repo = config_repo("fleet", "Apply", "sa", &json!({"conditions": [condition]}));
        assert_eq!(waits(&repo), is_woken, "{reason}");
    }
}
