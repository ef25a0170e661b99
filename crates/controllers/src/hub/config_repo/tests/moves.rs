//! Tests objects that move between ConfigRepos without being deleted.

use super::*;
use sim::Write;

fn second() -> Key {
    Key::namespaced("config", "second")
}

fn files(maps: &[(String, String)]) -> FileTree {
    maps.iter().map(|(path, text)| (path.clone(), text.as_bytes())).collect()
}

fn maps(range: std::ops::Range<usize>, data: &str) -> Vec<(String, String)> {
    range.map(|i| (format!("{i}.yaml"), map(&format!("m{i}"), data))).collect()
}

/// Returns a hub with the ConfigRepo `fleet` and a second one, of the same or another repository.
fn hub(url_of_second: &str) -> Hub {
    let mut hub = Hub::new(json!({}));
    hub.second(json!({"url": url_of_second}));
    hub
}

const SAME: &str = "https://git.example/fleet";
const OTHER: &str = "https://git.example/second";

impl Hub {
    fn second(&mut self, spec: Value) {
        let metadata = json!({"namespace": "config", "name": "second"});
        self.apply(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}));
    }

    fn commit_both(&mut self, first: &FileTree, second_one: &FileTree, is_second_late: bool) {
        self.commits += 1;
        let commit = format!("{:040x}", self.commits);
        self.world.commit(&key(), &commit, first.clone());
        if is_second_late {
            self.run();
        }
        self.world.commit(&second(), &commit, second_one.clone());
        self.run();
        self.run();
    }

    fn owner(&self, name: &str) -> Option<String> {
        let map = self.world.get::<ConfigMap>(&Key::namespaced("config", name))?;
        map.metadata.annotations?.get(names::CONFIG_REPO_ANNOTATION).cloned()
    }

    fn second_message(&self) -> String {
        let status = self.world.get::<ConfigRepo>(&second()).unwrap().status.unwrap();
        status.conditions.iter().find(|it| it.type_ == "Ready").unwrap().message.clone()
    }
}

fn deletions(writes: &[Write]) -> usize {
    writes.iter().filter(|write| write.id.kind == "ConfigMap" && write.after.is_none()).count()
}

#[test]
fn a_hundred_objects_move_to_another_repository_without_a_deletion() {
    for is_second_late in [false, true] {
        let mut hub = hub(SAME);
        let all = maps(0..101, "1");
        hub.commit_both(&files(&all), &files(&maps(200..201, "1")), false);
        assert!(hub.message().starts_with("Ready"), "{}", hub.message());
        hub.world.keep_history();
        let moved: Vec<_> = all[1..].iter().cloned().chain(maps(200..201, "1")).collect();
        hub.commit_both(&files(&all[..1]), &files(&moved), is_second_late);
        assert_eq!(deletions(&hub.world.take_history()), 0, "{is_second_late}");
        assert!(hub.message().starts_with("Ready"), "{}", hub.message());
        assert_eq!(hub.second_message(), "101 objects of 000000000000", "{is_second_late}");
        assert_eq!(hub.owner("m50").as_deref(), Some("config/second"));
        assert_eq!((hub.owned(), hub.names().len()), (vec!["m0".to_owned()], 102));
    }
}

#[test]
fn an_object_that_moves_may_change_at_once() {
    let mut hub = hub(SAME);
    hub.commit_both(&files(&maps(0..3, "1")), &FileTree::default(), false);
    hub.world.keep_history();
    hub.commit_both(&files(&maps(0..2, "1")), &files(&maps(2..3, "2")), false);
    assert_eq!(deletions(&hub.world.take_history()), 0);
    assert_eq!((hub.owner("m2").as_deref(), hub.data("m2").as_deref()), (Some("config/second"), Some("2")));
}

#[test]
fn between_two_repositories_the_new_owner_comes_first() {
    let mut hub = hub(OTHER);
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    hub.world.keep_history();
    let wanted: Vec<_> = maps(2..3, "1").into_iter().chain(maps(9..10, "1")).collect();
    hub.world.commit(&second(), &format!("{:040x}", 99), files(&wanted));
    hub.run();
    assert!(
        hub.second_message().contains("belongs to the ConfigRepo config/fleet"),
        "{}",
        hub.second_message()
    );
    hub.world.commit(&key(), &format!("{:040x}", 98), files(&maps(0..2, "1")));
    hub.run();
    assert_eq!(deletions(&hub.world.take_history()), 0);
    assert_eq!(hub.owner("m2").as_deref(), Some("config/second"));
    hub.world.commit(&second(), &format!("{:040x}", 100), files(&maps(9..10, "1")));
    hub.run();
    assert_eq!(hub.owner("m2"), None, "the new owner deletes it when it leaves its repository");
}

