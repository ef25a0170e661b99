//! Whether a cluster is alive, by what the hub has seen change and when, on its own clock.
//!
//! The time that a spoke writes into its lease decides nothing: a clock that is wrong makes a cluster neither silent nor immortal.
//! The controller of nodes in Kubernetes judges nodes in the same way.

use jiff::{SignedDuration, Timestamp};

use super::lease;
use api::condition::ConditionStatus;

/// What shows that an agent is alive, as it stands on the hub now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignOfLife {
    /// The time in the lease, by the clock of the spoke.
    pub renewed: Option<Timestamp>,
    /// The availability that the agent reported, and since when; `None` where the hub has said that it is unknown.
    pub reported: Option<(ConditionStatus, Timestamp)>,
}

/// What the hub has seen of the life of one cluster.
#[derive(Clone, Debug)]
pub struct Liveness {
    sign: SignOfLife,
    /// When the sign was seen to change, by the clock of the hub; at first, when it was first seen.
    seen: Timestamp,
    /// How far the clock of the spoke was ahead when a renewal was last seen.
    ahead: Option<SignedDuration>,
}

impl Liveness {
    /// Starts to look at a cluster. Its sign of life may be as old as can be, so a silence is noticed a grace period later.
    pub fn begin(sign: SignOfLife, now: Timestamp) -> Self {
        Self { sign, seen: now, ahead: None }
    }

    /// Looks again. A lease whose time is cleared has not been renewed; see docs/hazards.md#lease-without-time.
    pub fn observe(&mut self, sign: SignOfLife, now: Timestamp) {
        let is_renewed = sign.renewed.is_some() && sign.renewed != self.sign.renewed;
        let is_reported = sign.reported.is_some() && sign.reported != self.sign.reported;
        if is_renewed || is_reported {
            self.seen = now;
        }
        if is_renewed {
            self.ahead = sign.renewed.map(|renewed| renewed.duration_since(now));
        }
        self.sign = sign;
    }

    /// Returns when the cluster counts as silent.
    pub fn expires(&self, lease_duration_seconds: i32) -> Timestamp {
        self.seen.checked_add(lease::grace(lease_duration_seconds)).unwrap_or(Timestamp::MAX)
    }

    /// Returns whether the clock of the spoke agrees with that of the hub, up to the grace of the lease as in OCM; `None` before a
    /// renewal was seen.
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

    fn lease(renewed: i64) -> SignOfLife {
        SignOfLife { renewed: Some(at(renewed)), reported: None }
    }

    #[test]
    fn a_lease_lives_for_five_periods_after_its_renewal_was_seen() {
        for renewed in [-1_000_000, 100, 253_402_207_200] {
            let mut life = Liveness::begin(lease(0), at(100));
            assert_eq!(life.expires(10), at(150), "from the first look");
            life.observe(lease(renewed), at(120));
            life.observe(lease(renewed), at(140));
            assert_eq!((life.expires(10), life.expires(0)), (at(170), at(420)), "renewed at {renewed}");
        }
    }

    #[test]
    fn a_lease_whose_time_is_cleared_runs_out_as_one_that_is_not_renewed() {
        let mut life = Liveness::begin(lease(100), at(100));
        life.observe(SignOfLife::default(), at(110));
        assert_eq!(life.expires(10), at(150));
    }

    #[test]
    fn a_report_is_a_sign_of_life_and_the_word_of_the_hub_is_none() {
        let reported = |status, since| SignOfLife { reported: Some((status, at(since))), ..lease(0) };
        let mut life = Liveness::begin(lease(0), at(100));
        life.observe(reported(True, 7), at(200));
        assert_eq!(life.expires(10), at(250));
        life.observe(reported(True, 7), at(220));
        assert_eq!(life.expires(10), at(250), "the same report says nothing new");
        life.observe(reported(False, 8), at(240));
        assert_eq!(life.expires(10), at(290));
        life.observe(lease(0), at(290));
        assert_eq!(life.expires(10), at(290), "the hub has said that it is unknown");
    }

    #[test]
    fn a_clock_is_judged_by_renewals_that_were_seen_to_happen() {
        let mut life = Liveness::begin(lease(0), at(1000));
        assert_eq!(life.is_clock_synced(60), None);
        for (renewed, synced) in [(1010, true), (1309, true), (1310, false), (711, true), (710, false)] {
            life.observe(lease(0), at(1010));
            life.observe(lease(renewed), at(1010));
            assert_eq!(life.is_clock_synced(60), Some(synced), "renewed at {renewed}");
        }
    }
}
