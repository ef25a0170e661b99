//! Decides whether a cluster is alive, from observed changes and the hub's own clock.
//!
//! The time that a spoke writes into its lease is never used for this. A wrong clock can therefore make a
//! cluster neither unknown nor available forever. The node controller of Kubernetes judges nodes in the same
//! way.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use super::lease;
use api::condition::ConditionStatus;

/// The maximum delay of a lease check while the hub is running. Plans wait in the queue for far less time.
const LATE_CHECK: SignedDuration = SignedDuration::from_secs(30);

/// The current heartbeat of an agent on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The time in the lease, by the clock of the spoke.
    pub renewed: Option<Timestamp>,
    /// The availability that the agent reported, and since when; `None` if the hub has set it to Unknown.
    pub reported: Option<(ConditionStatus, Timestamp)>,
}

/// The heartbeats of one cluster, as observed by the hub.
#[derive(Clone, Debug)]
pub struct Liveness {
    heartbeat: Heartbeat,
    /// The time on the hub's clock of the last change of the heartbeat, or of the first observation.
    seen: Timestamp,
    /// The time of the last check.
    checked: Timestamp,
    /// True if the lease expired between checks and the hub waits for another lease duration.
    waited: bool,
    /// The offset of the spoke's clock at the last observed renewal.
    ahead: Option<SignedDuration>,
}

impl Liveness {
    /// Starts to observe a cluster. Its last heartbeat may be arbitrarily old, so the hub waits a grace period
    /// from now before it reports the cluster as unknown.
    pub fn begin(heartbeat: Heartbeat, now: Timestamp) -> Self {
        Self { heartbeat, seen: now, checked: now, waited: false, ahead: None }
    }

    /// Observes the cluster again. A lease without a time counts as not renewed; see
    /// docs/hazards-clusters.md#lease-without-time.
    ///
    /// A check much later than [`next_check`](Self::next_check) shows that the hub was stopped or its clock was
    /// set forward. The cluster then gets one more lease duration, because its renewals may not have been read
    /// yet. See docs/hazards-hub.md#clock-jumps.
    pub fn observe(&mut self, heartbeat: Heartbeat, lease_duration_seconds: i32, now: Timestamp) {
        let expires = self.expires(lease_duration_seconds);
        let was_alive = self.checked < expires && !self.waited;
        let next_check = self.next_check(lease_duration_seconds);
        let is_late = next_check.saturating_add(LATE_CHECK).is_ok_and(|late| late < now);
        let is_renewed = heartbeat.renewed.is_some() && heartbeat.renewed != self.heartbeat.renewed;
        let is_reported = heartbeat.reported.is_some() && heartbeat.reported != self.heartbeat.reported;
        if is_renewed || is_reported {
            (self.seen, self.waited) = (now, false);
        } else if was_alive && is_late {
            (self.seen, self.waited) = (now, true);
        }
        // Setting the clock back must not keep a cluster alive.
        self.seen = self.seen.min(now);
        self.checked = now;
        if is_renewed {
            self.ahead = heartbeat.renewed.map(|renewed| renewed.duration_since(now));
        }
        self.heartbeat = heartbeat;
    }

    /// Returns the time at which the lease expires and the cluster becomes unknown.
    pub fn expires(&self, lease_duration_seconds: i32) -> Timestamp {
        later(self.seen, lease::grace(lease_duration_seconds))
    }

    /// Returns the time of the next check: when the lease expires, or when a renewal is late by half a period. A
    /// clock step between two such checks is either detected, or too short to expire a renewed lease.
    pub fn next_check(&self, lease_duration_seconds: i32) -> Timestamp {
        let period = lease::period(lease_duration_seconds);
        let late = later(self.checked, period.saturating_add(period / 2));
        late.min(self.expires(lease_duration_seconds))
    }