#[test]
fn an_object_that_nobody_wants_is_deleted_when_the_others_have_judged_the_commit() {
    let mut hub = hub(SAME);
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    hub.commits += 1;
    hub.world.commit(&key(), &format!("{:040x}", 2), files(&maps(0..2, "1")));
    hub.run();
    assert!(
        hub.message()
            .starts_with("Reconciling WaitingForMoves: 000000000000 is applied; 1 deletions wait until "),
        "{}",
        hub.message()
    );
    assert!(hub.owner("m2").is_some());
    hub.world.commit(&second(), &format!("{:040x}", 2), files(&maps(9..10, "1")));
    hub.run();
    assert_eq!((hub.owner("m2"), hub.message()), (None, "Ready: 2 objects of 000000000000".into()));
}

#[test]
fn a_deletion_waits_for_the_next_fetch_of_a_repository_and_a_minute_at_most() {
    let mut hub = hub(SAME);
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    hub.world.commit(&key(), &format!("{:040x}", 2), files(&maps(0..2, "1")));
    hub.world.run_for(SignedDuration::from_secs(110)).unwrap();
    assert!(hub.owner("m2").is_some());
    hub.world.run_for(SignedDuration::from_secs(20)).unwrap();
    assert_eq!(hub.owner("m2"), None);
}

