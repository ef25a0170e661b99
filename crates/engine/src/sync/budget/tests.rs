use super::*;

fn ids(n: usize, kind: &str) -> BTreeMap<ObjectId, String> {
    (0..n).map(|i| (id(kind, &format!("{i:04}")), format!("u{i}"))).collect()
}

/// Returns the reason that deletions of `owned` objects wait after `recent` deletions at the given minutes.
fn spend_after(
    recent: &[(&str, i64)],
    objects: &BTreeMap<ObjectId, String>,
    owned: usize,
    approved: &str,
) -> Result<usize, DeletionHold> {
    let kept = id("ConfigMap", "kept");
    let deletions = Deletions {
        objects,
        owned,
        recent: &recent.iter().map(|(name, minute)| (id("ConfigMap", name), at(*minute))).collect(),
        desired: &BTreeSet::from([&kept]),
        uninstalls: &BTreeMap::new(),
        config_repos: &BTreeMap::new(),
        confirm: &[],
    };
    spend(Budget::default(), &deletions, approved).map(|allowed| match allowed {
        Allowed::WithinBudget(new) => new.len(),
        Allowed::Approved => 0,
    })
}

fn held(objects: &BTreeMap<ObjectId, String>, owned: usize, approved: &str) -> Option<DeletionHold> {
    spend_after(&[], objects, owned, approved).err()
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

fn id(kind: &str, name: &str) -> ObjectId {
    ObjectId { group: String::new(), kind: kind.into(), key: Key::namespaced("ns", name) }
}

#[test]
fn deletions_count_over_the_window_and_not_one_by_one() {
    let three = [("a", 0), ("b", 5), ("c", 6)];
    assert_eq!(spend_after(&three, &ids(2, "ConfigMap"), 50, ""), Ok(2), "they are recorded before");
    let hold = spend_after(&three, &ids(3, "ConfigMap"), 50, "").unwrap_err();
    assert_eq!(hold.why, "3 deletions, after 3 others within 1h, are over the budget of 5");
    assert_eq!(hold.until, Some(at(60)), "the first of the window ends then");
    let later = spend_after(&three, &ids(4, "ConfigMap"), 50, "").unwrap_err();
    assert_eq!(later.until, Some(at(65)));
    assert_eq!(spend_after(&three, &ids(3, "ConfigMap"), 50, &hold.approval), Ok(0), "approved");
    let alone = spend_after(&three, &ids(6, "ConfigMap"), 50, "").unwrap_err();
    assert_eq!((alone.why.as_str(), alone.until), ("6 deletions are over the budget of 5", None));
    let last = spend_after(&three, &ids(2, "ConfigMap"), 2, "");
    assert_eq!(last, Ok(0), "the budget is for everything that there was");
}

#[test]
fn a_recorded_deletion_that_did_not_happen_is_repeated_and_counts_once() {
    let recorded: Vec<String> = (0..5).map(|i| format!("{i:04}")).collect();
    let recorded: Vec<(&str, i64)> = recorded.iter().map(|name| (name.as_str(), 0)).collect();
    assert_eq!(spend_after(&recorded, &ids(5, "ConfigMap"), 50, ""), Ok(0));
    assert!(spend_after(&recorded, &ids(6, "ConfigMap"), 50, "").is_err());
}

#[test]
fn replacing_a_generated_object_that_has_another_hash_is_not_a_deletion() {
    let names =
        |hash: &str| -> Vec<ObjectId> { (0..9).map(|i| id("ConfigMap", &format!("c{i}-{hash}"))).collect() };
    let check = |old: &str, new: &str| {
        let objects = names(old).into_iter().map(|id| (id, String::new())).collect();
        let new = names(new);
        let deletions = Deletions {
            objects: &objects,
            owned: 9,
            recent: &Recent::new(),
            desired: &new.iter().collect(),
            uninstalls: &BTreeMap::new(),
            config_repos: &BTreeMap::new(),
            confirm: &[],
        };
        spend(Budget { objects: 1, percent: 1, ..Budget::default() }, &deletions, "").is_ok()
    };
    assert!(check("2456789bcd", "fghkmt2456"));
    assert!(!check("2456789bcd", "other"), "they are gone");
    assert!(!check("v1", "v2"), "that is no hash");
}

#[test]
fn a_generated_object_replaces_one_other() {
    let hashes = ["2456789bcd", "fghkmt2456", "bcdfghkmt2"];
    let all = hashes.map(|hash| id("ConfigMap", &format!("c-{hash}")));
    let (new, old) = all.split_last().unwrap();
    assert_eq!(replaced(old.iter(), &BTreeSet::from([new])).len(), 1);
}

#[test]
fn a_time_ahead_of_the_clock_counts_from_now_on() {
    let recent = Recent::from([(id("ConfigMap", "a"), at(600)), (id("ConfigMap", "b"), at(-60))]);
    let left = Budget::default().within_window(&recent, at(0));
    assert_eq!(left, Recent::from([(id("ConfigMap", "a"), Timestamp::from_second(1).unwrap())]));
}

#[test]
fn a_wait_ends_when_the_budget_of_what_is_left_then_allows_it() {
    let names: Vec<String> = (0..30).map(|i| format!("old{i}")).collect();
    let thirty: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
    let hold = spend_after(&thirty, &ids(50, "ConfigMap"), 970, "").unwrap_err();
    assert_eq!(hold.until, None, "5% of 970 is 48");
    let hold = spend_after(&thirty, &ids(48, "ConfigMap"), 970, "").unwrap_err();
    assert_eq!(hold.until, Some(at(60)));
    // Twenty of them count ten minutes longer, and their objects still count towards the total: 5% of 800 is 40.
    let forty: Vec<(String, i64)> = (0..40).map(|i| (format!("old{i}"), i / 20 * 10)).collect();
    let forty: Vec<(&str, i64)> = forty.iter().map(|(name, minute)| (name.as_str(), *minute)).collect();
    let hold = spend_after(&forty, &ids(20, "ConfigMap"), 780, "").unwrap_err();
    assert_eq!(hold.until, Some(at(60)));
}

#[test]
fn deletions_within_the_window_count_toward_the_size_of_the_inventory() {
    assert!(spend_after(&[("x", 0), ("y", 0)], &ids(4, "ConfigMap"), 118, "").is_ok(), "5% of 120 is 6");
    assert!(spend_after(&[("x", 0), ("y", 0)], &ids(4, "ConfigMap"), 117, "").is_err());
}

#[test]
fn only_the_name_of_a_generated_config_map_or_secret_has_a_hash() {
    let of = |group: &str, kind: &str, name: &str| {
        let of = ObjectId { group: group.into(), ..id(kind, name) };
        generated(&of).map(str::to_owned)
    };
    assert_eq!(of("", "ConfigMap", "c-2456789bcd").as_deref(), Some("c"));
    assert_eq!(of("", "Secret", "c-2456789bcd").as_deref(), Some("c"));
    for (group, kind, name) in [
        ("", "Service", "c-2456789bcd"),
        ("apps", "ConfigMap", "c-2456789bcd"),
        ("", "ConfigMap", "c-2456789bc"),
        ("", "ConfigMap", "c-2456789bca"),
    ] {
        assert_eq!(of(group, kind, name), None, "{group} {kind} {name}");
    }
}

#[test]
fn more_than_the_larger_of_five_and_five_percent_waits() {
    let cases = [
        (0, 0, false),
        (5, 5, false),
        (6, 6, true),
        (6, 100, true),
        (6, 120, false),
        (10, 200, false),
        (11, 200, true),
    ];
    for (deletions, owned, expected) in cases {
        let is_held = held(&ids(deletions, "ConfigMap"), owned, "").is_some();
        assert_eq!(is_held, expected, "{deletions} of {owned}");
    }
}

#[test]
fn a_budget_allows_what_the_status_can_record_and_no_more() {
    let large = Budget { objects: 5_000, ..Budget::default() };
    for (number, is_allowed) in [(RECORDED, true), (RECORDED + 1, false)] {
        let kept = id("ConfigMap", "kept");
        let deletions = Deletions {
            objects: &ids(number, "ConfigMap"),
            owned: 10_000,
            recent: &Recent::new(),
            desired: &BTreeSet::from([&kept]),
            uninstalls: &BTreeMap::new(),
            config_repos: &BTreeMap::new(),
            confirm: &[],
        };
        assert_eq!(spend(large, &deletions, "").is_ok(), is_allowed, "{number}");
    }
}

#[test]
fn an_approval_is_for_exactly_the_deletions_that_were_shown() {
    let approval = held(&ids(6, "ConfigMap"), 6, "").unwrap().approval;
    assert_eq!(held(&ids(6, "ConfigMap"), 6, &approval), None);
    assert!(held(&ids(7, "ConfigMap"), 7, &approval).is_some());
    assert!(held(&ids(6, "Secret"), 6, &approval).is_some());
    let again = ids(6, "ConfigMap").into_keys().map(|id| (id, "new".to_owned())).collect();
    assert!(held(&again, 6, &approval).is_some(), "they were created again");
}

#[test]
fn the_last_objects_and_cascading_deletions_always_wait() {
    let last = Deletions {
        objects: &ids(1, "ConfigMap"),
        owned: 1,
        recent: &Recent::new(),
        desired: &BTreeSet::new(),
        uninstalls: &BTreeMap::new(),
        config_repos: &BTreeMap::new(),
        confirm: &[],
    };
    assert!(spend(Budget::default(), &last, "").is_err());
    assert!(held(&ids(1, "Namespace"), 100, "").is_some());
}
