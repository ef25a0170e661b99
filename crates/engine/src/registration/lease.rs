//! The lease that shows if a cluster is alive, and the taints that keep work away from dead clusters.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use api::cluster::v1::{Taint, TaintEffect};
use api::condition::ConditionStatus::{self, False, True, Unknown};
use api::names::{UNAVAILABLE_TAINT, UNREACHABLE_TAINT};

/// The number of renewals an agent may miss.
const MISSED_RENEWALS: i32 = 5;
/// The default period of a cluster.
const DEFAULT_SECONDS: i32 = 60;

/// Returns the maximum time between two renewals.
pub fn period(lease_duration_seconds: i32) -> SignedDuration {
    let seconds = if lease_duration_seconds > 0 { lease_duration_seconds } else { DEFAULT_SECONDS };
    SignedDuration::from_secs(seconds.into())
}

/// Returns the time without renewals after which a cluster becomes unknown.
pub fn grace(lease_duration_seconds: i32) -> SignedDuration {
    period(lease_duration_seconds).saturating_mul(MISSED_RENEWALS)
}

/// Returns the taints of a cluster for the status of its condition `Available`, which is `None` before the first
/// report.
///
/// Other taints are kept in order. The time of a taint is the time at which it was added.
pub fn taints(before: &[Taint], available: Option<&ConditionStatus>, now: Timestamp) -> Vec<Taint> {
    let (wanted, unwanted): (Option<&str>, &[&str]) = match available {
        Some(True) => (None, &[UNREACHABLE_TAINT, UNAVAILABLE_TAINT]),
        Some(False) => (Some(UNAVAILABLE_TAINT), &[UNREACHABLE_TAINT]),
        Some(Unknown | ConditionStatus::Other(_)) | None => (Some(UNREACHABLE_TAINT), &[UNAVAILABLE_TAINT]),
    };
    let is = |taint: &Taint, key: &str| {
        taint.key == key && taint.value.is_empty() && taint.effect == TaintEffect::NoSelect
    };
    let mut taints: Vec<Taint> =
        before.iter().filter(|taint| !unwanted.iter().any(|key| is(taint, key))).cloned().collect();
    if let Some(key) = wanted.filter(|key| !taints.iter().any(|taint| is(taint, key))) {
        let time_added = Some(Time(now.round(jiff::Unit::Second).unwrap_or(now)));
        taints.push(Taint { key: key.into(), effect: TaintEffect::NoSelect, time_added, ..Taint::default() });
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn taints_follow_availability_and_other_taints_stay() {
        let user = Taint { key: "mine".into(), ..Taint::default() };
        let keys = |taints: &[Taint]| taints.iter().map(|t| t.key.clone()).collect::<Vec<_>>();
        let unreachable = taints(std::slice::from_ref(&user), None, at(1));
        assert_eq!(keys(&unreachable), ["mine", UNREACHABLE_TAINT]);
        assert_eq!(taints(&unreachable, Some(&Unknown), at(9)), unreachable, "the time is when it was added");
        assert_eq!(keys(&taints(&unreachable, Some(&False), at(9))), ["mine", UNAVAILABLE_TAINT]);
        assert_eq!(keys(&taints(&unreachable, Some(&True), at(9))), ["mine"]);
    }
}
