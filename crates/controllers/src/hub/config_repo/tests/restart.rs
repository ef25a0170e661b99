//! Tests the conditions that a restarted operator writes before it has read everything.

use super::*;

#[test]
fn a_commit_that_was_refused_stays_so_after_a_restart() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": "b"}, "data": {"k": "theirs"}}));
    let message = hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    assert!(message.starts_with("Stalled TakeoverRefused: "), "{message}");
    let version = |hub: &Hub| hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version;
    let before = version(&hub);
    hub.world.restart_operator();
    assert_eq!((hub.run(), version(&hub)), (message, before));
}

#[test]
fn lost_answers_refusals_and_restarts_leave_no_orphan() {
    for seed in 0..6 {
        let mut hub = Hub::new(json!({"deletionBudget": {"objects": 100}}));
        hub.world = World::new(seed, hub.world.now);
        hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}}));
        hub.repo(json!({"deletionBudget": {"objects": 100}}), json!({}));
        hub.world.faults =
            sim::Faults { refused: 200, answer_lost: 200, stale: 200, ..sim::Faults::default() };
        for round in 0..6_u64 {
            let files: Vec<_> = (0..6)
                .filter(|i| (seed * 7 + round * 5 + i * 3) % 4 != 0)
                .map(|i| (format!("{i}.yaml"), map(&format!("m{i}"), &round.to_string())))
                .collect();
            let files: Vec<_> =
                files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
            hub.commits += 1;
            let tree: FileTree =
                files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes())).collect();
            hub.world.commit(&key(), &format!("{:040x}", hub.commits), tree);
            hub.world.run_for(SignedDuration::from_secs(i64::try_from(round).unwrap())).unwrap();
            if round % 2 == 0 {
                hub.world.restart_operator();
            }
            let owned = hub.owned();
            assert!(
                hub.names().iter().all(|name| owned.contains(name)),
                "I6, seed {seed}: {:?} of {owned:?}",
                hub.names()
            );
        }
        hub.world.faults = sim::Faults::default();
        hub.world.run_for(SignedDuration::from_mins(20)).unwrap();
        let mut owned = hub.owned();
        owned.sort();
        assert_eq!(hub.names(), owned, "seed {seed}");
        assert!(hub.message().starts_with("Ready"), "seed {seed}: {}", hub.message());
    }
}