/// Trees that no ConfigRepo can apply, and the reasons.
fn broken() -> [(FileTree, &'static str); 3] {
    let rule = "gitops.wheelwright.dev/apply: Sometimes";
    let odd = map("m2", "1").replace("metadata:", &format!("metadata:\n  annotations: {{{rule}}}"));
    let twice = map("m2", "1").replace("  name: m2", "  name: m2\n  namespace: config");
    let tree = |texts: &[String]| {
        texts.iter().enumerate().map(|(i, text)| (format!("{i}.yaml"), text.as_bytes())).collect()
    };
    [
        (tree(&["{".into()]), "RenderFailed"),
        (tree(&[map("m2", "1"), twice]), "DuplicateObject"),
        (tree(&[odd]), "InvalidObject"),
    ]
}

#[test]
fn a_mistake_in_the_new_overlay_deletes_nothing_of_the_old_one() {
    for (tree, reason) in broken() {
        let mut hub = hub(SAME);
        hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
        hub.world.keep_history();
        hub.commit_both(&files(&maps(0..2, "1")), &tree, false);
        hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
        let message = hub.message();
        let why = format!(
            "deletions wait: the ConfigRepo config/second follows the same repository and may want the objects, but has not processed the commit: {reason} (ConfigMap config/m2). To approve, annotate"
        );
        assert!(message.starts_with("Stalled DeletionsHeld") && message.contains(&why), "{message}");
        let mended: Vec<_> = maps(2..3, "1").into_iter().chain(maps(9..10, "1")).collect();
        hub.commit_both(&files(&maps(0..2, "1")), &files(&mended), false);
        assert_eq!(deletions(&hub.world.take_history()), 0, "{reason}");
        assert_eq!(hub.owner("m2").as_deref(), Some("config/second"), "{reason}");
        assert!(hub.message().starts_with("Ready"), "{}", hub.message());
    }
}

#[test]
fn deletions_that_wait_for_another_repository_can_be_approved() {
    let mut hub = hub(SAME);
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    let [(tree, _), ..] = broken();
    hub.commit_both(&files(&maps(0..2, "1")), &tree, false);
    hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    assert!(hub.run().starts_with("Ready"), "{}", hub.message());
    assert_eq!(hub.owner("m2"), None);
}

#[test]
fn a_suspended_repository_holds_deletions_until_it_resumes_or_is_deleted() {
    let suspended = |hub: &mut Hub| {
        hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
        hub.second(json!({"url": SAME, "suspend": true}));
        hub.commit_both(&files(&maps(0..2, "1")), &files(&maps(2..3, "1")), false);
        hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
        assert!(hub.message().contains("has not processed the commit: it is suspended"), "{}", hub.message());
        assert!(hub.owner("m2").is_some());
    };
    let mut resumed = hub(SAME);
    suspended(&mut resumed);
    resumed.second(json!({"url": SAME, "suspend": false}));
    resumed.run();
    assert_eq!(resumed.owner("m2").as_deref(), Some("config/second"));
    let mut gone = hub(SAME);
    suspended(&mut gone);
    gone.world.delete::<ConfigRepo>(&second()).unwrap();
    gone.run();
    assert_eq!(gone.owner("m2"), None);
}

#[test]
fn a_repository_that_follows_another_branch_holds_no_deletion() {
    let mut hub = hub(SAME);
    hub.second(json!({"url": SAME, "ref": {"branch": "other"}}));
    hub.commit_both(&files(&maps(0..3, "1")), &FileTree::default(), false);
    hub.commit_both(&files(&maps(0..2, "1")), &FileTree::default(), false);
    assert_eq!(hub.owner("m2"), None);
}

#[test]
fn more_objects_than_one_inventory_lists_move_at_once() {
    let mut hub = Hub::new(json!({"deletionBudget": {"objects": 5000}}));
    hub.second(json!({"url": SAME}));
    let all = maps(0..1_201, "1");
    hub.commit_both(&files(&all), &files(&maps(2000..2001, "1")), false);
    hub.world.keep_history();
    let moved: Vec<_> = all[1..].iter().cloned().chain(maps(2000..2001, "1")).collect();
    hub.commit_both(&files(&all[..1]), &files(&moved), false);
    let history = hub.world.take_history();
    assert_eq!(deletions(&history), 0);
    let parts = history.iter().filter_map(|write| write.after.as_ref());
    let requested = parts.filter_map(|part| part.at(&["spec", "requested"])?.as_object());
    assert!(requested.into_iter().all(|requested| requested.len() <= 1_000));
    assert_eq!(hub.second_message(), "1201 objects of 000000000000");
}

#[test]
fn an_object_is_not_handed_to_another_identity() {
    let mut hub = hub(SAME);
    hub.second(json!({"url": SAME, "serviceAccountName": "tenant"}));
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    hub.world.keep_history();
    let wanted: Vec<_> = maps(2..3, "1").into_iter().chain(maps(9..10, "1")).collect();
    hub.commit_both(&files(&maps(0..2, "1")), &files(&wanted), false);
    assert_eq!(deletions(&hub.world.take_history()), 1, "the tenant has to be able to create it");
}

#[test]
fn a_switch_to_observe_and_back_forgets_nothing() {
    let mut hub = Hub::new(json!({}));
    hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    hub.repo(json!({"mode": "Observe"}), json!({}));
    hub.commit(&[("a.yaml", &map("a", "1"))]);
    assert_eq!(hub.names(), ["a", "b"]);
    hub.repo(json!({"mode": "Apply"}), json!({}));
    hub.run();
    assert_eq!((hub.names(), hub.owned()), (vec!["a".to_owned()], vec!["a".to_owned()]));
}

#[test]
fn objects_move_between_repositories_of_which_one_depends_on_the_other() {
    let (fixed_one, fixed_other, some, more) = (0..1, 300..301, 1..101, 101..201);
    let tree = |ranges: &[&std::ops::Range<usize>]| {
        files(&ranges.iter().flat_map(|range| maps((*range).clone(), "1")).collect::<Vec<_>>())
    };
    let ways = [
        (
            "to its base",
            [vec![&fixed_one, &some], vec![&fixed_other]],
            [vec![&fixed_one], vec![&fixed_other, &some]],
        ),
        (
            "from its base",
            [vec![&fixed_one], vec![&fixed_other, &some]],
            [vec![&fixed_one, &some], vec![&fixed_other]],
        ),
        (
            "both ways",
            [vec![&fixed_one, &some], vec![&fixed_other, &more]],
            [vec![&fixed_one, &more], vec![&fixed_other, &some]],
        ),
    ];
    for (way, before, after) in ways {
        for (depends_on, is_second_late) in [(true, false), (true, true), (false, false)] {
            let depends_on = if depends_on { json!([{"name": "second"}]) } else { json!([]) };
            let mut hub = Hub::new(json!({"dependsOn": depends_on, "deletionBudget": {"objects": 5000}}));
            hub.second(json!({"url": SAME, "deletionBudget": {"objects": 5000}}));
            hub.commit_both(&tree(&before[0]), &tree(&before[1]), false);
            assert!(hub.message().starts_with("Ready"), "{way}: {}", hub.message());
            hub.world.keep_history();
            hub.commit_both(&tree(&after[0]), &tree(&after[1]), is_second_late);
            hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
            assert_eq!(deletions(&hub.world.take_history()), 0, "{way}");
            assert!(hub.message().starts_with("Ready"), "{way}: {}", hub.message());
            assert!(hub.second_message().ends_with(" of 000000000000"), "{way}: {}", hub.second_message());
            let moved_to = after[1].contains(&&some);
            let owner = if moved_to { "config/second" } else { "config/fleet" };
            assert_eq!(hub.owner("m50").as_deref(), Some(owner), "{way}");
        }
    }
}

#[test]
fn a_commit_that_is_not_approved_hands_nothing_over() {
    let spec = json!({"dependsOn": [{"name": "second"}], "planApproval": "Required"});
    let mut hub = Hub::new(spec.clone());
    hub.second(json!({"url": SAME}));
    let approve = |hub: &mut Hub| {
        let told = hub.message();
        assert!(told.starts_with("Stalled PlanNotApproved"), "{told}");
        let plan = hub.status().held_plan;
        hub.repo(spec.clone(), json!({names::APPROVE_PLAN_ANNOTATION: plan}));
        hub.run();
    };
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    approve(&mut hub);
    hub.world.keep_history();
    let moved: Vec<_> = maps(2..3, "1").into_iter().chain(maps(9..10, "1")).collect();
    hub.commit_both(&files(&maps(0..2, "1")), &files(&moved), false);
    assert_eq!(hub.owner("m2").as_deref(), Some("config/fleet"));
    approve(&mut hub);
    assert_eq!(hub.owner("m2").as_deref(), Some("config/second"));
    assert!(hub.message().starts_with("Ready"), "{}", hub.message());
    assert_eq!(deletions(&hub.world.take_history()), 0);
}

#[test]
fn an_object_that_would_stay_on_the_hub_is_handed_over_too() {
    let mut hub = Hub::new(json!({"prune": false}));
    hub.second(json!({"url": SAME}));
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    let moved: Vec<_> = maps(2..3, "2").into_iter().chain(maps(9..10, "1")).collect();
    hub.world.commit(&second(), &format!("{:040x}", 2), files(&moved));
    hub.run();
    hub.world.commit(&key(), &format!("{:040x}", 2), files(&maps(0..2, "1")));
    hub.run();
    assert_eq!((hub.owner("m2").as_deref(), hub.data("m2").as_deref()), (Some("config/second"), Some("2")));
}

#[test]
fn a_config_repo_that_is_deleted_hands_over_what_another_one_requested() {
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.second(json!({"url": OTHER}));
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    let wanted: Vec<_> = maps(2..3, "1").into_iter().chain(maps(9..10, "1")).collect();
    hub.world.commit(&second(), &format!("{:040x}", 99), files(&wanted));
    hub.run();
    hub.world.keep_history();
    hub.world.delete::<ConfigRepo>(&key()).unwrap();
    hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
    assert_eq!(deletions(&hub.world.take_history()), 2);
    assert_eq!(hub.owner("m2").as_deref(), Some("config/second"));
    assert_eq!(
        (hub.names(), hub.second_message()),
        (vec!["m2".to_owned(), "m9".to_owned()], "2 objects of 000000000000".into())
    );
    assert!(hub.world.get::<ConfigRepo>(&key()).is_none());
}

#[test]
fn a_renamed_config_repo_deletes_nothing() {
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.commit(&[("a.yaml", &map("a", "1")), ("b.yaml", &map("b", "1"))]);
    hub.world.run_for(SignedDuration::from_mins(10)).unwrap();
    hub.world.keep_history();
    hub.second(json!({"url": SAME}));
    hub.world.delete::<ConfigRepo>(&key()).unwrap();
    let told = hub.run();
    let why = "Reconciling WaitingForMoves: the ConfigRepo is being deleted; 2 deletions wait until ";
    assert!(told.starts_with(why), "{told}");
    let tree = [("a.yaml".to_owned(), map("a", "1")), ("b.yaml".to_owned(), map("b", "1"))];
    hub.world.commit(&second(), &format!("{:040x}", 1), files(&tree));
    hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
    assert_eq!(deletions(&hub.world.take_history()), 0);
    assert_eq!(hub.owner("a").as_deref(), Some("config/second"));
    assert!(hub.world.get::<ConfigRepo>(&key()).is_none());
}

#[test]
fn the_deletion_of_a_config_repo_needs_an_approval_if_another_one_cannot_say_what_it_wants() {
    let mut hub = Hub::new(json!({"deletionPolicy": "Delete"}));
    hub.second(json!({"url": SAME}));
    hub.commit_both(&files(&maps(0..3, "1")), &files(&maps(9..10, "1")), false);
    hub.second(json!({"url": SAME, "suspend": true}));
    hub.commit_both(&files(&maps(0..3, "2")), &files(&maps(9..10, "1")), false);
    hub.world.run_for(SignedDuration::from_mins(5)).unwrap();
    hub.world.delete::<ConfigRepo>(&key()).unwrap();
    let told = hub.run();
    let why = "Stalled DeletionsHeld: the ConfigRepo is being deleted, but deletions wait: the ConfigRepo config/second";
    assert!(told.starts_with(why) && told.contains("it is suspended"), "{told}");
    let approval = hub.status().held_deletions.unwrap().approval;
    hub.repo(json!({"deletionPolicy": "Delete"}), json!({names::APPROVE_DELETION_ANNOTATION: approval}));
    hub.world.run_for(SignedDuration::from_secs(5)).unwrap();
    assert_eq!((hub.names(), hub.world.get::<ConfigRepo>(&key())), (vec!["m9".to_owned()], None));
}