    /// Returns true if the spoke's clock agrees with the hub's within the grace period of the lease, as in OCM;
    /// `None` before the first observed renewal.
    pub fn is_clock_synced(&self, lease_duration_seconds: i32) -> Option<bool> {
        self.ahead.map(|ahead| ahead.abs() < lease::grace(lease_duration_seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConditionStatus::{False, True};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lease(renewed: i64) -> Heartbeat {
        Heartbeat { renewed: Some(at(renewed)), reported: None }
    }

    #[test]
    fn a_lease_lives_for_five_periods_after_its_renewal_was_seen() {
        for renewed in [-1_000_000, 100, 253_402_207_200] {
            let mut liveness = Liveness::begin(lease(0), at(100));
            assert_eq!(liveness.expires(10), at(150), "from the first look");
            liveness.observe(lease(renewed), 10, at(120));
            liveness.observe(lease(renewed), 10, at(140));
            assert_eq!(
                (liveness.expires(10), liveness.expires(0)),
                (at(170), at(420)),
                "renewed at {renewed}"
            );
        }
    }

    #[test]
    fn a_lease_with_a_cleared_time_expires_like_an_unrenewed_one() {
        let mut liveness = Liveness::begin(lease(100), at(100));
        liveness.observe(Heartbeat::default(), 10, at(110));
        assert_eq!(liveness.expires(10), at(150));
    }

    #[test]
    fn a_report_of_the_agent_is_a_sign_of_life_and_one_of_the_hub_is_not() {
        let reported = |status, since| Heartbeat { reported: Some((status, at(since))), ..lease(0) };
        let mut liveness = Liveness::begin(lease(0), at(100));
        liveness.observe(reported(True, 7), 10, at(200));
        assert_eq!(liveness.expires(10), at(250));
        liveness.observe(reported(True, 7), 10, at(220));
        assert_eq!(liveness.expires(10), at(250), "the same report says nothing new");
        liveness.observe(reported(False, 8), 10, at(240));
        assert_eq!(liveness.expires(10), at(290));
        liveness.observe(lease(0), 10, at(265));
        liveness.observe(lease(0), 10, at(290));
        assert_eq!(liveness.expires(10), at(290), "the hub has reported that it is unknown");
    }

    #[test]
    fn a_clock_is_judged_by_renewals_that_were_seen_to_happen() {
        let mut liveness = Liveness::begin(lease(0), at(1000));
        assert_eq!(liveness.is_clock_synced(60), None);
        for (renewed, synced) in [(1010, true), (1309, true), (1310, false), (711, true), (710, false)] {
            liveness.observe(lease(0), 60, at(1010));
            liveness.observe(lease(renewed), 60, at(1010));
            assert_eq!(liveness.is_clock_synced(60), Some(synced), "renewed at {renewed}");
        }
    }

    #[test]
    fn a_suspended_hub_or_one_whose_clock_was_set_forward_waits_again() {
        let mut liveness = Liveness::begin(lease(0), at(100));
        liveness.observe(lease(0), 10, at(140));
        assert_eq!(liveness.expires(10), at(150));
        liveness.observe(lease(0), 10, at(3740));
        assert_eq!(liveness.expires(10), at(3790), "the hub did not look when the lease ran out");
        liveness.observe(lease(0), 10, at(7340));
        assert_eq!(liveness.expires(10), at(3790), "once is enough");
        liveness.observe(lease(7340), 10, at(7340));
        liveness.observe(lease(7340), 10, at(7380));
        liveness.observe(lease(7340), 10, at(7420));
        assert_eq!(liveness.expires(10), at(7390), "a look within half a minute is no standstill");
        liveness.observe(lease(7340), 10, at(9000));
        assert_eq!(liveness.expires(10), at(7390), "it was silent before");
    }

    #[test]
    fn a_renewed_lease_does_not_expire_when_the_clock_steps_forward() {
        for (step, since) in (0..1000).step_by(10).flat_map(|step| [0, 30, 60, 89].map(|since| (step, since)))
        {
            let mut liveness = Liveness::begin(lease(0), at(0));
            liveness.observe(lease(1000), 60, at(1000));
            assert_eq!(liveness.next_check(60), at(1090));
            let after = 1000 + since + step;
            liveness.observe(lease(1000), 60, at(after));
            // The renewal follows one period after the previous one, by the spoke's clock.
            let renewal = 1000 + step + 60_i64.max(since);
            assert!(liveness.expires(60) > at(renewal), "{since} s after the renewal, by {step} s");
        }
    }

    #[test]
    fn setting_the_clock_back_keeps_no_silent_cluster_alive() {
        let mut liveness = Liveness::begin(lease(0), at(4000));
        liveness.observe(lease(0), 10, at(400));
        assert_eq!(liveness.expires(10), at(450));
    }
}
