//! Cluster counts and times in strategies and policies.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use super::refused::Refused;
use object::duration;

/// A number or percentage of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Size {
    /// The number of clusters.
    Count(u32),
    /// The percentage of clusters, rounded up as in OCM.
    Percent(u32),
    /// The smaller of a number and a percentage, combined from two policies.
    Least {
        /// The number of clusters.
        count: u32,
        /// The percentage of clusters.
        percent: u32,
    },
}

impl Default for Size {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl Size {
    /// All clusters.
    pub const ALL: Self = Self::Percent(100);

    /// Returns the number of clusters out of `total`, at most `total`.
    pub fn of(self, total: usize) -> usize {
        let size = match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
            Self::Least { count, percent } => Self::Percent(percent).of(total).min(count as usize),
        };
        size.min(total)
    }

    /// Returns the smaller of two sizes, for any number of clusters.
    pub fn least(self, other: Self) -> Self {
        let parts = |size| match size {
            Self::Count(count) => (Some(count), None),
            Self::Percent(percent) => (None, Some(percent)),
            Self::Least { count, percent } => (Some(count), Some(percent)),
        };
        let ((count, percent), (other_count, other_percent)) = (parts(self), parts(other));
        let count = count.into_iter().chain(other_count).min();
        match (count, percent.into_iter().chain(other_percent).min()) {
            (Some(count), Some(percent)) => Self::Least { count, percent },
            (Some(count), None) => Self::Count(count),
            (None, percent) => Self::Percent(percent.unwrap_or(100)),
        }
    }

    /// Parses an int-or-string field: `3` or `"10%"`. A negative number is 0, as everywhere in OCM.
    ///
    /// # Errors
    /// Fails if the string is not a whole percentage between 0 and 100.
    pub fn read(field: &'static str, value: &IntOrString) -> Result<Self, Refused> {
        match value {
            IntOrString::Int(count) => Ok(Self::Count(u32::try_from(*count).unwrap_or(0))),
            IntOrString::String(text) => match text.strip_suffix('%').map(str::parse::<u32>) {
                Some(Ok(percent)) if percent <= 100 && !text.starts_with('+') => Ok(Self::Percent(percent)),
                _ if text.parse::<u32>().is_ok() => {
                    Err(Refused::new(field, text, "a number must not be quoted", format!("write {text}")))
                }
                _ => Err(Refused::new(
                    field,
                    text,
                    "not a number or a percentage",
                    "write a number such as 3, or \"0%\" to \"100%\"",
                )),
            },
        }
    }

    /// Parses `maxConcurrency`. Go clients write `0` for an absent value, so both mean the default.
    ///
    /// # Errors
    /// Fails if the value is not a size, or allows no cluster (`"0%"`, negative). OCM treats these as all
    /// clusters.
    pub(crate) fn read_concurrency(
        field: &'static str,
        value: Option<&IntOrString>,
    ) -> Result<Option<Self>, Refused> {
        let hint = "to hold every cluster, pause the rollout or ask for approvals in a RolloutPolicy";
        match value {
            None | Some(IntOrString::Int(0)) => Ok(None),
            Some(IntOrString::Int(count)) if *count < 0 => {
                Err(Refused::new(field, &count.to_string(), "no cluster could start", hint))
            }
            Some(value) => match Self::read(field, value)? {
                Self::Percent(0) => Err(Refused::new(field, "0%", "no cluster could start", hint)),
                size => Ok(Some(size)),
            },
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Least { count, percent } => write!(f, "{count}, at most {percent}%"),
        }
    }
}

/// Parses `progressDeadline`: a duration that begins with a whole number of hours, minutes or seconds, or
/// `None`.
///
/// # Errors
/// Fails for any other text. OCM's CRD accepts some of these texts, such as `5|` or `30mxyz`, and its
/// controllers then fail at every pass.
pub(crate) fn read_deadline(field: &'static str, text: &str) -> Result<Option<SignedDuration>, Refused> {
    if text.is_empty() || text == "None" {
        return Ok(None);
    }
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let starts_well = unit.len() < text.len() && unit.starts_with(['h', 'm', 's']);
    match duration::parse(text) {
        Some(deadline) if starts_well => Ok(Some(deadline)),
        _ => Err(Refused::new(
            field,
            text,
            "not a duration",
            "write a number and h, m or s, such as 10m, or None",
        )),
    }
}

