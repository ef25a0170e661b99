//! Taints and tolerations.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use crate::placement::Misconfigured;
use api::cluster::v1::{Taint, TaintEffect};
use api::cluster::v1beta1::{Toleration, TolerationOperator};

const PLUGIN: &str = "TaintToleration";

/// The effect of the tolerated taints of a cluster on a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tolerated {
    /// The time at which the first required toleration expires.
    pub until: Option<Timestamp>,
    /// True if the cluster ranks after clusters without such taints.
    pub avoid: bool,
}

/// A taint without a toleration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Untolerated<'a> {
    /// The taint that is not tolerated.
    pub taint: &'a Taint,
    /// The time at which its last matching toleration expired, if there was one.
    pub expired: Option<Timestamp>,
}

/// Validates tolerations as OCM does.
///
/// # Errors
/// Fails for the first invalid toleration.
pub(crate) fn validate(tolerations: &[Toleration]) -> Result<(), Misconfigured> {
    for toleration in tolerations {
        let exists = toleration.operator == TolerationOperator::Exists;
        if toleration.key.is_empty() && !exists {
            return Err(Misconfigured::new(PLUGIN, "If the key is empty, operator must be Exists."));
        }
        if exists && !toleration.value.is_empty() {
            return Err(Misconfigured::new(PLUGIN, "If the operator is Exists, the value should be empty."));
        }
    }
    Ok(())
}

/// Checks that a placement tolerates every taint; `decided` is true if the placement has selected the cluster
/// before.
///
/// # Errors
/// Returns the first untolerated taint.
pub(crate) fn check<'a>(
    tolerations: &[Toleration],
    taints: &'a [Taint],
    decided: bool,
    now: Timestamp,
) -> Result<Tolerated, Untolerated<'a>> {
    let mut all = Tolerated::default();
    for taint in taints {
        let tolerance = tolerance(tolerations, taint);
        let lasting = match tolerance {
            Tolerance::Never => false,
            Tolerance::Until(at) => now < at,
            Tolerance::Always => true,
        };
        match &taint.effect {
            TaintEffect::PreferNoSelect => all.avoid |= !lasting && !decided,
            TaintEffect::NoSelectIfNew if decided => {}
            TaintEffect::NoSelect | TaintEffect::NoSelectIfNew | TaintEffect::Other(_) => match tolerance {
                Tolerance::Always => {}
                Tolerance::Until(at) if now < at => {
                    all.until = Some(all.until.map_or(at, |earlier| earlier.min(at)))
                }
                Tolerance::Until(at) => return Err(Untolerated { taint, expired: Some(at) }),
                Tolerance::Never => return Err(Untolerated { taint, expired: None }),
            },
        }
    }
    Ok(all)
}

/// The duration for which a taint is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tolerance {
    Never,
    Until(Timestamp),
    Always,
}

