use jiff::{SignedDuration, Timestamp};

use super::harness::{Harness, Map, map};
use crate::{Controller, Plan, Read, View, Watches};
use object::Key;

/// A controller that requests another plan after a minute.
struct Hourglass;

impl Controller for Hourglass {
    const NAME: &'static str = "hourglass";
    type Primary = Map;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        plan.wake(now + SignedDuration::from_mins(1));
        Ok(plan)
    }
}

#[test]
fn setting_the_clock_back_delays_no_key() {
    let mut harness = Harness::new::<Hourglass>();
    harness.listed("ConfigMap", &[map("a")]);
    harness.after(7200);
    assert_eq!(harness.ended(), ["a"]);
    harness.after(-3600);
    assert_eq!(harness.ended().len(), 0);
    harness.after(59);
    assert_eq!(harness.ended().len(), 0, "and makes none due that is not");
    harness.after(1);
    assert_eq!(harness.ended(), ["a"]);
    // The plan was made before the clock was set back, but arrives afterwards.
    harness.now += SignedDuration::from_mins(1);
    harness.take();
    let decided = harness.decisions.pop().unwrap().run();
    harness.now -= SignedDuration::from_hours(1);
    harness.take();
    harness.dispatcher.decided(decided, harness.now);
    harness.after(0);
    assert_eq!(harness.ended(), ["a"]);
    harness.after(60);
    assert_eq!(harness.ended(), ["a"]);
}
