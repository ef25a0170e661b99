//! Reads values that a schema admits but a type of `k8s_openapi` cannot hold, and replaces each with the nearest
//! value that the type can hold.
//!
//! Otherwise, one such field would make the whole object unreadable, and a cluster may write any value to its own
//! status. See docs/hazards-hub.md#unreadable-times.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer, de};

use object::date_time;

/// Reads a time that an API server has checked only against a pattern ([`date_time::is_date_time`]).
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    optional_time(deserializer)?.ok_or_else(|| de::Error::custom("a time is missing"))
}

/// Reads a [`time`] that may be absent.
pub(crate) fn optional_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let read = date_time::timestamp(&text);
    read.map(|time| Some(Time(time)))
        .ok_or_else(|| de::Error::custom(format!("{text:?} is not a time; write it as 2006-01-02T15:04:05Z")))
}

/// Reads an integer, clamped to 32 bits, or a string.
pub(crate) fn int_or_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IntOrString, D::Error> {
    Ok(match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Whole(number) => {
            let nearest = number.clamp(i32::MIN.into(), i32::MAX.into());
            IntOrString::Int(i32::try_from(nearest).map_err(de::Error::custom)?)
        }
        NumberOrText::Text(text) => IntOrString::String(text),
    })
}

/// Reads an [`int_or_string`] that may be absent.
pub(crate) fn optional_int_or_string<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IntOrString>, D::Error> {
    int_or_string(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "an integer or a string")]
enum NumberOrText {
    Whole(i64),
    Text(String),
}