/// Returns the longest period of the tolerations that match a taint.
fn tolerance(tolerations: &[Toleration], taint: &Taint) -> Tolerance {
    let mut best = Tolerance::Never;
    for toleration in tolerations.iter().filter(|toleration| matches(toleration, taint)) {
        let Some(seconds) = toleration.toleration_seconds else { return Tolerance::Always };
        // In Go, a taint without a time dates from year 1, so its toleration has expired.
        let Some(added) = &taint.time_added else { continue };
        let end = later(added.0, SignedDuration::from_secs(seconds));
        best = match best {
            Tolerance::Until(at) if at >= end => best,
            Tolerance::Until(_) | Tolerance::Never | Tolerance::Always => Tolerance::Until(end),
        };
    }
    best
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    let Toleration { key, operator, value, effect, toleration_seconds: _, unknown: _ } = toleration;
    let Taint { key: of_taint, value: has, effect: does, time_added: _, unknown: _ } = taint;
    let has_effect = effect.as_ref().is_none_or(|effect| effect == does || effect.as_str().is_empty());
    let has_key = key.is_empty() || key == of_taint;
    let has_value = match operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => value == has,
        TolerationOperator::Other(operator) => operator.is_empty() && value == has,
    };
    has_effect && has_key && has_value
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    const NOW: i64 = 1_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect,
            time_added: Some(Time(at(NOW - 60))),
            ..Taint::default()
        }
    }

    fn toleration(key: &str, value: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.into(),
            value: value.into(),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn check_one(
        tolerations: &[Toleration],
        effect: TaintEffect,
        decided: bool,
    ) -> Result<Tolerated, Option<Timestamp>> {
        check(tolerations, &[taint("k", "v", effect)], decided, at(NOW)).map_err(|refused| refused.expired)
    }

    #[test]
    fn a_taint_needs_a_toleration_of_its_key_value_and_effect() {
        let other_effect =
            Toleration { effect: Some(TaintEffect::NoSelectIfNew), ..toleration("k", "v", None) };
        let same_effect = Toleration { effect: Some(TaintEffect::NoSelect), ..toleration("k", "v", None) };
        let no_operator = |value: &str| Toleration {
            operator: TolerationOperator::Other(String::new()),
            ..toleration("k", value, None)
        };
        let any = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        let unknown =
            Toleration { operator: TolerationOperator::Other("Like".into()), ..toleration("k", "v", None) };
        for (name, tolerations, tolerated) in [
            ("none", vec![], false),
            ("equal", vec![toleration("k", "v", None)], true),
            ("another value", vec![toleration("k", "w", None)], false),
            ("another key", vec![toleration("l", "v", None)], false),
            ("another effect", vec![other_effect], false),
            ("the same effect", vec![same_effect], true),
            ("no operator", vec![no_operator("v")], true),
            ("no operator and another value", vec![no_operator("w")], false),
            ("every key", vec![any], true),
            ("an operator of the future", vec![unknown], false),
        ] {
            assert_eq!(check_one(&tolerations, TaintEffect::NoSelect, false).is_ok(), tolerated, "{name}");
        }
    }

    #[test]
    fn a_toleration_expires_and_the_next_one_applies() {
        let expired = check_one(&[toleration("k", "v", Some(60))], TaintEffect::NoSelect, true);
        assert_eq!(expired, Err(Some(at(NOW))));
        let longer = check_one(
            &[toleration("k", "v", Some(60)), toleration("k", "v", Some(90))],
            TaintEffect::NoSelect,
            true,
        );
        assert_eq!(longer.unwrap().until, Some(at(NOW + 30)));
        let both = [toleration("k", "v", Some(90)), toleration("k", "v", Some(60))];
        let longer = check_one(&both, TaintEffect::NoSelect, true);
        assert_eq!(longer.unwrap().until, Some(at(NOW + 30)));
        let forever = check_one(
            &[toleration("k", "v", Some(90)), toleration("k", "v", None)],
            TaintEffect::NoSelect,
            true,
        );
        assert_eq!(forever.unwrap().until, None);
    }

    #[test]
    fn no_select_if_new_keeps_what_was_selected() {
        assert!(check_one(&[], TaintEffect::NoSelectIfNew, true).is_ok());
        assert!(check_one(&[], TaintEffect::NoSelectIfNew, false).is_err());
    }

    #[test]
    fn prefer_no_select_never_refuses_and_never_moves_what_was_selected() {
        assert!(check_one(&[], TaintEffect::PreferNoSelect, false).unwrap().avoid);
        assert!(!check_one(&[], TaintEffect::PreferNoSelect, true).unwrap().avoid);
        for (seconds, avoid) in [(None, false), (Some(90), false), (Some(60), true), (Some(30), true)] {
            let tolerations = [toleration("k", "v", seconds)];
            let tolerated = check_one(&tolerations, TaintEffect::PreferNoSelect, false).unwrap();
            assert_eq!(tolerated.avoid, avoid, "{seconds:?}");
        }
    }

    #[test]
    fn tolerations_that_mean_nothing_are_refused_with_the_messages_of_ocm() {
        let refusal = |t: Toleration| validate(&[t]).unwrap_err().to_string();
        assert_eq!(
            refusal(toleration("", "v", None)),
            "TaintToleration:If the key is empty, operator must be Exists."
        );
        let exists = Toleration { operator: TolerationOperator::Exists, ..toleration("k", "v", None) };
        let of_any_value = Toleration { value: String::new(), ..exists.clone() };
        assert!(validate(&[of_any_value, toleration("k", "v", None)]).is_ok());
        assert_eq!(refusal(exists), "TaintToleration:If the operator is Exists, the value should be empty.");
    }
}
