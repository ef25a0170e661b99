//! Tests that the deletion budget counts over a time window.

use super::*;

fn files(names: &[usize]) -> Vec<(String, String)> {
    names.iter().map(|i| (format!("{i}.yaml"), map(&format!("m{i}"), "1"))).collect()
}

impl Hub {
    fn commit_numbers(&mut self, names: &[usize]) -> String {
        let files = files(names);
        let files: Vec<_> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
        self.commit(&files)
    }

    fn wait_minutes(&mut self, minutes: i64) -> String {
        self.world.run_for(SignedDuration::from_mins(minutes)).unwrap();
        self.message()
    }
}

fn numbers(range: std::ops::Range<usize>) -> Vec<usize> {
    range.collect()
}

#[test]
fn consecutive_small_commits_are_held_until_the_window_ends() {
    let mut hub = Hub::new(json!({}));
    hub.commit_numbers(&numbers(0..30));
    assert!(hub.commit_numbers(&numbers(3..30)).starts_with("Ready"));
    hub.wait_minutes(10);
    assert_eq!(hub.status().recent_deletions[0].object, "/ConfigMap/config/m0");
    let until = hub.status().recent_deletions[0].time.0 + SignedDuration::from_hours(1);
    hub.world.restart_operator();
    hub.world.take_events();
    let held = hub.commit_numbers(&numbers(6..30));
    let why = format!(
        "deletions wait until {until}: 3 deletions, after 3 others within 1h, are over the budget of 5"
    );
    assert!(held.starts_with("Reconciling DeletionsHeld") && held.contains(&why), "{held}");
    assert_eq!((hub.names().len(), hub.status().recent_deletions.len()), (27, 3));
    assert!(hub.status().held_deletions.unwrap().until.is_some());
    let reasons = |hub: &Hub| hub.status().history.into_iter().map(|one| one.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&hub), ["DeletionsHeld", "Applied", "Applied"]);
    hub.wait_minutes(10);
    let events = hub.world.take_events().into_iter().filter(|event| event.reason == "DeletionsHeld");
    let [event] = <[_; 1]>::try_from(events.collect::<Vec<_>>()).unwrap();
    assert!(event.message.contains(&why), "{}", event.message);
    let over = hub.wait_minutes(50);
    assert!(over.starts_with("Ready"), "{over}");
    assert_eq!((hub.names().len(), hub.status().recent_deletions.len()), (24, 3));
}

#[test]
fn the_end_of_a_window_writes_nothing() {
    let mut hub = Hub::new(json!({}));
    hub.commit_numbers(&numbers(0..30));
    hub.commit_numbers(&numbers(3..30));
    let written = hub.world.get::<ConfigRepo>(&key()).unwrap().metadata.resource_version;
    hub.wait_minutes(120);
    hub.world.restart_operator();
    hub.wait_minutes(1);
    let repo = hub.world.get::<ConfigRepo>(&key()).unwrap();
    assert_eq!((repo.metadata.resource_version, hub.status().recent_deletions.len()), (written, 3));
    hub.commit_numbers(&numbers(4..30));
    assert_eq!(hub.status().recent_deletions.len(), 1, "the next deletion takes their place");
}

#[test]
fn an_approved_deletion_and_an_object_that_is_back_do_not_count() {
    let mut hub = Hub::new(json!({}));
    hub.commit_numbers(&numbers(0..30));
    hub.commit_numbers(&numbers(5..30));
    assert_eq!(hub.status().recent_deletions.len(), 5);
    hub.commit_numbers(&numbers(0..30));
    assert_eq!(hub.status().recent_deletions, []);
    hub.commit_numbers(&numbers(7..30));
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    assert!(hub.run().starts_with("Ready"));
    assert_eq!((hub.names().len(), hub.status().recent_deletions.len()), (23, 0));
    assert!(hub.commit_numbers(&numbers(12..30)).starts_with("Ready"), "the budget is whole");
}

#[test]
fn without_a_window_each_commit_counts_alone() {
    let mut hub = Hub::new(json!({"deletionBudget": {"window": "0s"}}));
    hub.commit_numbers(&numbers(0..30));
    for first in [5, 10, 15] {
        assert!(hub.commit_numbers(&numbers(first..30)).starts_with("Ready"), "{first}");
    }
    assert_eq!(hub.status().recent_deletions, []);
}
