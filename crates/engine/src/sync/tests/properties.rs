use proptest::prelude::*;

use super::hub::{Hub, commit, config_map};
use crate::sync::Desired;

/// Returns commits of up to eight objects in two versions, each followed by a crash after some writes.
fn histories() -> impl Strategy<Value = Vec<(Vec<Option<u8>>, usize)>> {
    let commit = proptest::collection::vec(proptest::option::of(0u8..2), 8);
    proptest::collection::vec((commit, 0usize..12), 1..8)
}

fn commit_of(objects: &[Option<u8>]) -> Desired {
    let object = |(i, data): (usize, &Option<u8>)| Some(config_map(&format!("c{i}"), &(*data)?.to_string()));
    commit(&objects.iter().enumerate().filter_map(object).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_commits_and_crashes_break_no_rule_of_deletion_and_the_last_commit_settles(
        history in histories(),
    ) {
        let mut hub = Hub::new();
        hub.insert(config_map("foreign", "theirs"));
        let foreign = hub.objects.values().next().cloned();
        for (objects, crash_after) in &history {
            let wanted = commit_of(objects);
            let plan = hub.plan(&wanted);
            prop_assert_eq!(&plan, &hub.plan(&wanted), "the same input gives the same plan");
            let deletions = plan.delete.iter().flatten().count();
            prop_assert!(
                deletions <= 5 && (!wanted.objects.is_empty() || deletions == 0),
                "deletions stay within the budget"
            );
            hub.execute(&plan, *crash_after);
            hub.check();
        }
        let wanted = commit_of(&history.last().unwrap().0);
        let plan = hub.settle(&wanted);
        prop_assert!(
            plan.apply.is_empty() && plan.correct.is_empty() && plan.delete.is_empty(),
            "only held deletions are left"
        );
        hub.policy.approved = plan.hold.map(|hold| hold.approval).unwrap_or_default();
        prop_assert!(hub.settle(&wanted).is_settled());
        let left: Vec<_> = hub.names().into_iter().filter(|name| *name != "foreign").collect();
        let want: Vec<_> = wanted.objects.iter().map(|d| d.reference.key.name.as_str()).collect();
        prop_assert_eq!(left, want, "no object is missing and none is left over");
        let untouched = hub.objects.values().find(|object| object.name() == "foreign");
        prop_assert_eq!(untouched, foreign.as_ref());
    }

    #[test]
    fn the_order_of_the_rendered_objects_does_not_change_the_commit(
        objects in proptest::collection::vec(proptest::option::of(0u8..2), 8),
    ) {
        let object = |(i, data): (usize, &Option<u8>)| Some(config_map(&format!("c{i}"), &(*data)?.to_string()));
        let mut objects: Vec<_> = objects.iter().enumerate().filter_map(object).collect();
        let forwards = commit(&objects);
        objects.reverse();
        prop_assert_eq!(forwards, commit(&objects));
    }
}