/// Parses `minSuccessTime`: any duration. A negative duration is 0.
///
/// # Errors
/// Fails if the text is not a duration.
pub(crate) fn read_soak(field: &'static str, text: &str) -> Result<SignedDuration, Refused> {
    if text.is_empty() {
        return Ok(SignedDuration::ZERO);
    }
    let refused =
        || Refused::new(field, text, "not a duration", "write a number and h, m or s, such as 5m, or 0");
    duration::parse(text).map(|soak| soak.max(SignedDuration::ZERO)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> IntOrString {
        IntOrString::String(text.into())
    }

    #[test]
    fn a_size_rounds_up_and_never_exceeds_the_total() {
        let check = |size: Size, total, expected| assert_eq!(size.of(total), expected, "{size} of {total}");
        check(Size::Percent(34), 6, 3);
        check(Size::Percent(1), 6, 1);
        check(Size::Percent(10), 3, 1);
        check(Size::Percent(0), 6, 0);
        check(Size::Percent(100), 6, 6);
        check(Size::Count(10), 6, 6);
        check(Size::Count(6), 6, 6);
        check(Size::Count(2), 0, 0);
    }

    #[test]
    fn sizes_are_read_or_refused_by_name() {
        let check = |value: IntOrString, expected: Result<Size, &str>| {
            let read = Size::read("maxFailures", &value).map_err(|e| e.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{value:?}");
        };
        check(IntOrString::Int(3), Ok(Size::Count(3)));
        check(IntOrString::Int(-1), Ok(Size::Count(0)));
        check(string("0%"), Ok(Size::Percent(0)));
        check(string("100%"), Ok(Size::Percent(100)));
        check(string("5"), Err("maxFailures: \"5\" is refused: a number must not be quoted; write 5"));
        let not = "not a number or a percentage; write a number such as 3, or \"0%\" to \"100%\"";
        for bad in ["101%", "", "%", "-1%", "+5%", "1.5%", "x"] {
            check(string(bad), Err(&format!("maxFailures: {bad:?} is refused: {not}")));
        }
    }

    /// OCM treats 0, `0%`, negative numbers and numbers above the fleet size as all clusters.
    #[test]
    fn a_concurrency_of_zero_is_refused_instead_of_meaning_all_clusters() {
        let check = |value: Option<IntOrString>, expected: Result<Option<Size>, ()>| {
            assert_eq!(
                Size::read_concurrency("maxConcurrency", value.as_ref()).map_err(|_| ()),
                expected,
                "{value:?}"
            );
        };
        check(None, Ok(None));
        check(Some(IntOrString::Int(0)), Ok(None));
        check(Some(string("")), Err(()));
        check(Some(IntOrString::Int(2)), Ok(Some(Size::Count(2))));
        check(Some(string("25%")), Ok(Some(Size::Percent(25))));
        check(Some(string("0%")), Err(()));
        check(Some(IntOrString::Int(-3)), Err(()));
    }

    /// The CRD's pattern lets these through, and OCM's controllers then fail at every pass.
    #[test]
    fn bad_durations_are_refused_by_name() {
        let check = |text: &str, expected: Option<Option<i64>>| {
            let read = read_deadline("progressDeadline", text).ok().map(|d| d.map(|d| d.as_millis() as i64));
            assert_eq!(read, expected, "{text:?}");
        };
        check("", Some(None));
        check("None", Some(None));
        check("0s", Some(Some(0)));
        check("90s", Some(Some(90_000)));
        check("500ms", Some(Some(500)));
        check("1h30m", Some(Some(5_400_000)));
        for bad in
            ["5|", "1|", "30mxyz", "5mxyz", "xyzNone", "none", "0", "-5s", "+5s", ".5s", "1.5h", "5us", "5 m"]
        {
            check(bad, None);
        }
        let refused = read_deadline("progressive.progressDeadline", "5|").unwrap_err().to_string();
        let hint = "write a number and h, m or s, such as 10m, or None";
        assert_eq!(
            refused,
            format!("progressive.progressDeadline: \"5|\" is refused: not a duration; {hint}")
        );
    }

    #[test]
    fn a_soak_is_never_negative() {
        assert_eq!(read_soak("minSuccessTime", "-5m"), Ok(SignedDuration::ZERO));
        assert_eq!(read_soak("minSuccessTime", ""), Ok(SignedDuration::ZERO));
        assert_eq!(read_soak("minSuccessTime", "5m"), Ok(SignedDuration::from_mins(5)));
        assert!(read_soak("minSuccessTime", "5").is_err());
    }
}
