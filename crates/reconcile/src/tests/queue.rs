use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cause(kind: FailureKind) -> Option<Cause> {
    Some(Cause { kind, is_hub_away: false })
}

fn key(name: &str) -> Key {
    Key::cluster(name)
}

#[test]
fn a_key_runs_once_however_often_it_was_woken() {
    let mut queue = WorkQueue::default();
    queue.wake(key("a"), Wake::changed(at(5)));
    queue.wake(key("a"), Wake::changed(at(3)));
    queue.wake(key("a"), Wake::changed(at(9)));
    assert_eq!(queue.start(at(2)), None);
    assert_eq!(queue.start(at(3)), Some(key("a")));
    assert_eq!((queue.start(at(100)), queue.len()), (None, 1));
}

#[test]
fn a_key_woken_while_it_runs_runs_again() {
    let mut queue = WorkQueue::with_spacing(SignedDuration::from_secs(2));
    queue.wake(key("a"), Wake::changed(at(0)));
    queue.start(at(0));
    queue.wake(key("a"), Wake::changed(at(1)));
    assert_eq!(queue.start(at(1)), None);
    queue.end(&key("a"), None, None, at(1));
    assert_eq!(queue.next_at(), Some(at(3)));
}

#[test]
fn a_single_change_runs_at_once_and_later_ones_together() {
    let mut queue = WorkQueue::with_spacing(SignedDuration::from_secs(2));
    queue.wake_spaced(key("a"), Wake::changed(at(5)));
    assert_eq!(queue.start(at(5)), Some(key("a")));
    queue.end(&key("a"), None, None, at(6));
    queue.wake_spaced(key("a"), Wake::changed(at(6)));
    queue.wake_spaced(key("a"), Wake::changed(at(7)));
    queue.wake_spaced(key("b"), Wake::changed(at(7)));
    assert_eq!((queue.start(at(7)), queue.next_at()), (Some(key("b")), Some(at(8))));
    queue.bring_forward(SignedDuration::from_secs(100));
    queue.start(at(-92));
    queue.end(&key("a"), None, None, at(-92));
    queue.wake_spaced(key("a"), Wake::changed(at(-80)));
    assert_eq!(queue.next_at(), Some(at(-80)));
}

#[test]
fn a_plan_is_repeated_when_it_asked_to_be() {
    let mut queue = WorkQueue::default();
    queue.wake(key("a"), Wake::changed(at(0)));
    queue.start(at(0));
    queue.end(&key("a"), None, Some(at(60)), at(1));
    assert_eq!(queue.next_at(), Some(at(60)));
}

#[test]
fn failures_back_off_and_success_forgets_them() {
    let mut queue = WorkQueue::default();
    let mut waits = Vec::new();
    let mut now = 0;
    for kind in
        [Some(FailureKind::Unavailable), Some(FailureKind::Unavailable), None, Some(FailureKind::Unavailable)]
    {
        now += 1000;
        queue.wake(key("a"), Wake::changed(at(now)));
        queue.start(at(now));
        queue.end(&key("a"), kind.and_then(cause), None, at(now));
        waits.push(queue.next_at().map(|t| t.as_millisecond() - now * 1000));
    }
    assert_eq!(waits, [Some(500), Some(1000), None, Some(500)]);
    assert_eq!(Backoff::wait(FailureKind::Unavailable, 40), Backoff::LONGEST);
    let conflicts = [1, 2, 6, 7, 40].map(|failures| Backoff::wait(FailureKind::Conflict, failures));
    assert_eq!(conflicts.map(|wait| wait.as_millis()), [20, 40, 640, 1_280, 256_000]);
}

#[test]
fn the_wait_doubles_with_each_failure_of_its_kind() {
    let mut queue = WorkQueue::default();
    let (conflict, unavailable) = (FailureKind::Conflict, FailureKind::Unavailable);
    let mut waits = Vec::new();
    for (now, kind) in
        [[conflict; 8].as_slice(), &[unavailable, conflict, unavailable]].concat().into_iter().enumerate()
    {
        let now = at(i64::try_from(now).unwrap() * 1000);
        queue.wake(key("a"), Wake::changed(now));
        queue.start(now);
        queue.end(&key("a"), cause(kind), None, now);
        waits.push(queue.next_at().unwrap().duration_since(now).as_millis());
    }
    assert_eq!(waits[7..], [2_560, 500, 5_120, 1_000]);
}

