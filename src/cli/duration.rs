//! Durations in arguments.

use jiff::SignedDuration;
use object::duration::{format, parse};

/// Returns the parser of an argument with a duration of at least `shortest`.
pub(super) fn at_least(
    shortest: SignedDuration,
) -> impl Fn(&str) -> Result<SignedDuration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let duration = parse(text).filter(|duration| *duration >= shortest);
        duration.ok_or_else(|| format!("write a duration of at least {}, such as 30m", format(shortest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_below_the_shortest_is_refused() {
        let parser = at_least(SignedDuration::from_mins(10));
        assert_eq!(parser("10m"), Ok(SignedDuration::from_mins(10)));
        for text in ["599s", "-1h", "30", ""] {
            assert_eq!(parser(text), Err("write a duration of at least 10m, such as 30m".into()), "{text}");
        }
    }
}
