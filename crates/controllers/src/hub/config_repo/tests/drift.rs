//! Tests objects that others change on the hub.

use super::*;

/// Returns a hub that has applied some ConfigMaps.
fn hub(count: usize) -> Hub {
    let mut hub = Hub::new(json!({}));
    let told = hub.commit_numbered(count, "1");
    assert!(told.starts_with("Ready"), "{told}");
    hub
}

impl Hub {
    fn commit_numbered(&mut self, count: usize, last: &str) -> String {
        let data = |i: usize| if i + 1 == count { last } else { "1" };
        let all: Vec<_> = (0..count).map(|i| (format!("{i}.yaml"), map(&format!("m{i}"), data(i)))).collect();
        let files: Vec<_> = all.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        self.commit(&files)
    }

    fn change(&mut self, name: &str) {
        self.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "config", "name": name}, "data": {"k": "edited"}}));
    }
}

#[test]
fn an_object_that_waits_for_its_next_correction_delays_no_other() {
    let mut hub = hub(2);
    // After six corrections, the delay is a minute.
    while hub.status().drift.is_none_or(|drift| drift.corrected[0].corrections < 6) {
        hub.change("m0");
        hub.run();
    }
    hub.change("m0");
    let told = hub.run();
    assert!(
        told.starts_with(
            "Reconciling Drifted: ConfigMap config/m0 was changed on the hub and corrected 6 times"
        ),
        "{told}"
    );
    hub.change("m1");
    hub.run();
    assert_eq!((hub.data("m0").as_deref(), hub.data("m1").as_deref()), (Some("edited"), Some("1")));
}

#[test]
fn edits_of_many_objects_are_not_a_fight() {
    let mut hub = hub(15);
    for i in 0..15 {
        hub.change(&format!("m{i}"));
        assert!(hub.run().starts_with("Ready"), "{i}: {}", hub.message());
        assert_eq!(hub.data(&format!("m{i}")).as_deref(), Some("1"), "{i}");
    }
}

#[test]
fn the_list_of_corrected_objects_is_bounded_and_the_others_share_a_count() {
    let mut hub = hub(30);
    for _ in 0..2 {
        (0..30).for_each(|i| hub.change(&format!("m{i}")));
        hub.run();
    }
    let edited = |hub: &Hub| (0..30).filter(|i| hub.data(&format!("m{i}")).as_deref() != Some("1")).count();
    assert_eq!(edited(&hub), 0);
    let drift = hub.status().drift.unwrap();
    assert_eq!((drift.corrected.len(), drift.corrections), (20, 2));
    assert!(drift.corrected.iter().all(|one| one.corrections == 2), "{drift:?}");
    assert_eq!(drift.corrected[0].object, "/ConfigMap/config/m0");
    hub.world.run_for(SignedDuration::from_mins(31)).unwrap();
    assert_eq!(hub.status().drift, None);
}

#[test]
fn what_a_waiting_commit_does_not_change_is_still_corrected() {
    let waits = [
        json!({"dependsOn": [{"name": "absent"}]}),
        json!({"planApproval": "Required"}),
        json!({"freezeWindows": [{"name": "night", "schedule": "4 3 * * *", "duration": "1h"}]}),
        json!({"applyWindows": [{"name": "night", "schedule": "4 2 * * *", "duration": "1h"}]}),
    ];
    for spec in waits {
        let mut hub = hub(2);
        hub.repo(spec.clone(), json!({}));
        let told = hub.commit_numbered(2, "2");
        assert!(!told.starts_with("Ready"), "{told}");
        hub.change("m0");
        hub.change("m1");
        assert_eq!(hub.run(), told);
        assert_eq!(
            (hub.data("m0").as_deref(), hub.data("m1").as_deref()),
            (Some("1"), Some("edited")),
            "{spec}"
        );
    }
}