fn failed(queue: &mut WorkQueue, name: &str, again: Option<Wake>) {
    queue.wake(key(name), Wake::changed(at(0)));
    queue.start(at(0));
    if let Some(wake) = again {
        queue.wake(key(name), wake);
    }
    queue.end(&key(name), cause(FailureKind::Unavailable), Some(at(0)), at(0));
}

#[test]
fn no_wake_moves_a_failed_key_forward() {
    let mut queue = WorkQueue::default();
    failed(&mut queue, "a", Some(Wake::changed(at(0))));
    queue.wake(key("a"), Wake::changed(at(0)));
    assert_eq!((queue.start(at(0)), queue.next_at().unwrap().as_millisecond()), (None, 500));
    assert_eq!(queue.start(at(1)), Some(key("a")));
}

#[test]
fn a_key_that_people_changed_loses_its_backoff() {
    for while_it_runs in [true, false] {
        let mut queue = WorkQueue::default();
        let restart = Wake { restarts: true, ..Wake::changed(at(0)) };
        failed(&mut queue, "a", while_it_runs.then_some(restart));
        if !while_it_runs {
            queue.wake(key("a"), restart);
        }
        assert_eq!(queue.start(at(0)), Some(key("a")));
        queue.end(&key("a"), cause(FailureKind::Unavailable), None, at(0));
        assert_eq!(queue.next_at().unwrap().as_millisecond(), 500, "it counts its failures anew");
    }
}

#[test]
fn the_end_of_an_outage_ends_the_waits_for_it_and_no_others() {
    let mut queue = WorkQueue::default();
    failed(&mut queue, "unavailable", None);
    queue.wake(key("invalid"), Wake::changed(at(0)));
    queue.start(at(0));
    queue.end(&key("invalid"), cause(FailureKind::Invalid), None, at(0));
    queue.release(at(0));
    assert_eq!((queue.start(at(0)), queue.start(at(0))), (Some(key("unavailable")), None));
}

/// The request of the key is in flight, and a gateway answers it after the outage.
#[test]
fn a_key_that_runs_when_an_outage_ends_loses_its_backoff() {
    let mut queue = WorkQueue::default();
    for second in (0..10).map(|failures| failures * 1000) {
        queue.wake(key("a"), Wake::changed(at(second)));
        assert_eq!(queue.start(at(second)), Some(key("a")));
        if second < 9000 {
            queue.end(&key("a"), cause(FailureKind::Unavailable), None, at(second));
        }
    }
    queue.release(at(9010));
    queue.end(&key("a"), cause(FailureKind::Unavailable), None, at(9030));
    assert_eq!(queue.next_at(), Some(at(9030)), "it is planned at once");
    queue.start(at(9030));
    queue.end(&key("a"), cause(FailureKind::Unavailable), None, at(9030));
    assert_eq!(queue.next_at().unwrap().duration_since(at(9030)), Backoff::FIRST);
}

#[test]
fn a_changed_key_comes_before_the_first_plans_of_the_others() {
    let mut queue = WorkQueue::default();
    for name in ["a", "b"] {
        queue.wake(key(name), Wake { priority: Priority::Initial, ..Wake::changed(at(0)) });
    }
    queue.wake(key("c"), Wake::changed(at(1)));
    queue.wake(key("b"), Wake::changed(at(1)));
    let order: Vec<_> = std::iter::from_fn(|| queue.start(at(1))).map(|key| key.name).collect();
    assert_eq!(order, ["b", "c", "a"]);
}

#[test]
fn constant_change_does_not_hold_up_the_first_look() {
    let mut queue = WorkQueue::default();
    queue.wake(key("initial"), Wake { priority: Priority::Initial, ..Wake::changed(at(0)) });
    let mut started = Vec::new();
    for i in 0..=CHANGED_PER_INITIAL {
        queue.wake(key(&format!("changed-{i}")), Wake::changed(at(0)));
        started.extend(queue.start(at(0)));
    }
    assert!(started.contains(&key("initial")));
}

#[test]
fn failures_in_a_row_are_counted_until_a_success() {
    let mut queue = WorkQueue::default();
    let mut counts = Vec::new();
    let (missing, conflict) = (Some(FailureKind::NotFound), Some(FailureKind::Conflict));
    for kind in [missing, conflict, None, missing] {
        queue.wake(key("a"), Wake::changed(at(0)));
        queue.start(at(10));
        queue.end(&key("a"), kind.and_then(cause), None, at(0));
        counts.push(queue.failures(&key("a")));
    }
    assert_eq!(counts, [1, 2, 0, 1]);
}
